"""The database fails in every way that it can; nobody is told anything wrong, and it goes on by itself."""

import asyncio
import os
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import psycopg
import pytest

from abeyance.errors import ConfigurationError, StoreUnavailableError
from abeyance.journal.postgres import PostgresJournalStore, open_postgres
from scripts.temporary_postgres import TemporaryPostgres
from tests.integration.postgres.conftest import OpenStore
from tests.integration.postgres.network import CuttableNetwork
from tests.integration.postgres.samples import WORLD, new_append, new_run

pytestmark = pytest.mark.anyio


@pytest.fixture
async def network(journal_url: str, anyio_backend: str) -> AsyncIterator[CuttableNetwork]:
    folder = parse_qs(urlsplit(journal_url).query)["host"][0]
    async with CuttableNetwork(Path(folder) / ".s.PGSQL.5432") as opened:
        yield opened


@pytest.fixture
async def far_store(
    network: CuttableNetwork, journal_url: str, open_store: OpenStore
) -> PostgresJournalStore:
    """The store through a network that can be cut."""
    return await open_store(network.url(urlsplit(journal_url).path[1:]))


async def versions(store: PostgresJournalStore, run_id: UUID) -> list[int]:
    found = await store.read_run(run_id)
    return [event.version for event in found.events] if found else []


async def wait_for_lock(database: psycopg.Connection) -> int:
    """The server process that waits for a lock of the journal, as soon as one does."""
    async with asyncio.timeout(10):
        while True:
            row = database.execute(
                "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 7305 AND NOT granted"
            ).fetchone()
            if row:
                return int(row[0])
            await asyncio.sleep(0.005)


class TestLostConnections:
    async def test_an_append_whose_reply_was_lost_has_landed(
        self, network: CuttableNetwork, far_store: PostgresJournalStore
    ) -> None:
        append = new_append(new_run(), count=2)

        network.cut_next_reply(b"journal_append")

        assert [True] == await far_store.append([append])
        assert [1, 2] == await versions(far_store, append.run_id)

    async def test_in_a_batch_whose_reply_was_lost_each_gets_its_own_verdict(
        self, network: CuttableNetwork, far_store: PostgresJournalStore
    ) -> None:
        old, new = new_append(new_run()), new_append(new_run())
        await far_store.append([old])
        again = new_append(old.run_id)

        network.cut_next_reply(b"journal_append")

        assert [False, True] == await far_store.append([again, new])

    async def test_an_append_that_never_arrived_is_refused_and_may_come_again(
        self, network: CuttableNetwork, far_store: PostgresJournalStore
    ) -> None:
        append = new_append(new_run())

        network.cut_next_request(b"journal_append")
        with pytest.raises(StoreUnavailableError):
            await far_store.append([append])

        assert [] == await versions(far_store, append.run_id)
        assert [True] == await far_store.append([append])

    async def test_a_streams_append_whose_reply_was_lost_has_landed(
        self, network: CuttableNetwork, far_store: PostgresJournalStore
    ) -> None:
        append = new_append(new_run(), count=2)

        network.cut_next_reply(b"journal_append_stream")

        assert await far_store.append_stream(append.run_id, 0, append.events)

    async def test_a_lost_read_is_refused_and_the_next_one_works(
        self, network: CuttableNetwork, far_store: PostgresJournalStore
    ) -> None:
        network.cut_next_reply(b"journal_read_run")
        with pytest.raises(StoreUnavailableError) as caught:
            await far_store.read_run(new_run())

        assert isinstance(caught.value.__cause__, psycopg.OperationalError)
        assert await far_store.read_run(new_run()) is None

    async def test_a_server_process_killed_in_the_middle_of_an_append_wrote_nothing(
        self, store: PostgresJournalStore, database: psycopg.Connection, journal_url: str
    ) -> None:
        append = new_append(new_run())
        with psycopg.connect(journal_url) as holder:
            holder.execute("SELECT journal_lock(%s)", (append.run_id,))
            waiting = asyncio.create_task(store.append([append]))
            database.execute("SELECT pg_terminate_backend(%s)", (await wait_for_lock(database),))
            # It is looked for as soon as nobody can be writing it any more.
            await wait_for_lock(database)
            holder.rollback()
            with pytest.raises(StoreUnavailableError):
                await waiting

        assert [] == await versions(store, append.run_id)
        assert [True] == await store.append([append])

    async def test_a_connection_that_ended_while_idle_fails_no_request(
        self, store: PostgresJournalStore, database: psycopg.Connection
    ) -> None:
        await store.read_run(new_run())
        assert 1 == store.idle_connections

        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'abeyance'"
        )
        async with asyncio.timeout(10):
            while store.idle_connections:
                await asyncio.sleep(0.001)

        assert [True] == await store.append([new_append(new_run())])

    async def test_an_append_whose_task_is_cancelled_isnt_cut_in_two(
        self, store: PostgresJournalStore, database: psycopg.Connection, journal_url: str
    ) -> None:
        append = new_append(new_run())
        with psycopg.connect(journal_url) as holder:
            holder.execute("SELECT journal_lock(%s)", (append.run_id,))
            waiting = asyncio.create_task(store.append([append]))
            await wait_for_lock(database)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert 0 == store.idle_connections
        async with asyncio.timeout(10):
            while not store.idle_connections:
                await asyncio.sleep(0.001)

        assert [1] == await versions(store, append.run_id)


class TestBusyServer:
    async def test_a_lock_that_is_held_too_long_refuses_and_writes_nothing(
        self, open_store: OpenStore, journal_url: str
    ) -> None:
        store = await open_store(journal_url, statement_timeout_s=1)
        append = new_append(new_run())
        with psycopg.connect(journal_url) as holder:
            holder.execute("SELECT journal_lock(%s)", (append.run_id,))
            with pytest.raises(StoreUnavailableError) as caught:
                await store.append([append])

        assert isinstance(caught.value.__cause__, psycopg.errors.QueryCanceled)
        assert [] == await versions(store, append.run_id)

    async def test_a_run_that_is_locked_holds_up_no_other(
        self, store: PostgresJournalStore, journal_url: str
    ) -> None:
        locked = new_run()
        with psycopg.connect(journal_url) as holder:
            holder.execute("SELECT journal_lock(%s)", (locked,))

            assert [True] == await store.append([new_append(new_run())])

    async def test_requests_beyond_the_connections_wait_their_turn(
        self, open_store: OpenStore, journal_url: str
    ) -> None:
        store = await open_store(journal_url, connections=2)

        verdicts = await asyncio.gather(*(store.append([new_append(new_run())]) for _ in range(50)))

        assert [[True]] * 50 == verdicts
        assert store.idle_connections <= 2

    async def test_no_connection_is_opened_that_isnt_needed(self, store: PostgresJournalStore) -> None:
        for _ in range(5):
            await store.append([new_append(new_run())])

        assert 1 == store.idle_connections

    async def test_too_many_connections_are_refused_as_a_store_that_is_busy(
        self, own_server: TemporaryPostgres, open_store: OpenStore
    ) -> None:
        with psycopg.connect(own_server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE guest LOGIN CONNECTION LIMIT 1")
            admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO guest")
        url = own_server.url.replace("postgres@", "guest@")
        store = await open_store(url)

        with pytest.raises(StoreUnavailableError):
            await open_postgres(url, WORLD)

        assert await store.read_run(new_run()) is None

    async def test_a_closed_store_refuses(self, store: PostgresJournalStore) -> None:
        await store.close()

        with pytest.raises(StoreUnavailableError):
            await store.append([new_append(new_run())])


class TestServerThatGoes:
    @pytest.mark.case("K05")
    async def test_a_server_that_turns_read_only_refuses_until_it_takes_writes_again(
        self, own_server: TemporaryPostgres, open_store: OpenStore
    ) -> None:
        store = await open_store(own_server.url)
        append = new_append(new_run())
        with psycopg.connect(own_server.url, autocommit=True) as admin:
            admin.execute("SET default_transaction_read_only = off")
            await set_read_only(admin, "on", store)

            with pytest.raises(StoreUnavailableError):
                await store.append([append])
            with pytest.raises(StoreUnavailableError):
                await store.check_writable()
            assert 0 == store.idle_connections

            await set_read_only(admin, "off", None)

        assert [True] == await store.append([append])
        await store.check_writable()

    async def test_a_crash_loses_nothing_that_was_acknowledged(
        self, own_server: TemporaryPostgres, open_store: OpenStore
    ) -> None:
        store = await open_store(own_server.url)
        runs = [new_run() for _ in range(40)]
        acknowledged = [run for run in runs if await store.append([new_append(run)]) == [True]]

        own_server.crash()
        with pytest.raises(StoreUnavailableError):
            await store.append([new_append(new_run())])
        own_server.start()

        assert runs == acknowledged
        assert [[1]] * 40 == [await versions(store, run) for run in runs]

    async def test_a_server_that_loses_what_it_acknowledged_is_refused(
        self, own_server: TemporaryPostgres
    ) -> None:
        with psycopg.connect(own_server.url, autocommit=True) as admin:
            admin.execute("ALTER DATABASE postgres SET synchronous_commit = off")

        with pytest.raises(ConfigurationError, match="synchronous_commit"):
            await open_postgres(own_server.url, WORLD)

    async def test_a_server_that_isnt_there_is_unavailable(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailableError):
            await open_postgres(f"postgresql:///x?host={tmp_path}", WORLD)

    async def test_a_url_that_cant_be_read_is_named(self) -> None:
        with pytest.raises(ConfigurationError, match="URL"):
            await open_postgres("postgresql://x?no_such_setting=1", WORLD)


async def set_read_only(admin: psycopg.Connection, value: str, store: PostgresJournalStore | None) -> None:
    """Change the server's setting; returns when sessions obey."""
    admin.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}".encode())
    admin.execute("SELECT pg_reload_conf()")
    async with asyncio.timeout(10):
        while True:
            with psycopg.connect(admin.info.dsn) as probe:
                if probe.execute("SHOW default_transaction_read_only").fetchone() == (value,):
                    break
        while store is not None and not await refuses(store):
            await asyncio.sleep(0.005)


async def refuses(store: PostgresJournalStore) -> bool:
    try:
        await store.check_writable()
    except StoreUnavailableError:
        return True
    return False


class TestFork:
    async def test_a_child_leaves_its_parents_connections_alone(self, store: PostgresJournalStore) -> None:
        before, inside, after = (new_append(new_run()) for _ in range(3))
        await store.append([before])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: of forking with threads
            child = os.fork()
        if not child:
            won = asyncio.run(store.append([inside]))
            os._exit(0 if won == [True] else 1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)

        assert 0 == os.waitstatus_to_exitcode(status)
        assert [True] == await store.append([after])
        assert [[1]] * 3 == [await versions(store, each.run_id) for each in (before, inside, after)]
