"""`abeyance keys`: the key files of a deployment, and API keys."""

from pathlib import Path
from typing import Annotated

import typer

from abeyance.cli.options import AsTable, Key, Url, Workspace, connect, parse_duration
from abeyance.cli.signing_keys import signing

keys = typer.Typer(help="Make the keys of a deployment; give out and revoke API keys.", no_args_is_help=True)
keys.add_typer(signing, name="signing")

_GRANTS = ("read", "write", "execute", "decide", "audit", "erase", "admin")


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


@keys.command()
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What people call the key.", show_default=False)
    ],
    grant: Annotated[
        list[str],
        typer.Option(
            metavar="GRANT",
            help=f"What the key allows: {', '.join(_GRANTS)}. May be repeated.",
            show_default=False,
        ),
    ],
    project: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this project. Default: the whole workspace.")
    ] = None,
    executes: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A definition that `execute` covers. May be repeated. Default: all."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long it is good: 12h, 90d. Default: until revoked."),
    ] = None,
    workspace: Workspace = None,
    idempotency_key: Key = None,
    url: Url = None,
) -> None:
    """Make an API key and print it. Its text, `key`, is shown this once; only its SHA-256 is kept."""
    from abeyance.cli.output import print_json, say

    unknown = [each for each in grant if each not in _GRANTS]
    if unknown:
        raise typer.BadParameter(
            f"there is no such grant; there are {', '.join(_GRANTS)}", param_hint="--grant"
        )
    ttl_ms = parse_duration("--expires", expires)
    with connect(url, workspace) as client:
        made = client.keys.create(
            name,
            grants=list(dict.fromkeys(grant)),
            project=project,
            executes=executes,
            ttl_ms=ttl_ms,
            idempotency_key=idempotency_key,
        )
    print_json(made.source)
    say("The key is shown this once: hand it on now.")


@keys.command("list")
def list_keys(
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Keys a page.")] = 50,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="The next page: the `nextCursor` of the one before.")
    ] = None,
    table: AsTable = False,
    workspace: Workspace = None,
    url: Url = None,
) -> None:
    """List API keys, oldest first, with those that were revoked or have expired."""
    from abeyance.cli.output import print_json
    from abeyance.cli.tables import print_keys

    with connect(url, workspace) as client:
        page = client.keys.list(limit=limit, cursor=cursor)
    if table:
        print_keys(page)
    else:
        print_json(page.source)


@keys.command()
def revoke(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The key's id (not its text).", show_default=False)
    ],
    workspace: Workspace = None,
    idempotency_key: Key = None,
    url: Url = None,
) -> None:
    """Revoke an API key: it opens nothing from the next request on, in every process."""
    from abeyance.cli.output import print_json

    with connect(url, workspace) as client:
        print_json(client.keys.revoke(key, idempotency_key=idempotency_key).source)
