"""Replacing the event key under real servers: nothing that was taken is lost, and no answer is."""

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.fleet import Fleet, fleet

pytestmark = pytest.mark.slow
ANSWER = {"pickupId": "pk_7"}


@pytest.fixture
def servers(tmp_path: Path, free_port: int, postgres_url: str) -> Iterator[Fleet]:
    with fleet(tmp_path / "deployment", free_port, postgres_url) as made:
        yield made


def run_keys(servers: Fleet, command: str) -> dict[str, object]:
    done: dict[str, object] = json.loads(servers.operator.shell(f"abeyance keys signing {command}").stdout)
    return done


def verdict(servers: Fleet) -> str:
    return str(json.loads(servers.operator.shell("abeyance audit verify --live").stdout)["verdict"])


class TestRotation:
    def test_processes_with_the_retired_key_start_again_with_the_new_one(self, servers: Fleet) -> None:
        """Nobody started them again before `retire`: they refuse for a moment, and then work on."""
        servers.serve()
        run = servers.start("fleet.strict", "before")
        old = run_keys(servers, "rotate")["old"]
        assert isinstance(old, dict)

        run_keys(servers, f"retire {old['kid']}")

        link = servers.link("before")
        servers.until(lambda: _taken(servers, link), "the answer is taken")
        assert "completed" == servers.settled(run["id"])["status"]
        assert "signing-key-retired" in servers.servers[0].printed
        assert "verified" == verdict(servers)

    def test_servers_with_the_old_and_the_new_key_take_each_others_answers(self, servers: Fleet) -> None:
        """As in a rolling restart: the old one runs since before there was a new key."""
        kept = servers.folder / "kept.pem"
        shutil.copy(servers.folder / "keys" / "event.pem", kept)
        servers.serve(ABEYANCE_EVENT_KEY=str(kept), ABEYANCE_EXECUTE="off", ABEYANCE_WORKERS="1")
        run_keys(servers, "rotate")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        servers.serve(ABEYANCE_PORT=str(port), ABEYANCE_WORKERS="1")
        run = servers.start("fleet.strict", "both", wait=False)  # written by the old key, executed by the new

        assert 200 == servers.post(servers.link("both"), ANSWER).status  # on a wait that the new key opened
        assert "completed" == servers.settled(run["id"])["status"]
        with psycopg.connect(servers.database_url or "") as database:
            signers = database.execute(
                "SELECT count(DISTINCT substring(state FOR 8)) FROM journal_events WHERE originator_id = %s",
                (run["id"],),
            ).fetchone()
        assert (2,) == signers
        assert "verified" == verdict(servers)

    def test_a_server_whose_key_is_gone_for_good_says_so_and_ends(self, servers: Fleet) -> None:
        """Its key is named by a variable, so starting again would be no use."""
        file = servers.folder / "kept.pem"
        shutil.copy(servers.folder / "keys" / "event.pem", file)
        server = servers.serve(ABEYANCE_EVENT_KEY=str(file))
        old = run_keys(servers, "rotate")["old"]
        assert isinstance(old, dict)

        run_keys(servers, f"retire {old['kid']}")

        servers.until(lambda: server.process.poll() is not None, "the server has ended")
        assert 1 == server.process.returncode
        assert "retired" in server.printed


def _taken(servers: Fleet, link: str) -> bool:
    try:
        return servers.post(link, ANSWER).status == 200
    except (OSError, AssertionError):
        return False
