"""`abeyance db`: the store's own upkeep."""

import typer

from abeyance.cli.options import Database

database = typer.Typer(help="Look after the store.", no_args_is_help=True)


@database.callback()
def _group() -> None:
    pass


@database.command()
def migrate(db: Database = None) -> None:
    """Bring the store's tables to this release.

    Prints which were older, and the versions of all. A process that starts does the same; run it before where
    the role of processes in the database may not make tables.
    """
    from abeyance.cli.output import print_value, say
    from abeyance.cli.serving import load_settings

    settings = load_settings(database_url=db)

    from abeyance.bootstrap import migrate_store

    done = migrate_store(settings)
    print_value(done)
    if not done["applied"]:
        say("Everything is up to date; nothing was changed.")
