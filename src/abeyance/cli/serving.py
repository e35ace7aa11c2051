"""`abeyance dev`, `serve`, `worker`: the processes. What they do is wired in `abeyance.bootstrap`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeyance.cli.options import Database, Host, Pack, Port

if TYPE_CHECKING:
    from abeyance.settings import Settings


def dev(
    pack: Pack = None,
    host: Host = None,
    port: Port = None,
    db: Database = None,
    reload: Annotated[
        bool, typer.Option("--reload/--no-reload", help="Load the pack again when it changes.")
    ] = True,
) -> None:
    """Serve and execute runs on this machine.

    For the one who writes the pack: needs no setting, loads the pack again when it changes, and shows its
    tracebacks. The CLI and `abeyance.Client` find it by themselves.
    """
    from abeyance.client.discovery import dev_files, remove_dev_file

    settings = load_settings(pack=pack, host=host, port=port, database_url=db)
    settings.check_for("dev")
    _check_pack(settings)

    from abeyance.bootstrap import run_dev

    _make_data_dir(settings.data_dir)
    files = dev_files(settings.data_dir)
    try:
        with _one_exit_code():
            run_dev(settings, reload=reload, announce=lambda url, token: _announce(files, url, token))
    finally:
        for file in files:
            remove_dev_file(file, pid=os.getpid())


def serve(
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=64, help="Processes; more than 1 needs PostgreSQL (ABEYANCE_WORKERS)."
        ),
    ] = None,
    no_execute: Annotated[
        bool,
        typer.Option(
            "--no-execute", help="Serve only; `abeyance worker` executes the runs (ABEYANCE_EXECUTE)."
        ),
    ] = False,
    pack: Pack = None,
    host: Host = None,
    port: Port = None,
    db: Database = None,
) -> None:
    """Serve the API and execute runs.

    Needs ABEYANCE_API_KEY and keys; the settings reference has all variables.
    """
    settings = load_settings(
        workers=workers,
        execute=False if no_execute else None,
        pack=pack,
        host=host,
        port=port,
        database_url=db,
    )
    settings.check_for("serve")
    _check_pack(settings)

    from abeyance.bootstrap import run_server

    with _one_exit_code():
        run_server(settings)


def worker(pack: Pack = None, host: Host = None, port: Port = None, db: Database = None) -> None:
    """Execute runs; serve only /health and /metrics.

    Needs ABEYANCE_PUBLIC_URL, which links are made from, and keys.
    """
    settings = load_settings(pack=pack, host=host, port=port, database_url=db)
    settings.check_for("worker")
    _check_pack(settings)

    from abeyance.bootstrap import run_worker

    with _one_exit_code():
        run_worker(settings)


@contextmanager
def _one_exit_code() -> Iterator[None]:
    """Make the server's own exit codes 1. In the processes that it forks they stay: it reads them itself."""
    process = os.getpid()
    try:
        yield
    except SystemExit as end:
        if end.code and os.getpid() == process:
            raise typer.Exit(1) from None
        raise


def load_settings(**overrides: object) -> "Settings":
    """The settings of this process; says on stderr which variables look like settings and are none."""
    from abeyance.cli.output import say, visible
    from abeyance.settings import Settings, unknown_variables

    for name, meant in unknown_variables(os.environ).items():
        hint = f"; is {meant} meant?" if meant else ""
        say(f"warning: {visible(name)} is no setting and does nothing{hint}")
    return Settings.load(overrides=overrides)


def _check_pack(settings: "Settings") -> None:
    """Refuse here what each process would refuse: before a folder is made, and in one line."""
    from abeyance.engine.packs import NO_PACK
    from abeyance.errors import ConfigurationError

    if settings.pack is None:
        raise ConfigurationError(NO_PACK)


def _make_data_dir(folder: Path) -> None:
    """Make it private, and nothing that git would take: it is about to hold keys."""
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
        (folder / ".gitignore").write_text("*\n")


def _announce(files: list[Path], url: str, token: str | None) -> None:
    """Write down where `dev` listens, for the CLI and the client, and say it."""
    from abeyance.cli.output import say
    from abeyance.client.discovery import write_dev_file

    # A server that listens everywhere is reached here by the loopback address.
    url = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    for file in files:
        write_dev_file(file, url=url, token=token, pid=os.getpid())
    say(f"abeyance dev serves at {url}. `abeyance runs …` finds it by {files[0]}. Ctrl-C stops it.")
