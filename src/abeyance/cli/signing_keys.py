"""`abeyance keys signing`: the keys that sign events and the log's checkpoints."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeyance.cli.options import Database

if TYPE_CHECKING:
    from abeyance.bootstrap.signing_keys import SigningKeys

signing = typer.Typer(
    help="Replace the keys that sign events and the log's checkpoints. Works on the store itself.",
    no_args_is_help=True,
)


class Use(StrEnum):
    """What a key signs."""

    events = "events"
    log = "log"


KeyId = Annotated[str, typer.Argument(metavar="KID", help="The key's id, 16 hex digits.", show_default=False)]
ForUse = Annotated[Use, typer.Option("--use", help="What the key signs: events, or the log's checkpoints.")]


@signing.callback()
def _group() -> None:
    pass


def _keys(db: str | None) -> "SigningKeys":
    from abeyance.bootstrap import manage_signing_keys
    from abeyance.cli.serving import load_settings

    return manage_signing_keys(load_settings(database_url=db))


@signing.command("list")
def list_keys(db: Database = None) -> None:
    """List every key that the log certifies: `state`, and the indexes of the log between which it counts.

    Needs no key.
    """
    from abeyance.cli.output import print_value

    print_value(_keys(db).listed())


@signing.command()
def add(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A PEM with the key, its public half is enough.",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ],
    use: ForUse = Use.events,
    db: Database = None,
) -> None:
    """Certify another key by the root key. Processes may sign with it from then on."""
    from abeyance.cli.output import print_value

    print_value(_keys(db).add(file, use.value))


@signing.command()
def rotate(use: ForUse = Use.events, db: Database = None) -> None:
    """Make a new key, certify it, and put it in the place of the old one in the folder of the keys.

    The old file is kept as event-KID.pem. Start the processes again afterwards, then retire the old key.
    """
    from abeyance.cli.output import print_value, say

    done = _keys(db).rotate(use.value)
    print_value(done)
    say(
        "Start every process again, so that it signs with the new key; then run "
        f"`abeyance keys signing retire {done['old']['kid']}`."
    )


@signing.command()
def retire(kid: KeyId, db: Database = None) -> None:
    """End a key: it signs nothing more, and what it has signed stays good.

    Waits for appends that run. A process that still has the key stops.
    """
    from abeyance.cli.output import print_value

    print_value(_keys(db).retire(kid))


@signing.command()
def revoke(
    kid: KeyId,
    since: Annotated[
        datetime,
        typer.Option(
            metavar="TIME",
            formats=["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"],
            help="Since when somebody else may have had the key, UTC: 2026-11-30T08:00:00Z.",
            show_default=False,
        ),
    ],
    db: Database = None,
) -> None:
    """End a key that somebody else may have had. Verifiers name what it signed as suspect."""
    from abeyance.cli.output import print_value

    print_value(_keys(db).revoke(kid, since.replace(tzinfo=UTC)))
