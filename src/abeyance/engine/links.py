"""Links: the credential that answers one wait.

A token is 256 random bits in base64url; only its SHA-256 is stored, and the URL exists nowhere but in the
handler's context and with whoever it was handed to.
"""

import base64
from hashlib import sha256
from typing import NamedTuple

from abeyance.world import World

TOKEN_BYTES = 32


class Link(NamedTuple):
    """A new link: its token, and the digest under which it is stored."""

    token: str
    digest: bytes


def new_link(world: World) -> Link:
    """A link that nobody can guess."""
    token = base64.urlsafe_b64encode(world.random_bytes(TOKEN_BYTES)).rstrip(b"=").decode()
    return Link(token, link_digest(token))


def link_digest(token: str) -> bytes:
    """What is stored of a token. Any text has one, so that a wrong link takes the same way as an unknown
    one."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def link_url(public_url: str, token: str) -> str:
    """The address to hand out: `<public url>/v1/wait-tokens/<token>/complete`."""
    return f"{public_url.rstrip('/')}/v1/wait-tokens/{token}/complete"
