"""`abeyance doctor`: is everything there that a process needs, and what to do if not."""

from typing import Annotated, Literal

import typer

from abeyance.cli.options import Database, Pack

_MARKS = {"ok": "ok", "note": "note", "wrong": "WRONG", "unseen": "unseen"}
_COLUMN = 16


def doctor(
    role: Annotated[
        Literal["dev", "serve", "worker"] | None,
        typer.Option("--for", help="The process that shall start. Default: what the settings suggest."),
    ] = None,
    pack: Pack = None,
    db: Database = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a line a thing.")] = False,
) -> None:
    """Say whether all that a process needs is there.

    Looks at versions, settings, store, keys, clock, public address, authentication, pack and disk; each line
    is `ok`, `note` (fine, but worth knowing), `WRONG` with what to do, or `unseen`. It changes nothing and
    works beside a running server.
    """
    from abeyance.bootstrap import examine, examine_without_settings
    from abeyance.cli.output import print_value, visible
    from abeyance.errors import ConfigurationError
    from abeyance.settings import Settings

    try:
        settings = Settings.load(overrides={"pack": pack, "database_url": db})
    except ConfigurationError as error:
        lines = examine_without_settings(error)
    else:
        lines = examine(settings, role)
    bad = sum(line["state"] == "wrong" for line in lines)
    if as_json:
        print_value({"checks": lines, "wrong": bad})
    else:
        for line in lines:
            advice = f": {line['do']}" if "do" in line else ""
            text = f"{_MARKS[line['state']]:<7} {line['check']:<{_COLUMN}} {line['says']}{advice}"
            typer.echo(visible(text))
    if bad:
        raise typer.Exit(1)
