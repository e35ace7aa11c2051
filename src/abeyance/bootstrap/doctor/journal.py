"""The journal: can it be read, is it of this release, who holds it, and do its times make sense."""

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from abeyance.bootstrap.doctor.probes import ServerState, server_state
from abeyance.bootstrap.doctor.report import Line, note, ok, unseen, wrong
from abeyance.bootstrap.doctor.subject import Subject
from abeyance.bootstrap.identity import NO_ORIGIN
from abeyance.bootstrap.tables import TableSet
from abeyance.world import SystemWorld

_MOST_OFF_S = 2.0


def check_store(subject: Subject) -> Iterator[Line]:
    """Where it is, what it is, and whether its tables are this release's."""
    file = subject.settings.journal_file
    if file is not None:
        yield _file(file)
    else:
        yield from _server(server_state(subject.settings.database_url or ""))
    if file is None or file.exists():
        yield from _tables(subject.tables)
    yield _name(subject)


def _file(file: Path) -> Line:
    if not file.exists():
        return note("store", f"there is no journal at {file} yet: the first start makes it")
    holder = _holder(file.with_suffix(".lock"))
    served = f"process {holder} has it open" if holder else "no process has it open"
    return ok("store", f"SQLite at {file}; {served}")


def _holder(lock: Path) -> int | None:
    """Who wrote the lock file, if that process lives. The lock itself isn't tried: a start would meet it."""
    with contextlib.suppress(OSError, ValueError):
        holder = int(lock.read_text("ascii").strip() or 0)
        if holder > 0:
            os.kill(holder, 0)
            return holder
    return None


def _server(state: ServerState) -> Iterator[Line]:
    from abeyance.journal.postgres.connecting import OLDEST_SERVER

    if state.version < OLDEST_SERVER:
        yield wrong("store", f"PostgreSQL {state.name}", "PostgreSQL 14 or later is needed")
    else:
        yield ok("store", f"PostgreSQL {state.name}, reachable")
    if not state.durable:
        yield wrong(
            "store",
            "fsync or synchronous_commit is off there: an answer could be acknowledged and lost",
            "switch both on",
        )
    if state.standby:
        yield wrong("store", "this server is a standby, which takes no writes", "name the primary")
    if state.connections < 3 * state.spare:
        yield note(
            "store",
            f"{state.spare} of {state.connections} connections are free; a process takes up to 15",
            "raise max_connections, or run fewer processes",
        )


def _tables(tables: dict[str, TableSet]) -> Iterator[Line]:
    for each in tables.values():
        if each.refusal:
            yield wrong("tables", each.refusal)
        elif each.found < each.known:
            found = f"version {each.found}" if each.found else "not there"
            yield note(
                "tables",
                f"{each.name}: {found}, this release has {each.known}",
                "the next start brings it on; or `abeyance db migrate`",
            )
        else:
            yield ok("tables", f"{each.name}: version {each.found}")


def _name(subject: Subject) -> Line:
    if subject.identity is None:
        if subject.role != "dev" and subject.settings.origin is None:
            return wrong("log", NO_ORIGIN)
        return note("log", "the store is new: the first start opens its log")
    stored, given = subject.identity.origin, subject.settings.origin
    if given not in (None, stored):
        return wrong("log", f"ABEYANCE_ORIGIN: this store's log is {stored!r}; an origin never changes")
    return ok("log", f"its name is {stored}")


def check_clock(subject: Subject) -> Iterator[Line]:
    """This machine's clock beside the store's."""
    here = SystemWorld().now()
    if subject.settings.database_url and subject.settings.on_postgres:
        off = (here - server_state(subject.settings.database_url).now).total_seconds()
        says = f"{abs(off):.1f} s {'ahead of' if off > 0 else 'behind'} the database's"
        if abs(off) > _MOST_OFF_S:
            yield note("clock", f"{says}, by which all deadlines go", "let both machines keep time by NTP")
        else:
            yield ok("clock", f"{says}, by which all deadlines go")
    elif subject.newest is None:
        yield ok("clock", f"{here:%Y-%m-%dT%H:%M:%SZ}; nothing is stored that it could disagree with")
    else:
        started = datetime.fromtimestamp(subject.newest.created / 1_000_000, UTC)
        if (started - here).total_seconds() > _MOST_OFF_S:
            yield wrong(
                "clock",
                f"it says {here:%Y-%m-%dT%H:%M:%SZ}, before the newest run was started "
                f"({started:%Y-%m-%dT%H:%M:%SZ}): deadlines would come late",
                "set the clock, and let the machine keep time by NTP",
            )
        else:
            yield ok("clock", f"{here:%Y-%m-%dT%H:%M:%SZ}, after everything that is stored")
    yield unseen("clock", "no time server was asked")
