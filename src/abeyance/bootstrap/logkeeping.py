"""The log of a process: opened beside the journal, kept and mirrored while it serves, refused if it is an old
copy.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from abeyance.audit.export import Exporter
from abeyance.audit.keeping import LogKeeper
from abeyance.audit.log import Log, LogStore
from abeyance.audit.mirror import Mirror
from abeyance.audit.mirror_files import MirrorFiles
from abeyance.audit.mirroring import AT_THE_END, MirrorKeeper
from abeyance.audit.recording import DeploymentRecorder
from abeyance.audit.service import AuditService
from abeyance.bootstrap.reading import Reading
from abeyance.bootstrap.stores import Stores
from abeyance.errors import ConfigurationError, VerificationError
from abeyance.journal.sqlite.store import SQLiteJournalStore

_log = logging.getLogger("abeyance.mirror")


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """The log, who keeps it, and what may be asked of it."""

    log: Log
    keeper: LogKeeper
    service: AuditService


def open_log(stores: Stores, reading: Reading) -> OpenedLog:
    """The log on the journal's database."""
    journal, desk, signers = stores.journal, stores.desk, stores.signers
    log = Log(
        journal,
        _log_store(stores),
        stores.keys,
        desk.codec,
        signers.log,
        log_keys=stores.identity.log_keys.values(),
    )
    exporter = Exporter(log, journal, desk.codec, signers.event)
    recorder = DeploymentRecorder(journal, desk.codec, signers.event, stores.world)
    service = AuditService(log, exporter, recorder, journal, desk.codec, stores.world)
    follower = reading.follower
    return OpenedLog(log, LogKeeper(log, lambda: follower.leads, follower.catch_up), service)


def _log_store(stores: Stores) -> LogStore:
    if isinstance(stores.journal, SQLiteJournalStore):
        from abeyance.audit.sqlite_log import SQLiteLogStore

        return SQLiteLogStore(stores.journal)
    from abeyance.audit.postgres_log import PostgresLogStore
    from abeyance.journal.postgres.store import PostgresJournalStore

    assert isinstance(stores.journal, PostgresJournalStore)
    return PostgresLogStore(stores.journal)


@asynccontextmanager
async def keeping_log(
    stores: Stores, reading: Reading, mirror: Path | None = None
) -> AsyncIterator[OpenedLog]:
    """The log, signed at least every second until this is left, and once more then; with a copy in the folder
    `mirror`.

    Raises `ConfigurationError` for a store that is behind the checkpoint that was kept outside of it.
    """
    opened = open_log(stores, reading)
    copy = Mirror(opened.log, stores.journal, stores.desk.codec, MirrorFiles(mirror)) if mirror else None
    await _check_old_copy(opened.log, copy)
    async with _mirroring(copy, reading):
        task = asyncio.create_task(opened.keeper.run())
        try:
            yield opened
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await opened.keeper.finish()


async def _check_old_copy(log: Log, copy: Mirror | None) -> None:
    advice = "put the newest copy of the journal in its place"
    try:
        await log.check_kept_head()
        if copy is not None:
            advice += ", or name another folder for the mirror"
            await copy.check()
    except VerificationError as error:
        raise ConfigurationError(f"{error.reason}. Nothing is written to the store: {advice}") from error
    except OSError as error:
        _log.warning("the mirror (ABEYANCE_AUDIT_MIRROR) can't be read: %s", error.strerror)


@asynccontextmanager
async def _mirroring(copy: Mirror | None, reading: Reading) -> AsyncIterator[None]:
    if copy is None:
        yield
        return
    keeper = MirrorKeeper(copy, lambda: reading.follower.leads)
    task = asyncio.create_task(keeper.run())
    try:
        yield
    finally:
        keeper.end()
        await task
        await keeper.advance(most=AT_THE_END)
