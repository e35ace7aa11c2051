"""From the process's arguments to its exit code.

0 fine · 1 refused or failed · 2 usage · 130 interrupted · 141 broken pipe (128 + the signal's number, as
shells count). A command that has more codes exits with them itself. Every refusal is one line on stderr:
`error[code]: what was wrong and what to do`.
"""

import contextlib
import os
import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from abeyance.cli.app import app
from abeyance.cli.output import complain, complain_of, say, visible
from abeyance.errors import AbeyanceError

REFUSED, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        result = get_command(app).main(arguments, prog_name="abeyance", standalone_mode=False)
    except typer.TyperException as mistake:
        _explain(mistake)
        return mistake.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except AbeyanceError as refusal:
        complain_of(refusal)
        return REFUSED
    except SystemExit as end:
        # The framework ends the process by itself if the reader of a pipe has gone.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else REFUSED if end.code else 0
    return result if isinstance(result, int) else 0


def _explain(mistake: typer.TyperException) -> None:
    context = getattr(mistake, "ctx", None)
    message = mistake.format_message()
    if context is not None and message == context.get_help():  # a group without a command
        say(message)
        return
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    complain("usage" if mistake.exit_code == USAGE else "failed", visible(" ".join(message.split())) + hint)


def _silence_stdout() -> None:
    """Python flushes stdout once more as it ends, and would complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
