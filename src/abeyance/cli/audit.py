"""`abeyance audit`: the log of what happened, and the proof that it is whole."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from abeyance.cli.audit_files import export, verifier
from abeyance.cli.options import AsTable, Database, Url, connect

_RUN = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

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

audit.command()(export)
audit.command()(verifier)


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
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|RUN]", help="An exported file; or a run of the store.", show_default=False
        ),
    ] = None,
    root_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Of a file: the log's root key, a PEM file or base64."),
    ] = None,
    known_checkpoint: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Of a file: a checkpoint kept from before.")
    ] = None,
    witness: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Of a file: a witness's verifier key.")
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option(metavar="WHAT", help="Of a file: complete, answers, witness.")
    ] = None,
    save_checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of a file: keep its checkpoint for the next audit.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Of a file: no signatures of events.")] = False,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Of a file: processes.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Of a file: the report as JSON.")] = False,
    live: Annotated[bool, typer.Option("--live", help="The whole store.")] = False,
    db: Database = None,
) -> None:
    """Verify an exported FILE offline; or a RUN, or with --live the whole store.

    A file is checked without the deployment and without the network. A store is read as it is, also beside a
    running server. Exits with 0 if all holds, 1 if a record was changed, dropped or added, 2 if that can't be
    told, 3 if no root key from elsewhere says whose log it is, 4 if it contradicts a known checkpoint, 5 if a
    required part isn't there, 6 if a required witness is missing or a key was revoked.
    """
    if target is not None and (Path(target).exists() or not _RUN.fullmatch(target)):
        from abeyance.verifier.command import main

        options: dict[str, list[Any]] = {
            "--root-key": [root_key] if root_key else [],
            "--known-checkpoint": known_checkpoint or [],
            "--witness": witness or [],
            "--require": require or [],
            "--save-checkpoint": [save_checkpoint] if save_checkpoint else [],
            "--jobs": [jobs],
        }
        given = [f"{name}={value}" for name, values in options.items() for value in values]
        flags = [name for name, on in (("--fast", fast), ("--json", as_json)) if on]
        raise typer.Exit(main([target, *given, *flags]))
    if target is None and not live:
        raise typer.BadParameter("say what to verify: an exported file, a run, or --live for the whole store")
    _verify_store(target, db)


def _verify_store(run: str | None, db: str | None) -> None:
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
