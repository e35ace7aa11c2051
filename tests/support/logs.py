"""A journal with real signed events of some runs, and the log over it, on any store."""

from dataclasses import dataclass
from uuid import UUID

from abeyance.audit.log import Log, LogStore
from abeyance.crypto.signing import FileSigner, encode_public_key
from abeyance.journal import events as e
from abeyance.journal.envelope import EventCodec
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import EventRow, JournalStore, KeyStore
from tests.unit.projections.histories import ORIGIN, ROOT, SIGNER, START, Author, begin

LOG_SIGNER = FileSigner.from_seed(b"\x03" * 32)
CODEC = EventCodec(ORIGIN)


def opening_rows() -> list[EventRow]:
    """The deployment's stream: the log is opened, the keys of events and log are certified."""
    rows, prev = list[EventRow](), None
    events: list[e.Event] = [e.LogOpened(origin=ORIGIN, root=encode_public_key(ROOT.public_key))]
    for signer, use in ((SIGNER, "events"), (LOG_SIGNER, "log")):
        certified = {"key": encode_public_key(signer.public_key), "kid": signer.kid.hex(), "use": use}
        events.append(e.KeyAdded.model_validate(certified))
    for event in events:
        row, recorded = CODEC.seal(
            event, stream=e.DEPLOYMENT_STREAM, version=len(rows) + 1, prev=prev, at=START, signer=ROOT
        )
        rows.append(row)
        prev = recorded.digest
    return rows


def answered_run(number: int) -> Author:
    """A run that calls, waits, takes an answer and completes: six events."""
    author = begin(UUID(int=number))
    return author.play("call", "pause 1", "suspend").play("answer 1").play("completed")


@dataclass
class OpenLog:
    """A log over a journal that is written to by hand."""

    journal: JournalStore
    keys: KeyStore
    store: LogStore

    @property
    def log(self) -> Log:
        """The log as a process that has just started sees it."""
        return Log(self.journal, self.store, self.keys, CODEC, LOG_SIGNER)

    async def open(self) -> None:
        """Write the deployment's stream."""
        assert await self.journal.append_stream(e.DEPLOYMENT_STREAM, 0, opening_rows())

    async def write(self, *authors: Author) -> None:
        """Write runs, seal everything, and let the log take it in."""
        for author in authors:
            for append in author.appends:
                assert [True] == await self.journal.append([append])
        await self.seal()
        while await self.log.step():
            pass

    async def seal(self) -> None:
        """Give every event its index."""
        size = -1
        while size != (size := await self.journal.seal(1_000)):
            pass


def open_log(journal: JournalStore, keys: KeyStore) -> OpenLog:
    """The log of this journal's database."""
    if isinstance(journal, SQLiteJournalStore):
        from abeyance.audit.sqlite_log import SQLiteLogStore

        return OpenLog(journal, keys, SQLiteLogStore(journal))
    from abeyance.audit.postgres_log import PostgresLogStore

    assert isinstance(journal, PostgresJournalStore)
    return OpenLog(journal, keys, PostgresLogStore(journal))
