"""Who asks: `Authorization: Bearer` (RFC 6750, section 2.1) with the deployment's key or an API key.

The deployment's key opens every workspace; `Abeyance-Workspace` names the one that a request works in, left
out it is `default`. An API key works in its own. Where authentication is off, everybody is let in as with the
deployment's key; the settings allow that on a loopback address only.

A key is compared by digest, in constant time, on bytes: no header, however odd, is more than a wrong key. An
API key is looked up in the store by each request, so that a key that was revoked anywhere, or has expired, is
refused from the next request on. A store that can't be asked is `StoreUnavailableError`, never a wrong key.
"""

import hmac
import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, Protocol

from abeyance.engine.callers import DEFAULT_WORKSPACE, EVERYBODY, Caller
from abeyance.errors import ConfigurationError, UnauthenticatedError, WorkspaceNotFoundError

DEPLOYMENT_ACTOR: Final = "deployment"
WORKSPACE_HEADER: Final = "Abeyance-Workspace"

Headers = Sequence[tuple[bytes, bytes]]

# auth-scheme 1*SP credentials (RFC 9110, 11.4); the scheme in any case. White space around is not the key's.
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +([\x21-\x7e]+) *")
_NAMES_WORKSPACE = WORKSPACE_HEADER.lower().encode()


class Authentication(Protocol):
    """Says who asks, from the headers as they were sent."""

    async def check(self, headers: Headers) -> Caller:
        """The caller. Raises `UnauthenticatedError`, `WorkspaceNotFoundError`, `StoreUnavailableError`."""


class KeyHolders(Protocol):
    """Who holds which API key."""

    async def find(self, key: bytes) -> Caller | None:
        """The holder of a key that is good now."""

    async def has_workspace(self, workspace: str) -> bool:
        """Whether there is a workspace of this name."""


class DeploymentKey:
    """The deployment's one key. White space around it, as a file's last line brings it, doesn't count.

    `holders` says which workspaces there are; without it there is `default` alone.
    """

    def __init__(self, key: str, holders: KeyHolders | None = None) -> None:
        try:
            text = key.strip().encode("ascii")
        except UnicodeEncodeError:
            text = b""
        if not re.fullmatch(rb"[\x21-\x7e]+", text):
            raise ConfigurationError("the deployment's key must be visible ASCII characters, without spaces")
        self._digest = sha256(text).digest()
        self._caller = replace(EVERYBODY, actor=DEPLOYMENT_ACTOR)
        self._holders = holders

    def is_sent(self, key: bytes) -> bool:
        """Whether `key` is the deployment's."""
        return hmac.compare_digest(sha256(key).digest(), self._digest)

    async def check(self, headers: Headers) -> Caller:
        """See `Authentication.check`."""
        if not self.is_sent(sent_key(headers)):
            raise UnauthenticatedError
        return await _in_workspace(self._caller, headers, self._holders)


class Keys:
    """The deployment's key, if it has one, and API keys."""

    def __init__(self, deployment: DeploymentKey | None, holders: KeyHolders) -> None:
        self._deployment = deployment
        self._holders = holders

    async def check(self, headers: Headers) -> Caller:
        """See `Authentication.check`."""
        key = sent_key(headers)
        if self._deployment is not None and self._deployment.is_sent(key):
            return await self._deployment.check(headers)
        caller = await self._holders.find(key)
        if caller is None:
            raise UnauthenticatedError
        if named_workspace(headers) not in (None, caller.workspace):
            raise WorkspaceNotFoundError
        return caller


class AuthenticationOff:
    """Everybody may do everything; for a server that only this machine reaches."""

    def __init__(self, holders: KeyHolders | None = None) -> None:
        self._holders = holders

    async def check(self, headers: Headers) -> Caller:
        """See `Authentication.check`."""
        return await _in_workspace(EVERYBODY, headers, self._holders)


def sent_key(headers: Headers) -> bytes:
    """The bearer's key; empty if there is none, or more than one."""
    sent = [value for name, value in headers if name.lower() == b"authorization"]
    found = _BEARER.fullmatch(sent[0]) if len(sent) == 1 else None
    return found[1] if found else b""


def named_workspace(headers: Headers) -> str | None:
    """The workspace that the request names. Raises `WorkspaceNotFoundError` for what can't be one's name."""
    sent = [value for name, value in headers if name.lower() == _NAMES_WORKSPACE]
    if not sent:
        return None
    try:
        (name,) = {value.decode().strip() for value in sent}
    except ValueError:
        raise WorkspaceNotFoundError from None
    return name


async def _in_workspace(caller: Caller, headers: Headers, holders: KeyHolders | None) -> Caller:
    named = named_workspace(headers) or DEFAULT_WORKSPACE
    if named == DEFAULT_WORKSPACE:
        return caller
    if holders is None or not await holders.has_workspace(named):
        raise WorkspaceNotFoundError
    return replace(caller, workspace=named)
