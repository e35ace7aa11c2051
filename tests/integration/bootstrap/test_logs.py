"""What a process's log holds of what others log into it: no token, no key, no error's text."""

import asyncio
import contextlib
import gc
import io
import logging
import sys
import threading
from collections.abc import Iterator

import httpx
import pytest
from gunicorn.config import Config
from pydantic import BaseModel, ValidationError

from abeyance.bootstrap.logs import GunicornLog, SafeHandler, configure_logging, redact
from abeyance.errors import CallFailedError, ConfigurationError, StoreUnavailableError

TOKEN = "q8Zt3vXo1xYk0c5mJ7nW9bD2fH4sL6pRaE-gT_iUyQs"
LINK = f"https://runs.example.com/a/v1/wait-tokens/{TOKEN}/complete"
KEY = "no-prefix-and-16-characters"
CANARY = "canary7f3a"
SECRETS = (TOKEN, KEY, CANARY)


class Log:
    """What was written to stderr since logging was configured."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    def is_clean(self) -> bool:
        return bool(self.text) and not any(secret in self.text for secret in SECRETS)


@contextlib.contextmanager
def configured(monkeypatch: pytest.MonkeyPatch, *, dev: bool = False, level: str = "debug") -> Iterator[Log]:
    root = logging.getLogger()
    names = ("httpx", "httpcore", "asyncio", "abeyance.calls", "gunicorn.error", "gunicorn.access")
    levels = {name: logging.getLogger(name).level for name in names}
    before = root.handlers, root.level, threading.excepthook, sys.unraisablehook
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging(level, secrets=(KEY, None), dev=dev)
    try:
        yield Log(stream)
    finally:
        root.handlers, root.level, threading.excepthook, sys.unraisablehook = before
        for name in names:
            logging.getLogger(name).setLevel(levels[name])
        logging.getLogger("gunicorn.access").disabled = False


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    with configured(monkeypatch) as made:
        yield made


class TestRedact:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (LINK, "https://runs.example.com/a/v1/wait-tokens/:token/complete"),
            (f"POST /v1/wait-tokens/{TOKEN}x/complete HTTP", "POST /v1/wait-tokens/:token/complete HTTP"),
            ("/v1/wait-tokens/guess?q=1", "/v1/wait-tokens/:token?q=1"),
            ("'/w/secret'", "'/w/:token'"),
            ("https://runs.example.com/w/secret)", "https://runs.example.com/w/:token)"),
            ("/v1/hooks/secret/", "/v1/hooks/:token/"),
            ("%2Fv1%2Fwait-tokens%2Fsecret%2Fcomplete", "%2Fv1%2Fwait-tokens%2F:token%2Fcomplete"),
            ("%2Fw%2Fsecret", "%2Fw%2F:token"),
            ("/v1/wait%2Dtokens/%71secret/complete", "/v1/wait%2Dtokens/:token/complete"),
            (r'"\/v1\/wait-tokens\/secret\/complete"', r'"\/v1\/wait-tokens\/:token\/complete"'),
            (f"<Request: POST 'http://h/w/{TOKEN}'>", "<Request: POST 'http://h/w/:token'>"),
            (f"{{'token': '{TOKEN}'}}", "{'token': ':token'}"),
            (f"b'{TOKEN}'", "b':token'"),
            ("Authorization: Bearer sesame", "Authorization: Bearer …"),
            ("(b'authorization', b'bearer sesame')", "(b'authorization', b'bearer …')"),
            ("key abk_8f3K_-x, next", "key abk_…, next"),
            (f"the key {KEY}", "the key abk_…"),
        ],
    )  # fmt: skip
    @pytest.mark.case("E07")
    def test_what_is_a_credential_goes(self, text: str, expected: str) -> None:
        assert expected == redact(text, (KEY,))

    @pytest.mark.parametrize(
        "text",
        [
            "method=POST route=/v1/wait-tokens/:token/complete status=200",
            "/v1/runs/01928000-0000-7000-8000-000000000001/journal",
            "sha256 " + "ab" * 32,
            "/var/lib/new/window.db",
            "src/abeyance/http/resources/links.py",
        ],
    )
    def test_everything_else_stays(self, text: str) -> None:
        assert text == redact(text)


class Secretive(BaseModel):
    """What a validation fails on is part of its error."""

    number: int


def validation_error() -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        Secretive.model_validate({"number": CANARY})
    return raised.value


class TestErrors:
    @pytest.mark.case("E07")
    @pytest.mark.parametrize(
        "error",
        [
            RuntimeError(f"{CANARY} {LINK}"),
            KeyError(CANARY),
            CallFailedError(CANARY, tool="t", operation="o"),
            httpx.ConnectError(f"can't reach {LINK}", request=httpx.Request("POST", LINK)),
            OSError(28, "No space left on device", f"/data/{CANARY}"),
        ],
    )
    def test_their_text_is_not_written_nor_that_of_their_causes(self, log: Log, error: Exception) -> None:
        try:
            try:
                raise error
            except type(error) as caught:
                raise ValueError(CANARY) from caught
        except ValueError:
            logging.getLogger("anybody").exception("it failed")

        assert log.is_clean()
        assert "builtins.ValueError" in log.text
        assert type(error).__name__ in log.text
        assert "test_logs.py" in log.text

    def test_what_a_model_refused_is_not_written(self, log: Log) -> None:
        logging.getLogger("anybody").error("invalid", exc_info=validation_error())

        assert log.is_clean()

    def test_what_helps_and_says_nothing_of_anybody_is_written(self, log: Log) -> None:
        said = ("ABEYANCE_PORT: must be free", "No space left on device", "no module named xyzzy")
        for error in (ConfigurationError(said[0]), OSError(28, said[1]), ImportError(said[2])):
            logging.getLogger("anybody").error("it failed", exc_info=error)

        assert [] == [text for text in said if text not in log.text]

    def test_a_formatter_before_ours_leaves_nothing_behind(self, log: Log) -> None:
        other = logging.StreamHandler(io.StringIO())
        logging.getLogger().handlers.insert(0, other)

        logging.getLogger("anybody").error("it failed", exc_info=RuntimeError(CANARY))

        assert log.is_clean()

    def test_of_a_group_each_is_named(self, log: Log) -> None:
        group = ExceptionGroup(CANARY, [KeyError(CANARY), ExceptionGroup(LINK, [OSError(CANARY)])])

        logging.getLogger("anybody").error("it failed", exc_info=group)

        assert log.is_clean()
        assert "KeyError" in log.text
        assert "OSError" in log.text

    def test_causes_that_go_in_a_circle_end(self, log: Log) -> None:
        one, other = StoreUnavailableError("one"), RuntimeError("other")
        one.__cause__, other.__cause__ = other, one

        logging.getLogger("anybody").error("it failed", exc_info=one)

        assert 1 == log.text.count("caused by")


class TestLibraries:
    @pytest.mark.case("E07")
    def test_a_task_whose_error_nobody_took_is_named_only(self, log: Log) -> None:
        async def lose() -> None:
            async def fail() -> None:
                raise RuntimeError(f"{CANARY} {LINK}")

            task = asyncio.ensure_future(fail())
            await asyncio.wait([task])
            del task

        asyncio.run(lose())
        gc.collect()

        assert "Task exception was never retrieved" in log.text
        assert log.is_clean()

    def test_a_loop_in_debug_mode_shows_no_result(self, log: Log) -> None:
        logging.getLogger("asyncio").warning(
            "Executing %s took %.3f seconds", f"<Task finished result=b'{CANARY}'>", 0.2
        )

        assert log.is_clean()

    def test_httpx_says_nothing_of_the_requests_of_tools(self, log: Log) -> None:
        transport = httpx.MockTransport(lambda _: httpx.Response(200))
        with httpx.Client(transport=transport) as client:
            client.post(f"https://carrier.example/{CANARY}?callback={LINK}")

        assert "" == log.text

    def test_what_a_library_logs_of_a_link_is_its_route(self, log: Log) -> None:
        logging.getLogger("urllib3").debug('"%s %s HTTP/1.1" %s', "POST", LINK, 200)
        logging.getLogger("psycopg").debug("%r", {"token": TOKEN, "key": KEY.encode()})

        assert log.is_clean()
        assert "/a/v1/wait-tokens/:token/complete" in log.text

    @pytest.mark.case("E07")
    def test_gunicorn_logs_as_we_do_and_no_access(self, log: Log) -> None:
        config = Config()
        config.set("errorlog", "-")
        config.set("accesslog", "-")
        gunicorn = GunicornLog(config)
        try:
            raise RuntimeError(f"{CANARY} {LINK}")
        except RuntimeError:
            gunicorn.exception("Error handling request %s", f"/v1/wait-tokens/{TOKEN}/complete")
        gunicorn.access_log.info("POST /v1/wait-tokens/%s/complete", TOKEN)

        assert log.is_clean()
        assert 1 == log.text.count("/v1/wait-tokens/:token/complete")


class TestCrashes:
    def test_what_ends_a_thread_is_named_only(self, log: Log) -> None:
        def fail() -> None:
            raise RuntimeError(f"{CANARY} {LINK}")

        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()

        assert log.is_clean()
        assert "a thread ended" in log.text

    def test_what_nobody_can_be_told_is_named_only(self, log: Log) -> None:
        class Odd:
            def __del__(self) -> None:
                raise RuntimeError(CANARY)

        odd = Odd()
        del odd
        gc.collect()

        assert log.is_clean()

    def test_a_record_that_cant_be_written_is_named_without_its_arguments(self, log: Log) -> None:
        (ours,) = (each for each in logging.getLogger().handlers if isinstance(each, SafeHandler))
        ours.handle(logging.makeLogRecord({"name": "anybody", "msg": "%d and %s", "args": (CANARY, TOKEN)}))

        assert log.is_clean()
        assert "anybody" in log.text


class TestHandlersErrors:
    @pytest.mark.parametrize(("dev", "shown"), [(True, True), (False, False)])
    def test_their_text_is_for_whoever_writes_the_handler(
        self, monkeypatch: pytest.MonkeyPatch, dev: bool, shown: bool
    ) -> None:
        """At debug level too, `serve` and `worker` don't show it."""
        with configured(monkeypatch, dev=dev) as log:
            logging.getLogger("abeyance.calls").debug("RuntimeError: no such depot, %s", LINK)
            logging.getLogger("anybody").info("done")

        assert shown == ("no such depot" in log.text)
        assert TOKEN not in log.text

    def test_the_level_is_kept_where_it_is_higher(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with configured(monkeypatch, level="error") as log:
            logging.getLogger("abeyance.calls").warning("a call failed")
            logging.getLogger("httpx").warning("odd")

        assert "" == log.text
