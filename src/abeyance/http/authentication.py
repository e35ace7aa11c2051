"""Who asks: `Authorization: Bearer` and the deployment's one key (RFC 6750, section 2.1).

A key is compared by digest, in constant time, on bytes: no header, however odd, is more than a wrong key.
"""

import hmac
import re
from hashlib import sha256
from typing import Protocol

from abeyance.errors import ConfigurationError, UnauthenticatedError

DEPLOYMENT_ACTOR = "deployment"

# auth-scheme 1*SP credentials (RFC 9110, 11.4); the scheme in any case. White space around is not the key's.
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +([\x21-\x7e]+) *")


class Authentication(Protocol):
    """Says who asks, from the value of the Authorization header as it was sent."""

    def check(self, authorization: bytes | None) -> str | None:
        """The actor, `None` where nobody is asked who they are. Raises `UnauthenticatedError`."""


class DeploymentKey:
    """One key for everything. White space around it, as a file's last line brings it, doesn't count."""

    def __init__(self, key: str) -> None:
        try:
            text = key.strip().encode("ascii")
        except UnicodeEncodeError:
            text = b""
        if not re.fullmatch(rb"[\x21-\x7e]+", text):
            raise ConfigurationError("the deployment's key must be visible ASCII characters, without spaces")
        self._digest = sha256(text).digest()

    def check(self, authorization: bytes | None) -> str:
        """See `Authentication.check`."""
        found = _BEARER.fullmatch(authorization or b"")
        sent = sha256(found[1] if found else b"").digest()
        if not hmac.compare_digest(sent, self._digest):
            raise UnauthenticatedError
        return DEPLOYMENT_ACTOR


class AuthenticationOff:
    """Everybody may do everything; for a server that only this machine reaches."""

    def check(self, authorization: bytes | None) -> None:
        """See `Authentication.check`."""
        return None
