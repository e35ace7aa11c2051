"""`client.audit`: the sealed events of all runs, in the journal's order."""

import json
from collections.abc import Iterator
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

    def export(
        self,
        *,
        everything: bool = False,
        run_id: str | UUID | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[bytes]:
        """A bundle of signed records, in pieces: `everything`, or those of a run or of a time (RFC 3339).

        It is whole if its last line has an `end`; `abeyance audit verify` checks it without the server.
        """
        asked = {"all": everything or None, "run": run_id, "since": since, "until": until}
        body = {name: value if value is True else str(value) for name, value in asked.items() if value}
        return self._transport.stream("/v1/audit/exports", json.dumps(body).encode())

    def checkpoint(self) -> str:
        """The log's newest checkpoint, a signed note: worth keeping for the next audit."""
        return self._transport.text("/v1/audit/log/checkpoint")

    def proof(self, record: int | str) -> str:
        """The proof that a record is in the log, by its index or its hash (C2SP tlog-proof)."""
        return self._transport.text(f"/v1/audit/records/{record}/proof")
