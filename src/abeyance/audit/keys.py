"""Which keys the log certifies: read from the deployment's own stream, and verified.

`log-opened` is the stream's first event and names the root key, which signs it and every `key-added`. A key
counts only if its `key-added` verifies by the root key. Without a root key from elsewhere (a pin) all that is
shown is that the log is consistent in itself: whoever made the whole store could have made that too.
"""

import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abeyance.audit.events import finding
from abeyance.audit.findings import Finding
from abeyance.audit.history import HistoryVerifier
from abeyance.crypto.signing import decode_public_key, key_id
from abeyance.errors import HistoryDamagedError
from abeyance.journal.envelope import EventCodec, read_origin
from abeyance.journal.events import DEPLOYMENT_STREAM, KeyAdded, LogOpened
from abeyance.journal.store import EventRow

_BY_ROOT = frozenset((LogOpened.topic, KeyAdded.topic))


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedKeys:
    """What the deployment's stream proves. `event_keys` sign events, by kid, `log_keys` checkpoints; `root`
    is the root key's raw bytes; `anchored` says that it is the one that was given from elsewhere.
    """

    origin: str
    root: bytes | None
    anchored: bool
    event_keys: Mapping[bytes, bytes]
    log_keys: Mapping[bytes, bytes]
    findings: tuple[Finding, ...]


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
    keys, log_keys, findings = _read(deployment_rows, codec, root)
    if stated != root:
        findings.insert(0, _log("log-opened names another root key than the one that was given"))
    anchored = root_public_key is not None and stated == root
    return CertifiedKeys(
        origin=codec.origin,
        root=root,
        anchored=anchored,
        event_keys=keys,
        log_keys=log_keys,
        findings=tuple(findings),
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


def _read(
    rows: Sequence[EventRow], codec: EventCodec, root: bytes
) -> tuple[dict[bytes, bytes], dict[bytes, bytes], list[Finding]]:
    """The keys for events and those for checkpoints, and every finding in the deployment's stream."""
    keys: dict[bytes, bytes] = {}
    log_keys: dict[bytes, bytes] = {}
    by_root = {key_id(root): root}
    history = HistoryVerifier(codec, run=False)
    findings: list[Finding] = []
    for row in rows:
        found = history.take(row, by_root if row.topic in _BY_ROOT else keys)
        if row.topic == KeyAdded.topic and not found:
            found = _add({"events": keys, "log": log_keys}, row, codec)
        findings += found
    return keys, log_keys, findings


def _add(keys: Mapping[str, dict[bytes, bytes]], row: EventRow, codec: EventCodec) -> list[Finding]:
    recorded = codec.open(row)
    added = recorded.event
    if not isinstance(added, KeyAdded):
        return []
    key = _decoded(added.key)
    if key is None or key_id(key).hex() != added.kid:
        return [finding(row, recorded.digest, "key", "the key and its id don't belong together")]
    keys[added.use][key_id(key)] = key
    return []
