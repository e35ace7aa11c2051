"""`abeyance waits`: list, show, extend, rotate, revoke.

No command prints a link but `rotate`, whose reply holds the new one, once.
"""

from datetime import datetime
from typing import Annotated, Literal

import typer

from abeyance.cli.options import AsTable, Key, RunId, Url, Workspace, connect

waits = typer.Typer(
    help="What runs wait for; deadlines and links of waits for other systems.", no_args_is_help=True
)

Kind = Literal["token", "timer", "retry", "code-mismatch", "crash-loop"]
WaitId = Annotated[
    str,
    typer.Argument(
        metavar="WAIT", help="The wait's id: a `tokenId`, or a `waitId` of the list.", show_default=False
    ),
]


@waits.command("list")
def list_waits(
    kind: Annotated[Kind | None, typer.Option(help="Only waits of this kind.")] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only waits that their tool gave this name.")
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="ID", help="Only waits of this tool.")] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only waits of this run.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Waits a page.")] = 50,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="The next page: the `nextCursor` of the one before.")
    ] = None,
    table: AsTable = False,
    workspace: Workspace = None,
    url: Url = None,
) -> None:
    """List what runs wait for, oldest first."""
    from abeyance.cli.output import print_json
    from abeyance.cli.wait_sentences import print_waits

    with connect(url, workspace) as client:
        page = client.waits.list(kind=kind, name=name, tool=tool, run=run, limit=limit, cursor=cursor)
    if table:
        print_waits(page)
    else:
        print_json(page.source)


@waits.command()
def show(
    run: RunId, wait: WaitId, table: AsTable = False, workspace: Workspace = None, url: Url = None
) -> None:
    """Print a wait, the newest attempts at its links, and on stderr what can be done about it."""
    from abeyance.cli.output import print_json, say
    from abeyance.cli.wait_sentences import print_attempts, sentences

    with connect(url, workspace) as client:
        found = client.waits.get(run, wait)
    if table:
        print_attempts(found)
    else:
        print_json(found.source)
    for sentence in sentences(found):
        say(sentence)


@waits.command()
def extend(
    run: RunId,
    wait: WaitId,
    until: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="The new deadline, for example 2026-12-24T18:00:00Z: at most 24 days after the pause, and "
            "within the run's time to live. It may be earlier than the old one.",
            show_default=False,
        ),
    ],
    idempotency_key: Key = None,
    workspace: Workspace = None,
    url: Url = None,
) -> None:
    """Move the deadline of a wait for another system's answer."""
    from abeyance.cli.output import print_json, say
    from abeyance.cli.wait_sentences import extended

    moment = _parse_moment(until)
    with connect(url, workspace) as client:
        found = client.waits.extend(run, wait, until=moment, idempotency_key=idempotency_key)
    print_json(found.source)
    say(extended(found))


@waits.command()
def rotate(
    run: RunId, wait: WaitId, idempotency_key: Key = None, workspace: Workspace = None, url: Url = None
) -> None:
    """Make a new link and kill all older ones of the wait. The new link is printed this once."""
    from abeyance.cli.output import print_json, say
    from abeyance.cli.wait_sentences import ROTATED

    with connect(url, workspace) as client:
        found = client.waits.rotate(run, wait, idempotency_key=idempotency_key)
    print_json(found.source)
    say(ROTATED)


@waits.command()
def revoke(
    run: RunId, wait: WaitId, idempotency_key: Key = None, workspace: Workspace = None, url: Url = None
) -> None:
    """Kill all links of the wait. It stays open: it can be answered by hand, or get a new link."""
    from abeyance.cli.output import print_json, say
    from abeyance.cli.wait_sentences import revoked

    with connect(url, workspace) as client:
        found = client.waits.revoke(run, wait, idempotency_key=idempotency_key)
    print_json(found.source)
    for sentence in revoked(found):
        say(sentence)


def _parse_moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise typer.BadParameter(
            "it must be a time with its zone, such as 2026-12-24T18:00:00Z", param_hint="--until"
        )
    return moment
