"""The tree of commands. Each group is a module of its own, which imports what it needs when it runs."""

from typing import Annotated

import typer

from abeyance.cli.audit import audit
from abeyance.cli.database import database
from abeyance.cli.doctor import doctor
from abeyance.cli.keys import keys
from abeyance.cli.projections import projections
from abeyance.cli.resume import resume
from abeyance.cli.runs import runs
from abeyance.cli.serving import dev, serve, worker
from abeyance.cli.starting import init
from abeyance.cli.tenants import projects, workspaces
from abeyance.cli.waits import waits

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Runs that wait for the outside world, kept as a journal of signed events.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from abeyance import __version__

        typer.echo(f"abeyance {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


for command in (init, doctor, dev, serve, worker):
    app.command()(command)
runs.command()(resume)
for name, group in (
    ("runs", runs),
    ("audit", audit),
    ("projections", projections),
    ("db", database),
    ("keys", keys),
    ("waits", waits),
    ("workspaces", workspaces),
    ("projects", projects),
):
    app.add_typer(group, name=name)
