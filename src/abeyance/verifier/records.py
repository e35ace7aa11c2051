"""One record: an event as it was signed, and what the verifier reads of its body.

A body is canonical JSON with the keys `at data kid log prev run t v ver`. It is never written again: what is
hashed and verified are the bytes that stand in the file.
"""

import json
import re
from typing import Any, NamedTuple

BODY_VERSION = 1
DEPLOYMENT = "00000000-0000-7000-8000-000000000000"
MAX_BODY_BYTES = 16 * 1024

_CANONICAL = re.compile(
    rb'\{"at":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)","data":(\{[ -!#-~"]*\}),"kid":"([0-9a-f]{16})",'
    rb'"log":"([!#-\[\]-~]+)","prev":(?:null|"([0-9a-f]{64})"),"run":"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",'
    rb'"t":"([a-z-]+)",'
    rb'"v":([1-9]\d{0,5}),"ver":([1-9]\d{0,18})\}',
    re.ASCII,
)
_RUN = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_TYPES = {"at": str, "data": dict, "kid": str, "log": str, "run": str, "t": str, "v": int, "ver": int}


def _refuse(text: str) -> Any:
    raise ValueError("a number that no record has")


_DECODER = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class BodyError(ValueError):
    """The bytes aren't an event's body."""


class Record(NamedTuple):
    """What a body says. `data` is its JSON text; `canonical` whether the body is written as it must be."""

    at: str
    data: bytes
    kid: str
    log: str
    prev: str | None
    run: str
    topic: str
    v: int
    version: int
    canonical: bool = True

    def fields(self) -> dict[str, Any]:
        """The parsed `data`. Raises `BodyError`."""
        try:
            found = parse_json(self.data)
        except ValueError:
            raise BodyError("the data isn't JSON") from None
        if not isinstance(found, dict):
            raise BodyError("the data isn't an object")
        return found


def read_body(body: bytes) -> Record:
    """Read a body. Raises `BodyError` for what isn't one."""
    found = _CANONICAL.fullmatch(body)
    if found is None:
        return _read_loosely(body)
    at, data, kid, log, prev, run, topic, v, version = found.groups()
    return Record(
        at.decode(), data, kid.decode(), log.decode(), None if prev is None else prev.decode(),
        run.decode(), topic.decode(), int(v), int(version),
    )  # fmt: skip


def is_canonical(record: Record) -> bool:
    """Whether the data is written in the one way: keys sorted, no white space, no floats."""
    # A key that stands twice is lost in reading, so the text that is written again differs.
    try:
        again = _ENCODER.encode(_DECODER.decode(record.data.decode()))
    except (ValueError, RecursionError):
        return False
    return record.canonical and again.encode() == record.data


def parse_json(text: bytes) -> Any:
    """JSON without duplicate keys, floats or NaN. Raises `ValueError`."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_float=_refuse, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nests too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _read_loosely(body: bytes) -> Record:
    try:
        found = parse_json(body)
    except ValueError:
        raise BodyError("the body isn't JSON") from None
    if not isinstance(found, dict) or found.keys() != {*_TYPES, "prev"}:
        raise BodyError("the body hasn't the members of an event")
    if any(type(found[name]) is not kind for name, kind in _TYPES.items()):
        raise BodyError("a member of the body has the wrong type")
    if not isinstance(found["prev"], str | None) or not _RUN.fullmatch(found["run"]):
        raise BodyError("a member of the body has the wrong type")
    data = _ENCODER.encode(found["data"]).encode()
    return Record(
        found["at"], data, found["kid"], found["log"], found["prev"], found["run"], found["t"], found["v"],
        found["ver"], canonical=False,
    )  # fmt: skip
