"""`abeyance db`: the store's own upkeep."""

import typer

from abeyance.cli.options import Database

database = typer.Typer(help="Look after the store.", no_args_is_help=True)


@database.callback()
def _group() -> None:
    pass


@database.command()
def migrate(db: Database = None) -> None:
    """Bring the store's tables to this release, and print the migrations that were applied."""
    from abeyance.cli.output import print_value
    from abeyance.cli.serving import load_settings

    settings = load_settings(database_url=db)

    from abeyance.bootstrap import migrate_store

    print_value({"applied": list(migrate_store(settings))})
