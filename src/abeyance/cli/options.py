"""Options that several commands take, and what turns their text into values."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from abeyance.client import Client

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="The server. Default: ABEYANCE_API_URL, or the `abeyance dev` that runs."
    ),
]


def _checked_key(key: str | None) -> str | None:
    from abeyance.client.transport import check_key

    try:
        return None if key is None else check_key(key)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--idempotency-key") from None


Key = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="KEY",
        callback=_checked_key,
        help="Makes this count once, however often it is sent with the same key in 24 hours.",
    ),
]
Workspace = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        metavar="ID",
        help="The workspace to work in (ABEYANCE_WORKSPACE). An API key has its own.",
    ),
]
AsTable = Annotated[bool, typer.Option("--table", help="A table for people instead of JSON.")]
Pack = Annotated[
    str | None,
    typer.Option(
        "--pack", metavar="MODULE", help="The module that defines tools, flows and scripts (ABEYANCE_PACK)."
    ),
]
Host = Annotated[
    str | None, typer.Option("--host", metavar="HOST", help="The address to bind (ABEYANCE_HOST).")
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", metavar="PORT", min=0, max=65_535, help="The port to bind; 0: a free one (ABEYANCE_PORT)."
    ),
]
Database = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="sqlite:///path or postgresql://… (ABEYANCE_DATABASE_URL)."),
]

_UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def connect(url: str | None, workspace: str | None = None) -> "Client":
    """A client of the server that `url` names or that is found; its numbers keep every digit."""
    from abeyance.client import Client

    return Client(url, workspace=workspace, parse_float=Decimal)


def only(option: str, given: Sequence[str] | None) -> str | None:
    """The value of an option that is taken once; twice is a mistake, since one of the two would be lost."""
    if given and len(given) > 1:
        raise typer.BadParameter("it is given twice", param_hint=option)
    return given[0] if given else None


def parse_labels(given: Sequence[str] | None) -> dict[str, str]:
    """`name=value`, each name once."""
    labels: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter("it must be name=value", param_hint="--label")
        if name in labels:
            raise typer.BadParameter("a name is given twice", param_hint="--label")
        labels[name] = value
    return labels


def parse_duration(option: str, given: str | None) -> int | None:
    """Milliseconds: a whole number with `ms` (or nothing), `s`, `m`, `h` or `d` behind it."""
    if given is None:
        return None
    found = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h|d|)", given)
    if not found or int(found[1]) == 0:
        raise typer.BadParameter("it must be a time such as 1500ms, 90s, 15m, 2h or 3d", param_hint=option)
    return int(found[1]) * _UNITS_MS[found[2]]
