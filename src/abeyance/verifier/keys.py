"""Which key counted when: the history of keys, as the log's own entries tell it.

The root key certifies the others by `key-added`, and ends them by `key-retired` and `key-revoked`. A key
counts for records whose index lies between the two; it is never looked up as "the current one".
"""

from dataclasses import dataclass
from typing import Any

from abeyance.verifier.findings import Findings
from abeyance.verifier.records import BodyError, Record
from abeyance.verifier.signatures import decode, key_id

_BY_ROOT = frozenset({"log-opened", "key-added", "key-retired", "key-revoked", "epoch-opened"})
KEY_TOPICS = _BY_ROOT


@dataclass(slots=True)
class _Key:
    public: bytes
    use: str
    added: int
    ended: int | None = None
    revoked_since: str | None = None


class Keys:
    """The keys of one log. `pinned` is the root key that is known from elsewhere, or none is."""

    def __init__(self, findings: Findings, pinned: bytes | None) -> None:
        self._findings = findings
        self._keys: dict[str, _Key] = {}
        self._pinned = pinned
        self.root: bytes | None = pinned

    def take(self, index: int, record: Record) -> None:
        """Learn from one of the log's own entries about keys, whose signature has been checked."""
        try:
            self._learn(index, record.topic, record.fields())
        except (BodyError, KeyError, TypeError, ValueError):
            self._findings.add("tampered", "key", f"a {record.topic} without what it must hold", index=index)

    def root_of(self, record: Record) -> bytes | None:
        """The root key that `log-opened` names; it must be the pinned one. Called before its signature is
        checked, which only the root key can have made.
        """
        try:
            named = decode(record.fields()["root"])
        except (BodyError, KeyError, TypeError, ValueError):
            return self.root
        if self._pinned is not None and named != self._pinned:
            self._findings.add(
                "tampered", "key", "this log was opened under another root key than the pinned one", index=0
            )
        elif self.root is None and len(named) == 32:
            self.root = named
        return self.root

    def signer(self, record: Record, index: int) -> bytes | None:
        """The public key that may have signed this record at this index; `None` if none may."""
        if record.topic in _BY_ROOT:
            return self.root if self.root is not None and key_id(self.root) == record.kid else None
        key = self._keys.get(record.kid)
        if key is None or key.use != "events" or not key.added < index:
            return None
        if key.ended is not None and index > key.ended:
            return None
        return key.public

    def event_key(self, kid: str) -> bytes | None:
        """The public key of an events' key, whenever it counted; `None` if the log never certified it."""
        key = self._keys.get(kid)
        return key.public if key is not None and key.use == "events" else None

    def log_keys(self) -> list[bytes]:
        """The keys that may sign checkpoints."""
        return [key.public for key in self._keys.values() if key.use == "log"]

    def suspects(self) -> dict[str, str]:
        """Revoked keys, with the time since which they are not to be trusted."""
        return {kid: key.revoked_since for kid, key in self._keys.items() if key.revoked_since is not None}

    def _learn(self, index: int, topic: str, data: dict[str, Any]) -> None:
        if topic == "key-added":
            public = decode(data["key"])
            if len(public) != 32 or key_id(public) != data["kid"]:
                raise ValueError
            if data["kid"] in self._keys:
                self._findings.add("tampered", "key", "a key is added a second time", index=index)
                return
            self._keys[data["kid"]] = _Key(public, data["use"], index)
        elif topic in ("key-retired", "key-revoked"):
            key = self._keys[data["kid"]]
            key.ended = index if key.ended is None else key.ended
            if topic == "key-revoked":
                key.revoked_since = data["since"]
