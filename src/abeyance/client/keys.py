"""`client.keys`: make, list and revoke API keys."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from abeyance.client.encoding import encode_members
from abeyance.client.results import Json, checked, parse_time, parse_time_or_none

if TYPE_CHECKING:
    from abeyance.client.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key. `key` is its text, and only there where it was just made: it is told once.

    `project_id` is `None` for a key of the whole workspace, `executes` for one that executes all definitions.
    """

    id: str
    name: str
    workspace_id: str
    project_id: str | None
    grants: tuple[str, ...]
    executes: tuple[str, ...] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    created_by: str | None
    key: str | None = field(default=None, repr=False)
    source: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyPage:
    """A page of API keys, oldest first."""

    data: tuple[ApiKey, ...]
    next_cursor: str | None
    has_more: bool
    source: str = field(default="", repr=False)


class Keys:
    """The API keys of one workspace. They take the grant `admin`; refusals are raised as `ApiError`."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport

    def create(
        self,
        name: str,
        *,
        grants: Iterable[str],
        project: str | None = None,
        executes: Iterable[str] | None = None,
        ttl_ms: int | None = None,
        idempotency_key: str | None = None,
    ) -> ApiKey:
        """Make a key, whose text is in `key` of what is returned, and nowhere else again.

        `grants` are of `read`, `write`, `execute`, `decide`, `audit`, `erase`, `admin`. `executes` are the
        ids of the definitions that `execute` covers, left out all. It expires after `ttl_ms`, left out never.
        """
        body = encode_members(
            {
                "name": name,
                "grants": list(grants),
                "project": project,
                "executes": None if executes is None else list(executes),
                "ttlMs": ttl_ms,
            }
        )
        reply, source = self._transport.post("/v1/keys", body, idempotency_key=idempotency_key)
        return checked(lambda: _key(reply, source))

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> ApiKeyPage:
        """A page of keys, oldest first, with those that were revoked or have expired."""
        reply, source = self._transport.get("/v1/keys", {"limit": limit, "cursor": cursor})
        return checked(
            lambda: ApiKeyPage(
                data=tuple(_key(each, "") for each in reply["data"]),
                next_cursor=reply.get("nextCursor"),
                has_more=bool(reply["hasMore"]),
                source=source,
            )
        )

    def revoke(self, key_id: str, *, idempotency_key: str | None = None) -> ApiKey:
        """Revoke a key: it opens nothing from the next request on."""
        path = f"/v1/keys/{quote(key_id, safe='')}"
        reply, source = self._transport.change("DELETE", path, None, idempotency_key=idempotency_key)
        return checked(lambda: _key(reply, source))


def _key(reply: Json, source: str) -> ApiKey:
    executes = reply.get("executes")
    return ApiKey(
        id=reply["id"],
        name=reply["name"],
        workspace_id=reply["workspaceId"],
        project_id=reply.get("projectId"),
        grants=tuple(reply["grants"]),
        executes=None if executes is None else tuple(executes),
        created_at=parse_time(reply["createdAt"]),
        expires_at=parse_time_or_none(reply.get("expiresAt")),
        revoked_at=parse_time_or_none(reply.get("revokedAt")),
        created_by=reply.get("createdBy"),
        key=reply.get("key"),
        source=source,
    )
