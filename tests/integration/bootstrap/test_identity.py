"""Who a deployment is: opened once, never replaced, the same for every process."""

import asyncio
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from abeyance.bootstrap.identity import read_stream
from abeyance.bootstrap.keys import make_keys
from abeyance.bootstrap.stores import Stores, open_stores
from abeyance.errors import ConfigurationError
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.settings import Settings

pytestmark = pytest.mark.anyio
ORIGIN = "shop.example.com/runs"


class Place:
    """Settings of one deployment, on each store."""

    def __init__(self, folder: Path, database: Mapping[str, str]) -> None:
        self.folder = folder
        self.database = dict(database)

    def settings(self, keys: str = "keys", **more: str) -> Settings:
        env = {"ABEYANCE_DATA_DIR": str(self.folder / "data"), "ABEYANCE_KEY_DIR": str(self.folder / keys)}
        return Settings.load(env | self.database | {"ABEYANCE_ORIGIN": ORIGIN} | more)

    def make_keys(self, name: str = "keys") -> None:
        make_keys(self.folder / name)


@pytest.fixture
def place(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """An empty place for a deployment."""
    if store_kind == "sqlite":
        return Place(tmp_path, {})
    return Place(tmp_path, {"ABEYANCE_DATABASE_URL": request.getfixturevalue("postgres_url")})


async def topics(stores: Stores) -> list[str]:
    return [row.topic for row in await read_stream(stores.journal, DEPLOYMENT_STREAM)]


class TestOpening:
    async def test_the_log_is_opened_once_and_found_again(self, place: Place) -> None:
        """`log-opened` and `key-added` are the first events, and a second start adds none."""
        place.make_keys()
        for _ in range(2):
            async with open_stores(place.settings()) as stores:
                assert ["log-opened", "key-added", "key-added"] == await topics(stores)
                assert ORIGIN == stores.identity.origin
                assert stores.signers.event.kid in stores.identity.public_keys

    async def test_another_origin_is_refused(self, place: Place) -> None:
        """An origin never changes: it stands in every signed body."""
        place.make_keys()
        async with open_stores(place.settings()):
            pass

        with pytest.raises(ConfigurationError, match="ABEYANCE_ORIGIN"):
            async with open_stores(place.settings(ABEYANCE_ORIGIN="other.example.com")):
                pass

    async def test_other_keys_are_refused_on_a_store_that_has_a_log(self, place: Place) -> None:
        """A lost key volume never becomes a second identity on an old log."""
        place.make_keys()
        place.make_keys("others")
        async with open_stores(place.settings()):
            pass

        with pytest.raises(ConfigurationError):
            async with open_stores(place.settings("others")):
                pass

    async def test_a_new_store_needs_an_origin(self, place: Place) -> None:
        """`serve` doesn't invent the name of a log."""
        place.make_keys()

        with pytest.raises(ConfigurationError, match="ABEYANCE_ORIGIN"):
            async with open_stores(place.settings(ABEYANCE_ORIGIN="")):
                pass

    async def test_serving_never_makes_keys(self, place: Place) -> None:
        """Keys are given to `serve`; a folder without them stops the start."""
        with pytest.raises(ConfigurationError):
            async with open_stores(place.settings()):
                pass


class TestDev:
    async def test_keys_and_origin_are_made_at_the_first_start_and_kept(self, tmp_path: Path) -> None:
        """On first use, in private files; the next start has the same identity."""
        settings = Settings.load({"ABEYANCE_DATA_DIR": str(tmp_path)})
        async with open_stores(settings, dev=True) as stores:
            first = stores.identity
        async with open_stores(settings, dev=True) as stores:
            assert first == stores.identity
        assert first.origin.startswith("localhost/")
        for file in (tmp_path / "keys").iterdir():
            assert 0o600 == stat.S_IMODE(os.stat(file).st_mode)

    async def test_lost_keys_are_not_made_anew_for_a_store_that_has_a_log(self, tmp_path: Path) -> None:
        """The start stops instead, and no file is written."""
        settings = Settings.load({"ABEYANCE_DATA_DIR": str(tmp_path)})
        async with open_stores(settings, dev=True):
            pass
        for file in (tmp_path / "keys").iterdir():
            file.unlink()

        with pytest.raises(ConfigurationError):
            async with open_stores(settings, dev=True):
                pass
        assert [] == list((tmp_path / "keys").iterdir())


class TestTwoFirstProcesses:
    async def test_one_opens_the_log_and_the_other_reads_it(self, postgres_url: str, tmp_path: Path) -> None:
        """Two processes that start together on an empty database have one identity."""
        place = Place(tmp_path, {"ABEYANCE_DATABASE_URL": postgres_url})
        place.make_keys()
        both = asyncio.Barrier(2)

        async def start() -> tuple[str, list[str]]:
            await both.wait()
            async with open_stores(place.settings()) as stores:
                return stores.identity.origin, await topics(stores)

        first, second = await asyncio.gather(start(), start())

        assert first == second
        assert (ORIGIN, ["log-opened", "key-added", "key-added"]) == first


class TestMakeKeys:
    def test_no_key_file_is_replaced(self, tmp_path: Path) -> None:
        """Made once; a second time is refused and changes nothing."""
        make_keys(tmp_path / "keys")
        before = {file.name: file.read_bytes() for file in (tmp_path / "keys").iterdir()}

        with pytest.raises(ConfigurationError):
            make_keys(tmp_path / "keys")

        assert before == {file.name: file.read_bytes() for file in (tmp_path / "keys").iterdir()}
        assert {"root.pem", "root.pub", "event.pem", "log.pem", "master.key"} == set(before)
