"""The gate before links: one limit for each client, whichever link it comes with."""

from falcon.asgi import Request

from abeyance.http.client_address import Proxies
from abeyance.http.rate_limit import RateLimiter

# The kind of what is counted, in front of the key: other limits count beside this one.
_CLIENT = b"a"


class ClientGate:
    """See `abeyance.http.resources.links.LinkGate`."""

    def __init__(self, limiter: RateLimiter, proxies: Proxies) -> None:
        self._limiter = limiter
        self._proxies = proxies

    async def admit(self, request: Request) -> None:
        """Let the request pass, or raise `RateLimitedError`."""
        await self._limiter.admit(_CLIENT + self._proxies.key_of(request.scope))
