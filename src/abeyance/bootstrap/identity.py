"""Who a deployment is: its origin and its certified keys, as its own stream says.

The first process on an empty store opens the log: `log-opened` and a `key-added` for each key, signed by
the root key, in one append at version 1, so that of two first processes one wins and the other reads what
it wrote. A store that has a log never gets another identity: another origin, another root or an event key
that the log doesn't certify stops the start.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from abeyance.bootstrap.keys import DeploymentKeys, need_root
from abeyance.crypto.signing import Signer, decode_public_key, encode_public_key, key_id
from abeyance.errors import ConfigurationError
from abeyance.journal.envelope import EventCodec, Recorded, read_origin
from abeyance.journal.events import (
    BY_ROOT,
    DEPLOYMENT_STREAM,
    DefinitionRecorded,
    DefinitionRef,
    Event,
    KeyAdded,
    KeyRetired,
    KeyRevoked,
    LogOpened,
    WorkspaceCreated,
)
from abeyance.journal.store import EventRow, JournalStore
from abeyance.journal.workspace_streams import workspace_stream
from abeyance.world import World

NO_ORIGIN = "ABEYANCE_ORIGIN is not set: a new store needs its log's name, such as shop.example.com/runs"
_PAGE = 500
_BY_ROOT = frozenset(kind.topic for kind in BY_ROOT)


@dataclass(frozen=True, slots=True)
class Identity:
    """The origin and the certified public keys by their ids: those that sign events (the root's among them),
    and those that sign the log's checkpoints. Those that have `ended` are among them: what they signed stays.
    """

    origin: str
    public_keys: Mapping[bytes, bytes]
    log_keys: dict[bytes, bytes]
    root: bytes
    ended: frozenset[bytes] = frozenset()

    def event_keys(self) -> dict[bytes, bytes]:
        """The keys that sign events of runs and workspaces: all but the root's."""
        return {kid: key for kid, key in self.public_keys.items() if kid != self.root}


async def read_stream(store: JournalStore, stream: UUID) -> list[EventRow]:
    """All rows of a stream that isn't a run's."""
    rows: list[EventRow] = []
    while True:
        page, _ = await store.read_events(stream, after=len(rows), limit=_PAGE, contents=False)
        rows += page
        if len(page) < _PAGE:
            return rows


async def open_identity(
    store: JournalStore, keys: DeploymentKeys, world: World, origin: str | None
) -> Identity:
    """The deployment's identity; the log is opened if the store is new. Raises `ConfigurationError`."""
    rows = await read_stream(store, DEPLOYMENT_STREAM)
    if not rows:
        if origin is None:
            raise ConfigurationError(NO_ORIGIN)
        await store.append_stream(DEPLOYMENT_STREAM, 0, _opening(keys, world, origin))
        rows = await read_stream(store, DEPLOYMENT_STREAM)
    identity = _checked(rows, keys, origin)
    if keys.log.kid in identity.log_keys:
        return identity
    # A store of before checkpoints. Of several processes one certifies the key, the others read it.
    codec, root = EventCodec(identity.origin), need_root(keys.root, "certifying the log key")
    added = seal_next(codec, [key_added(keys.log.public_key, "log")], rows, root, world)
    await store.append_stream(DEPLOYMENT_STREAM, len(rows), added)
    return _checked(await read_stream(store, DEPLOYMENT_STREAM), keys, origin)


def _opening(keys: DeploymentKeys, world: World, origin: str) -> list[EventRow]:
    root = need_root(keys.root, "opening the log of a new store")
    events: list[Event] = [
        LogOpened(origin=origin, root=encode_public_key(root.public_key)),
        key_added(keys.event.public_key, "events"),
        key_added(keys.log.public_key, "log"),
    ]
    return _sealed(EventCodec(origin), events, DEPLOYMENT_STREAM, None, root, world)


def key_added(public_key: bytes, use: Literal["events", "log"]) -> KeyAdded:
    """The certificate of a raw public key."""
    return KeyAdded(key=encode_public_key(public_key), kid=key_id(public_key).hex(), use=use)


def seal_next(
    codec: EventCodec, events: list[Event], rows: list[EventRow], signer: Signer, world: World
) -> list[EventRow]:
    """Events as the next ones of the deployment's stream, of which these are the rows so far."""
    return _sealed(codec, events, DEPLOYMENT_STREAM, codec.open(rows[-1]), signer, world)


def _sealed(
    codec: EventCodec,
    events: list[Event],
    stream: UUID,
    last: Recorded | None,
    signer: Signer,
    world: World,
) -> list[EventRow]:
    rows = []
    for event in events:
        row, last = codec.seal(
            event,
            stream=stream,
            version=1 if last is None else last.version + 1,
            prev=None if last is None else last.digest,
            at=world.now() if last is None else max(world.now(), last.at),
            signer=signer,
        )
        rows.append(row)
    return rows


def _checked(rows: list[EventRow], keys: DeploymentKeys, origin: str | None) -> Identity:
    stored = read_origin(rows[0])
    if origin not in (None, stored):
        raise ConfigurationError(f"ABEYANCE_ORIGIN: this store's log is {stored!r}; an origin never changes")
    identity = read_identity(rows)
    check_keys(identity, keys)
    return identity


def check_keys(identity: Identity, keys: DeploymentKeys) -> None:
    """Return if these are keys of this deployment that count now; else raise `ConfigurationError`."""
    if keys.root is not None and keys.root.kid != identity.root:
        raise ConfigurationError("the root key is another one than this store's log was opened with")
    if keys.event.kid not in identity.public_keys:
        raise ConfigurationError(
            "this store's log doesn't certify the event key; use one that `abeyance keys signing list` shows"
        )
    if identity.log_keys and keys.log.kid not in identity.log_keys:
        raise ConfigurationError(
            "this store's log doesn't certify the log key; use one that `abeyance keys signing list` shows"
        )
    for name, kid in (("event", keys.event.kid), ("log", keys.log.kid)):
        if kid in identity.ended:
            raise ConfigurationError(
                f"the {name} key {kid.hex()} was retired or revoked: use the deployment's new one"
            )


def read_identity(rows: list[EventRow]) -> Identity:
    """What the deployment's stream says, each event verified by the root key that its first event names."""
    codec = EventCodec(read_origin(rows[0]))
    opened = codec.open(rows[0])
    if not isinstance(opened.event, LogOpened):
        raise ConfigurationError("the store's log doesn't begin with log-opened")
    root = {opened.kid: decode_public_key(opened.event.root)}
    keys: dict[str, dict[bytes, bytes]] = {"events": dict(root), "log": {}}
    ended: set[bytes] = set()
    for row in rows:
        event = codec.verify(row, root if row.topic in _BY_ROOT else keys["events"]).event
        if isinstance(event, KeyAdded):
            keys[event.use][bytes.fromhex(event.kid)] = decode_public_key(event.key)
        elif isinstance(event, KeyRetired | KeyRevoked):
            ended.add(bytes.fromhex(event.kid))
    return Identity(codec.origin, keys["events"], keys["log"], opened.kid, frozenset(ended))


async def record_definitions(
    store: JournalStore,
    codec: EventCodec,
    signer: Signer,
    world: World,
    documents: Mapping[bytes, bytes],
    definitions: list[DefinitionRef],
    *,
    workspace: str = "default",
) -> None:
    """Store schemas and definitions by digest; whoever stores a definition first records it in the stream."""
    new = {digest for digest, document in documents.items() if await store.put_definition(digest, document)}
    fresh = [ref for ref in definitions if bytes.fromhex(ref.digest) in new]
    stream = workspace_stream(workspace)
    while True:
        rows = await read_stream(store, stream)
        events: list[Event] = [] if rows else [WorkspaceCreated(workspace=workspace)]
        events += [DefinitionRecorded(definition=ref) for ref in fresh]
        if not events:
            return
        last = codec.open(rows[-1]) if rows else None
        if await store.append_stream(stream, len(rows), _sealed(codec, events, stream, last, signer, world)):
            return
