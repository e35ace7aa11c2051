"""A row that isn't what the journal says."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID


class Drift(NamedTuple):
    """`model` is the table; `row` tells the row of run `stream`, `column` what differs in it (empty: the row
    as a whole). Values are ids, numbers, digests and states.
    """

    model: str
    stream: UUID
    row: str
    column: str
    stored: str
    expected: str

    def __str__(self) -> str:
        """One line for people."""
        place = " ".join(part for part in (self.model, f"of {self.stream}", self.row, self.column) if part)
        stored = f"stored {self.stored}, the journal says " if self.stored else ""
        return f"{place}: {stored}{self.expected}"


def differing(
    model: str,
    stream: UUID,
    row: str,
    stored: tuple[object, ...] | None,
    expected: tuple[object, ...] | None,
    columns: Sequence[str],
) -> Iterator[Drift]:
    """What differs between a stored row and the one that the journal makes, both named tuples."""
    if stored is None and expected is None:
        return
    if stored is None or expected is None:
        sides = ("a row", "no row") if expected is None else ("no row", "a row")
        yield Drift(model, stream, row, "", *sides)
        return
    for column in columns:
        is_stored, is_expected = getattr(stored, column), getattr(expected, column)
        if is_stored != is_expected:
            yield Drift(model, stream, row, column, _text(is_stored), _text(is_expected))


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return "none" if value is None else str(value)
