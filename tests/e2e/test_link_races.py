"""Many senders, cancels and stopped processes at once, over sockets and four server processes."""

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.support.fleet import Fleet
from tests.support.fleet_fixture import servers

pytestmark = pytest.mark.slow

__all__ = ["servers"]


class TestAtOnce:
    @pytest.mark.parametrize("held", [False, True], ids=["waiting", "early"])
    def test_of_twenty_different_answers_one_is_taken(self, servers: Fleet, held: bool) -> None:
        """The others are told what became of the wait; the result is the one that was accepted."""
        name = uuid4().hex
        run = servers.start("fleet.loose", name, wait=False, does="hold" if held else "pause")["id"]
        link = servers.link(name)
        if not held:
            servers.settled(run, "suspended")
        line = threading.Barrier(20)

        def send(number: int) -> int:
            line.wait(20)
            return servers.send(link, str(number).encode()).status

        with ThreadPoolExecutor(20) as threads:
            told = list(threads.map(send, range(20)))
        servers.let_go(name)

        assert [200] + 19 * [409] == sorted(told)
        assert told.index(200) == servers.settled(run)["output"]
        assert 1 == servers.topics(run).count("wait-token-completed")

    @pytest.mark.case("A05", "A07")
    def test_of_twenty_same_answers_all_are_accepted_and_one_counts(self, servers: Fleet) -> None:
        name = uuid4().hex
        run = servers.start("fleet.loose", name)["id"]
        link = servers.link(name)
        line = threading.Barrier(20)

        def send(_: int) -> int:
            line.wait(20)
            return servers.send(link, b'{"same":true}').status

        with ThreadPoolExecutor(20) as threads:
            told = list(threads.map(send, range(20)))

        assert {200} == set(told)
        assert {"same": True} == servers.settled(run)["output"]
        assert 1 == servers.topics(run).count("wait-token-completed")

    @pytest.mark.case("N04")
    def test_an_answer_and_a_cancel_agree_with_what_became_of_the_run(self, servers: Fleet) -> None:
        """Twenty rounds; each pair starts from one line."""
        for _ in range(20):
            name = uuid4().hex
            run = servers.start("fleet.loose", name)["id"]
            link = servers.link(name)
            line = threading.Barrier(2)

            def answer(link: str = link, line: threading.Barrier = line) -> int:
                line.wait(20)
                return servers.send(link, b"1").status

            def cancel(run: str = run, line: threading.Barrier = line) -> int:
                line.wait(20)
                return servers.post(f"/v1/runs/{run}/cancel").status

            with ThreadPoolExecutor(2) as threads:
                answered, cancelled = (
                    each.result() for each in (threads.submit(answer), threads.submit(cancel))
                )
            ended, topics = servers.settled(run), servers.topics(run)

            assert answered in (200, 409)
            assert (answered == 200) == ("wait-token-completed" in topics)
            assert (cancelled == 200) == (ended["status"] == "cancelled") == (topics[-1] == "cancelled")


class TestProcesses:
    @pytest.mark.case("E08")
    def test_each_draws_links_of_its_own(self, servers: Fleet) -> None:
        """Nothing random, and no connection, came over a fork."""
        names = [uuid4().hex for _ in range(24)]
        with ThreadPoolExecutor(24) as threads:
            list(threads.map(lambda name: servers.start("fleet.loose", name), names))

        noted = [servers.noted(name)[0] for name in names]

        assert 24 == len({line["link"] for line in noted})
        assert 24 == len({line["key"] for line in noted})
        if servers.store_kind == "postgres":
            assert 2 <= len({line["process"] for line in noted})


class TestStoppedProcess:
    @pytest.mark.case("A18")
    def test_a_process_that_slept_through_its_lease_changes_nothing_when_it_wakes_up(
        self, servers: Fleet
    ) -> None:
        """SIGSTOP in the handler: another process runs the call again; the stale one's result is refused."""
        if servers.store_kind == "sqlite":
            pytest.skip("one process: nobody could take the run over")
        name = uuid4().hex
        run = servers.start("fleet.strict", name, wait=False, does="hold")["id"]
        first = servers.link(name)
        stale = servers.noted(name)[0]["process"]
        servers.kill(stale, signal.SIGSTOP)
        try:
            servers.until(lambda: len(servers.noted(name)) == 2, "another process runs the call")
            assert stale != servers.noted(name)[1]["process"]
            servers.let_go(name)
            servers.settled(run, "suspended")
        finally:
            servers.kill(stale, signal.SIGCONT)
        assert 200 == servers.send(first, b'{"pickupId":"pk_1"}').status
        servers.settled(run)

        topics = servers.topics(run)

        assert (
            "started call-started rerun call-paused suspended wait-token-completed completed".split()
            == topics
        )


class TestCancel:
    def test_by_the_command_line_while_it_waits(self, servers: Fleet) -> None:
        """The link says so; a second cancel is told that it has ended."""
        name = uuid4().hex
        run = servers.start("fleet.strict", name)["id"]

        done = servers.operator.shell(f"abeyance runs cancel {run}")

        assert "cancelled" == json.loads(done.stdout)["status"]
        reply = servers.send(servers.link(name), b'{"pickupId":"pk_1"}')
        assert (409, "cancelled") == (reply.status, json.loads(reply.body)["error"]["details"]["state"])
        again = servers.operator.shell(f"abeyance runs cancel {run}", check=False)
        assert (1, True) == (again.returncode, "run-already-terminal" in again.stderr)

    def test_while_it_executes_the_handler_sees_it_and_a_held_answer_is_dropped(self, servers: Fleet) -> None:
        """Whichever process is asked; the discard stands before the end, and nothing after it."""
        name = uuid4().hex
        run = servers.start("fleet.strict", name, wait=False, does="hold")["id"]
        assert 200 == servers.send(servers.link(name), b'{"pickupId":"pk_1"}').status

        assert 200 == servers.post(f"/v1/runs/{run}/cancel").status

        servers.until(lambda: servers.noted(name)[-1].get("cancelled") is True, "the handler is told")
        assert ["wait-token-answered", "wait-token-discarded", "cancelled"] == servers.topics(run)[2:]
        (dropped,) = [each for each in servers.events(run) if each["kind"] == "wait-token-discarded"]
        assert "run-cancelled" == dropped["payload"]["reason"]
        for body in (b'{"pickupId":"pk_1"}', b'{"pickupId":"pk_2"}'):
            reply = servers.send(servers.link(name), body)
            assert (409, "cancelled") == (reply.status, json.loads(reply.body)["error"]["details"]["state"])
