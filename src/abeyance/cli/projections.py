"""`abeyance projections`: the read models, and whether they say what the journal says."""

from typing import Annotated

import typer

from abeyance.cli.options import Database

projections = typer.Typer(help="Rebuild and check what is read from the journal.", no_args_is_help=True)


@projections.command()
def rebuild(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The read model, runs or waits.", show_default=False),
    ],
    db: Database = None,
) -> None:
    """Build a read model anew beside the old one, and swap them. On PostgreSQL the system may run meanwhile,
    on SQLite it must be stopped.
    """
    from abeyance.cli.output import print_value
    from abeyance.cli.serving import load_settings

    settings = load_settings(database_url=db)

    from abeyance.bootstrap import rebuild_projection

    print_value(rebuild_projection(settings, name))


@projections.command()
def check(db: Database = None) -> None:
    """Replay the journal and compare every read model row by row. Exits with 1 if any differs."""
    from abeyance.cli.output import print_value
    from abeyance.cli.serving import load_settings

    settings = load_settings(database_url=db)

    from abeyance.bootstrap import check_projections

    report = check_projections(settings)
    print_value(report)
    if report["drift"]:
        raise typer.Exit(1)
