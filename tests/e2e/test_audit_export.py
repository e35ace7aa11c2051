"""The auditor's way, with real servers: export, take the file away, verify it with the root key alone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from abeyance.audit.notes import NoteKey
from abeyance.crypto.signing import FileSigner
from tests.support.fleet import Fleet, fleet
from tests.support.mirrors import read_mirror

ANSWER = {"pickupId": "pk_7"}


@pytest.fixture
def servers(
    store_kind: str, tmp_path: Path, free_port: int, request: pytest.FixtureRequest
) -> Iterator[Fleet]:
    url = str(request.getfixturevalue("postgres_url")) if store_kind == "postgres" else None
    with fleet(tmp_path / "deployment", free_port, url) as made:
        yield made


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answered(servers: Fleet, name: str) -> str:
    run = servers.start("fleet.strict", name)
    assert 200 == servers.post(servers.link(name), ANSWER).status
    servers.settled(run["id"])
    return str(run["id"])


def signed(servers: Fleet, run_id: str) -> None:
    """Return once the run's end is under a checkpoint."""
    record = servers.get(run_id, "/journal?limit=1000")["data"][-1]

    def proved() -> bool:
        page = json.loads(
            servers.send(f"/v1/audit/records?runId={run_id}&limit=1000", method="GET", key=True).body
        )
        sealed = [each["index"] for each in page["data"] if each["sequence"] == record["sequence"]]
        path = f"/v1/audit/records/{sealed[0]}/proof" if sealed else "/none"
        return servers.send(path, method="GET", key=True).status == 200

    servers.until(proved, "the run's end is under a checkpoint")


class TestExport:
    def test_what_was_exported_is_verified_without_the_deployment(self, servers: Fleet) -> None:
        servers.serve()
        run_id = answered(servers, "one")
        signed(servers, run_id)
        shell = servers.operator.shell

        shell("abeyance audit export --all --out log.jsonl")
        shell(f"abeyance audit export --run {run_id} --out run.jsonl")
        shell("abeyance audit verifier --out abeyance-verify.py")
        servers.servers[0].stop()
        root = servers.folder / "keys" / "root.pem"
        shell(f"openssl pkey -in {root} -pubout -out root.pub" if shutil.which("openssl") else "true")
        pinned = "root.pub" if shutil.which("openssl") else str(root)
        whole = json.loads(shell(f"abeyance audit verify log.jsonl --root-key {pinned} --json").stdout)
        part = json.loads(shell(f"abeyance audit verify run.jsonl --root-key {pinned} --json").stdout)

        assert ("verified", "verified") == (whole["verdict"], part["verdict"])
        assert whole["size"] == whole["records"] > part["records"]
        assert 3 == shell("abeyance audit verify log.jsonl", check=False).returncode

    def test_an_export_is_itself_recorded(self, servers: Fleet) -> None:
        servers.serve()
        signed(servers, answered(servers, "one"))

        servers.operator.shell("abeyance audit export --all --out log.jsonl")

        servers.until(
            lambda: '"exported"' in servers.operator.shell("abeyance audit log --kind exported").stdout,
            "the export is in the log",
        )

    def test_the_log_goes_on_after_a_kill(self, servers: Fleet) -> None:
        servers.serve()
        first = answered(servers, "one")
        servers.servers[0].kill()
        servers.serve()
        signed(servers, answered(servers, "two"))
        signed(servers, first)
        shell = servers.operator.shell

        shell("abeyance audit export --all --out log.jsonl")
        report = json.loads(shell("abeyance audit verify log.jsonl --json", check=False).stdout)
        live = json.loads(shell("abeyance audit verify --live").stdout)

        assert ("unanchored", "verified") == (report["verdict"], live["verdict"])


class TestRestoredStore:
    def test_a_store_that_was_restored_from_an_old_copy_is_not_written_to(
        self, tmp_path: Path, free_port: int
    ) -> None:
        """Only the journal's file was put back; the key store knows a newer checkpoint."""
        with fleet(tmp_path / "deployment", free_port, None) as servers:
            servers.serve()
            signed(servers, answered(servers, "one"))
            servers.servers[0].stop()
            data = servers.folder / "data"
            shutil.copy(data / "journal.db", tmp_path / "old.db")
            servers.serve()
            signed(servers, answered(servers, "two"))
            servers.servers[1].stop()
            for file in data.glob("journal.db*"):
                file.unlink()
            shutil.copy(tmp_path / "old.db", data / "journal.db")

            refused = servers.operator.serve("abeyance serve")

            assert 1 == refused.process.wait(60)
            assert "restored from an old copy" in refused.printed


class TestMirror:
    """One server on SQLite that keeps a mirror beside its store."""

    @pytest.fixture
    def mirrored(self, tmp_path: Path, free_port: int) -> Iterator[Fleet]:
        (tmp_path / "mirror").mkdir()
        variables = {"ABEYANCE_AUDIT_MIRROR": str(tmp_path / "mirror")}
        with fleet(tmp_path / "deployment", free_port, None, variables) as made:
            yield made

    def test_it_has_what_was_signed_before_the_server_ended(self, mirrored: Fleet, tmp_path: Path) -> None:
        mirrored.serve()
        answered(mirrored, "one")
        mirrored.servers[0].kill()
        found = len(mirrored_records(mirrored, tmp_path / "mirror"))
        mirrored.serve()
        answered(mirrored, "two")
        mirrored.servers[1].stop()

        records = mirrored_records(mirrored, tmp_path / "mirror")

        assert len(records) > found
        assert 2 == sum(b'"t":"completed"' in record for record in records)

    def test_a_store_that_is_behind_it_is_not_written_to(self, mirrored: Fleet, tmp_path: Path) -> None:
        """Journal and key store were put back together, so that only the mirror knows better."""
        mirrored.serve()
        answered(mirrored, "one")
        mirrored.servers[0].stop()
        data = mirrored.folder / "data"
        shutil.copytree(data, tmp_path / "old")
        mirrored.serve()
        answered(mirrored, "two")
        mirrored.servers[1].stop()
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "old", data)

        refused = mirrored.operator.serve("abeyance serve")

        assert 1 == refused.process.wait(60)
        assert "the mirror (ABEYANCE_AUDIT_MIRROR) has a signed checkpoint" in refused.printed


def mirrored_records(servers: Fleet, folder: Path) -> list[bytes]:
    log_key = FileSigner.from_pem((servers.folder / "keys" / "log.pem").read_bytes())
    return read_mirror(folder, NoteKey("fleet.example.com/runs", log_key.public_key))
