"""Who asks, and what they may: the rights that a request comes with.

A caller works in one workspace. What belongs to another (or, for a key that is bound to a project, to another
project) isn't there for them: it is refused as what doesn't exist is, and lists leave it out. What is there,
but asks for a right that they lack, is `PermissionDeniedError`, which names the right.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from abeyance.errors import PermissionDeniedError

READ: Final = "read"
WRITE: Final = "write"
EXECUTE: Final = "execute"
DECIDE: Final = "decide"
AUDIT: Final = "audit"
ERASE: Final = "erase"
ADMIN: Final = "admin"

GRANTS: Final = (READ, WRITE, EXECUTE, DECIDE, AUDIT, ERASE, ADMIN)
"""Every grant, in the order in which they are shown. None includes another."""
ALL_GRANTS: Final = frozenset(GRANTS)

DEFAULT_WORKSPACE: Final = "default"
DEFAULT_PROJECT: Final = "default"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `actor` is how events name them, `None` where nobody is asked who they are.

    `project` is the one project that they are bound to, `None` for all of the workspace. `executes` are the
    ids of the definitions that `execute` covers, `None` for all. `everywhere`: the caller is the deployment's
    own, who looks after all workspaces and works in `workspace` right now. `expires` is when their key does.
    """

    actor: str | None
    workspace: str = DEFAULT_WORKSPACE
    project: str | None = None
    grants: frozenset[str] = ALL_GRANTS
    executes: frozenset[str] | None = None
    everywhere: bool = False
    expires: datetime | None = None

    def sees(self, workspace: str, project: str | None = None) -> bool:
        """Whether what belongs to this workspace (and project) is there for them. What belongs to no project
        is not there for who is bound to one.
        """
        return workspace == self.workspace and self.project in (None, project)

    def require(self, grant: str, *, project: str | None = None, definition: str | None = None) -> None:
        """Return if they have the grant in this project, for this definition; each may be left out.

        Raises `PermissionDeniedError`.
        """
        if grant not in self.grants:
            raise PermissionDeniedError(grant)
        if project is not None and self.project not in (None, project):
            raise PermissionDeniedError(grant, "in this project")
        if definition is not None and self.executes is not None and definition not in self.executes:
            raise PermissionDeniedError(grant, "for this definition")

    def require_everywhere(self, grant: str) -> None:
        """Return if they have the grant for the deployment as a whole. Raises `PermissionDeniedError`."""
        self.require(grant)
        if not self.everywhere:
            raise PermissionDeniedError(grant, "for the whole deployment, as the deployment's own key has it")


EVERYBODY: Final = Caller(actor=None, everywhere=True)
"""Who asks where authentication is off: only this machine reaches the server."""
