"""`abeyance runs resume`: the sentence of each wait, the answer, and the exit codes that it is to have."""

import json
from typing import Any

import pytest

from tests.unit.cli.conftest import Command
from tests.unit.cli.fake_api import NAME, RUN_ID, SENTENCE, TOKEN_ID, FakeApi, a_run, a_token, waiting

RUN = f"/v1/runs/{RUN_ID}"
ANSWER = '--output={"pickupId":"pk_7","pickupAt":"2026-10-25T09:00:00Z"}'
APPROVAL = {
    "approvalId": "ap-1",
    "tool": {"id": "shop.pay-back", "version": "0.2.0", "callId": "c-1"},
    "requiredRole": "senior",
    "expiresAt": "2026-10-25T17:30:12.000Z",
}
SIGNAL = {"name": "manager_review", "line": "shop:52", "timesOutAt": "2026-10-27T17:30:12.000Z"}
TIMER = {"what": "timer", "nodeId": "3", "dueAt": "2026-10-24T18:00:00.000Z"}


class TestWithoutOutput:
    def test_the_sentence_has_all_facts(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()]))

        outcome = command("runs", "resume", RUN_ID)

        assert (5, SENTENCE + "\n", "") == (outcome.code, outcome.err, outcome.out)

    def test_a_wait_without_a_name_is_for_an_answer(self, api: FakeApi, command: Command) -> None:
        token = a_token()
        del token["name"]
        api.answer(f"GET {RUN}", waiting(tokens=[token]))

        assert SENTENCE.replace(f'"{NAME}"', "an answer") + "\n" == command("runs", "resume", RUN_ID).err

    def test_control_characters_are_escaped(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token(name="a\u001b[2J\nb")]))

        assert '"a\\u001b[2J\\u000ab" from another system' in command("runs", "resume", RUN_ID).err

    @pytest.mark.parametrize(
        ("kinds", "code", "lines"),
        [
            ({"approvals": [APPROVAL]}, 3, 1),
            ({"approvals": [APPROVAL], "tokens": [a_token()], "other": [TIMER]}, 3, 3),
            ({"tokens": [a_token(), a_token(2)]}, 5, 2),
            ({"signals": [SIGNAL]}, 5, 1),
            ({"signals": [SIGNAL], "other": [TIMER]}, 5, 2),
            ({"other": [TIMER]}, 4, 1),
            ({"other": [TIMER, {"what": "something-new", "details": {"a": "b"}}]}, 4, 2),
        ],
    )
    def test_the_code_says_what_it_waits_for_and_each_wait_has_a_line(
        self, api: FakeApi, command: Command, kinds: dict[str, Any], code: int, lines: int
    ) -> None:
        api.answer(f"GET {RUN}", waiting(**kinds))

        outcome = command("runs", "resume", RUN_ID)

        assert (code, lines) == (outcome.code, outcome.err.count("\n"))
        assert [] == api.sent

    @pytest.mark.parametrize(
        ("kinds", "sentence"),
        [
            (
                {"approvals": [APPROVAL]},
                "an approval by the role senior of its call to shop.pay-back@0.2.0. "
                "It expires at 2026-10-25T17:30:12.000Z.",
            ),
            (
                {"signals": [SIGNAL]},
                'the signal "manager_review" at shop:52. It times out at 2026-10-27T17:30:12.000Z.',
            ),
            ({"other": [TIMER]}, "a timer in step 3 due at 2026-10-24T18:00:00.000Z."),
            (
                {
                    "other": [
                        {"what": "code-mismatch", "details": {"recorded": "call a", "requested": "call b"}}
                    ]
                },
                "code that fits its journal (recorded call a, requested call b).",
            ),
        ],
    )
    def test_other_waits_have_their_facts(
        self, api: FakeApi, command: Command, kinds: dict[str, Any], sentence: str
    ) -> None:
        api.answer(f"GET {RUN}", waiting(**kinds))

        assert f"Run {RUN_ID} waits for {sentence}\n" == command("runs", "resume", RUN_ID).err

    @pytest.mark.parametrize("status", ["running", "completed", "cancelled", "failed"])
    def test_a_run_that_waits_for_nothing_is_fine(self, api: FakeApi, command: Command, status: str) -> None:
        api.answer(f"GET {RUN}", a_run(status))

        outcome = command("runs", "resume", RUN_ID)

        assert (0, f"Run {RUN_ID} waits for nothing: it is {status}.\n") == (outcome.code, outcome.err)

    def test_a_waitpoint_needs_an_output(self, api: FakeApi, command: Command) -> None:
        assert 2 == command("runs", "resume", RUN_ID, f"--waitpoint={TOKEN_ID}").code
        assert [] == api.asked


class TestWithOutput:
    def test_the_answer_goes_to_the_only_wait(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()], other=[TIMER]))
        api.answer(f"POST {RUN}/resume", a_run())

        outcome = command("runs", "resume", RUN_ID, ANSWER)

        assert (0, "completed") == (outcome.code, json.loads(outcome.out)["status"])
        assert {
            "waitpointId": TOKEN_ID,
            "value": {"pickupId": "pk_7", "pickupAt": "2026-10-25T09:00:00Z"},
        } == json.loads(api.sent[0].body)

    def test_a_named_wait_is_answered_without_a_look(self, api: FakeApi, command: Command) -> None:
        """An answer is taken from the moment the link exists, also before the run waits."""
        api.answer(f"POST {RUN}/resume", a_run("running"))

        outcome = command("runs", "resume", RUN_ID, ANSWER, f"--waitpoint={TOKEN_ID}", "--idempotency-key=k")

        assert 0 == outcome.code
        assert ["POST"] == [request.method for request in api.asked]
        assert "k" == api.sent[0].headers["idempotency-key"]

    def test_the_next_wait_is_told_and_counts(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()]))
        api.answer(f"POST {RUN}/resume", waiting(approvals=[APPROVAL]))

        outcome = command("runs", "resume", RUN_ID, ANSWER)

        assert 3 == outcome.code
        assert "waits for an approval" in outcome.err

    def test_a_run_that_fails_after_the_answer_is_1(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()]))
        api.answer(f"POST {RUN}/resume", a_run("failed", failure={"code": "handler-error", "message": None}))

        assert 1 == command("runs", "resume", RUN_ID, ANSWER).code

    @pytest.mark.case("A11")
    def test_several_waits_and_none_named_are_listed_and_nothing_is_sent(
        self, api: FakeApi, command: Command
    ) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token(), a_token(2)]))

        outcome = command("runs", "resume", RUN_ID, "--output={}")

        assert (2, "", []) == (outcome.code, outcome.out, api.sent)
        assert f"--waitpoint={TOKEN_ID} --output=<json>" in outcome.err
        assert f"--waitpoint={TOKEN_ID[:-1]}2 --output=<json>" in outcome.err

    @pytest.mark.parametrize(
        ("run", "code"),
        [
            (a_run(), "run-already-terminal"),
            (a_run("running"), "run-resume-not-supported"),
            (waiting(approvals=[APPROVAL]), "run-resume-not-supported"),
            (waiting(signals=[SIGNAL]), "run-resume-not-supported"),
        ],
    )
    def test_where_nothing_waits_for_an_answer_nothing_is_sent(
        self, api: FakeApi, command: Command, run: dict[str, Any], code: str
    ) -> None:
        api.answer(f"GET {RUN}", run)

        outcome = command("runs", "resume", RUN_ID, ANSWER)

        assert (1, []) == (outcome.code, api.sent)
        assert outcome.err.startswith(f"error[{code}]: ")

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (400, "wait-token-output-invalid"),
            (404, "wait-token-not-found"),
            (409, "wait-token-closed"),
            (422, "x"),
        ],
    )
    def test_a_refused_answer_is_1(self, api: FakeApi, command: Command, status: int, code: str) -> None:
        api.refuse(f"POST {RUN}/resume", status, code)

        outcome = command("runs", "resume", RUN_ID, ANSWER, f"--waitpoint={TOKEN_ID}")

        assert 1 == outcome.code
        assert outcome.err.startswith(f"error[{code}]: ")

    def test_where_the_answer_does_not_fit_is_said(self, api: FakeApi, command: Command) -> None:
        issues = [{"path": "/pickupAt", "rule": "required"}]
        api.refuse(f"POST {RUN}/resume", 400, "wait-token-output-invalid", {"issues": issues})

        outcome = command("runs", "resume", RUN_ID, ANSWER, f"--waitpoint={TOKEN_ID}")

        assert "/pickupAt: required" in outcome.err

    def test_a_closed_wait_says_its_state(self, api: FakeApi, command: Command) -> None:
        api.refuse(f"POST {RUN}/resume", 409, "wait-token-closed", {"state": "timed-out"})

        assert "timed-out" in command("runs", "resume", RUN_ID, ANSWER, f"--waitpoint={TOKEN_ID}").err


@pytest.mark.case("M05")
class TestShapesOfOutput:
    @pytest.mark.parametrize(
        ("arguments", "sent"),
        [
            (('--output="@x"',), "@x"),
            (("--output=null",), None),
            (("--output", "-5"), -5),
            (("--output=[]",), []),
            (("--output=  {} ",), {}),
        ],
    )
    def test_any_json_is_an_answer(
        self, api: FakeApi, command: Command, arguments: tuple[str, ...], sent: object
    ) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()]))
        api.answer(f"POST {RUN}/resume", a_run())

        assert 0 == command("runs", "resume", RUN_ID, *arguments).code
        assert {"waitpointId": TOKEN_ID, "value": sent} == json.loads(api.sent[0].body)

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--output=",),
            ("--output=@",),
            ("--output= ",),
            ("--output={}", "--output={}"),
            ("--output={}", "--waitpoint="),
            ("--output={}", "--waitpoint= "),
            ("--output={}", "--waitpoint=a", "--waitpoint=b"),
            ("--output",),
        ],
    )
    def test_a_mistake_in_use_is_2_in_one_line_and_sends_nothing(
        self, api: FakeApi, command: Command, arguments: tuple[str, ...]
    ) -> None:
        outcome = command("runs", "resume", RUN_ID, *arguments)

        assert (2, "", []) == (outcome.code, outcome.out, api.asked)
        assert outcome.err.startswith("error[usage]: ")
        assert 1 == outcome.err.count("\n")

    def test_a_closed_stdin_is_a_mistake_in_use(
        self, api: FakeApi, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", None)

        outcome = command("runs", "resume", RUN_ID, "--output=@-")

        assert (2, []) == (outcome.code, api.asked)
        assert "standard input is closed" in outcome.err

    def test_a_closed_wait_is_1(self, api: FakeApi, command: Command) -> None:
        api.refuse(f"POST {RUN}/resume", 409, "wait-token-closed", {"state": "completed"})

        assert 1 == command("runs", "resume", RUN_ID, "--output={}", f"--waitpoint={TOKEN_ID}").code


class TestCheck:
    def test_an_answer_that_would_be_taken_exits_with_0(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()]))
        api.answer(f"POST {RUN}/resume", {"status": "acceptable"})

        outcome = command("runs", "resume", RUN_ID, ANSWER, "--check")

        assert (0, "") == (outcome.code, outcome.out)
        assert "would be taken" in outcome.err
        assert [f"{RUN}/resume?check=true"] == [request.path for request in api.sent]

    def test_an_answer_that_would_be_refused_exits_with_1_and_says_why(
        self, api: FakeApi, command: Command
    ) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()]))
        api.refuse(f"POST {RUN}/resume", 409, "wait-token-closed", {"state": "completed"})

        outcome = command("runs", "resume", RUN_ID, ANSWER, "--check")

        assert 1 == outcome.code
        assert outcome.err.startswith("error[wait-token-closed]: ")

    def test_without_an_answer_it_is_a_usage_error(self, api: FakeApi, command: Command) -> None:
        outcome = command("runs", "resume", RUN_ID, "--check")

        assert 2 == outcome.code
        assert [] == api.asked
