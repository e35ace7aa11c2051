"""Which keys the log certifies: read from the deployment's own stream, and verified.

`log-opened` is the stream's first event and names the root key, which signs it and every `key-added`,
`key-retired` and `key-revoked`. A key counts only if its `key-added` verifies by the root key, and for events
whose place in the log lies between that and its end (`abeyance.audit.positions`). Without a root key from
elsewhere (a pin) all that is shown is that the log is consistent in itself: whoever made the whole store
could have made that too.
"""

import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from abeyance.audit.events import finding
from abeyance.audit.findings import Finding
from abeyance.audit.history import HistoryVerifier
from abeyance.crypto.signing import decode_public_key, key_id
from abeyance.errors import HistoryDamagedError
from abeyance.journal.envelope import EventCodec, read_origin
from abeyance.journal.events import BY_ROOT, DEPLOYMENT_STREAM, KeyAdded, KeyRetired, KeyRevoked, LogOpened
from abeyance.journal.store import EventRow

_BY_ROOT = frozenset(kind.topic for kind in BY_ROOT)

State = Literal["active", "retired", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What the log says of one key. `added` and `ended` are versions of the deployment's stream; `since` is
    from when on a revoked key isn't trusted.
    """

    public_key: bytes
    use: Literal["events", "log"]
    added: int
    ended: int | None = None
    state: State = "active"
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedKeys:
    """What the deployment's stream proves. `event_keys` sign events, by kid, `log_keys` checkpoints; those
    that have ended are among them, `lives` says when each counts. `root` is the root key's raw bytes;
    `anchored` says that it is the one that was given from elsewhere.
    """

    origin: str
    root: bytes | None
    anchored: bool
    event_keys: Mapping[bytes, bytes]
    log_keys: Mapping[bytes, bytes]
    findings: tuple[Finding, ...]
    lives: Mapping[bytes, Life] = field(default_factory=dict)


def certified_keys(
    deployment_rows: Sequence[EventRow], root_public_key: bytes | None = None
) -> CertifiedKeys:
    """Read and verify the deployment's stream. `root_public_key` is the pin, 32 raw bytes.

    Nothing is raised: a stream that can't be read certifies no keys and has findings.
    """
    if not deployment_rows:
        return _none("the store has no log: nothing certifies any key", root_public_key)
    try:
        codec = EventCodec(read_origin(deployment_rows[0]))
        stated = _stated_root(codec, deployment_rows[0])
    except HistoryDamagedError as error:
        return _none(f"the log can't be opened: {error.reason}", root_public_key)
    root = stated if root_public_key is None else root_public_key
    lives, findings = _read(deployment_rows, codec, root)
    if stated != root:
        findings.insert(0, _log("log-opened names another root key than the one that was given"))
    anchored = root_public_key is not None and stated == root
    return CertifiedKeys(
        origin=codec.origin,
        root=root,
        anchored=anchored,
        event_keys=_of(lives, "events"),
        log_keys=_of(lives, "log"),
        findings=tuple(findings),
        lives=lives,
    )


def _none(problem: str, root: bytes | None) -> CertifiedKeys:
    return CertifiedKeys(
        origin="", root=root, anchored=False, event_keys={}, log_keys={}, findings=(_log(problem),)
    )


def _log(problem: str) -> Finding:
    return Finding(rule="key", stream=DEPLOYMENT_STREAM, version=1, problem=problem, topic=LogOpened.topic)


def _stated_root(codec: EventCodec, row: EventRow) -> bytes:
    opened = codec.open(row).event
    if not isinstance(opened, LogOpened):
        raise HistoryDamagedError("the deployment's stream doesn't begin with log-opened")
    key = _decoded(opened.root)
    if key is None:
        raise HistoryDamagedError("log-opened holds no root key")
    return key


def _decoded(text: str) -> bytes | None:
    try:
        key = decode_public_key(text)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == 32 else None


def _of(lives: Mapping[bytes, Life], use: str) -> dict[bytes, bytes]:
    return {kid: life.public_key for kid, life in lives.items() if life.use == use}


def _read(
    rows: Sequence[EventRow], codec: EventCodec, root: bytes
) -> tuple[dict[bytes, Life], list[Finding]]:
    """The keys, and every finding in the deployment's stream."""
    lives: dict[bytes, Life] = {}
    by_root = {key_id(root): root}
    history = HistoryVerifier(codec, run=False)
    findings: list[Finding] = []
    for row in rows:
        found = history.take(row, by_root if row.topic in _BY_ROOT else _active(lives))
        if row.topic in _BY_ROOT and not found:
            found = _learn(lives, row, codec)
        findings += found
    return lives, findings


def _active(lives: Mapping[bytes, Life]) -> dict[bytes, bytes]:
    return _of({kid: life for kid, life in lives.items() if life.state == "active"}, "events")


def _learn(lives: dict[bytes, Life], row: EventRow, codec: EventCodec) -> list[Finding]:
    recorded = codec.open(row)
    match recorded.event:
        case KeyAdded() as added:
            problem = _add(lives, added, row.version)
        case KeyRetired() | KeyRevoked() as ended:
            problem = _end(lives, ended, row.version)
        case _:
            problem = None
    return [] if problem is None else [finding(row, recorded.digest, "key", problem)]


def _add(lives: dict[bytes, Life], added: KeyAdded, version: int) -> str | None:
    key = _decoded(added.key)
    if key is None or key_id(key).hex() != added.kid:
        return "the key and its id don't belong together"
    if key_id(key) in lives:
        return "the key is added a second time"
    lives[key_id(key)] = Life(public_key=key, use=added.use, added=version)
    return None


def _end(lives: dict[bytes, Life], ended: KeyRetired | KeyRevoked, version: int) -> str | None:
    known = {kid.hex(): kid for kid in lives}
    if ended.kid not in known:
        return "the key that it ends was never added"
    kid = known[ended.kid]
    life = lives[kid]
    if isinstance(ended, KeyRevoked):
        life = replace(life, state="revoked", since=ended.since)
    elif life.state == "active":
        life = replace(life, state="retired")
    lives[kid] = replace(life, ended=version if life.ended is None else life.ended)
    return None
