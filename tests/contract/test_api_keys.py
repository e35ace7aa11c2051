"""API keys, as both stores keep them."""

from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

import pytest

from abeyance.engine.api_keys import ApiKeys, CreateApiKey
from abeyance.engine.callers import EVERYBODY, GRANTS, Caller
from abeyance.engine.workspace_log import WorkspaceLog
from abeyance.errors import (
    ApiKeyNotFoundError,
    BadInputError,
    InvalidCursorError,
    PermissionDeniedError,
    StoreUnavailableError,
    WorkspaceNotFoundError,
)
from abeyance.journal.api_keys import ApiKeyStore, StreamAppend
from abeyance.journal.batch import Desk
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import ApiKeyCreated, ApiKeyRevoked, WorkspaceCreated
from abeyance.journal.sqlite.api_keys import SQLiteApiKeys
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore
from abeyance.journal.vault import Vault
from abeyance.journal.workspace_streams import workspace_stream
from tests.support.engine import ORIGIN, SIGNER, TestWorld

pytestmark = pytest.mark.anyio

OPERATOR = replace(EVERYBODY, actor="deployment")
READ = CreateApiKey(name="the shop", grants=frozenset({"read"}))


def rows_of(store: JournalStore) -> ApiKeyStore:
    if isinstance(store, SQLiteJournalStore):
        return SQLiteApiKeys(store)
    from abeyance.journal.postgres.api_keys import PostgresApiKeys
    from abeyance.journal.postgres.store import PostgresJournalStore

    assert isinstance(store, PostgresJournalStore)
    return PostgresApiKeys(store)


@pytest.fixture
def world() -> TestWorld:
    return TestWorld()


def opened(store: JournalStore, world: TestWorld) -> ApiKeys:
    desk = Desk(EventCodec(ORIGIN), Vault(ORIGIN, world), SIGNER, world)
    return ApiKeys(rows_of(store), WorkspaceLog(store, desk), world)


@pytest.fixture
def keys(store: JournalStore, world: TestWorld) -> ApiKeys:
    return opened(store, world)


@pytest.fixture
def elsewhere(other_store: JournalStore, world: TestWorld) -> ApiKeys:
    """The same keys as another process sees them."""
    return opened(other_store, world)


async def events(store: JournalStore, workspace: str = "default") -> list[object]:
    rows, _ = await store.read_events(workspace_stream(workspace), after=0, limit=100, contents=False)
    public = {SIGNER.kid: SIGNER.public_key}
    return [EventCodec(ORIGIN).verify(row, public).event for row in rows]


async def add_workspace(store: JournalStore, world: TestWorld, workspace: str) -> None:
    row, _ = EventCodec(ORIGIN).seal(
        WorkspaceCreated(workspace=workspace), stream=workspace_stream(workspace), version=1, prev=None,
        at=world.now(), signer=SIGNER,
    )  # fmt: skip
    assert await store.append_stream(workspace_stream(workspace), 0, [row])


class TestApiKeys:
    async def test_a_key_opens_what_it_was_made_for_in_every_process(
        self, keys: ApiKeys, elsewhere: ApiKeys
    ) -> None:
        view, text = await keys.create(
            OPERATOR,
            CreateApiKey(
                name="the shop",
                grants=frozenset({"read", "execute"}),
                project="shop",
                executes=frozenset({"shop.ship-order"}),
            ),
        )

        caller = await elsewhere.find(text.encode())

        assert caller == Caller(
            view.id, "default", "shop", frozenset({"read", "execute"}), frozenset({"shop.ship-order"})
        )

    @pytest.mark.parametrize(
        "change", [str.lower, str.upper, lambda text: text[:-1], lambda text: text + "A"]
    )
    async def test_any_other_text_opens_nothing(self, keys: ApiKeys, change: object) -> None:
        _, text = await keys.create(OPERATOR, READ)

        assert callable(change)
        assert await keys.find(change(text).encode()) is None

    async def test_a_revoked_key_opens_nothing_in_any_process(
        self, keys: ApiKeys, elsewhere: ApiKeys
    ) -> None:
        view, text = await keys.create(OPERATOR, READ)
        before = await elsewhere.find(text.encode())

        await keys.revoke(OPERATOR, view.id)

        assert before is not None
        assert [None, None] == [await each.find(text.encode()) for each in (keys, elsewhere)]

    async def test_a_key_opens_nothing_from_its_expiry_on(self, keys: ApiKeys, world: TestWorld) -> None:
        _, text = await keys.create(OPERATOR, replace(READ, ttl=timedelta(hours=1)))
        world.advance(timedelta(minutes=59))
        before = await keys.find(text.encode())
        world.advance(timedelta(minutes=1))

        assert before is not None
        assert await keys.find(text.encode()) is None

    async def test_a_store_that_is_gone_says_nothing_of_a_key(
        self, store: JournalStore, keys: ApiKeys
    ) -> None:
        _, text = await keys.create(OPERATOR, READ)
        await store.close()

        with pytest.raises(StoreUnavailableError):
            await keys.find(text.encode())

    async def test_each_change_is_a_signed_event_with_its_actor(
        self, store: JournalStore, keys: ApiKeys
    ) -> None:
        view, _ = await keys.create(OPERATOR, READ)
        await keys.revoke(OPERATOR, view.id)

        assert [
            WorkspaceCreated(workspace="default"),
            ApiKeyCreated(actor="deployment", grants=["read"], key=view.id),
            ApiKeyRevoked(actor="deployment", key=view.id),
        ] == await events(store)

    async def test_no_event_holds_a_key_a_digest_of_one_or_its_name(
        self, store: JournalStore, keys: ApiKeys
    ) -> None:
        view, text = await keys.create(OPERATOR, READ)
        await keys.revoke(OPERATOR, view.id)

        rows, _ = await store.read_events(workspace_stream("default"), after=0, limit=9, contents=False)
        bodies = b"".join(EventCodec(ORIGIN).plain(row) for row in rows)
        digest = sha256(text.encode())
        for secret in (text.encode(), digest.hexdigest().encode(), digest.digest(), b"the shop"):
            assert secret not in bodies

    async def test_revoking_again_changes_nothing(self, store: JournalStore, keys: ApiKeys) -> None:
        view, _ = await keys.create(OPERATOR, READ)
        once = await keys.revoke(OPERATOR, view.id)

        assert once == await keys.revoke(OPERATOR, view.id)
        assert 3 == len(await events(store))

    async def test_a_row_goes_in_with_its_event_or_not_at_all(
        self, store: JournalStore, keys: ApiKeys
    ) -> None:
        view, _ = await keys.create(OPERATOR, READ)
        rows, stream = rows_of(store), workspace_stream("default")
        row = await rows.get("default", view.id)
        assert row is not None
        stale = StreamAppend(stream, 1, [])

        assert not await rows.create(row._replace(digest=b"d" * 32, id="key_other"), stale)
        assert not await rows.revoke(view.id, 5, stale)

        assert await rows.find(b"d" * 32) is None
        assert row == await rows.get("default", view.id)

    async def test_what_another_process_wrote_is_decided_after(
        self, store: JournalStore, keys: ApiKeys, elsewhere: ApiKeys
    ) -> None:
        """Both remember the newest event; whoever is behind reads on and signs after it."""
        made = [await each.create(OPERATOR, READ) for each in (keys, elsewhere, keys, elsewhere)]

        assert 1 + len(made) == len(await events(store))
        assert len(made) == len({view.id for view, _ in made})

    async def test_the_list_pages_from_the_oldest_on_and_shows_no_text(
        self, keys: ApiKeys, world: TestWorld
    ) -> None:
        made = []
        for _ in range(5):
            made.append((await keys.create(OPERATOR, READ))[0])
            world.advance(timedelta(milliseconds=2))

        first = await keys.page(OPERATOR, limit=3)
        rest = await keys.page(OPERATOR, limit=3, cursor=first.next_cursor)

        assert made == [*first.data, *rest.data]
        assert rest.next_cursor is None

    async def test_a_cursor_of_another_list_is_refused(self, keys: ApiKeys) -> None:
        with pytest.raises(InvalidCursorError):
            await keys.page(OPERATOR, cursor="key_nonsense")

    async def test_a_key_of_another_workspace_or_project_is_not_there(
        self, store: JournalStore, keys: ApiKeys, world: TestWorld
    ) -> None:
        await add_workspace(store, world, "acme")
        theirs, _ = await keys.create(replace(OPERATOR, workspace="acme"), READ)
        billing, _ = await keys.create(OPERATOR, replace(READ, project="billing"))
        shop = Caller("key_1", "default", "shop")

        for caller, key in ((OPERATOR, theirs), (shop, theirs), (shop, billing)):
            with pytest.raises(ApiKeyNotFoundError):
                await keys.revoke(caller, key.id)
        assert (billing,) == (await keys.page(OPERATOR)).data
        assert () == (await keys.page(shop)).data

    @pytest.mark.parametrize(
        "key_id", ["", "key_", "key_\x00", "key_" + "0" * 16, "abk_" + "x" * 43, "\ud800"]
    )
    async def test_an_id_of_no_key_is_not_found(self, keys: ApiKeys, key_id: str) -> None:
        with pytest.raises(ApiKeyNotFoundError):
            await keys.revoke(OPERATOR, key_id)

    async def test_a_workspace_that_is_not_there_gets_no_key(self, keys: ApiKeys) -> None:
        with pytest.raises(WorkspaceNotFoundError):
            await keys.create(replace(OPERATOR, workspace="typo"), READ)
        assert not await keys.has_workspace("typo")


class TestRightsOfANewKey:
    @pytest.mark.parametrize("grant", [each for each in GRANTS if each not in ("admin", "read")])
    async def test_it_has_no_grant_that_its_maker_has_not(self, keys: ApiKeys, grant: str) -> None:
        maker = Caller("key_1", grants=frozenset({"admin", "read"}))

        with pytest.raises(PermissionDeniedError) as refused:
            await keys.create(maker, replace(READ, grants=frozenset({"read", grant})))
        assert grant == refused.value.grant

    async def test_it_is_for_the_project_that_its_maker_is_bound_to(self, keys: ApiKeys) -> None:
        maker = Caller("key_1", "default", "shop")
        view, _ = await keys.create(maker, READ)

        with pytest.raises(PermissionDeniedError):
            await keys.create(maker, replace(READ, project="billing"))
        assert "shop" == view.project

    async def test_it_executes_no_definition_that_its_maker_does_not(self, keys: ApiKeys) -> None:
        maker = Caller("key_1", executes=frozenset({"a", "b"}))
        execute = replace(READ, grants=frozenset({"execute"}))
        view, _ = await keys.create(maker, execute)

        with pytest.raises(PermissionDeniedError):
            await keys.create(maker, replace(execute, executes=frozenset({"a", "c"})))
        assert ("a", "b") == view.executes

    async def test_it_does_not_outlive_its_maker(self, keys: ApiKeys, world: TestWorld) -> None:
        maker = Caller("key_1", expires=world.now() + timedelta(days=1))
        view, _ = await keys.create(maker, READ)

        with pytest.raises(PermissionDeniedError):
            await keys.create(maker, replace(READ, ttl=timedelta(days=2)))
        assert maker.expires == view.expires_at

    @pytest.mark.parametrize(
        "command",
        [
            replace(READ, grants=frozenset()),
            replace(READ, executes=frozenset({"a"})),
            replace(READ, ttl=timedelta(0)),
            replace(READ, ttl=timedelta(days=3651)),
            CreateApiKey(
                name="x", grants=frozenset({"execute"}), executes=frozenset(f"flow-{n}" for n in range(51))
            ),
        ],
    )
    async def test_what_makes_no_sense_is_refused(self, keys: ApiKeys, command: CreateApiKey) -> None:
        with pytest.raises(BadInputError):
            await keys.create(OPERATOR, command)
