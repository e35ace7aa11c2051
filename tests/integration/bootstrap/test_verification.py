"""Verification and checks straight from the store, beside the process that has it open."""

import sqlite3
from pathlib import Path

import pytest

from abeyance.bootstrap.keys import make_keys
from abeyance.bootstrap.reading import open_reading
from abeyance.bootstrap.stores import open_moment, open_stores
from abeyance.bootstrap.upkeep import _check
from abeyance.bootstrap.verification import _verify_store
from abeyance.errors import ConfigurationError
from abeyance.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """Settings of a new deployment on each store."""
    make_keys(tmp_path / "keys")
    env = {
        "ABEYANCE_DATA_DIR": str(tmp_path / "data"),
        "ABEYANCE_KEY_DIR": str(tmp_path / "keys"),
        "ABEYANCE_ORIGIN": "shop.example.com/runs",
    }
    if store_kind == "postgres":
        env["ABEYANCE_DATABASE_URL"] = request.getfixturevalue("postgres_url")
    return Settings.load(env)


class TestBesideAServer:
    async def test_a_store_is_verified_and_checked_while_it_is_open(self, settings: Settings) -> None:
        """Neither needs the store for itself, nor writes to it."""
        async with open_stores(settings) as stores:
            await (await open_reading(stores)).follower.catch_up()

            verified, checked = await _verify_store(settings), await _check(settings)

        assert ("verified", 3) == (verified["verdict"], verified["events"])
        assert [] == checked["drift"]

    async def test_without_the_root_key_a_sound_store_is_unanchored(self, settings: Settings) -> None:
        """A store proves nothing about whose it is; the root key has to come from elsewhere."""
        async with open_stores(settings):
            pass

        report = await _verify_store(settings.model_copy(update={"key_dir": None}))

        assert "unanchored" == report["verdict"]


class TestOnSqlite:
    async def test_an_edited_topic_is_tampering(self, tmp_path: Path) -> None:
        """A column outside the signature can't be changed unnoticed."""
        settings = Settings.load({"ABEYANCE_DATA_DIR": str(tmp_path)})
        async with open_stores(settings, dev=True) as stores:
            await stores.journal.seal(100)
        with sqlite3.connect(tmp_path / "journal.db") as store:
            store.execute("UPDATE journal_events SET topic = 'key-retired' WHERE topic = 'key-added'")
        store.close()

        report = await _verify_store(settings)

        assert "tampered" == report["verdict"]
        assert {2, 3} == {finding["event"] for finding in report["findings"]}

    async def test_no_journal_is_made_by_looking_for_one(self, tmp_path: Path) -> None:
        """A wrong path is said to be one, and stays empty."""
        settings = Settings.load({"ABEYANCE_DATA_DIR": str(tmp_path)})

        with pytest.raises(ConfigurationError):
            async with open_moment(settings):
                pass

        assert [] == list(tmp_path.iterdir())
