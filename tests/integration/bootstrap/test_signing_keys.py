"""Rotating, retiring and revoking the deployment's signing keys, as an operator does it, on each store."""

import asyncio
import json
import sqlite3
import sys
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from typer.testing import CliRunner

from abeyance.audit.export import Exporter, Filter
from abeyance.bootstrap import verify_store
from abeyance.bootstrap.identity import key_added, read_stream, seal_next
from abeyance.bootstrap.keys import make_keys
from abeyance.bootstrap.logkeeping import open_log
from abeyance.bootstrap.reading import open_reading
from abeyance.bootstrap.signing_keys import SigningKeys, watch_keys
from abeyance.bootstrap.stores import Stores, open_stores
from abeyance.cli.app import app
from abeyance.crypto.signing import FileSigner, public_pem
from abeyance.errors import BadInputError, ConfigurationError, SigningKeyRetiredError
from abeyance.journal.events import DEPLOYMENT_STREAM, WorkspaceCreated
from abeyance.journal.workspace_streams import workspace_stream
from abeyance.settings import Settings
from abeyance.verifier.command import verify
from abeyance.verifier.verification import Wanted

PROGRAM = Path(__file__).parents[2] / "support" / "signing_program.py"
SINCE = datetime(2026, 11, 30, 8, tzinfo=UTC)


def keys_of(settings: Settings) -> SigningKeys:
    """Nobody else runs, so nobody needs to learn of a key."""
    return SigningKeys(settings, learn_s=0.0)


@pytest.fixture
def settings(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """A deployment whose log is open."""
    env = {
        "ABEYANCE_DATA_DIR": str(tmp_path / "data"),
        "ABEYANCE_KEY_DIR": str(tmp_path / "keys"),
        "ABEYANCE_ORIGIN": "shop.example.com/runs",
    }
    if store_kind == "postgres":
        env["ABEYANCE_DATABASE_URL"] = request.getfixturevalue("postgres_url")
    make_keys(tmp_path / "keys")
    made = Settings.load(env)
    asyncio.run(write(made, "first"))
    return made


async def append(stores: Stores, workspace: str) -> None:
    """An event of a workspace's stream, as a process with these keys signs it."""
    stream, desk = workspace_stream(workspace), stores.desk
    row, _ = desk.codec.seal(
        WorkspaceCreated(workspace=workspace),
        stream=stream, version=1, prev=None, at=desk.world.now(), signer=desk.signer,
    )  # fmt: skip
    assert await stores.journal.append_stream(stream, 0, [row])


async def write(settings: Settings, *workspaces: str) -> None:
    """A process that starts, writes, signs a checkpoint, and ends."""
    async with open_stores(settings) as stores:
        for workspace in workspaces:
            await append(stores, workspace)
        log = open_log(stores, await open_reading(stores)).log
        while await stores.journal.seal(1_000) < len(workspaces):
            pass
        while await log.step():
            pass


async def exported(settings: Settings, to: Path) -> None:
    async with open_stores(settings) as stores:
        log = open_log(stores, await open_reading(stores)).log
        exporter = Exporter(log, stores.journal, stores.desk.codec, stores.signers.event)
        pieces = exporter.export(await exporter.head(), Filter(), stores.world.now())
        to.write_bytes(b"".join([piece async for piece in pieces]))


def kid_in(file: Path) -> str:
    return FileSigner.from_pem(file.read_bytes()).kid.hex()


def verdict(settings: Settings) -> str:
    return str(verify_store(settings)["verdict"])


def bundle_verdict(settings: Settings, root: bytes, folder: Path) -> str:
    file = folder / "log.jsonl"
    asyncio.run(exported(settings, file))
    return str(verify(file, Wanted(pinned=root))["verdict"])


def forget_ended(settings: Settings) -> None:
    """As somebody with the database does who wants a key to sign again."""
    if settings.journal_file is not None:
        with sqlite3.connect(settings.journal_file) as database:
            database.execute("DELETE FROM signing_keys")
        return
    with psycopg.connect(settings.database_url or "") as connection:
        connection.execute("DELETE FROM signing_keys")


class Rotated:
    """A deployment whose event key was replaced; the old one is still active."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.folder = settings, settings.key_dir or Path()
        self.root = FileSigner.from_pem((self.folder / "root.pem").read_bytes()).public_key
        self.keys = keys_of(settings)
        done = self.keys.rotate("events")
        self.old, self.new = str(done["old"]["kid"]), str(done["new"]["kid"])
        self.kept = Path(done["kept"])

    @property
    def with_old(self) -> Settings:
        """The settings of a process that still has the old key."""
        return self.settings.model_copy(update={"event_key": str(self.kept)})

    def states(self) -> dict[str, str]:
        return {key["kid"]: key["state"] for key in self.keys.listed() if key["use"] == "events"}


@pytest.fixture
def rotated(settings: Settings) -> Rotated:
    return Rotated(settings)


class TestRotate:
    def test_the_new_key_is_in_the_folder_and_the_old_one_beside_it(self, rotated: Rotated) -> None:
        assert rotated.new == kid_in(rotated.folder / "event.pem")
        assert (rotated.old, f"event-{rotated.old}.pem") == (kid_in(rotated.kept), rotated.kept.name)
        assert 0o600 == (rotated.folder / "event.pem").stat().st_mode & 0o777

    def test_both_sign_until_the_old_one_is_retired(self, rotated: Rotated) -> None:
        asyncio.run(write(rotated.with_old, "by-old"))
        asyncio.run(write(rotated.settings, "by-new"))

        assert {rotated.old: "active", rotated.new: "active"} == rotated.states()
        assert "verified" == verdict(rotated.settings)

    def test_what_the_old_key_signed_stays_good(self, rotated: Rotated, tmp_path: Path) -> None:
        """Straight from the store, and in an export that the verifier reads with the root key alone."""
        asyncio.run(write(rotated.with_old, "by-old"))
        rotated.keys.retire(rotated.old)
        asyncio.run(write(rotated.settings, "by-new"))

        assert {rotated.old: "retired", rotated.new: "active"} == rotated.states()
        assert "verified" == verdict(rotated.settings)
        assert "verified" == bundle_verdict(rotated.settings, rotated.root, tmp_path)

    def test_the_log_key_is_replaced_the_same_way(self, settings: Settings, tmp_path: Path) -> None:
        """The checkpoint that the old one signed is still read, also the one that is kept apart."""
        root = FileSigner.from_pem((tmp_path / "keys" / "root.pem").read_bytes()).public_key
        done = keys_of(settings).rotate("log")
        asyncio.run(write(settings, "by-new"))
        keys_of(settings).retire(done["old"]["kid"])
        asyncio.run(write(settings, "later"))

        assert "verified" == verdict(settings)
        assert "verified" == bundle_verdict(settings, root, tmp_path)

    def test_a_key_that_is_no_file_of_the_folder_isnt_replaced(self, rotated: Rotated) -> None:
        with pytest.raises(ConfigurationError, match="signing add"):
            keys_of(rotated.with_old).rotate("events")


class TestEnding:
    def test_a_process_with_the_retired_key_writes_nothing(self, rotated: Rotated) -> None:
        """It is told that its key has ended, not that it lost a race; another start is refused."""

        async def outlive() -> None:
            async with open_stores(rotated.with_old) as stores:
                signer = stores.desk.signer
                codec, world = stores.desk.codec, stores.world
                stream = workspace_stream("late")
                row, _ = codec.seal(
                    WorkspaceCreated(workspace="late"),
                    stream=stream, version=1, prev=None, at=world.now(), signer=signer,
                )  # fmt: skip
                if rotated.settings.on_postgres:
                    await asyncio.to_thread(rotated.keys.retire, rotated.old)
                else:
                    await stores.journal.write(  # type: ignore[attr-defined]
                        lambda cursor: cursor.execute(
                            "INSERT INTO signing_keys VALUES (?, 'retired')", (signer.kid,)
                        )
                    )
                with pytest.raises(SigningKeyRetiredError, match="start the process again"):
                    await stores.journal.append_stream(stream, 0, [row])
                stopped = asyncio.Event()
                watching = asyncio.create_task(watch_keys(stores, stopped.set, every_s=0.01))
                async with asyncio.timeout(8):
                    await stopped.wait()
                await watching

        asyncio.run(outlive())

    def test_a_start_with_an_ended_key_is_refused(self, rotated: Rotated) -> None:
        rotated.keys.retire(rotated.old)

        with pytest.raises(ConfigurationError, match="retired or revoked"):
            asyncio.run(write(rotated.with_old, "late"))

    def test_an_event_by_the_key_after_its_end_is_tampering(self, rotated: Rotated, tmp_path: Path) -> None:
        """Whoever has the database and a retired key: the place in the log convicts."""

        async def forge() -> None:
            async with open_stores(rotated.settings) as stores:
                old = FileSigner.from_pem(rotated.kept.read_bytes())
                row, _ = stores.desk.codec.seal(
                    WorkspaceCreated(workspace="forged"),
                    stream=workspace_stream("forged"), version=1, prev=None, at=SINCE, signer=old,
                )  # fmt: skip
                assert await stores.journal.append_stream(row.run_id, 0, [row])

        rotated.keys.retire(rotated.old)
        forget_ended(rotated.settings)
        asyncio.run(forge())
        report = verify_store(rotated.settings)
        asyncio.run(write(rotated.settings))

        assert ("tampered", ["key"]) == (report["verdict"], [each["rule"] for each in report["findings"]])
        assert "after its end" in report["findings"][0]["problem"]
        assert "tampered" == verdict(rotated.settings)
        assert "tampered" == bundle_verdict(rotated.settings, rotated.root, tmp_path)

    def test_a_revoked_key_leaves_its_records_and_makes_them_suspect(
        self, rotated: Rotated, tmp_path: Path
    ) -> None:
        shown = rotated.keys.revoke(rotated.old, SINCE)
        asyncio.run(write(rotated.settings, "by-new"))

        assert ("revoked", "2026-11-30T08:00:00.000Z") == (shown["state"], shown["since"])
        assert "verified" == verdict(rotated.settings)
        assert "policy" == bundle_verdict(rotated.settings, rotated.root, tmp_path)

    def test_retiring_twice_is_one_event(self, rotated: Rotated) -> None:
        first = rotated.keys.retire(rotated.old)

        assert first == rotated.keys.retire(rotated.old)
        assert first["addedAt"] < first["endedAt"]

    def test_the_key_that_processes_would_start_with_is_not_ended(self, rotated: Rotated) -> None:
        with pytest.raises(BadInputError, match="rotate"):
            rotated.keys.retire(rotated.new)

    def test_the_only_key_is_not_ended(self, settings: Settings) -> None:
        (kid,) = [key["kid"] for key in keys_of(settings).listed() if key["use"] == "log"]

        with pytest.raises(BadInputError, match="only key"):
            keys_of(settings).retire(kid)

    @pytest.mark.parametrize("kid", ["00" * 8, "no hex"])
    def test_an_unknown_key_is_not_ended(self, rotated: Rotated, kid: str) -> None:
        with pytest.raises(BadInputError):
            rotated.keys.retire(kid)


class TestRoot:
    def test_serving_needs_no_root_key_once_the_log_is_open(self, settings: Settings, tmp_path: Path) -> None:
        """It can be kept offline; its public half still pins what is verified."""
        (tmp_path / "keys" / "root.pem").unlink()

        asyncio.run(write(settings, "without-root"))
        assert "verified" == verdict(settings)

    def test_without_it_no_log_is_opened(self, settings: Settings, tmp_path: Path) -> None:
        (tmp_path / "keys" / "root.pem").unlink()
        url = {"database_url": f"sqlite:///{tmp_path / 'new' / 'journal.db'}"}

        with pytest.raises(ConfigurationError, match="root"):
            asyncio.run(write(settings.model_copy(update=url), "first"))

    @pytest.mark.parametrize("foreign", [False, True])
    def test_only_the_root_key_certifies_and_ends(self, rotated: Rotated, foreign: bool) -> None:
        root = rotated.folder / "root.pem"
        root.unlink()
        if foreign:
            root.write_bytes(FileSigner.from_seed(b"\x09" * 32).to_pem())

        with pytest.raises(ConfigurationError, match="root key"):
            rotated.keys.retire(rotated.old)
        files = sorted(file.name for file in rotated.folder.iterdir())
        with pytest.raises(ConfigurationError, match="root key"):
            rotated.keys.rotate("events")
        assert {rotated.old: "active", rotated.new: "active"} == rotated.states()
        assert files == sorted(file.name for file in rotated.folder.iterdir())

    @pytest.mark.parametrize("name", ["event", "log"])
    def test_a_start_certifies_no_key_that_was_put_in_the_folder(
        self, settings: Settings, tmp_path: Path, name: str
    ) -> None:
        """Though the root key lies beside it."""
        (tmp_path / "keys" / f"{name}.pem").write_bytes(FileSigner.from_seed(b"\x0a" * 32).to_pem())

        with pytest.raises(ConfigurationError, match=f"doesn't certify the {name} key"):
            asyncio.run(write(settings, "foreign"))

    def test_a_key_is_certified_by_its_public_half(self, settings: Settings, tmp_path: Path) -> None:
        """As one in a KMS must be: the private half never leaves it."""
        signer = FileSigner.from_seed(b"\x08" * 32)
        (tmp_path / "kms.pub").write_bytes(public_pem(signer.public_key))

        added = keys_of(settings).add(tmp_path / "kms.pub", "events")

        assert (signer.kid.hex(), "events", "active") == (added["kid"], added["use"], added["state"])
        assert added == keys_of(settings).add(tmp_path / "kms.pub", "events")
        with pytest.raises(BadInputError, match="once"):
            keys_of(settings).add(tmp_path / "kms.pub", "log")


class TestPrograms:
    def test_keys_that_another_process_holds_sign_events_and_checkpoints(
        self, settings: Settings, tmp_path: Path
    ) -> None:
        """As a KMS does: their public halves are certified, and nobody who verifies can tell."""
        root = FileSigner.from_pem((tmp_path / "keys" / "root.pem").read_bytes()).public_key
        programs = {}
        for number, (use, field) in enumerate({"events": "event_key", "log": "log_key"}.items(), 0x41):
            signer = FileSigner.from_seed(bytes([number]) * 32)
            file = tmp_path / f"{use}.pub"
            file.write_bytes(public_pem(signer.public_key))
            keys_of(settings).add(file, "events" if use == "events" else "log")
            programs[field] = f"exec:{sys.executable} {PROGRAM} {f'{number:02x}' * 32}"
        held = settings.model_copy(update=programs)

        asyncio.run(write(held, "by-program"))

        states = [(key["use"], key["state"]) for key in keys_of(held).listed()]
        assert [("events", "active"), ("log", "active")] * 2 == states
        assert "verified" == verdict(settings)
        assert "verified" == bundle_verdict(held, root, tmp_path)

    def test_the_root_key_may_be_held_by_a_program(self, rotated: Rotated) -> None:
        pem = rotated.folder / "root.pem"
        seed = load_pem_private_key(pem.read_bytes(), None).private_bytes_raw()  # type: ignore[union-attr]
        pem.unlink()
        held = rotated.settings.model_copy(
            update={"root_key": f"exec:{sys.executable} {PROGRAM} {seed.hex()}"}
        )

        assert "retired" == keys_of(held).retire(rotated.old)["state"]
        assert "verified" == verdict(rotated.settings)

    def test_a_program_is_named_from_the_root(self) -> None:
        with pytest.raises(ConfigurationError, match="ABEYANCE_LOG_KEY"):
            Settings.load({"ABEYANCE_LOG_KEY": "exec:sign --fast"})


class TestLearning:
    def test_a_running_process_learns_of_a_key_that_is_added(self, settings: Settings) -> None:
        """It reads what another process signs with it, and checkpoints by a new log key."""

        async def run() -> tuple[bool, bool]:
            async with open_stores(settings) as stores:
                watching = asyncio.create_task(watch_keys(stores, lambda: None, every_s=0.01))
                event, log = (FileSigner.from_seed(bytes([number]) * 32) for number in (0x51, 0x52))
                rows = await read_stream(stores.journal, DEPLOYMENT_STREAM)
                root = FileSigner.from_pem(settings.key("root") or b"")
                added = [key_added(event.public_key, "events"), key_added(log.public_key, "log")]
                sealed = seal_next(stores.desk.codec, list(added), rows, root, stores.world)
                assert await stores.journal.append_stream(DEPLOYMENT_STREAM, len(rows), sealed)
                async with asyncio.timeout(8):
                    while event.kid not in stores.desk.public_keys:
                        await asyncio.sleep(0.01)
                watching.cancel()
                return root.kid in stores.desk.public_keys, log.kid in stores.identity.log_keys

        assert (False, True) == asyncio.run(run())


class TestCommands:
    def test_they_print_the_keys_as_json(self, settings: Settings, tmp_path: Path) -> None:
        """Added, revoked and listed from the command line."""
        env = {
            "ABEYANCE_DATA_DIR": str(settings.data_dir),
            "ABEYANCE_KEY_DIR": str(settings.key_dir),
            "ABEYANCE_DATABASE_URL": settings.database_url or f"sqlite:///{settings.journal_file}",
        }
        other = FileSigner.from_seed(b"\x0b" * 32)
        (tmp_path / "other.pem").write_bytes(other.to_pem())

        def run(*words: str) -> object:
            done = CliRunner().invoke(app, ["keys", "signing", *words], env=env)
            assert 0 == done.exit_code, done.output
            return json.loads(done.stdout)

        added = run("add", str(tmp_path / "other.pem"))
        revoked = run("revoke", other.kid.hex(), "--since", "2026-11-30T08:00:00Z")
        listed = run("list")

        assert isinstance(added, dict)
        assert isinstance(listed, list)
        assert "active" == added["state"]
        assert revoked == listed[-1]
        assert [("events", "active"), ("log", "active"), ("events", "revoked")] == [
            (key["use"], key["state"]) for key in listed
        ]
