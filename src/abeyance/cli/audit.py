"""`abeyance audit`: the log of what happened, and the proof that it is whole."""

from typing import Annotated

import typer

from abeyance.cli.options import AsTable, Database, Url, connect

audit = typer.Typer(help="The signed record: read it, verify it.", no_args_is_help=True)

# The verdicts of the verifier, and the exit code of each.
VERDICTS = {
    "verified": 0,
    "tampered": 1,
    "unusable": 2,
    "unanchored": 3,
    "diverged": 4,
    "incomplete": 5,
    "policy": 6,
}


@audit.command()
def log(
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only events of this run.")] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="EVENT", help="Only events of this kind, e.g. suspended.")
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="INDEX", help="Only events after this index.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1_000, help="Events a page.")] = 100,
    table: AsTable = False,
    url: Url = None,
) -> None:
    """Print the events of all runs in the journal's order."""
    from abeyance.cli.output import print_json
    from abeyance.cli.tables import print_audit_log

    with connect(url) as client:
        page = client.audit.log(after=after, limit=limit, run_id=run, kind=kind)
    if table:
        print_audit_log(page)
    else:
        print_json(page.source)


@audit.command()
def verify(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Only this run.", show_default=False)
    ] = None,
    db: Database = None,
) -> None:
    """Verify signature, chain and rules of every event of a run, or of the whole store.

    Reads the store itself, also beside a running server. Exits with 0 if all hold, 1 if a record was changed,
    dropped or added, 2 if that can't be told, 3 if no root key from elsewhere says whose log it is.
    """
    from abeyance.cli.output import print_value
    from abeyance.cli.serving import load_settings

    settings = load_settings(database_url=db)

    if run is None:
        from abeyance.bootstrap import verify_store

        report = verify_store(settings)
    else:
        from abeyance.bootstrap import verify_run

        report = verify_run(settings, run)
    print_value(report)
    raise typer.Exit(VERDICTS[str(report["verdict"])])
