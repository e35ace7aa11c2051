"""What real processes print at debug level while everything goes wrong that may: no credential, no answer."""

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.temporary_postgres import TemporaryPostgres
from tests.support.project import Project, Server, project, wait_until
from tests.support.raw_http import RawConnection, request
from tests.support.site import ANSWER_CANARY, API_KEY, JSON, KEY_CANARY, Site, post, send

pytestmark = pytest.mark.slow
ANSWER = b'{"pickupId": "%s"}' % ANSWER_CANARY.encode()
FLOOD = ("X-Forwarded-For", "203.0.113.66")
LINK_ROUTE = "/v1/wait-tokens/:token/complete"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path / "site") as made:
        yield made


@pytest.fixture
def make_site(made: Project) -> Callable[..., Site]:
    def make(url: str | None, **variables: str) -> Site:
        probes = [socket.socket() for _ in range(3)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        site = Site(made, [int(probe.getsockname()[1]) for probe in probes])
        for probe in probes:
            probe.close()
        site.set_up(url, ABEYANCE_LINK_RATE="60", ABEYANCE_TRUSTED_PROXIES="127.0.0.1", **variables)
        return site

    return make


@pytest.fixture
def site(make_site: Callable[..., Site], store_kind: str, request: pytest.FixtureRequest) -> Site:
    return make_site(request.getfixturevalue("postgres_url") if store_kind == "postgres" else None)


def drive(site: Site, port: int) -> dict[int, int]:
    """Bring every status about; how many requests had which."""
    site.start_run(port)
    path, seen = site.path(), list[int]()
    token = path.split("/")[3]
    more = [
        ("Authorization", f"Bearer {API_KEY}"),
        ("Referer", f"http://h{path}"),
        ("Idempotency-Key", KEY_CANARY),
    ]

    def sent(message: bytes) -> None:
        seen.append(send(port, message).status)

    for status, target, headers, body in (
        (400, path, [JSON], ANSWER[:-1]),
        (400, path, [JSON], b'{"other": "%s"}' % ANSWER_CANARY.encode()),
        (413, path, [JSON], ANSWER_CANARY.encode() * 60_000),
        (415, path, [("Content-Type", f"text/{ANSWER_CANARY}")], ANSWER),
        (200, f"{path}?q={token}", [JSON], ANSWER),
        (200, f"/v1/w%61it-tokens/%{ord(token[0]):x}{token[1:]}/complete", [JSON], ANSWER),
        (409, path, [JSON], ANSWER.replace(b"canary", b"2-canary")),
        (404, path.replace("/complete", "x/complete"), [JSON], ANSWER),
        (404, path.replace("/complete", "/x/complete"), [JSON], ANSWER),
        (404, f"/v1/hooks/{token}", [JSON], ANSWER),
        (500, path.replace(token, f"crash{token[5:]}"), [JSON], ANSWER),
    ):
        sent(request(target, body, [*headers, *more]))
        assert status == seen[-1], target
    for target in (f"/w/{token}", f"/w/{token}x", f"/w/crash{token[5:]}"):
        sent(request(target, headers=more, method="GET"))
    sent(
        request(f"/w/{token}", b"pickupId=" + ANSWER, [("Content-Type", "application/x-www-form-urlencoded")])
    )
    sent(request(path, headers=more, method="GET"))
    assert 405 == seen[-1]
    sent(request(path, ANSWER, [JSON], length=4))
    for malformed in (
        f"POST {path} HTTP/9.9\r\nHost: h\r\n\r\n",
        f"POST {path} {API_KEY}\r\n\r\n",
        f"{API_KEY} {path} HTTP/1.1\r\n\r\n",
        f"POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization {API_KEY}\r\n\r\n",
        f"POST {path} HTTP/1.1\r\nHost: h\r\nX: {API_KEY}\0\r\n\r\n",
        f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {ANSWER_CANARY}\r\n\r\n",
        f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: {ANSWER_CANARY}\r\n\r\n",
        f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{ANSWER_CANARY}\r\n",
    ):
        with RawConnection(port) as connection:
            connection.send(malformed.encode())
            connection.half_close()
            connection.read()
    seen.extend(post(port, path, ANSWER, FLOOD, *more).status for _ in range(62))
    assert 429 == seen[-1]
    spill(site, port)
    return {status: seen.count(status) for status in seen}


def spill(site: Site, port: int) -> None:
    """Let a handler fail with everything it knows."""
    site.start_run(port, "site.spilling")
    assert 2 <= len(site.told())


def check(site: Site, server: Server) -> str:
    """What it printed until its end, in which there is no secret."""
    assert 0 == server.stop(), server.printed
    printed = server.printed
    secrets = set(site.secrets())
    assert 5 <= len(secrets)
    assert [] == [line for line in printed.splitlines() for secret in secrets if secret in line]
    return printed


def statuses(printed: str, route: str = LINK_ROUTE) -> set[int]:
    return {int(status) for status in re.findall(rf" route={re.escape(route)} status=(\d+) ", printed)}


class TestServe:
    @pytest.mark.case("E07")
    def test_no_line_holds_a_credential_or_an_answer_whatever_the_status(self, site: Site) -> None:
        server, port = site.serve_breakable()
        drive(site, port)

        printed = check(site, server)

        assert {200, 400, 404, 405, 409, 413, 415, 429, 500} == statuses(printed)
        assert {200, 404, 500} <= statuses(printed, "/w/:token")
        assert " gunicorn.error " in printed
        assert "builtins.RuntimeError" in printed
        assert "a thread ended" in printed
        assert "Task exception was never retrieved" in printed
        assert "a call of site.spill failed" in printed
        assert "asked the carrier to post to http://127.0.0.1" in printed
        assert "/v1/wait-tokens/:token/complete" in printed.split("asked the carrier")[1].splitlines()[0]

    @pytest.mark.case("E07")
    def test_nor_while_the_store_is_gone(self, make_site: Callable[..., Site]) -> None:
        with TemporaryPostgres() as postgres:
            site = make_site(postgres.url)
            server, port = site.serve()
            site.start_run(port)
            path = site.path()
            postgres.stop()

            assert 503 == post(port, path, ANSWER).status
            wait_until(lambda: "the store can't be used" in server.printed, "it says so")
            printed = check(site, server)

        assert 503 in statuses(printed)


class TestDev:
    @pytest.mark.case("E07")
    def test_its_terminal_shows_handlers_errors_and_no_credential(
        self, make_site: Callable[..., Site]
    ) -> None:
        site = make_site(None)
        server, port = site.serve("abeyance dev --no-reload")
        site.start_run(port)
        post(port, site.path(), ANSWER)
        spill(site, port)

        printed = check(site, server)

        assert "RuntimeError: All connection attempts failed" in printed
        assert "<link> <idempotency key>" in printed


class TestWorker:
    @pytest.mark.case("E07")
    def test_it_prints_no_credential(self, make_site: Callable[..., Site], postgres_url: str) -> None:
        site = make_site(postgres_url, ABEYANCE_PUBLIC_URL="http://127.0.0.1:8420/a/path")
        front, port = site.serve("abeyance serve --no-execute")
        worker, _ = site.serve("abeyance worker")
        site.start_run(port)
        post(port, site.path(), ANSWER)
        spill(site, port)

        assert "a call of site.spill failed" in check(site, worker)
        check(site, front)
