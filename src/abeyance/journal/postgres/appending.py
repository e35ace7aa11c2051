"""An append as the arrays that `journal_append` takes."""

from collections.abc import Iterable, Sequence
from typing import Any

from abeyance.journal.postgres.wire import value_of
from abeyance.journal.store import Append

_CONTROL = (
    "uuid[]", "bigint[]", "bytea[]", "text[]", "bigint[]", "uuid[]", "bigint[]", "bytea[]", "bigint[]",
    "text[]", "text[]", "text[]", "bigint[]", "bigint[]",
)  # fmt: skip
_EXPECTED = ("bigint[]", "uuid[]")
_EVENT = ("bigint[]", "bigint[]", "text[]", "bytea[]", "bytea[]")
_WAIT = (
    "bigint[]", "bigint[]", "uuid[]", "bigint[]", "text[]", "bigint[]", "bigint[]", "bigint[]", "bigint[]",
)  # fmt: skip
_LINK = ("bigint[]", "bytea[]", "bigint[]")
_DEAD_LINK = ("bigint[]", "bytea[]")
_REPLY = ("bigint[]", "bytea[]", "bytea[]", "bigint[]", "bigint[]")

_ACTIVE = ("bigint[]",)

APPEND = value_of(
    "journal_append", *_CONTROL, *_EXPECTED, *_EVENT, *_WAIT, *_LINK, *_DEAD_LINK, *_REPLY, *_ACTIVE
)


def columns(appends: Sequence[Append]) -> list[Any]:
    """The parameters of `APPEND`: rows turned into columns, each with its append's number from 1."""
    numbered = list(enumerate(appends, 1))
    values: list[Any] = list(zip(*[append.control for append in appends], strict=True))
    values.append([append.expected_version for append in appends])
    values.append([append.expected_lease for append in appends])
    values += _turn(len(_EVENT), [row for item, append in numbered for row in _events(item, append)])
    values += _turn(len(_WAIT), [(item, *row[1:]) for item, append in numbered for row in append.waits])
    values += _turn(
        len(_LINK), [(item, row.digest, row.opened) for item, append in numbered for row in append.links]
    )
    values += _turn(
        len(_DEAD_LINK), [(item, digest) for item, append in numbered for digest in append.dead_links]
    )
    values += _turn(
        len(_REPLY), [(item, *append.reply) for item, append in numbered if append.reply is not None]
    )
    values.append([item for item, append in numbered if append.if_active])
    return values


def _events(item: int, append: Append) -> list[tuple[Any, ...]]:
    contents = {content.version: content.blob for content in append.contents}
    return [
        (item, version, topic, state, contents.get(version)) for _, version, topic, state in append.events
    ]


def _turn(width: int, rows: list[tuple[Any, ...]]) -> Iterable[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width
