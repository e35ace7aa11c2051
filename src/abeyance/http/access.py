"""Which grants each route asks for, and whose things it shows: one table for the whole API.

A route that isn't open to all (`open_to_all` of its resource) has a row for each of its methods; one without
is for the deployment's own key alone. `tests/api/test_access.py` walks all routes and holds them to this
table.

**Order.** Who is there (401), then the grants (403), then whether the run that the path names is there for
them (404), then whether their `execute` covers its definition (403). Whoever lacks the grant isn't told
whether there is such a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from falcon.asgi import Request

from abeyance.engine.callers import ADMIN, AUDIT, EXECUTE, READ, WRITE, Caller
from abeyance.engine.service import RunService
from abeyance.errors import RunNotFoundError
from abeyance.http.resources.runs import run_id

Reach = Literal["workspace", "run", "deployment"]


@dataclass(frozen=True, slots=True)
class Access:
    """The grants that a request takes, all of them; none: any key will do.

    `reach`: `run` if the path's `id` is a run's, which must be there for the caller; `deployment` if what is
    shown or changed belongs to no workspace, which is for the deployment's own key; `workspace` if the
    responder itself keeps to the caller's workspace and project.
    """

    grants: tuple[str, ...] = ()
    reach: Reach = "workspace"


_DEPLOYMENT = Access((ADMIN,), "deployment")

ACCESS: Final[Mapping[str, Mapping[str, Access]]] = {
    "/metrics": {"GET": Access()},
    "/v1/runs": {"GET": Access((READ,)), "POST": Access((WRITE, EXECUTE))},
    "/v1/runs/{id}": {"GET": Access((READ,), "run")},
    "/v1/runs/{id}/resume": {"POST": Access((WRITE, EXECUTE), "run")},
    "/v1/runs/{id}/cancel": {"POST": Access((WRITE,), "run")},
    "/v1/runs/{id}/retry": {"POST": Access((WRITE,), "run")},
    "/v1/runs/{id}/journal": {"GET": Access((READ,), "run")},
    "/v1/runs/{id}/waits/{wait}": {"GET": Access((READ,), "run")},
    "/v1/runs/{id}/waits/{wait}/extend": {"POST": Access((WRITE,), "run")},
    # Who has a link may answer.
    "/v1/runs/{id}/waits/{wait}/rotate": {"POST": Access((WRITE, EXECUTE), "run")},
    "/v1/runs/{id}/waits/{wait}/revoke": {"POST": Access((WRITE,), "run")},
    "/v1/waits": {"GET": Access((READ,))},
    "/v1/audit/records": {"GET": Access((AUDIT,))},
    "/v1/audit/records/{record}/proof": {"GET": Access((AUDIT,))},
    "/v1/audit/log/checkpoint": {"GET": Access((AUDIT,))},
    # Tiles and exports hold the records of all workspaces.
    "/v1/audit/log/tile/{path:path}": {"GET": Access((AUDIT,), "deployment")},
    "/v1/audit/exports": {"POST": Access((AUDIT,), "deployment")},
    "/v1/keys": {"GET": Access((ADMIN,)), "POST": Access((ADMIN,))},
    "/v1/keys/{id}": {"DELETE": Access((ADMIN,))},
    "/v1/workspaces": {"GET": _DEPLOYMENT, "POST": _DEPLOYMENT},
    "/v1/workspaces/{workspace}": {"GET": Access((ADMIN,))},
    "/v1/workspaces/{workspace}/suspend": {"POST": _DEPLOYMENT},
    "/v1/workspaces/{workspace}/restore": {"POST": _DEPLOYMENT},
    "/v1/workspaces/{workspace}/close": {"POST": _DEPLOYMENT},
    "/v1/workspaces/{workspace}/projects": {"GET": Access((ADMIN,)), "POST": Access((ADMIN,))},
    "/v1/workspaces/{workspace}/projects/{project}": {"GET": Access((ADMIN,))},
    "/v1/workspaces/{workspace}/projects/{project}/suspend": {"POST": Access((ADMIN,))},
    "/v1/workspaces/{workspace}/projects/{project}/restore": {"POST": Access((ADMIN,))},
}


# The same by the path as the description of the API writes it.
ACCESS_BY_PATH: Final = {template.replace(":path}", "}"): row for template, row in ACCESS.items()}


def access_of(template: str, method: str) -> Access:
    """What a request takes; `HEAD` is a `GET`."""
    return ACCESS.get(template, {}).get("GET" if method == "HEAD" else method, _DEPLOYMENT)


async def authorize(req: Request, caller: Caller, runs: RunService, params: Mapping[str, str]) -> None:
    """Return if the caller may do this. Raises `PermissionDeniedError`, `RunNotFoundError`,
    `StoreUnavailableError`.
    """
    access = access_of(req.uri_template or "", req.method)
    for grant in access.grants:
        if access.reach == "deployment":
            caller.require_everywhere(grant)
        else:
            caller.require(grant)
    if access.reach == "run":
        scope = await runs.scope(run_id(params["id"]))
        if not caller.sees(scope.workspace, scope.project):
            raise RunNotFoundError
        if EXECUTE in access.grants:
            caller.require(EXECUTE, definition=scope.definition)
