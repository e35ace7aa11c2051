"""What commands print: JSON on stdout, sentences on stderr, tables for people.

JSON is printed as it came, indented: its numbers keep their digits. Control characters, also those that JSON
allows as they are (C1 controls, changes of the writing direction), are escaped: no terminal acts on them.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TextIO

from abeyance.errors import AbeyanceError

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
# Where no terminal says how wide it is.
_PIPE_WIDTH = 240
_OPENING, _CLOSING, _BETWEEN = frozenset("{["), frozenset("}]"), frozenset(",:")
_ODD = r"\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_UNSEEN = re.compile(rf"[\x00-\x1f{_ODD}]")
_UNSEEN_IN_JSON = re.compile(rf"[{_ODD}]")


def visible(text: str) -> str:
    """`text` with everything that a terminal would act on, or not show, as `\\uXXXX`."""
    return _UNSEEN.sub(_escape, text)


def indented(source: str) -> str:
    """JSON text with two spaces an indent; every token stays as it is."""
    pieces: list[str] = []
    depth, opened = 0, False
    for token in _TOKEN.findall(source):
        if token in _CLOSING:
            depth -= 1
            pieces.append(token if opened else _line(depth) + token)
        elif token in _BETWEEN:
            pieces.append(": " if token == ":" else "," + _line(depth))
        else:
            pieces.append(_line(depth) + token if opened else token)
            depth += token in _OPENING
        opened = token in _OPENING
    return "".join(pieces)


def print_json(source: str) -> None:
    """Print JSON text on stdout."""
    _write(sys.stdout, _UNSEEN_IN_JSON.sub(_escape, indented(source)), to_ascii=_json_ascii)


def print_value(value: object) -> None:
    """Print plain data as JSON on stdout."""
    print_json(json.dumps(value, ensure_ascii=False, default=str))


def say(sentence: str) -> None:
    """Print a sentence on stderr; what isn't abeyance's own in it went through `visible`."""
    _write(sys.stderr, sentence)


def complain(code: str, message: str) -> None:
    """Print a refusal on stderr."""
    say(f"error[{code}]: {message}")


def complain_of(error: AbeyanceError) -> None:
    """Print a refusal on stderr: its message, then what its message doesn't say of its details."""
    details: Mapping[str, object] = getattr(error, "details", {})
    message = str(error)
    facts = [str(details[name]) for name in ("state", "status") if name in details]
    parts = [message, *(fact for fact in facts if fact not in message)]
    parts += [f"{issue.path or '/'}: {issue.rule}" for issue in getattr(error, "issues", ())]
    complain(error.code, visible("; ".join(parts)))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout: as wide as the terminal, or as its content where there is none."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(visible(cell), overflow="fold") for cell in row))
    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else _PIPE_WIDTH, no_color=not terminal)
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip() for line in captured.get().rstrip("\n").split("\n"))
    _write(sys.stdout, "\n".join(lines))


def _line(depth: int) -> str:
    return "\n" + "  " * depth


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _plain_ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _json_ascii(text: str) -> str:
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)


def _write(stream: TextIO, text: str, *, to_ascii: Callable[[str], str] = _plain_ascii) -> None:
    """Write a line. Where the stream's encoding lacks a character, all that isn't ASCII is escaped."""
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        text = to_ascii(text)
    stream.write(text + "\n")
    stream.flush()
