"""Write ``docs/reference/cli.md`` from ``--help``: ``python -m scripts.cli_reference``.

``tests/docs/test_cli_reference.py`` compares the page with what this writes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from abeyance.cli.app import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
WIDTH = 100

HEAD = """# Command line

<!-- Written by `python -m scripts.cli_reference`; change the commands in `src/abeyance/cli/`. -->

## What every command does

- **Output.** JSON on stdout, sentences on stderr; `--table` prints a table for people instead of JSON.
  Numbers are printed as they are stored, digit for digit. Control characters are escaped.
- **JSON as an argument** (`--input`, `--output`): as it stands, `@file`, or `@-` for standard input; UTF-8,
  with or without a byte order mark, at most 1 MiB. It is checked before anything is sent.
- **The server** is the one that [Settings](settings.md#how-the-client-finds-a-server) says.
- **Completion** in bash, zsh, fish and PowerShell: `abeyance --install-completion` adds a line to the
  start-up file of the shell that it is typed in; `--show-completion` prints the script and changes nothing.
- **A refusal** is one line on stderr, `error[code]: …`; the codes are those of the HTTP API, or `usage`.

## Exit codes

"""

EXIT_CODES = (
    (
        "any",
        "0 fine · 1 refused or failed · 2 wrong use, nothing was sent · "
        "130 interrupted (the run goes on) · 141 broken pipe",
    ),
    ("`runs start`", "0 completed, suspended or `--no-wait` · 1 failed or cancelled"),
    ("`runs get`, `list`, `journal`", "0"),
    (
        "`runs resume` without `--output`",
        "0 waits for nothing · 3 waits for an approval · 5 for an answer or a signal · 4 for something else; "
        "one line a wait",
    ),
    (
        "`runs resume --output`",
        "1 refused, or nothing waits for an answer · 2 several wait and none is named (they are listed, "
        "nothing is sent) · taken: as without `--output` after it, and 1 if the run failed",
    ),
    (
        "`audit verify`",
        "0 verified · 1 tampered · 2 unusable · 3 unanchored · 4 diverged · 5 incomplete · 6 policy",
    ),
    ("`projections check`", "0 all agree · 1 something differs"),
    ("`doctor`", "0 nothing is wrong · 1 something is"),
)


def page() -> str:
    """The whole page."""
    rows = ("command", "exit codes"), ("---", "---"), *EXIT_CODES
    table = "".join(f"| {command} | {codes} |\n" for command, codes in rows)
    return f"{HEAD}{table}\n" + "\n".join(_commands(get_command(app), "abeyance", None))


def _commands(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=WIDTH)
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    for child in getattr(command, "commands", {}).values():
        yield from _commands(child, child.name, context)


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
