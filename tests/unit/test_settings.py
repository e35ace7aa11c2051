"""The settings: where a value comes from, which rule it keeps, and that the reference page has each."""

import base64
from pathlib import Path

import pytest

from abeyance.errors import ConfigurationError
from abeyance.settings import CLIENT_VARIABLES, Settings, unknown_variables
from scripts import settings_reference


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(env: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Settings.load(env)
    return str(caught.value)


class TestLoad:
    def test_without_any_variable_it_is_this_machine_only(self, tmp_path: Path) -> None:
        settings = Settings.load({})

        assert ("127.0.0.1", True, True, False) == (
            settings.host,
            settings.auth,
            settings.execute,
            settings.on_postgres,
        )
        assert tmp_path / ".abeyance" / "journal.db" == settings.journal_file
        assert tmp_path / ".abeyance" / "journal.keys" / "keys.db" == settings.keys_file
        assert tmp_path == settings.pack_dir

    def test_a_flag_goes_before_its_variable(self) -> None:
        settings = Settings.load({"ABEYANCE_PORT": "1", "ABEYANCE_HOST": "::1"}, {"port": 2, "host": None})

        assert (2, "::1") == (settings.port, settings.host)

    def test_an_empty_variable_is_an_unset_one(self) -> None:
        assert Settings.load({}) == Settings.load({"ABEYANCE_PUBLIC_URL": "", "ABEYANCE_PORT": ""})

    def test_only_the_given_environment_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ABEYANCE_PORT", "1")

        assert 8420 == Settings.load({}).port
        assert 1 == Settings.load().port

    def test_it_is_frozen(self) -> None:
        with pytest.raises(ValueError, match="frozen"):
            Settings.load({}).port = 1  # type: ignore[misc] # the type checker says so, too

    def test_a_setting_that_is_none_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="ABEYANCE_COLOUR"):
            Settings.load({}, {"colour": "red"})


class TestProject:
    def test_the_pack_and_the_data_folder_are_the_projects(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "pyproject.toml").write_text('[tool.abeyance]\npack = "shop"\n')
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "a" / "pyproject.toml").write_text("[project]\n")
        monkeypatch.chdir(tmp_path / "a" / "b")

        settings = Settings.load({})

        assert ("shop", tmp_path, tmp_path / ".abeyance") == (
            settings.pack,
            settings.pack_dir,
            settings.data_dir,
        )

    def test_the_variable_goes_before_it(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text('[tool.abeyance]\npack = "shop"\n')

        assert "other" == Settings.load({"ABEYANCE_PACK": "other"}).pack

    @pytest.mark.parametrize("text", ["[tool.abeyance", "[tool.abeyance]\npack = 1\n"])
    def test_a_wrong_file_is_named(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "pyproject.toml").write_text(text)

        assert "pyproject.toml" in refusal({})


class TestRules:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ORIGIN", "a b"),
            ("ORIGIN", "a+b"),
            ("DATABASE_URL", "mysql://u:hunter2hunter2-Ø@h/d"),
            ("DATABASE_URL", "sqlite:///"),
            ("DATABASE_URL", "sqlite:///:memory:"),
            ("DATABASE_URL", "sqlite://"),
            ("DATABASE_URL", "postgresql://u:hunter2hunter2-Ø@h/d"),
            ("KEYS_URL", "/tmp/keys"),
            ("PACK", "shop.py/x"),
            ("PACK", "shop-pack"),
            ("HOST", "http://localhost"),
            ("HOST", "a b"),
            ("PORT", "65536"),
            ("PORT", "-1"),
            ("PORT", "http"),
            ("AUTH", "maybe"),
            ("EXECUTE", "2"),
            ("API_KEY", "short"),
            ("API_KEY", "hunter2hunter2-Ø"),
            ("API_KEY", "two words and more"),
            ("ROOT_KEY", "base64:hunter2hunter2-Ø"),
            ("MASTER_KEY", "base64:a"),
            ("TRUSTED_PROXIES", "10.0.0.0/33"),
            ("TRUSTED_PROXIES", "proxy.example.com"),
            ("WORKERS", "0"),
            ("MAX_CALLS", "0"),
            ("LINK_RATE", "-1"),
            ("POLL_MS", "1.5"),
            ("LEASE_S", "1"),
            ("HOT_RUNS", "many"),
            ("DRAIN_S", "601"),
            ("LOG_LEVEL", "loud"),
        ],
    )
    def test_a_bad_value_names_its_variable_and_never_shows_itself(self, name: str, value: str) -> None:
        message = refusal({f"ABEYANCE_{name}": value})

        assert message.startswith(f"ABEYANCE_{name}: ")
        assert "hunter2" not in message

    def test_every_broken_rule_is_told(self) -> None:
        message = refusal({"ABEYANCE_PORT": "x", "ABEYANCE_LEASE_S": "0", "ABEYANCE_AUTH": "no way"})

        assert all(f"ABEYANCE_{name}: " in message for name in ("PORT", "LEASE_S", "AUTH"))

    def test_secrets_are_in_no_repr(self) -> None:
        key = "k" * 32
        env = {
            "ABEYANCE_API_KEY": key,
            "ABEYANCE_DATABASE_URL": f"postgresql://u:{key}@h/d",
            "ABEYANCE_KEYS_URL": f"postgresql://u:{key}@h/k",
            "ABEYANCE_MASTER_KEY": f"base64:{key}",
        }

        assert key not in repr(Settings.load(env))
        assert key not in str(Settings.load(env))

    @pytest.mark.parametrize("word", ["on", "ON", "true", "1", "yes"])
    def test_switches_take_the_usual_words(self, word: str) -> None:
        assert Settings.load({"ABEYANCE_AUTH": word}).auth is True

    def test_a_line_end_of_a_key_file_is_not_the_keys(self) -> None:
        assert "k" * 32 == Settings.load({"ABEYANCE_API_KEY": "k" * 32 + "\n"}).api_key


class TestPublicUrl:
    @pytest.mark.parametrize(
        ("given", "taken"),
        [
            ("https://runs.example.com", "https://runs.example.com"),
            ("https://runs.example.com/", "https://runs.example.com"),
            ("http://127.0.0.1:8420/a/b/", "http://127.0.0.1:8420/a/b"),
            ("https://[2001:db8::1]:443", "https://[2001:db8::1]:443"),
        ],
    )
    def test_a_path_is_kept(self, given: str, taken: str) -> None:
        assert taken == Settings.load({"ABEYANCE_PUBLIC_URL": given}).public_url

    @pytest.mark.parametrize(
        "url",
        [
            "runs.example.com",
            "ftp://runs.example.com",
            "https://",
            "https:///path",
            "https://runs.example.com?a=b",
            "https://runs.example.com/?",
            "https://runs.example.com/#top",
            "https://user:word@runs.example.com",
            "https://runs.example.com:99999",
            "https://runs.example.com:x",
            "https://[::1",
            "https://runs.example.com/a b",
            "https://rüns.example.com",
        ],
    )
    def test_anything_else_stops_the_start(self, url: str) -> None:
        assert refusal({"ABEYANCE_PUBLIC_URL": url}).startswith("ABEYANCE_PUBLIC_URL: must ")


class TestTogether:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "runs.example.com", "127.evil.example"])
    def test_no_authentication_only_on_loopback(self, host: str) -> None:
        assert "ABEYANCE_AUTH" in refusal({"ABEYANCE_AUTH": "off", "ABEYANCE_HOST": host})

    @pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
    def test_on_loopback_it_may_be_off(self, host: str) -> None:
        assert Settings.load({"ABEYANCE_AUTH": "off", "ABEYANCE_HOST": host}).auth is False

    def test_several_processes_need_postgres(self) -> None:
        url = "postgresql://h1:5432,h2:5433/runs?target_session_attrs=read-write"

        assert "ABEYANCE_WORKERS" in refusal({"ABEYANCE_WORKERS": "2"})
        assert 2 == Settings.load({"ABEYANCE_WORKERS": "2", "ABEYANCE_DATABASE_URL": url}).workers

    def test_keys_are_never_in_the_journals_file(self) -> None:
        env = {"ABEYANCE_DATABASE_URL": "sqlite:///a.db", "ABEYANCE_KEYS_URL": "sqlite:///a.db"}

        assert "ABEYANCE_KEYS_URL" in refusal(env)

    def test_four_slashes_are_from_the_root(self, tmp_path: Path) -> None:
        relative = Settings.load({"ABEYANCE_DATABASE_URL": "sqlite:///a/b.db"})
        absolute = Settings.load({"ABEYANCE_DATABASE_URL": "sqlite:////srv/b.db"})

        assert (tmp_path / "a/b.db", Path("/srv/b.db")) == (relative.journal_file, absolute.journal_file)

    def test_on_postgres_there_is_no_file(self) -> None:
        settings = Settings.load({"ABEYANCE_DATABASE_URL": "postgres://h/d"})

        assert (True, None, None) == (settings.on_postgres, settings.journal_file, settings.keys_file)


class TestKeys:
    def test_they_are_read_from_the_folder(self, tmp_path: Path) -> None:
        for name in ("root.pem", "event.pem", "master.key"):
            (tmp_path / name).write_bytes(name.encode())
        settings = Settings.load({"ABEYANCE_KEY_DIR": str(tmp_path)})

        assert (b"root.pem", b"event.pem", b"master.key") == (
            settings.key("root"),
            settings.key("event"),
            settings.key("master"),
        )

    def test_one_that_is_named_goes_before_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "event").write_bytes(b"from a file")
        env = {
            "ABEYANCE_KEY_DIR": str(tmp_path),
            "ABEYANCE_EVENT_KEY": str(tmp_path / "event"),
            "ABEYANCE_MASTER_KEY": "base64:" + base64.b64encode(b"\x00" * 32).decode(),
        }
        settings = Settings.load(env)

        assert (b"from a file", b"\x00" * 32) == (settings.key("event"), settings.key("master"))

    def test_there_may_be_none(self) -> None:
        assert Settings.load({}).key("root") is None

    @pytest.mark.parametrize("content", [None, b"", b"x" * 20_000])
    def test_one_that_cannot_be_read_names_the_variable(self, tmp_path: Path, content: bytes | None) -> None:
        if content is not None:
            (tmp_path / "root").write_bytes(content)
        settings = Settings.load({"ABEYANCE_ROOT_KEY": str(tmp_path / "root")})

        with pytest.raises(ConfigurationError, match=r"^ABEYANCE_ROOT_KEY: the key file "):
            settings.key("root")


class TestRoles:
    def test_dev_needs_nothing(self) -> None:
        Settings.load({}).check_for("dev")

    def test_serve_needs_a_key_to_be_asked_with_unless_nobody_is_asked(self) -> None:
        with pytest.raises(ConfigurationError, match="ABEYANCE_API_KEY"):
            Settings.load({"ABEYANCE_KEY_DIR": "keys"}).check_for("serve")

        Settings.load({"ABEYANCE_KEY_DIR": "keys", "ABEYANCE_AUTH": "off"}).check_for("serve")

    def test_the_four_keys_stand_for_the_folder(self) -> None:
        env = {f"ABEYANCE_{name}_KEY": name for name in ("ROOT", "EVENT", "LOG")} | {
            "ABEYANCE_API_KEY": "k" * 32
        }
        with pytest.raises(ConfigurationError, match="ABEYANCE_MASTER_KEY"):
            Settings.load(env).check_for("serve")

        Settings.load(env | {"ABEYANCE_MASTER_KEY": "m"}).check_for("serve")

    def test_a_worker_needs_a_public_url(self) -> None:
        with pytest.raises(ConfigurationError, match="ABEYANCE_PUBLIC_URL"):
            Settings.load({"ABEYANCE_KEY_DIR": "keys"}).check_for("worker")


class TestUnknownVariables:
    def test_a_slip_is_found_and_what_is_meant(self) -> None:
        env = {"ABEYANCE_PUBLC_URL": "x", "ABEYANCE_XYZZY": "x", "ABEYANCE_PORT": "1", "PATH": "/bin"}

        assert {"ABEYANCE_PUBLC_URL": "ABEYANCE_PUBLIC_URL", "ABEYANCE_XYZZY": None} == unknown_variables(env)

    def test_the_clients_and_the_tests_own_are_known(self) -> None:
        assert {} == unknown_variables(dict.fromkeys((*CLIENT_VARIABLES, "ABEYANCE_TEST_SEED"), "x"))


class TestReference:
    def test_the_page_is_what_the_settings_say(self) -> None:
        """If this fails: `python -m scripts.settings_reference`."""
        assert settings_reference.page() == settings_reference.PAGE.read_text(encoding="utf-8")

    @pytest.mark.parametrize("name", [*Settings.model_fields, "api_url"])
    def test_each_setting_has_its_section_and_a_description(self, name: str) -> None:
        page = settings_reference.PAGE.read_text(encoding="utf-8")
        section = page.partition(f"## `ABEYANCE_{name.upper()}`\n")[2].partition("\n## ")[0]

        assert len(section.split()) > 5
        assert "Default: " in section or "Unset: " in section
