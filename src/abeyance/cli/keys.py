"""`abeyance keys`: the keys of a deployment."""

from pathlib import Path
from typing import Annotated

import typer

keys = typer.Typer(help="Make the keys of a deployment.", no_args_is_help=True)


@keys.callback()
def _group() -> None:
    pass


@keys.command()
def make(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The folder of the keys; made if need be.", show_default=False),
    ],
) -> None:
    """Make root.pem, event.pem, log.pem and master.key in DIR, and print the public keys. Replaces no file.

    Set ABEYANCE_KEY_DIR to DIR afterwards, and keep a copy elsewhere: without master.key nothing that was
    said can be read, and only the root key can certify another event key.
    """
    from abeyance.bootstrap import make_keys
    from abeyance.cli.output import print_value

    print_value(make_keys(folder))
