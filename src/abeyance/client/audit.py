"""`client.audit`: the sealed events of all runs, in the journal's order."""

from typing import TYPE_CHECKING
from uuid import UUID

from abeyance.client import results
from abeyance.client.results import AuditPage

if TYPE_CHECKING:
    from abeyance.client.transport import Transport


class Audit:
    """The audit log of one server."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport

    def log(
        self,
        *,
        after: int | None = None,
        limit: int | None = None,
        run_id: str | UUID | None = None,
        kind: str | None = None,
    ) -> AuditPage:
        """Sealed events after index `after`; all filters must hold."""
        query = {"after": after, "limit": limit, "runId": run_id, "kind": kind}
        return results.parse_audit(*self._transport.get("/v1/audit/records", query))
