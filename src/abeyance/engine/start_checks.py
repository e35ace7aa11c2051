"""What is checked of a start before anything is made."""

import re
from collections.abc import Mapping
from datetime import timedelta

from abeyance.engine.definitions import Definition, Flow
from abeyance.engine.schemas import check_with_model
from abeyance.errors import BadInputError, InputInvalidError
from abeyance.journal.events import DefinitionRef

DEFAULT_TTL = timedelta(days=30)
MAX_TTL = timedelta(days=365)
MAX_LABELS = 16
_LABEL_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_MAX_LABEL_LENGTH = 128


def ref_of(definition: Definition) -> DefinitionRef:
    """How events name the definition."""
    kind = "flow" if isinstance(definition, Flow) else "script"
    return DefinitionRef.model_validate(
        {"digest": definition.digest, "id": definition.id, "kind": kind, "version": definition.version}
    )


def check_input(definition: Definition, value: bytes) -> None:
    """Raises `InputInvalidError` unless `value`, canonical JSON, fits the definition's input."""
    issues = definition.input.schema.check_canonical(value) or check_with_model(
        definition.input.adapter, value
    )
    if issues:
        raise InputInvalidError(issues)


def checked_ttl(ttl_ms: int | None) -> timedelta:
    """How long the run may take. Raises `BadInputError`."""
    if ttl_ms is None:
        return DEFAULT_TTL
    ttl = timedelta(milliseconds=min(ttl_ms, 10**12))
    if not timedelta(milliseconds=1) <= ttl <= MAX_TTL:
        raise BadInputError("ttlMs is from 1 ms to 365 days")
    return ttl


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels, sorted by name. Raises `BadInputError`."""
    if len(labels) > MAX_LABELS:
        raise BadInputError(f"a run has at most {MAX_LABELS} labels")
    for name, value in labels.items():
        if not _LABEL_KEY.fullmatch(name):
            raise BadInputError("a label's name is 1 to 63 of a-z, 0-9, '.', '_' and '-'")
        if not value or len(value) > _MAX_LABEL_LENGTH or not value.isprintable():
            raise BadInputError(f"a label's value is 1 to {_MAX_LABEL_LENGTH} printable characters")
    return dict(sorted(labels.items()))
