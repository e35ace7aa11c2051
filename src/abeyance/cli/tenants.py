"""`abeyance workspaces` and `abeyance projects`: list, create, suspend, restore; a workspace also close."""

from collections.abc import Callable
from typing import Annotated

import typer

from abeyance.cli.options import AsTable, Key, Url, Workspace, connect

workspaces = typer.Typer(
    help="Make workspaces; suspend, restore and close them. With the deployment's key.", no_args_is_help=True
)
projects = typer.Typer(help="Make projects of a workspace; suspend and restore them.", no_args_is_help=True)

WorkspaceName = Annotated[str, typer.Argument(metavar="WORKSPACE", help="Its name.", show_default=False)]
ProjectName = Annotated[str, typer.Argument(metavar="PROJECT", help="Its name.", show_default=False)]
Limit = Annotated[int, typer.Option(metavar="N", min=1, max=100, help="How many a page.")]
Cursor = Annotated[
    str | None, typer.Option(metavar="CURSOR", help="The next page: the `nextCursor` of the one before.")
]
_GONE = "Its unfinished runs are being cancelled. A restore brings none of them back."


@workspaces.command("list")
def list_workspaces(
    limit: Limit = 50, cursor: Cursor = None, table: AsTable = False, url: Url = None
) -> None:
    """List workspaces, by name."""
    from abeyance.cli.output import print_json
    from abeyance.cli.tables import print_workspaces

    with connect(url) as client:
        page = client.workspaces.list(limit=limit, cursor=cursor)
    if table:
        print_workspaces(page)
    else:
        print_json(page.source)


@workspaces.command("create")
def create_workspace(workspace: WorkspaceName, idempotency_key: Key = None, url: Url = None) -> None:
    """Make a workspace. Its name stays in the journal for ever."""
    with connect(url) as client:
        _print(lambda: client.workspaces.create(workspace, idempotency_key=idempotency_key).source)


@workspaces.command("suspend")
def suspend_workspace(workspace: WorkspaceName, idempotency_key: Key = None, url: Url = None) -> None:
    """Suspend a workspace: no run begins there, no answer is taken, its runs are cancelled."""
    with connect(url) as client:
        _print(lambda: client.workspaces.suspend(workspace, idempotency_key=idempotency_key).source, _GONE)


@workspaces.command("restore")
def restore_workspace(workspace: WorkspaceName, idempotency_key: Key = None, url: Url = None) -> None:
    """Let runs begin again in a suspended workspace. Waits until the old ones are cancelled."""
    with connect(url) as client:
        _print(lambda: client.workspaces.restore(workspace, idempotency_key=idempotency_key).source)


@workspaces.command("close")
def close_workspace(workspace: WorkspaceName, idempotency_key: Key = None, url: Url = None) -> None:
    """Suspend a workspace for good. It is `closed` once its last run is cancelled."""
    with connect(url) as client:
        _print(
            lambda: client.workspaces.close(workspace, idempotency_key=idempotency_key).source,
            "Its unfinished runs are being cancelled; then it is closed, for good.",
        )


@projects.command("list")
def list_projects(
    limit: Limit = 50,
    cursor: Cursor = None,
    table: AsTable = False,
    workspace: Workspace = None,
    url: Url = None,
) -> None:
    """List the projects of a workspace, by name."""
    from abeyance.cli.output import print_json
    from abeyance.cli.tables import print_projects

    with connect(url, workspace) as client:
        page = client.projects.list(limit=limit, cursor=cursor)
    if table:
        print_projects(page)
    else:
        print_json(page.source)


@projects.command("create")
def create_project(
    project: ProjectName, workspace: Workspace = None, idempotency_key: Key = None, url: Url = None
) -> None:
    """Make a project. Its name stays in the journal for ever."""
    with connect(url, workspace) as client:
        _print(lambda: client.projects.create(project, idempotency_key=idempotency_key).source)


@projects.command("suspend")
def suspend_project(
    project: ProjectName, workspace: Workspace = None, idempotency_key: Key = None, url: Url = None
) -> None:
    """Suspend a project: no run begins there, no answer is taken, its runs are cancelled."""
    with connect(url, workspace) as client:
        _print(lambda: client.projects.suspend(project, idempotency_key=idempotency_key).source, _GONE)


@projects.command("restore")
def restore_project(
    project: ProjectName, workspace: Workspace = None, idempotency_key: Key = None, url: Url = None
) -> None:
    """Let runs begin again in a suspended project. Waits until the old ones are cancelled."""
    with connect(url, workspace) as client:
        _print(lambda: client.projects.restore(project, idempotency_key=idempotency_key).source)


def _print(work: Callable[[], str], sentence: str = "") -> None:
    from abeyance.cli.output import print_json, say

    print_json(work())
    if sentence:
        say(sentence)
