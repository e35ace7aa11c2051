"""Which server the client and the command line find: the rule of `abeyance.client.discovery`."""

import os
from pathlib import Path

import pytest

from abeyance.client import ServerNotFound
from abeyance.client.discovery import dev_files, find_server, remove_dev_file, write_dev_file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, with the current folder two levels below it."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    return tmp_path


def written(path: Path, url: str = "http://127.0.0.1:8420", pid: int | None = None) -> Path:
    write_dev_file(path, url=url, token="t" * 32, pid=pid or os.getpid())
    return path


class TestDiscovery:
    def test_what_was_given_goes_first(self, project: Path) -> None:
        env = {"ABEYANCE_API_URL": "http://b", "ABEYANCE_API_KEY": "key"}

        assert ("http://a", "token") == (lambda s: (s.url, s.token))(find_server("http://a/", "token", env))
        assert ("http://a", "key") == (lambda s: (s.url, s.token))(find_server("http://a", None, env))

    def test_then_the_variables(self, project: Path) -> None:
        written(project / ".abeyance" / "dev.json")
        server = find_server(None, None, {"ABEYANCE_API_URL": "http://b/p/", "ABEYANCE_API_KEY": " key\n"})

        assert ("http://b/p", "key") == (server.url, server.token)

    def test_then_the_nearest_folder_upwards(self, project: Path) -> None:
        written(project / ".abeyance" / "dev.json", "http://127.0.0.1:1")
        near = written(project / "a" / ".abeyance" / "dev.json", "http://127.0.0.1:2")

        server = find_server(None, None, {})

        assert ("http://127.0.0.1:2", "t" * 32, near) == (server.url, server.token, server.found_in)

    def test_the_token_of_the_variable_goes_to_no_other_server(self, project: Path) -> None:
        written(project / ".abeyance" / "dev.json")

        assert "t" * 32 == find_server(None, None, {"ABEYANCE_API_KEY": "production"}).token

    def test_or_the_data_folder_that_is_set(self, project: Path) -> None:
        written(project / ".abeyance" / "dev.json", "http://127.0.0.1:1")
        written(project / "data" / "dev.json", "http://127.0.0.1:2")

        assert (
            "http://127.0.0.1:2" == find_server(None, None, {"ABEYANCE_DATA_DIR": str(project / "data")}).url
        )

    def test_then_the_one_that_was_started_last(self, project: Path) -> None:
        runtime = project / "run"
        _, last = dev_files(project / "elsewhere", {"XDG_RUNTIME_DIR": str(runtime)})
        written(last)

        assert "http://127.0.0.1:8420" == find_server(None, None, {"XDG_RUNTIME_DIR": str(runtime)}).url

    def test_the_file_is_the_users_alone(self, project: Path) -> None:
        path = written(project / ".abeyance" / "dev.json")

        assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
        assert [path] == list(path.parent.iterdir())

    def test_one_that_others_can_read_is_left_aside(self, project: Path) -> None:
        written(project / ".abeyance" / "dev.json").chmod(0o644)

        with pytest.raises(ServerNotFound, match="others may read it"):
            find_server(None, None, {})

    def test_one_of_another_user_is_left_aside(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        written(project / ".abeyance" / "dev.json")
        stranger = os.geteuid() + 1
        monkeypatch.setattr("os.geteuid", lambda: stranger)

        with pytest.raises(ServerNotFound, match="isn't a file of yours"):
            find_server(None, None, {})

    def test_a_link_to_one_is_left_aside(self, project: Path) -> None:
        path = written(project / "dev.json")
        (project / ".abeyance").mkdir()
        (project / ".abeyance" / "dev.json").symlink_to(path)

        with pytest.raises(ServerNotFound):
            find_server(None, None, {})

    def test_one_whose_server_has_gone_is_left_aside(self, project: Path) -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        written(project / ".abeyance" / "dev.json", pid=child)

        with pytest.raises(ServerNotFound, match="has gone"):
            find_server(None, None, {})

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"url":"u","token":1,"pid":1}', '{"url":"u","pid":0}'])
    def test_another_file_of_that_name_is_left_aside(self, project: Path, text: str) -> None:
        path = written(project / ".abeyance" / "dev.json")
        path.write_text(text)

        with pytest.raises(ServerNotFound, match=r"dev\.json"):
            find_server(None, None, {})

    def test_a_pipe_of_that_name_holds_nobody_up(self, project: Path) -> None:
        (project / ".abeyance").mkdir()
        os.mkfifo(project / ".abeyance" / "dev.json", 0o600)

        with pytest.raises(ServerNotFound):
            find_server(None, None, {})

    def test_without_any_the_ways_out_are_told(self, project: Path) -> None:
        with pytest.raises(ServerNotFound, match=r"abeyance dev.*ABEYANCE_API_URL"):
            find_server(None, None, {})

    def test_an_address_that_is_none_is_refused(self) -> None:
        with pytest.raises(ServerNotFound, match="http or https"):
            find_server("localhost:8420", None, {})

    def test_a_server_removes_only_its_own_file(self, project: Path) -> None:
        path = written(project / ".abeyance" / "dev.json", pid=os.getpid())

        remove_dev_file(path, pid=os.getpid() + 1)
        assert path.exists()

        remove_dev_file(path, pid=os.getpid())
        assert not path.exists()
