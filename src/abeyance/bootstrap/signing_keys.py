"""The keys that sign events and checkpoints: listed, added, replaced and ended by whoever has the root key.

A rotation is: certify a new key and put it in the key folder (`rotate`), start the processes again, then end
the old one (`retire`). What the old key signed stays good: a key counts by places in the log, not by time.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from abeyance.audit.keys import Life, certified_keys
from abeyance.audit.positions import KeyPlaces, find_places
from abeyance.bootstrap.identity import key_added, read_identity, read_stream, seal_next
from abeyance.bootstrap.keys import need_root, open_signer, write_new
from abeyance.bootstrap.stores import Stores, open_journal, open_moment
from abeyance.crypto.signing import FileSigner, key_id, read_public_pem
from abeyance.errors import BadInputError, ConfigurationError, StoreUnavailableError
from abeyance.journal.api_keys import StreamAppend
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DEPLOYMENT_STREAM, Event, KeyAdded, KeyRetired, KeyRevoked
from abeyance.journal.signing_keys import SigningKeyStore
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import EventRow, JournalStore
from abeyance.settings import Settings
from abeyance.world import SystemWorld

Use = Literal["events", "log"]
FILE_OF: dict[Use, Literal["event", "log"]] = {"events": "event", "log": "log"}
_TRIES = 20
_PAGE = 500
WATCH_EVERY_S = 1.0
# How long a new key is left unused: processes that run must have learned of it before they meet its events.
LEARN_S = 5.0

_log = logging.getLogger("abeyance.signing")


class SigningKeys:
    """The keys of the deployment that the settings name. All but `listed` need the root key, and on SQLite
    that no process serves the store. After one is added, `learn_s` seconds go by on PostgreSQL, so that
    running processes know it before anybody signs with it.
    """

    def __init__(self, settings: Settings, *, learn_s: float = LEARN_S) -> None:
        self._settings = settings
        self._learn_s = learn_s if settings.on_postgres else 0.0

    def listed(self) -> list[dict[str, Any]]:
        """Every key that the log certifies, in the order in which they were added."""
        return asyncio.run(self._list())

    def add(self, file: Path, use: Use) -> dict[str, Any]:
        """Certify the key in a PEM file, public or private. Adding a key twice changes nothing."""
        public_key = read_public_pem(file.read_bytes())
        asyncio.run(self._add(public_key, use))
        return self._one(key_id(public_key))

    def rotate(self, use: Use) -> dict[str, Any]:
        """Make a new key, certify it, and put it in the place of the old one in the key folder; the old file
        is kept beside it as `<use>-<kid>.pem`. The old key signs until it is retired.
        """
        folder, name = self._settings.key_dir, FILE_OF[use]
        if folder is None or getattr(self._settings, f"{name}_key"):
            raise ConfigurationError(
                f"only a key that is {name}.pem in the folder of ABEYANCE_KEY_DIR can be replaced here; "
                "certify another one with `abeyance keys signing add`, and put it where the processes read it"
            )
        file = folder / f"{name}.pem"
        old = FileSigner.from_pem(file.read_bytes())
        new = FileSigner.from_seed(os.urandom(32))
        draft = folder / f"{name}-{new.kid.hex()}.pem"
        write_new(draft, new.to_pem())
        try:
            asyncio.run(self._add(new.public_key, use))
        except ConfigurationError:  # refused before anything was sent; else the key may be certified: keep it
            draft.unlink()
            raise
        kept = folder / f"{name}-{old.kid.hex()}.pem"
        if not kept.exists():
            os.link(file, kept)
        draft.replace(file)
        return {"old": self._one(old.kid), "new": self._one(new.kid), "file": str(file), "kept": str(kept)}

    def retire(self, kid: str) -> dict[str, Any]:
        """End a key: it signs nothing more. Waits for appends that run."""
        return self._end(kid, None)

    def revoke(self, kid: str, since: datetime) -> dict[str, Any]:
        """End a key that somebody else may have had from `since` on."""
        return self._end(kid, since)

    def _end(self, text: str, since: datetime | None) -> dict[str, Any]:
        try:
            kid = bytes.fromhex(text)
        except ValueError as error:
            raise BadInputError("a key's id is 16 hex digits") from error
        life = asyncio.run(self._check_end(kid, since))
        state: Literal["retired", "revoked"] = "retired" if since is None else "revoked"
        event = KeyRetired(kid=text) if since is None else KeyRevoked(kid=text, since=since)
        if life.state != state:
            asyncio.run(self._append(event, kid, state))
        return self._one(kid)

    async def _check_end(self, kid: bytes, since: datetime | None) -> Life:
        lives, _ = await self._read()
        life = lives.get(kid)
        if life is None:
            raise BadInputError("the log certifies no such key: see `abeyance keys signing list`")
        if since is None and life.state == "revoked":
            raise BadInputError("the key is revoked already")
        if not any(
            other.state == "active" and other.use == life.use for each, other in lives.items() if each != kid
        ):
            raise BadInputError("it is the only key for this: `abeyance keys signing rotate` makes another")
        own = open_signer(self._settings, FILE_OF[life.use])
        if own is not None and own.kid == kid:
            raise BadInputError(
                "these settings still name this key for processes; `abeyance keys signing rotate` replaces it"
            )
        return life

    async def _list(self) -> list[dict[str, Any]]:
        lives, places = await self._read()
        return [_shown(kid, life, places) for kid, life in lives.items()]

    def _one(self, kid: bytes) -> dict[str, Any]:
        return next(key for key in self.listed() if key["kid"] == kid.hex())

    async def _read(self) -> tuple[dict[bytes, Life], KeyPlaces]:
        async with open_moment(self._settings) as moment:
            rows: list[EventRow] = []
            while page := await moment.events(DEPLOYMENT_STREAM, after=len(rows), limit=_PAGE):
                rows += page
            keys = certified_keys(rows)
            if keys.findings:
                raise ConfigurationError(f"the store's log of keys doesn't hold: {keys.findings[0]}")
            return dict(keys.lives), await find_places(moment, keys)

    async def _add(self, public_key: bytes, use: Use) -> None:
        life = (await self._read())[0].get(key_id(public_key))
        if life is not None and (life.use, life.state) == (use, "active"):
            return
        if life is not None:
            raise BadInputError(f"the key is {life.state} for {life.use}; a key is added once: make another")
        await self._append(key_added(public_key, use))
        await asyncio.sleep(self._learn_s)

    async def _append(
        self, event: Event, kid: bytes | None = None, state: Literal["retired", "revoked"] = "retired"
    ) -> None:
        """Append an event by the root key; `kid` is the key that ends by it."""
        world = SystemWorld()
        root = need_root(open_signer(self._settings, "root"), f"`{event.topic}`")
        journal = await open_journal(self._settings, world)
        try:
            for _ in range(_TRIES):
                rows = await read_stream(journal, DEPLOYMENT_STREAM)
                if not rows or read_identity(rows).root != root.kid:
                    raise ConfigurationError(
                        "the root key is another one than this store's log was opened with"
                    )
                sealed = seal_next(EventCodec(read_identity(rows).origin), [event], rows, root, world)
                if await _write(journal, StreamAppend(DEPLOYMENT_STREAM, len(rows), sealed), kid, state):
                    await journal.seal(_PAGE)
                    return
        finally:
            await journal.close()
        raise StoreUnavailableError("the deployment's stream is written to by many at once")


async def _write(
    journal: JournalStore, append: StreamAppend, kid: bytes | None, state: Literal["retired", "revoked"]
) -> bool:
    if kid is None:
        return await journal.append_stream(*append)
    return await open_signing_keys(journal).end(kid, state, append)


def _shown(kid: bytes, life: Life, places: KeyPlaces) -> dict[str, Any]:
    place = places.places[kid]
    shown: dict[str, Any] = {"kid": kid.hex(), "use": life.use, "state": life.state, "addedAt": place.added}
    if life.ended is not None:
        shown["endedAt"] = place.ended
    if life.since is not None:
        shown["since"] = life.since.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return shown


def open_signing_keys(journal: JournalStore) -> SigningKeyStore:
    """The rows of keys that have ended, in this journal."""
    if isinstance(journal, SQLiteJournalStore):
        from abeyance.journal.sqlite.signing_keys import SQLiteSigningKeys

        return SQLiteSigningKeys(journal)
    from abeyance.journal.postgres.signing_keys import PostgresSigningKeys
    from abeyance.journal.postgres.store import PostgresJournalStore

    assert isinstance(journal, PostgresJournalStore)
    return PostgresSigningKeys(journal)


async def watch_keys(stores: Stores, end: Callable[[], None], every_s: float = WATCH_EVERY_S) -> None:
    """Learn of keys that are added while this process runs, and call `end` once its own has ended.

    Its appends are refused from that moment on; this makes it stop, so that it is started again with the key
    that counts now.
    """
    keys, seen = open_signing_keys(stores.journal), 0
    while True:
        await asyncio.sleep(every_s)
        try:
            seen = await _learn(stores, seen)
            ended = await keys.ended()
        except StoreUnavailableError:
            continue
        for name, kid in (("event", stores.signers.event.kid), ("log", stores.signers.log.kid)):
            if kid in ended:
                _log.critical(
                    "error[signing-key-retired]: the %s key %s was %s: this process stops; start it again "
                    "with the deployment's new key", name, kid.hex(), ended[kid],
                )  # fmt: skip
                end()
                return


async def _learn(stores: Stores, seen: int) -> int:
    """Take in the keys that were added after version `seen` of the deployment's stream; its version now."""
    rows, _ = await stores.journal.read_events(DEPLOYMENT_STREAM, after=seen, limit=_PAGE, contents=False)
    if any(row.topic == KeyAdded.topic for row in rows):
        identity = read_identity(await read_stream(stores.journal, DEPLOYMENT_STREAM))
        stores.desk.public_keys.update(identity.event_keys())
        stores.identity.log_keys.update(identity.log_keys)
    return rows[-1].version if rows else seen
