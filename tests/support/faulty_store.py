"""A journal store that fails when a test says so: before it does what it was asked, or after.

`before` is a store that is busy, full, read-only or gone: nothing was done. `after` is the reply that is lost
after the commit: it was done, and nobody knows. Adapters turn what a database says into the same one error,
so what holds here holds for each of its causes.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from abeyance.errors import StoreUnavailableError
from abeyance.journal.store import JournalStore, KeyStore

Moment = Literal["before", "after"]

WRITES = frozenset(("append", "release", "claim", "renew"))
KEYS = frozenset(("take", "get"))
READS = frozenset(("read_run", "read_record", "read_events", "find_link", "find_wait"))
_FALLIBLE = WRITES | READS | KEYS | {"hint"}


@dataclass(slots=True)
class Fault:
    """The `nth` call (from 1) of one of `methods` fails, and `more` calls after it."""

    nth: int
    moment: Moment
    methods: Collection[str] = WRITES | READS
    more: int = 0
    seen: int = 0

    @property
    def happened(self) -> bool:
        """Whether the call that fails came."""
        return self.seen >= self.nth

    def strikes(self, method: str) -> bool:
        """Count a call; whether it fails."""
        if method not in self.methods:
            return False
        self.seen += 1
        return self.nth <= self.seen <= self.nth + self.more


class FaultyStore:
    """Hands everything on to `store`, of events or keys, but for what `fault` says. `calls` lists all calls.

    `gone`: every call fails. `loses`: every append loses.
    """

    def __init__(self, store: JournalStore | KeyStore) -> None:
        self._store = store
        self.fault: Fault | None = None
        self.gone = False
        self.loses = False
        self.calls: list[str] = []
        self.testing_only_before: Callable[[str], Awaitable[None]] | None = None
        """Called with the method's name; `testing_only_after` with ` got` behind it if there was a result."""
        self.testing_only_after: Callable[[str], Awaitable[None]] | None = None

    @property
    def wrapped(self) -> JournalStore | KeyStore:
        """The store that everything is handed on to."""
        return self._store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in _FALLIBLE:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._call(name, found, args, kwargs)

        return call

    async def _call(self, name: str, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.calls.append(name)
        if self.testing_only_before is not None:
            await self.testing_only_before(name)
        strikes = self.fault is not None and self.fault.strikes(name)
        moment = "before" if self.gone or self.fault is None else self.fault.moment
        if (self.gone or strikes) and moment == "before":
            raise StoreUnavailableError("a test says that the store can't be used")
        if self.loses and name == "append":
            return [False for _ in args[0]]
        done = await method(*args, **kwargs)
        if strikes:
            raise StoreUnavailableError("a test says that the reply is lost")
        if self.testing_only_after is not None:
            await self.testing_only_after(f"{name} got" if done else name)
        return done
