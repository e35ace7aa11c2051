"""`abeyance runs`: start, get, list, cancel, journal. (`resume` is a module of its own.)"""

from typing import Annotated, Literal

import typer

from abeyance.cli.options import AsTable, Key, RunId, Url, connect, only, parse_duration, parse_labels

runs = typer.Typer(help="Start runs, look at them, answer what they wait for.", no_args_is_help=True)

Status = Literal["pending", "running", "suspended", "completed", "failed", "cancelled"]


@runs.command()
def start(
    flow: Annotated[str | None, typer.Option(metavar="ID", help="The flow: its id, or id@version.")] = None,
    script: Annotated[
        str | None, typer.Option(metavar="ID", help="The script: its id, or id@version.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="JSON", help="The input: JSON, @file, or @- for standard input. Default: {}."
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="A label to find the run by; no personal data. May be repeated."
        ),
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long the run may last: 90s, 15m, 2h, 3d. Default: 30d."),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The project that the run is in. Default: the one of your key, or default."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the run ends or suspends.")
    ] = True,
    idempotency_key: Key = None,
    url: Url = None,
) -> None:
    """Start a run and print it. Exits with 1 if it fails or is cancelled while this waits."""
    from abeyance.cli.documents import read_document
    from abeyance.cli.following import follow, show
    from abeyance.client.runs import LEFT_OUT

    if (flow is None) == (script is None):
        raise typer.BadParameter("name exactly one of the two", param_hint="--flow, --script")
    document = only("--input", given)
    value = LEFT_OUT if document is None else read_document("--input", document)
    labels, ttl_ms = parse_labels(label), parse_duration("--ttl", ttl)
    with connect(url) as client:
        # Started without waiting, so that the run's id is known whatever happens while it runs.
        run = client.runs.start(
            flow=flow,
            script=script,
            input=value,
            wait=False,
            project=project,
            ttl_ms=ttl_ms,
            labels=labels,
            idempotency_key=idempotency_key,
        )
        if wait:
            run = follow(client, run)
    show(run)
    if wait and run.status in ("failed", "cancelled"):
        raise typer.Exit(1)


@runs.command()
def get(run: RunId, url: Url = None) -> None:
    """Print a run, and on stderr what it waits for."""
    from abeyance.cli.following import show

    with connect(url) as client:
        show(client.runs.get(run))


@runs.command("list")
def list_runs(
    status: Annotated[Status | None, typer.Option(help="Only runs of this status.")] = None,
    flow: Annotated[str | None, typer.Option(metavar="ID", help="Only runs of this flow.")] = None,
    script: Annotated[str | None, typer.Option(metavar="ID", help="Only runs of this script.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only runs that carry this label.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Runs a page.")] = 50,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="The next page: the `nextCursor` of the one before.")
    ] = None,
    table: AsTable = False,
    url: Url = None,
) -> None:
    """List runs, newest first."""
    from abeyance.cli.output import print_json
    from abeyance.cli.tables import print_runs

    if flow is not None and script is not None:
        raise typer.BadParameter("name at most one of the two", param_hint="--flow, --script")
    labels = parse_labels([text] if (text := only("--label", label)) is not None else None)
    with connect(url) as client:
        page = client.runs.list(
            status=status,
            definition=flow if flow is not None else script,
            label=next(iter(labels.items()), None),
            limit=limit,
            cursor=cursor,
        )
    if table:
        print_runs(page)
    else:
        print_json(page.source)


@runs.command()
def cancel(run: RunId, idempotency_key: Key = None, url: Url = None) -> None:
    """Cancel a run and everything it waits for."""
    from abeyance.cli.following import show

    with connect(url) as client:
        show(client.runs.cancel(run, idempotency_key=idempotency_key))


@runs.command()
def retry(run: RunId, idempotency_key: Key = None, url: Url = None) -> None:
    """Try a parked run again: its processes died, its code didn't fit, or its history didn't hold."""
    from abeyance.cli.following import show

    with connect(url) as client:
        show(client.runs.retry(run, idempotency_key=idempotency_key))


@runs.command()
def journal(
    run: RunId,
    after: Annotated[int, typer.Option(min=0, metavar="SEQUENCE", help="Only events after this one.")] = 0,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1_000, help="Events a page.")] = 1_000,
    content: Annotated[
        bool, typer.Option("--content", help="With what was said: inputs, outputs, answers.")
    ] = False,
    table: AsTable = False,
    url: Url = None,
) -> None:
    """Print a run's events, oldest first."""
    from abeyance.cli.output import print_json
    from abeyance.cli.tables import print_journal

    with connect(url) as client:
        page = client.runs.journal(run, after=after, limit=limit, content=content)
    if table:
        print_journal(page, content=content)
    else:
        print_json(page.source)
