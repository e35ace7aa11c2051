"""What links begin with: the public address, or the bound one and a warning, in every kind of process."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.project import Project, project, wait_until
from tests.support.site import Site, post

pytestmark = pytest.mark.slow
WARNING = "ABEYANCE_PUBLIC_URL is not set: links begin with the address that this server binds, "


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
        site.set_up(url, **variables)
        return site

    return make


@pytest.fixture
def database_url(store_kind: str, request: pytest.FixtureRequest) -> str | None:
    return str(request.getfixturevalue("postgres_url")) if store_kind == "postgres" else None


class TestServe:
    def test_without_one_links_have_the_bound_address_and_the_first_one_warns(
        self, make_site: Callable[..., Site], database_url: str | None
    ) -> None:
        site = make_site(database_url)
        server, port = site.serve()
        assert WARNING not in server.printed

        site.start_run(port)
        site.start_run(port)

        assert all(
            told["link"].startswith(f"http://127.0.0.1:{port}/v1/wait-tokens/") for told in site.told()
        )
        assert 1 == server.printed.count(f"{WARNING}http://127.0.0.1:{port}\n")
        assert 200 == post(port, site.path(), b'{"pickupId": "pk_7"}').status

    def test_it_warns_once_whichever_process_makes_the_link(
        self, make_site: Callable[..., Site], postgres_url: str
    ) -> None:
        site = make_site(postgres_url)
        server, port = site.serve("abeyance serve --workers 4")
        for _ in range(24):
            site.start_run(port)

        assert 24 == len(site.told())
        assert 1 == server.printed.count(WARNING)

    def test_a_port_that_the_system_chose_is_in_the_link(self, make_site: Callable[..., Site]) -> None:
        site = make_site(None)
        server = site.project.serve("abeyance serve --port 0")
        server.wait_for("serving at ")
        port = int(server.printed.split("serving at http://127.0.0.1:")[1].split()[0])
        wait_until(lambda: site.start_run(port)["status"] == "suspended", "it serves")

        assert site.told()[-1]["link"].startswith(f"http://127.0.0.1:{port}/")

    @pytest.mark.parametrize(
        "given", ["https://example.com/runs/of/mine", "https://example.com/runs/of/mine/"]
    )
    def test_a_path_in_it_is_kept_and_nothing_is_warned(
        self, make_site: Callable[..., Site], given: str
    ) -> None:
        """Whoever is in front takes the path away again."""
        site = make_site(None, ABEYANCE_PUBLIC_URL=given)
        server, port = site.serve()

        site.start_run(port)

        assert site.told()[0]["link"].startswith("https://example.com/runs/of/mine/v1/wait-tokens/")
        assert 200 == post(port, site.path(), b'{"pickupId": "pk_7"}').status
        assert WARNING not in server.printed

    @pytest.mark.parametrize("command", ["serve", "worker", "dev"])
    @pytest.mark.parametrize(
        "given",
        [
            "example.com",
            "ftp://example.com",
            "https://u:hunter2@example.com",
            "https://example.com?a=hunter2",
        ],
    )
    def test_a_wrong_one_stops_the_start_and_is_named(self, made: Project, command: str, given: str) -> None:
        made.environment |= {"ABEYANCE_PUBLIC_URL": given}

        done = made.shell(f"abeyance {command}", check=False)

        (line,) = done.stderr.splitlines()
        assert (1, "") == (done.returncode, done.stdout)
        assert line.startswith("error[configuration-error]: ABEYANCE_PUBLIC_URL: must ")
        assert "hunter2" not in line


class TestDev:
    def test_it_sets_its_own_and_warns_of_nothing(self, make_site: Callable[..., Site]) -> None:
        site = make_site(None)
        server, port = site.serve("abeyance dev --no-reload")

        site.start_run(port)

        assert site.told()[0]["link"].startswith(f"http://127.0.0.1:{port}/v1/wait-tokens/")
        assert "ABEYANCE_PUBLIC_URL" not in server.printed

    def test_one_that_is_set_goes_before_it(self, make_site: Callable[..., Site]) -> None:
        site = make_site(None, ABEYANCE_PUBLIC_URL="https://tunnel.example.com")
        _, port = site.serve("abeyance dev --no-reload")

        site.start_run(port)

        assert site.told()[0]["link"].startswith("https://tunnel.example.com/v1/wait-tokens/")


class TestWorker:
    def test_it_refuses_to_start_without_one(self, make_site: Callable[..., Site]) -> None:
        site = make_site(None)

        done = site.project.shell("abeyance worker", check=False)

        assert (1, "") == (done.returncode, done.stdout)
        assert done.stderr.startswith("error[configuration-error]: ABEYANCE_PUBLIC_URL is not set: a worker ")

    def test_links_that_it_hands_out_begin_with_it(
        self, make_site: Callable[..., Site], postgres_url: str
    ) -> None:
        site = make_site(postgres_url, ABEYANCE_PUBLIC_URL="https://example.com/runs")
        _, port = site.serve("abeyance serve --no-execute")
        site.serve("abeyance worker")

        run = site.start_run(port)

        assert "suspended" == run["status"]
        assert site.told()[0]["link"].startswith("https://example.com/runs/v1/wait-tokens/")
        assert 200 == post(port, site.path(), b'{"pickupId": "pk_7"}').status
