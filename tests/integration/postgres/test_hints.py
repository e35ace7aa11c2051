"""Hints between processes: ids only, over a connection that comes back by itself."""

import asyncio
from uuid import UUID

import psycopg
import pytest

from abeyance.journal.postgres.hints import ids_in, payloads
from tests.integration.postgres.conftest import OpenStore
from tests.integration.postgres.samples import new_run

pytestmark = pytest.mark.anyio


class TestHints:
    async def test_a_hint_reaches_other_processes(self, open_store: OpenStore, journal_url: str) -> None:
        here, there = await open_store(journal_url), await open_store(journal_url)
        stream = there.hints()
        await stream.listening.wait()
        runs = [new_run() for _ in range(3)]

        await here.hint(runs)

        async with asyncio.timeout(10):
            assert runs == [await anext(stream) for _ in runs]

    @pytest.mark.case("K02")
    async def test_a_connection_that_was_lost_is_made_again(
        self, open_store: OpenStore, journal_url: str, database: psycopg.Connection
    ) -> None:
        store = await open_store(journal_url)
        stream = store.hints()
        await stream.listening.wait()

        database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        async with asyncio.timeout(10):
            while stream.listening.is_set():
                await asyncio.sleep(0.001)
            await stream.listening.wait()
            run = new_run()
            await store.hint([run])
            assert run == await anext(stream)

    @pytest.mark.case("K03")
    async def test_any_number_of_ids_is_sent(self, open_store: OpenStore, journal_url: str) -> None:
        store = await open_store(journal_url)
        stream = store.hints()
        await stream.listening.wait()
        runs = [new_run() for _ in range(1_000)]

        await store.hint(runs)

        async with asyncio.timeout(10):
            assert runs == [await anext(stream) for _ in runs]

    async def test_what_somebody_else_notifies_is_passed_over(
        self, open_store: OpenStore, journal_url: str, database: psycopg.Connection
    ) -> None:
        store = await open_store(journal_url)
        stream = store.hints()
        await stream.listening.wait()
        run = new_run()

        database.execute("SELECT pg_notify('abeyance', 'hello'), pg_notify('abeyance', '')")
        await store.hint([run])

        async with asyncio.timeout(10):
            assert run == await anext(stream)

    async def test_closing_the_store_ends_its_streams(self, open_store: OpenStore, journal_url: str) -> None:
        store = await open_store(journal_url)
        stream = store.hints()

        await store.close()

        assert [] == [run async for run in stream]

    async def test_no_hints_are_no_statement(self, open_store: OpenStore, journal_url: str) -> None:
        await (await open_store(journal_url)).hint([])


class TestPayloads:
    @pytest.mark.case("K03")
    def test_each_is_shorter_than_the_server_takes(self) -> None:
        runs = [UUID(int=number) for number in range(700)]

        sent = payloads(runs)

        assert max(len(payload.encode()) for payload in sent) < 8_000
        assert runs == [run for payload in sent for run in ids_in(payload)]

    def test_a_run_is_named_once(self) -> None:
        assert [UUID(int=1).hex] == payloads([UUID(int=1)] * 5)
