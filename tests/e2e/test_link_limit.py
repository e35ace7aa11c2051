"""The limit of requests to links over real sockets: one for all processes, and the links work without it."""

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.support.project import Project, project
from tests.support.raw_http import RawConnection, RawResponse, request
from tests.support.site import API_KEY, JSON, Site, post, send

pytestmark = pytest.mark.slow
UNKNOWN = "/v1/wait-tokens/nobodys/complete"
CLIENT, OTHER = "203.0.113.9", "198.51.100.7"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path / "site") as made:
        yield made


@pytest.fixture
def make_site(made: Project) -> Callable[..., Site]:
    def make(url: str | None, **variables: str) -> Site:
        probes = [socket.socket() for _ in range(6)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        site = Site(made, [int(probe.getsockname()[1]) for probe in probes])
        for probe in probes:
            probe.close()
        site.set_up(
            url, **{"ABEYANCE_TRUSTED_PROXIES": "127.0.0.0/8", "ABEYANCE_LOG_LEVEL": "warning"} | variables
        )
        return site

    return make


@pytest.fixture
def database_url(store_kind: str, request: pytest.FixtureRequest) -> str | None:
    return str(request.getfixturevalue("postgres_url")) if store_kind == "postgres" else None


def come(port: int, client: str, times: int = 1, path: str = UNKNOWN) -> list[RawResponse]:
    """Send so many requests over one connection, as a client behind the proxy."""
    replies = []
    with RawConnection(port, timeout_s=60) as connection:
        for _ in range(times):
            connection.send(request(path, b"{}", [JSON, ("X-Forwarded-For", client)]))
            reply = connection.read()
            assert reply is not None
            replies.append(reply)
    return replies


def statuses(replies: list[RawResponse]) -> Counter[int]:
    return Counter(reply.status for reply in replies)


class TestOneLimit:
    @pytest.mark.case("F09", "F10")
    def test_600_a_minute_and_the_next_one_is_refused(
        self, make_site: Callable[..., Site], database_url: str | None
    ) -> None:
        """What the link refuses counts too; another client is let in; nothing was taken."""
        site = make_site(database_url)
        _, port = site.serve()
        site.start_run(port)

        assert {404: 600} == statuses(come(port, CLIENT, 600))
        (refused,) = come(port, CLIENT, path=site.path())
        (taken,) = come(port, OTHER, path=site.path())

        assert 429 == refused.status
        assert "rate-limit-exceeded" == json.loads(refused.body)["error"]["code"]
        assert 1 <= int(refused.header("retry-after") or 0) <= 60
        assert 400 == taken.status  # `{}` doesn't fit: the link was looked up
        assert "suspended" == site.start_run(port)["status"]

    @pytest.mark.case("F09")
    def test_it_is_one_for_four_server_processes(
        self, make_site: Callable[..., Site], postgres_url: str
    ) -> None:
        site = make_site(postgres_url)
        ports = [site.serve()[1] for _ in range(4)]

        with ThreadPoolExecutor(4) as together:
            replies = [reply for part in together.map(come, ports, [CLIENT] * 4, [250] * 4) for reply in part]

        passed = statuses(replies)[404]
        # Each of the other three may hold a block of at most a fortieth that nobody comes for any more.
        assert 600 - 3 * 15 <= passed <= 600
        assert 1_000 - passed == statuses(replies)[429]
        passed += statuses([one for port in ports for one in come(port, CLIENT, 16)])[404]
        assert passed <= 600
        assert {404: 4} == statuses([come(port, OTHER)[0] for port in ports])

    @pytest.mark.case("F09")
    def test_it_is_one_for_the_workers_of_a_server(
        self, make_site: Callable[..., Site], postgres_url: str
    ) -> None:
        site = make_site(postgres_url, ABEYANCE_LINK_RATE="100")
        _, port = site.serve("abeyance serve --workers 4")

        with ThreadPoolExecutor(8) as together:
            passed = statuses([one for (one,) in together.map(lambda _: come(port, CLIENT), range(300))])[404]

        assert 100 - 3 * 2 <= passed <= 100

    @pytest.mark.case("F10")
    def test_who_waits_as_long_as_told_gets_in(
        self, make_site: Callable[..., Site], postgres_url: str
    ) -> None:
        site = make_site(postgres_url, ABEYANCE_LINK_RATE="5")
        one, other = site.serve()[1], site.serve()[1]
        come(one, CLIENT, 5)
        (refused,) = come(other, CLIENT)
        assert 429 == refused.status

        time.sleep(int(refused.header("retry-after") or 0))  # the promise is about real time

        assert 404 == come(one, CLIENT)[0].status

    @pytest.mark.case("F10")
    def test_a_refused_flood_writes_nothing(self, make_site: Callable[..., Site], postgres_url: str) -> None:
        site = make_site(postgres_url, ABEYANCE_LINK_RATE="10")
        _, port = site.serve()
        come(port, CLIENT, 11)
        with psycopg.connect(postgres_url, autocommit=True) as database:
            row = database.execute("SELECT ctid, xmin, xmax FROM permits").fetchall()

            assert {429: 500} == statuses(come(port, CLIENT, 500))
            time.sleep(1.1)  # what is answered from memory ends
            assert {429: 500} == statuses(come(port, CLIENT, 500))

            assert row == database.execute("SELECT ctid, xmin, xmax FROM permits").fetchall()

    def test_a_method_that_the_link_lacks_is_said_first(self, make_site: Callable[..., Site]) -> None:
        site = make_site(None, ABEYANCE_LINK_RATE="1")
        _, port = site.serve()
        come(port, CLIENT, 2)
        headers = [("X-Forwarded-For", CLIENT)]

        assert 405 == send(port, request(UNKNOWN, headers=headers, method="GET")).status
        page = send(port, request("/w/nobodys", headers=headers, method="GET"))
        assert (429, True) == (page.status, 1 <= int(page.header("retry-after") or 0) <= 60)
        assert 429 == come(port, CLIENT, path="/v1/wait-tokens/a/b/complete")[0].status

    def test_0_sets_none(self, make_site: Callable[..., Site]) -> None:
        site = make_site(None, ABEYANCE_LINK_RATE="0")
        _, port = site.serve()

        assert {404: 700} == statuses(come(port, CLIENT, 700))


class TestAddress:
    def test_without_configured_proxies_nobody_is_believed(self, make_site: Callable[..., Site]) -> None:
        site = make_site(None, ABEYANCE_LINK_RATE="3", ABEYANCE_TRUSTED_PROXIES="192.0.2.1")
        _, port = site.serve()

        seen = [come(port, f"203.0.113.{number}")[0].status for number in range(5)]

        assert [404, 404, 404, 429, 429] == seen

    @pytest.mark.parametrize(
        "odd",
        [
            ("X-Forwarded-For", "\xff\xfe, unknown,,,"),
            ("X-Forwarded-For", "1," * 3_000 + CLIENT),
            ("Forwarded", 'for="' * 500),
            ("X_Forwarded_For", OTHER),
            ("X-Forwarded-For", ""),
        ],
    )
    def test_an_odd_header_crashes_nothing(
        self, make_site: Callable[..., Site], odd: tuple[str, str]
    ) -> None:
        _, port = make_site(None).serve()

        assert 404 == post(port, UNKNOWN, b"{}", odd).status


class TestLimitsStore:
    def test_the_link_works_without_it_and_it_is_said(
        self, make_site: Callable[..., Site], postgres_url: str
    ) -> None:
        site = make_site(postgres_url, ABEYANCE_LINK_RATE="10")
        server, port = site.serve()
        site.start_run(port)
        with psycopg.connect(postgres_url, autocommit=True) as database:
            database.execute("DROP TABLE permits CASCADE")

        body = b'{"pickupId": "pk_7"}'
        taken = post(port, site.path(), body)

        assert 200 == taken.status
        assert {404: 10, 429: 20} == statuses(come(port, CLIENT, 30))  # each process by itself
        assert 1 == server.printed.count("the limit of requests can't be shared")
        metrics = send(
            port, request("/metrics", headers=[("Authorization", f"Bearer {API_KEY}")], method="GET")
        )
        assert b"\nabeyance_limit_shared 0\n" in metrics.body

    def test_a_new_process_remembers_what_the_old_one_let_in(
        self, make_site: Callable[..., Site], postgres_url: str
    ) -> None:
        site = make_site(postgres_url, ABEYANCE_LINK_RATE="40")
        server, port = site.serve()
        come(port, CLIENT, 39)
        server.stop()

        _, port = site.serve()

        assert [404, 429] == [reply.status for reply in come(port, CLIENT, 2)]
