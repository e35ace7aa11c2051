"""The table of what a link answers, row by row and in the stated order of its checks.

Over real sockets against gunicorn, on both stores; on PostgreSQL with four server processes, so that whoever
answers a request is seldom whoever has the run in memory.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.support.fleet import JSON, Fleet
from tests.support.fleet_fixture import servers
from tests.support.raw_http import RawResponse

pytestmark = pytest.mark.slow

__all__ = ["servers"]

FIT = b'{"pickupId":"pk_7"}'
OTHER = b'{"pickupId":"pk_8"}'
UNFIT = b'{"pickupId":7}'
TEXT = (("Content-Type", "text/plain"),)
TOO_LARGE = b'"' + b"x" * 1_048_576 + b'"'
NOT_JSON = b'{"pickupId":'
TOO_DEEP = b"[" * 101 + b"]" * 101
UNKNOWN = "/v1/wait-tokens/" + "A" * 43 + "/complete"


Headers = tuple[tuple[str, str], ...]


class Wait:
    """A wait in some state, its link, its run and a name for both."""

    def __init__(self, servers: Fleet, name: str, run: Any) -> None:
        self.servers = servers
        self.name = name
        self.id = str(run["id"])
        self.link = servers.link(name)

    def answer(
        self, body: bytes = FIT, headers: tuple[tuple[str, str], ...] = JSON, **more: Any
    ) -> RawResponse:
        """POST to the link."""
        return self.servers.send(self.link, body, headers, **more)


def waiting(servers: Fleet, **order: Any) -> Wait:
    """A run that waits."""
    name = uuid4().hex
    return Wait(servers, name, servers.start("fleet.strict", name, **order))


def completed(servers: Fleet) -> Wait:
    wait = waiting(servers)
    assert 200 == wait.answer().status
    return wait


def timed_out(servers: Fleet) -> Wait:
    wait = waiting(servers, timeoutMs=1)
    servers.settled(wait.id)
    return wait


def cancelled(servers: Fleet) -> Wait:
    wait = waiting(servers)
    assert 200 == servers.post(f"/v1/runs/{wait.id}/cancel").status
    return wait


def holding(servers: Fleet, does: str = "hold") -> Wait:
    """A handler is in the call, and its link is out."""
    name = uuid4().hex
    return Wait(servers, name, servers.start("fleet.strict", name, wait=False, does=does))


def unused(servers: Fleet) -> Wait:
    wait = holding(servers, "answer")
    servers.let_go(wait.name)
    servers.settled(wait.id)
    return wait


def answered(servers: Fleet) -> Wait:
    wait = holding(servers)
    assert 200 == wait.answer().status
    return wait


def refusal(reply: RawResponse) -> dict[str, Any]:
    """The error of a refusal, without what differs between any two."""
    assert "no-store" == reply.header("cache-control")
    error: dict[str, Any] = json.loads(reply.body)["error"]
    assert error.pop("requestId")
    return error


STATES: dict[str, Callable[[Fleet], Wait]] = {
    "completed": completed,
    "timed-out": timed_out,
    "cancelled": cancelled,
    "unused": unused,
    "answered": answered,
}


class TestAccepted:
    def test_an_answer_is_accepted_and_the_reply_says_nothing_about_the_run(self, servers: Fleet) -> None:
        wait = waiting(servers)

        reply = wait.answer()

        assert (200, b'{"status":"accepted"}') == (reply.status, reply.body)
        assert "no-store" == reply.header("cache-control")
        ended = servers.settled(wait.id)
        assert {"pickupId": "pk_7"} == ended["output"]
        assert wait.id not in repr(reply)

    @pytest.mark.case("A05")
    @pytest.mark.parametrize("state", ["completed", "answered"])
    def test_the_same_answer_is_accepted_again(self, servers: Fleet, state: str) -> None:
        """Written in another way too: what counts is the value."""
        wait = STATES[state](servers)

        replies = [wait.answer(body) for body in (FIT, b' {"pickup\\u0049d" : "pk_7"}\n') for _ in range(4)]

        assert {(200, b'{"status":"accepted"}')} == {(reply.status, reply.body) for reply in replies}

    def test_an_empty_body_is_an_empty_object(self, servers: Fleet) -> None:
        """With a type or without one."""
        for headers in (JSON, ()):
            name = uuid4().hex
            wait = Wait(servers, name, servers.start("fleet.loose", name))
            assert 200 == wait.answer(b"", headers).status
            assert {} == servers.settled(wait.id)["output"]

    def test_an_authorization_header_is_ignored(self, servers: Fleet) -> None:
        wait = waiting(servers)

        reply = wait.answer(headers=(*JSON, ("Authorization", "Bearer wrong")))

        assert 200 == reply.status


class TestRefusals:
    def test_an_answer_that_does_not_fit_is_told_where_and_the_wait_stays_open(self, servers: Fleet) -> None:
        wait = waiting(servers)

        replies = [(body, wait.answer(body)) for body in (UNFIT, b"{}", b'{"pickupId":"pk_7\\n"}', b"null")]

        for body, reply in replies:
            error = refusal(reply)
            assert (400, "wait-token-output-invalid") == (reply.status, error["code"]), body
            assert error["details"]["issues"]
        assert {"path": "/pickupId", "rule": "type"} in refusal(replies[0][1])["details"]["issues"]
        assert 200 == wait.answer().status

    @pytest.mark.parametrize("body", [NOT_JSON, TOO_DEEP, b" ", b'{"a":1,"a":2}', b"NaN", b"\xff"], ids=repr)
    def test_a_body_that_is_no_json_is_bad_input_and_the_wait_stays_open(
        self, servers: Fleet, body: bytes
    ) -> None:
        wait = waiting(servers)

        reply = wait.answer(body)

        assert (400, "bad-input") == (reply.status, refusal(reply)["code"])
        assert 200 == wait.answer().status

    @pytest.mark.case("A25")
    def test_wrong_and_unknown_links_answer_alike(self, servers: Fleet) -> None:
        wait = waiting(servers)
        token = wait.link.split("/")[3]
        tokens = [token[:-1], token + "=", token.swapcase(), f"%{ord(token[0]):02x}{token[1:]}x", "x" * 3_000]
        wrong = [f"/v1/wait-tokens/{each}/complete" for each in tokens]

        replies = [servers.send(path, FIT) for path in (UNKNOWN, *wrong)]

        assert {404} == {reply.status for reply in replies}
        assert "wait-token-not-found" == refusal(replies[0])["code"]
        assert all(refusal(replies[0]) == refusal(reply) for reply in replies)

    @pytest.mark.parametrize("state", STATES)
    def test_a_wait_that_is_over_or_holds_another_answer_says_which(self, servers: Fleet, state: str) -> None:
        """In every process, and for ever."""
        wait = STATES[state](servers)

        replies = [wait.answer(OTHER) for _ in range(8)]

        assert {409} == {reply.status for reply in replies}
        for reply in replies:
            error = refusal(reply)
            assert ("wait-token-closed", {"state": state}) == (error["code"], error["details"])

    def test_a_body_over_one_mebibyte_is_too_large(self, servers: Fleet) -> None:
        name = uuid4().hex
        wait = Wait(servers, name, servers.start("fleet.loose", name))

        reply = wait.answer(TOO_LARGE)

        assert (413, "request-too-large") == (reply.status, refusal(reply)["code"])
        assert 200 == wait.answer(TOO_LARGE[:1_048_575] + b'"').status

    def test_a_body_that_is_not_sent_as_json_is_an_unsupported_type(self, servers: Fleet) -> None:
        wait = waiting(servers)

        replies = [
            wait.answer(headers=headers) for headers in (TEXT, (), (*JSON, ("Content-Encoding", "gzip")))
        ]

        assert {(415, "unsupported-media-type")} == {(r.status, refusal(r)["code"]) for r in replies}
        assert 200 == wait.answer().status

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
    def test_another_method_is_not_allowed(self, servers: Fleet, method: str) -> None:
        wait = waiting(servers)

        reply = wait.answer(method=method)

        assert (405, "method-not-allowed") == (reply.status, refusal(reply)["code"])
        assert "POST" in str(reply.header("allow"))


TENANTS = {
    "tenant-suspended": ("workspaces", "workspace, state", "'default', 'suspended'"),
    "tenant-closing": ("workspaces", "workspace, state", "'default', 'closing'"),
    "project-suspended": ("projects", "workspace, project, state", "'default', 'default', 'suspended'"),
}


@contextmanager
def inactive(servers: Fleet, code: str) -> Iterator[None]:
    """The run's workspace or project isn't active meanwhile; its runs are left as they are."""
    table, columns, values = TENANTS[code]
    servers.execute(f"DELETE FROM {table} WHERE workspace = 'default'")
    servers.execute(f"INSERT INTO {table} ({columns}, created, updated) VALUES ({values}, 1, 1)")
    try:
        yield
    finally:
        servers.execute(f"UPDATE {table} SET state = 'active' WHERE workspace = 'default'")


class TestInactiveTenant:
    @pytest.mark.case("A24")
    @pytest.mark.parametrize("code", TENANTS)
    def test_nothing_is_taken_where_nothing_runs(self, servers: Fleet, code: str) -> None:
        """From the first request on, in every process, before type, body and state are looked at."""
        wait, over = waiting(servers), completed(servers)
        servers.settled(over.id)
        with inactive(servers, code):
            replies = [wait.answer() for _ in range(8)]
            replies += [wait.answer(UNFIT, TEXT), wait.answer(TOO_LARGE), over.answer(OTHER)]
            unknown = servers.send(UNKNOWN, FIT)

        assert {(409, code)} == {(reply.status, refusal(reply)["code"]) for reply in replies}
        assert 404 == unknown.status
        assert "wait-token-completed" not in servers.topics(wait.id)
        assert 200 == wait.answer().status
        assert {"pickupId": "pk_7"} == servers.settled(wait.id)["output"]


Faulty = Callable[[Fleet], RawResponse]
ORDER: dict[str, tuple[Faulty, tuple[int, str]]] = {
    "405 before 404": (
        lambda servers: servers.send(UNKNOWN, TOO_LARGE, TEXT, method="PUT"),
        (405, "method-not-allowed"),
    ),
    "404 before 415 and 413": (
        lambda servers: servers.send(UNKNOWN, TOO_LARGE, TEXT),
        (404, "wait-token-not-found"),
    ),
    "415 before 413": (
        lambda servers: waiting(servers).answer(TOO_LARGE, TEXT),
        (415, "unsupported-media-type"),
    ),
    "413 before 400": (
        lambda servers: waiting(servers).answer(NOT_JSON + TOO_LARGE),
        (413, "request-too-large"),
    ),
    "415 before the state": (
        lambda servers: completed(servers).answer(OTHER, TEXT),
        (415, "unsupported-media-type"),
    ),
    "413 before the state": (
        lambda servers: completed(servers).answer(TOO_LARGE),
        (413, "request-too-large"),
    ),
    "400 bad-input before the state": (
        lambda servers: completed(servers).answer(NOT_JSON),
        (400, "bad-input"),
    ),
    "the state before the schema": (
        lambda servers: completed(servers).answer(UNFIT),
        (409, "wait-token-closed"),
    ),
    "a held answer before the schema": (
        lambda servers: answered(servers).answer(UNFIT),
        (409, "wait-token-closed"),
    ),
}


class TestOrderOfChecks:
    @pytest.mark.parametrize("rule", ORDER)
    def test_of_two_faults_the_first_check_answers(self, servers: Fleet, rule: str) -> None:
        send, expected = ORDER[rule]

        reply = send(servers)

        assert expected == (reply.status, refusal(reply)["code"])


_TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"


@contextmanager
def unusable_store(servers: Fleet, request: pytest.FixtureRequest) -> Iterator[None]:
    """Nobody gets into the database; on SQLite nobody can write to it."""
    if servers.store_kind == "sqlite":
        file = servers.folder / "data" / "journal.db"
        assert file.exists()
        with closing(sqlite3.connect(file, isolation_level=None)) as held:
            held.execute("BEGIN IMMEDIATE")
            yield
            held.rollback()
        return
    database = servers.database
    with psycopg.connect(request.getfixturevalue("postgres_server").url, autocommit=True) as admin:
        allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        admin.execute(allow.format(sql.Identifier(database), sql.Literal(False)))
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,)
        )
        try:
            yield
        finally:
            admin.execute(allow.format(sql.Identifier(database), sql.Literal(True)))


class TestStoreGone:
    def test_a_store_that_can_t_be_used_takes_nothing_and_says_when_to_come_again(
        self, servers: Fleet, request: pytest.FixtureRequest
    ) -> None:
        """The same body is accepted once it is back."""
        wait = waiting(servers)
        with unusable_store(servers, request):
            reply = wait.answer()

        assert (503, "tenant-state-unavailable") == (reply.status, refusal(reply)["code"])
        assert int(str(reply.header("retry-after"))) >= 1
        servers.until(lambda: wait.answer().status == 200, "the answer is taken")
        assert {"pickupId": "pk_7"} == servers.settled(wait.id)["output"]
        assert 1 == servers.topics(wait.id).count("wait-token-completed")
