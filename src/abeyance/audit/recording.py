"""Records of the audit itself, in the deployment's stream: who exported what."""

from abeyance.crypto.signing import Signer
from abeyance.errors import StoreUnavailableError
from abeyance.journal.envelope import EventCodec, Recorded
from abeyance.journal.events import DEPLOYMENT_STREAM, Event
from abeyance.journal.store import JournalStore
from abeyance.world import World

_TRIES = 20
_PAGE = 500


class DeploymentRecorder:
    """Appends to the deployment's stream. It remembers the newest event, to read only what is new."""

    def __init__(self, journal: JournalStore, codec: EventCodec, signer: Signer, world: World) -> None:
        self._journal = journal
        self._codec = codec
        self._signer = signer
        self._world = world
        self._newest: Recorded | None = None

    async def record(self, event: Event) -> Recorded:
        """Append an event; returns once it is on disk. Raises `StoreUnavailableError`."""
        for _ in range(_TRIES):
            newest = await self._read_newest()
            row, recorded = self._codec.seal(
                event,
                stream=DEPLOYMENT_STREAM,
                version=newest.version + 1,
                prev=newest.digest,
                at=max(self._world.now(), newest.at),
                signer=self._signer,
            )
            if await self._journal.append_stream(DEPLOYMENT_STREAM, newest.version, [row]):
                self._newest = recorded
                return recorded
        raise StoreUnavailableError("the deployment's stream is written to by many at once")

    async def _read_newest(self) -> Recorded:
        while True:
            after = 0 if self._newest is None else self._newest.version
            rows, _ = await self._journal.read_events(
                DEPLOYMENT_STREAM, after=after, limit=_PAGE, contents=False
            )
            if rows:
                self._newest = self._codec.open(rows[-1])
            if len(rows) < _PAGE:
                if self._newest is None:
                    raise StoreUnavailableError("the store has no log")
                return self._newest
