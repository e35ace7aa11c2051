"""JSON given on the command line: as it stands, in a file (`@file`), or on standard input (`@-`).

Everything is checked here, before anything is sent: size, encoding, JSON. What is wrong with it is a mistake
in the use of the command (exit code 2), told in one line that doesn't repeat the value.
"""

import os
import select
import stat
import sys

import typer

from abeyance.cli.output import visible
from abeyance.client.encoding import JsonText
from abeyance.journal.canonical import InvalidJsonError, canonicalise

LIMIT_BYTES = 1_048_576  # what the server takes at most
PIPE_WAIT_MS = 5_000
_CHUNK = 65_536
_BOM = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def read_document(option: str, given: str) -> JsonText:
    """The JSON that `given` is or names. Raises `typer.BadParameter`, which names `option`."""
    if not given:
        raise _mistake(
            option, f"it is empty; give JSON, @file, or @- for standard input ({option}=null is null)"
        )
    if given == "@":
        raise _mistake(option, "name a file after the @, or - for standard input")
    if given.startswith("@"):
        return _parse(option, _read(option, given[1:]), inline=False)
    return _parse(option, given.encode("utf-8", "surrogateescape"), inline=True)


def _parse(option: str, raw: bytes, *, inline: bool) -> JsonText:
    if len(raw) > LIMIT_BYTES:
        raise _mistake(option, f"it is over {LIMIT_BYTES} bytes, more than the server takes")
    if not raw.removeprefix(_BOM).strip(b" \t\r\n"):
        raise _mistake(option, "it is empty; an empty object is {}")
    encoding = next((name for mark, name in _OTHER_ENCODINGS if raw.startswith(mark)), None)
    if encoding or b"\x00" in raw[:4]:
        raise _mistake(
            option,
            f"its encoding is {encoding or 'UTF-16 or UTF-32'}; save it as UTF-8 (a BOM does no harm)",
        )
    try:
        return JsonText(canonicalise(raw).decode())
    except InvalidJsonError as error:
        raise _mistake(option, str(error) + (_hint(option, raw) if inline else "")) from None


def _hint(option: str, raw: bytes) -> str:
    """Add advice: PowerShell, cmd.exe and an unquoted word take quotes away; what is left looks like this."""
    if raw[:1] in b"{[" and b'"' not in raw:
        return f"; perhaps the shell has taken its quotes away: put it in a file and use {option}=@file"
    return f"; JSON in a file is easier to quote: {option}=@file"


def _read(option: str, name: str) -> bytes:
    try:
        return _read_stdin(option) if name == "-" else _read_file(option, name)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise _mistake(option, f"{visible(name)} can't be read ({reason})") from None


def _read_stdin(option: str) -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        raise _mistake(option, "standard input is closed")
    return sys.stdin.buffer.read(LIMIT_BYTES + 1)


def _read_file(option: str, name: str) -> bytes:
    """At most one byte over the limit, so that a device without an end ends."""
    if "\x00" in name:
        raise _mistake(option, "a file's name has no NUL")
    # Without O_NONBLOCK the opening of a pipe that nobody writes to never returns.
    with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read(LIMIT_BYTES + 1) or b""
        return _read_pipe(option, file.fileno())


def _read_pipe(option: str, descriptor: int) -> bytes:
    """Read a pipe or device (`@<(command)` is one) to its end, or until nothing comes out of it for 5 s."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    found = bytearray()
    while len(found) <= LIMIT_BYTES:
        if not poll.poll(PIPE_WAIT_MS):
            raise _mistake(option, f"nothing came out of the pipe for {PIPE_WAIT_MS // 1000} s")
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        found += chunk
    return bytes(found)


def _mistake(option: str, message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint=option)
