"""JSON on the command line: what is read, and that a bad one is told in one line and nothing is sent."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from abeyance.cli import documents
from abeyance.cli.documents import LIMIT_BYTES, read_document
from tests.unit.cli.conftest import Command, Outcome
from tests.unit.cli.fake_api import RUN_ID, FakeApi, a_run, a_token, waiting

RUN = f"/v1/runs/{RUN_ID}"
Answer = Callable[[str], Outcome]


@pytest.fixture
def answer(api: FakeApi, command: Command) -> Answer:
    """Answer the one wait of a run with this text."""
    api.answer(f"GET {RUN}", waiting(tokens=[a_token()]))
    api.answer(f"POST {RUN}/resume", a_run())
    return lambda text: command("runs", "resume", RUN_ID, f"--output={text}")


def refused(outcome: Outcome, api: FakeApi) -> str:
    """What a mistake in use says; it is one line, and nothing was asked."""
    assert (2, "", []) == (outcome.code, outcome.out, api.asked)
    assert outcome.err.startswith("error[usage]: ")
    assert 1 == outcome.err.count("\n")
    return outcome.err


@pytest.mark.case("M02")
class TestHostileJson:
    @pytest.mark.parametrize(
        ("content", "said"),
        [
            pytest.param(b"[" * 20_000 + b"]" * 20_000, "nests too deep", id="deep"),
            pytest.param(b'{"a":' * 101 + b"1" + b"}" * 101, "nests too deep", id="just-too-deep"),
            pytest.param(b"9" * 5_000, "too many digits", id="digits"),
            pytest.param(b'{"n":NaN}', "NaN", id="nan"),
            pytest.param(b'{"a":"\xe9"}', "encoding", id="latin-1"),
            pytest.param(b'{"a":1,"a":2}', "same key twice", id="duplicate"),
            pytest.param(b'{"a":1,"\\u0061":2}', "same key twice", id="duplicate-escaped"),
            pytest.param(b'"' + b"x" * (2 * LIMIT_BYTES) + b'"', "over 1048576 bytes", id="2-mib"),
            pytest.param(b'"\\ud800"', "surrogate", id="lone-surrogate"),
            pytest.param(b"{}{}", "isn't JSON", id="two-values"),
            pytest.param(b"", "empty", id="empty"),
            pytest.param(b"\xef\xbb\xbf \n", "empty", id="white-space"),
        ],
    )
    def test_a_file_is_refused_before_anything_is_sent(
        self, api: FakeApi, answer: Answer, tmp_path: Path, content: bytes, said: str
    ) -> None:
        (tmp_path / "answer.json").write_bytes(content)

        assert said in refused(answer("@answer.json"), api)

    def test_what_a_file_held_is_not_repeated(self, api: FakeApi, answer: Answer, tmp_path: Path) -> None:
        (tmp_path / "answer.json").write_text("secret-4711")

        assert "secret" not in refused(answer("@answer.json"), api)

    def test_a_folder_is_refused(self, api: FakeApi, answer: Answer, tmp_path: Path) -> None:
        assert "is a directory" in refused(answer(f"@{tmp_path}"), api)

    def test_a_file_that_is_not_there_is_refused(self, api: FakeApi, answer: Answer) -> None:
        assert "no such file" in refused(answer("@nowhere\u001b.json"), api)

    def test_a_file_that_may_not_be_read_is_refused(
        self, api: FakeApi, answer: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def denied(*_: object, **__: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("os.open", denied)

        assert "permission denied" in refused(answer("@answer.json"), api)

    def test_a_device_without_an_end_ends(self, api: FakeApi, answer: Answer) -> None:
        assert "over 1048576 bytes" in refused(answer("@/dev/zero"), api)

    def test_a_pipe_that_nobody_writes_to_ends(
        self, api: FakeApi, answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(documents, "PIPE_WAIT_MS", 20)
        os.mkfifo(tmp_path / "pipe")

        assert "nothing came out of the pipe" in refused(answer("@pipe"), api)

    def test_a_pipe_with_a_writer_is_read(self, api: FakeApi, answer: Answer, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=('{"pickupId":"pk_7"}',))
        writer.start()

        outcome = answer("@pipe")

        writer.join()
        assert 0 == outcome.code
        assert b'"value":{"pickupId":"pk_7"}' in api.sent[0].body


@pytest.mark.case("M03")
class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
    def test_another_encoding_is_called_by_its_name(
        self, api: FakeApi, answer: Answer, tmp_path: Path, encoding: str
    ) -> None:
        (tmp_path / "answer.json").write_bytes('{"pickupId":"pk_7"}'.encode(encoding))

        assert "encoding is UTF-" in refused(answer("@answer.json"), api)

    def test_utf_8_with_a_byte_order_mark_is_read(self, api: FakeApi, answer: Answer, tmp_path: Path) -> None:
        (tmp_path / "answer.json").write_bytes(b'\xef\xbb\xbf{"a":"\xc3\xa9"}\r\n')

        assert 0 == answer("@answer.json").code
        assert '"value":{"a":"é"}'.encode() in api.sent[0].body


@pytest.mark.case("M04")
class TestQuotesEatenByTheShell:
    def test_the_message_names_the_way_out(self, api: FakeApi, answer: Answer) -> None:
        said = refused(answer("{pickupId:pk_7}"), api)

        assert "--output=@file" in said
        assert "the shell has taken its quotes away" in said
        assert "pk_7" not in said

    def test_other_bad_json_gets_the_hint_too(self, api: FakeApi, answer: Answer) -> None:
        assert "--output=@file" in refused(answer("pk_7"), api)


class TestStandardInput:
    def test_it_is_read_to_its_end(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(b"[1.10]\n")
        with open(tmp_path / "in") as stdin:
            monkeypatch.setattr("sys.stdin", stdin)

            assert "[1.10]" == read_document("--input", "@-")

    def test_an_argument_that_is_not_utf_8_is_a_mistake_in_use(self, api: FakeApi, answer: Answer) -> None:
        """The operating system hands over bytes; Python keeps those it can't read as lone surrogates."""
        assert "encoding" in refused(answer('{"a":"\udce9"}'), api)
