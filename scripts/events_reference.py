"""Write ``docs/reference/events.md`` from the events: ``python -m scripts.events_reference``.

``tests/docs/test_events_reference.py`` compares the page with what this writes.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import BaseModel

from abeyance.journal import events as e
from abeyance.journal.run import ENDED
from abeyance.projections.runs_list import KEEPS_STATUS_TOPICS, OTHER_TOPICS, STATUS_AFTER

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "events.md"

HEAD = """# Events

<!-- Written by `python -m scripts.events_reference`; the texts are in `src/abeyance/journal/events.py`. -->

Every transition of a run is a signed event of its stream. What is signed is canonical JSON:

| key | what |
| --- | --- |
| `at` | when, `YYYY-MM-DDThh:mm:ss.ffffffZ`; never earlier than in the event before |
| `data` | the fields below |
| `kid` | the signing key's id, 16 hex digits |
| `log` | the deployment's origin |
| `prev` | the id of the stream's event before, 64 hex digits; `null` for the first |
| `run` | the stream: a run's id, or a workspace's or the deployment's |
| `t` | the topic, `kind` in every view |
| `v` | the version of this form, 1 |
| `ver` | the place in the stream, from 1, without gaps |

An event's id is SHA-256 over a zero byte and the body. A field that isn't there is left out, never `null`.
Topics and fields are stored for ever. What a person said (inputs, outputs, answers, messages) is no part of
`data`: the event holds a [commitment](#content-reference) to it, and the vault holds it encrypted, by the
event's version.

The texts that do stand in `data`, and so stay for ever, are ids of definitions, steps and workspaces, names
of waits, labels, and lines of code as `module:number`. Put no personal data there.
"""

KINDS = {
    e.Text: "text, 1 to 200 characters",
    e.Digest: "SHA-256, 64 hex digits",
    e.ArgsDigest: "keyed digest, 32 hex digits",
    e.Moment: "time",
    e.Count: "integer from 0",
    e.Ordinal: "integer from 1",
    UUID: "UUID",
    bool: "`true` or `false`",
    str: "text",
    dict[str, str]: "object of texts",
    e.ContentRef: "[content reference](#content-reference)",
    e.DefinitionRef: "[definition](#definition)",
    e.ToolRef: "[tool](#tool)",
}
PARTS: dict[str, type[BaseModel]] = {
    "Content reference": e.ContentRef,
    "Definition": e.DefinitionRef,
    "Tool": e.ToolRef,
}


def page() -> str:
    """The whole page."""
    kinds = e.EVENT_TYPES.values()
    runs = [kind for kind in kinds if kind.topic not in OTHER_TOPICS]
    others = [kind for kind in kinds if kind.topic in OTHER_TOPICS]
    sections = [
        "\n## Events of a run\n", *(_event(kind) for kind in runs),
        "\n## Events of a workspace and of the deployment\n", *(_event(kind) for kind in others),
        "\n## Parts\n", *(f"\n### {name}\n\n{_text(part)}\n\n{_table(part)}" for name, part in PARTS.items()),
    ]  # fmt: skip
    return HEAD + "".join(sections)


def _event(kind: type[e.Event]) -> str:
    return f"\n### {kind.topic}\n\n{_text(kind)}{_status(kind)}\n\n{_table(kind)}"


def _text(kind: type[BaseModel]) -> str:
    return re.sub(r"\s+", " ", inspect.getdoc(kind) or "")


def _status(kind: type[e.Event]) -> str:
    status = STATUS_AFTER.get(kind.topic)
    if kind.topic in KEEPS_STATUS_TOPICS:
        return " The run's status stays as it was."
    if status is None or kind.topic in OTHER_TOPICS:
        return ""
    return f" The run is `{status}` after it{', for good' if status in ENDED else ''}."


def _table(kind: type[BaseModel]) -> str:
    rows = list(_rows(kind))
    if not rows:
        return "It has no fields.\n"
    return "| field | type |\n| --- | --- |\n" + "".join(rows)


def _rows(kind: type[BaseModel]) -> Iterator[str]:
    hints = get_type_hints(kind, include_extras=True)
    for name, field in kind.model_fields.items():
        optional = "" if field.is_required() or name in ("scheme", "alg", "trigger") else ", may be missing"
        yield f"| `{name}` | {_kind(hints[name])}{optional} |\n"


def _kind(hint: Any) -> str:
    if hint in KINDS:
        return KINDS[hint]
    if get_origin(hint) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(hint))
    choices = [choice for choice in get_args(hint) if choice is not NoneType]
    if get_origin(hint) is Annotated or len(choices) != 1:
        raise TypeError(f"{hint} has no description: add it to KINDS")
    return _kind(choices[0])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
