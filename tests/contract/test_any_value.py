"""Whatever goes into a store comes out the same: bytes, texts, numbers."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abeyance.journal.store import ContentRow, EventRow, JournalStore
from tests.contract.rows import link, new_id, start, wait

pytestmark = pytest.mark.anyio

# One database for all examples: each makes a run of its own.
with_one_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

MOST = (1 << 63) - 1
micros = st.one_of(st.integers(0, MOST), st.sampled_from([0, (1 << 31), (1 << 53) + 1, MOST]))
blobs = st.one_of(st.binary(max_size=2_000), st.sampled_from([b"", b"\x00", b"\x00\xff" * 5_000, b"00123"]))
looks_like_another_type = st.sampled_from(
    ["00123", "1e5", "0x10", "9223372036854775808", "NULL", "x'00'", "1.0"]
)
texts = st.one_of(
    looks_like_another_type,
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=200),
)


class TestValues:
    @pytest.mark.case("K08")
    @with_one_store
    @given(state=blobs, blob=blobs, due=st.none() | micros, time=micros, key_id=micros, until=micros)
    async def test_bytes_and_numbers_come_back(
        self,
        store: JournalStore,
        state: bytes,
        blob: bytes,
        due: int | None,
        time: int,
        key_id: int,
        until: int,
    ) -> None:
        first = start(
            due=due, created=time, updated=time, key_id=key_id, lease_id=new_id(), lease_until=until
        )
        run = first.run_id
        opened = wait(run, 1, due=due)
        token = link(run, 1)
        row = EventRow(run, 1, "started", state)
        written = replace(
            first, events=(row,), contents=(ContentRow(run, 1, blob),), waits=(opened,), links=(token,)
        )

        assert [True] == await store.append([written])

        found = await store.read_run(run)
        assert found is not None
        assert (first.control, [row], {1: blob}) == found
        assert blob == await store.find_content(run, 1)
        linked = await store.find_link(token.digest)
        assert linked is not None
        assert opened == linked.wait

    @pytest.mark.case("J06")
    @with_one_store
    @given(workspace=texts, project=texts, topic=texts)
    async def test_texts_come_back_as_texts(
        self, store: JournalStore, workspace: str, project: str, topic: str
    ) -> None:
        first = start(workspace=workspace, project=project)
        row = EventRow(first.run_id, 1, topic, b"")

        await store.append([replace(first, events=(row,))])

        found = await store.read_run(first.run_id)
        assert found is not None
        assert (first.control, [row], {}) == found

    async def test_a_mebibyte_of_content_comes_back(self, store: JournalStore) -> None:
        first = start()
        blob = bytes(range(256)) * 4_096

        await store.append([replace(first, contents=(ContentRow(first.run_id, 1, blob),))])

        assert blob == await store.find_content(first.run_id, 1)

    @pytest.mark.case("K08")
    async def test_places_beyond_32_bits_may_be_asked_for(self, store: JournalStore) -> None:
        stream = new_id()

        assert await store.read_run(stream, after=1 << 40, upto=1 << 62) is None
        assert await store.find_content(stream, 1 << 40) is None
        assert [] == await store.read_sealed(1 << 40, 10)
