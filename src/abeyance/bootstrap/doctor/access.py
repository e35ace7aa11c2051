"""How others come in: the public address, and the keys of requests."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from abeyance.bootstrap.doctor.report import Line, note, ok, unseen, wrong
from abeyance.bootstrap.doctor.subject import Subject
from abeyance.settings.rules import is_loopback

_PATIENCE_S = 5.0
_NO_LINK = "/v1/wait-tokens/doctor/complete"


def check_public_address(subject: Subject) -> Iterator[Line]:
    """What links are made from, and whether this server answers there."""
    address = subject.settings.public_url
    if address is None:
        yield _without(subject)
        return
    parts = urlsplit(address)
    if is_loopback(parts.hostname or "") and subject.role != "dev":
        yield note("public address", f"{address} is this machine alone", "other systems need another one")
    elif parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield note("public address", f"{address} sends links and answers in clear text", "use https")
    yield _asked(address)


def _without(subject: Subject) -> Line:
    bound = f"{subject.settings.host}:{subject.settings.port}"
    if subject.role == "dev":
        return ok("public address", f"not set: `abeyance dev` makes links of {bound}")
    return note(
        "public address",
        f"ABEYANCE_PUBLIC_URL is not set: links are made of {bound}, which other machines may not reach",
        "set it to the address at which other systems reach this server",
    )


def _asked(address: str) -> Line:
    """Post nothing to a link that nobody has: links are what a proxy has to hand on from everywhere."""
    try:
        reply = httpx.post(
            f"{address}{_NO_LINK}", timeout=_PATIENCE_S, follow_redirects=False, trust_env=False
        )
    except httpx.HTTPError as error:
        return unseen(
            "public address",
            f"{address} doesn't answer from here ({type(error).__name__}): nothing serves there yet, "
            "or this machine can't reach it while others can",
        )
    if _code(reply) in ("wait-token-not-found", "rate-limit-exceeded"):
        return ok("public address", f"{address} answers as a link does")
    if _code(reply) == "tenant-state-unavailable":
        return note("public address", f"{address} answers, but its store can't be used there")
    return wrong(
        "public address",
        f"what answers a link at {address} ({reply.status_code}) isn't this server",
        "let the proxy hand on /v1/wait-tokens/ with POST, or mend ABEYANCE_PUBLIC_URL",
    )


def _code(reply: httpx.Response) -> object:
    """The code of one of our refusals; `None` for anything else."""
    try:
        return reply.json()["error"]["code"]
    except (ValueError, LookupError, TypeError):
        return None


def check_authentication(subject: Subject) -> Iterator[Line]:
    """Whether requests need a key."""
    if not subject.settings.auth:
        yield note("authentication", "off: whoever reaches this machine's loopback address may do all")
    elif subject.settings.api_key is not None:
        yield ok("authentication", "on, with the key of ABEYANCE_API_KEY")
    elif subject.role == "dev":
        yield ok("authentication", "on, with a new key at each start of `abeyance dev`")
    elif subject.role == "worker":
        yield ok("authentication", "a worker serves no requests that need a key")
    else:
        yield unseen("authentication", "on, but ABEYANCE_API_KEY is not set")
