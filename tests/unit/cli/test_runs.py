"""`abeyance runs start, get, list, cancel, journal`: what is sent, what is printed, how it exits."""

import json

import pytest

from tests.unit.cli.conftest import Command
from tests.unit.cli.fake_api import RUN_ID, SENTENCE, FakeApi, a_run, a_token, waiting

RUN = f"/v1/runs/{RUN_ID}"
START = ("runs", "start", "--flow=shop.ship-order")


class TestStart:
    def test_it_sends_what_was_given(self, api: FakeApi, command: Command) -> None:
        api.answer("POST /v1/runs", a_run("suspended"), 202)

        command(
            *START,
            '--input={"orderId":"ord_1001"}',
            "--label=order=ord_1001",
            "--label",
            "shop=a=b",
            "--ttl=2h",
            "--idempotency-key=k-1",
        )

        [request] = api.sent
        assert {
            "flow": "shop.ship-order",
            "input": {"orderId": "ord_1001"},
            "wait": False,
            "ttlMs": 7_200_000,
            "labels": {"order": "ord_1001", "shop": "a=b"},
        } == json.loads(request.body)
        assert "k-1" == request.headers["idempotency-key"]
        assert f"Bearer {'k' * 32}" == request.headers["authorization"]

    def test_numbers_go_out_digit_for_digit(self, api: FakeApi, command: Command) -> None:
        api.answer("POST /v1/runs", a_run(), 202)
        numbers = b"[1.10,-0,1e2,123456789012345678901234567890,1.000000000000000005]"

        command(*START, f"--input={numbers.decode()}")

        assert numbers in api.sent[0].body

    def test_output_comes_back_digit_for_digit(self, api: FakeApi, command: Command) -> None:
        body = json.dumps(a_run(output="HERE")).replace('"HERE"', "[1.10,-0.0,1e400]").encode()
        api.answer("POST /v1/runs", body, 202)

        outcome = command(*START)

        assert "[1.10,-0.0,1e400]" in "".join(outcome.out.split())

    def test_it_returns_as_soon_as_the_run_waits(self, api: FakeApi, command: Command) -> None:
        api.answer("POST /v1/runs", a_run("pending"), 202)
        api.answer(f"GET {RUN}", a_run("running"))
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()]))

        outcome = command(*START)

        assert 0 == outcome.code
        assert waiting(tokens=[a_token()]) == json.loads(outcome.out)
        assert SENTENCE + "\n" == outcome.err

    @pytest.mark.parametrize(
        ("status", "code"), [("completed", 0), ("suspended", 0), ("failed", 1), ("cancelled", 1)]
    )
    def test_it_exits_as_the_run_ends(self, api: FakeApi, command: Command, status: str, code: int) -> None:
        api.answer("POST /v1/runs", a_run("running"), 202)
        api.answer(f"GET {RUN}", a_run(status))

        assert code == command(*START).code

    def test_without_waiting_it_is_fine_whatever_the_run_does(self, api: FakeApi, command: Command) -> None:
        api.answer("POST /v1/runs", a_run("running"), 202)

        outcome = command(*START, "--no-wait")

        assert (0, "running") == (outcome.code, json.loads(outcome.out)["status"])
        assert ["POST"] == [request.method for request in api.asked]

    def test_it_bears_a_server_that_is_busy_for_a_moment(self, api: FakeApi, command: Command) -> None:
        api.answer("POST /v1/runs", a_run("running"), 202)
        api.refuse(f"GET {RUN}", 503, "tenant-state-unavailable")
        api.answer(f"GET {RUN}", a_run())

        assert 0 == command(*START).code

    def test_interrupted_it_names_the_run_that_goes_on(
        self, api: FakeApi, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_: float) -> None:
            raise KeyboardInterrupt

        api.answer("POST /v1/runs", a_run("running"), 202)
        monkeypatch.setattr("abeyance.cli.following.time.sleep", interrupt)

        outcome = command(*START)

        assert 130 == outcome.code
        assert f"Run {RUN_ID} goes on" in outcome.err

    def test_why_it_failed_is_said(self, api: FakeApi, command: Command) -> None:
        failure = {"code": "wait-token-timed-out", "message": "bell\u0007", "nodeId": "pickup"}
        api.answer("POST /v1/runs", a_run("failed", failure=failure), 202)

        outcome = command(*START)

        assert f"Run {RUN_ID} is failed in step pickup: wait-token-timed-out: bell\\u0007\n" == outcome.err

    @pytest.mark.parametrize(
        "arguments",
        [
            ("runs", "start"),
            ("runs", "start", "--flow=a", "--script=b"),
            (*START, "--input={}", "--input={}"),
            (*START, "--label=order"),
            (*START, "--label=order=1", "--label=order=2"),
            (*START, "--ttl=soon"),
            (*START, "--ttl=0"),
            (*START, "--colour"),
            ("runs", "strat"),
        ],
    )
    def test_a_mistake_in_use_is_2_and_sends_nothing(
        self, api: FakeApi, command: Command, arguments: tuple[str, ...]
    ) -> None:
        outcome = command(*arguments)

        assert 2 == outcome.code
        assert outcome.err.startswith("error[usage]: ")
        assert 1 == outcome.err.count("\n")
        assert [] == api.asked


class TestGet:
    def test_json_on_stdout_and_the_sentence_on_stderr(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()]))

        outcome = command("runs", "get", RUN_ID)

        assert 0 == outcome.code
        assert waiting(tokens=[a_token()]) == json.loads(outcome.out)
        assert SENTENCE + "\n" == outcome.err

    def test_a_run_that_waits_for_nothing_has_no_sentence(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}", a_run())

        assert "" == command("runs", "get", RUN_ID).err

    def test_a_refusal_is_1_with_its_code(self, api: FakeApi, command: Command) -> None:
        api.refuse(f"GET {RUN}", 404, "run-not-found")

        outcome = command("runs", "get", RUN_ID)

        assert (1, "") == (outcome.code, outcome.out)
        assert "error[run-not-found]: refused: run-not-found\n" == outcome.err

    def test_nobody_there_is_1(self, command: Command, free_port: int) -> None:
        outcome = command("runs", "get", RUN_ID, f"--url=http://127.0.0.1:{free_port}")

        assert 1 == outcome.code
        assert outcome.err.startswith("error[connection-failed]: ")

    def test_control_characters_of_a_reply_do_nothing_at_the_terminal(
        self, api: FakeApi, command: Command
    ) -> None:
        name = "\u009b31m\u202eevil\u2066"
        api.answer(
            f"GET {RUN}", json.dumps(waiting(tokens=[a_token(name=name)]), ensure_ascii=False).encode()
        )

        outcome = command("runs", "get", RUN_ID)

        assert not set(name) - set("31mevil") & set(outcome.out + outcome.err)
        assert name == json.loads(outcome.out)["waitingFor"]["tokens"][0]["name"]
        assert '"\\u009b31m\\u202eevil\\u2066"' in outcome.err


class TestList:
    def test_filters_are_sent(self, api: FakeApi, command: Command) -> None:
        page = {"data": [a_run()], "hasMore": False}
        api.answer("GET /v1/runs", page)

        outcome = command(
            "runs",
            "list",
            "--status=suspended",
            "--flow=shop.ship-order",
            "--label",
            "order=ord 1&1",
            "--limit=5",
        )

        assert page == json.loads(outcome.out)
        assert (
            "/v1/runs?status=suspended&definition=shop.ship-order&label=order%3Dord+1%261&limit=5"
            == api.asked[0].path.replace("%20", "+")
        )

    def test_a_table_has_a_line_a_run(self, api: FakeApi, command: Command) -> None:
        run = waiting(tokens=[a_token()]) | {"labels": {"order": "ord\u001b[31m"}}
        api.answer("GET /v1/runs", {"data": [run], "hasMore": True, "nextCursor": "c-2"})

        outcome = command("runs", "list", "--table")

        heading, line = outcome.out.splitlines()
        assert heading.split()[:3] == ["run", "status", "definition"]
        assert line.startswith(f"{RUN_ID}  suspended  shop.ship-order@0.1.0  2026-10-24 17:30:12.000Z")
        assert "order=ord\\u001b[31m" in line
        assert "--cursor=c-2" in outcome.err

    @pytest.mark.parametrize("option", ["--status=late", "--limit=0", "--limit=many", "--label=order"])
    def test_wrong_filters_are_a_mistake_in_use(self, api: FakeApi, command: Command, option: str) -> None:
        assert 2 == command("runs", "list", option).code
        assert [] == api.asked


class TestCancel:
    def test_the_run_after_it_is_printed(self, api: FakeApi, command: Command) -> None:
        api.answer(f"POST {RUN}/cancel", a_run("cancelled"))

        outcome = command("runs", "cancel", RUN_ID)

        assert (0, "cancelled") == (outcome.code, json.loads(outcome.out)["status"])

    def test_an_ended_run_refuses(self, api: FakeApi, command: Command) -> None:
        api.refuse(f"POST {RUN}/cancel", 409, "run-already-terminal", {"status": "completed"})

        outcome = command("runs", "cancel", RUN_ID)

        assert 1 == outcome.code
        assert outcome.err.startswith("error[run-already-terminal]: ")


class TestJournal:
    PAGE = {  # noqa: RUF012 - read only
        "data": [
            {
                "sequence": 1,
                "kind": "started",
                "timestamp": "2026-10-24T17:30:12.000Z",
                "payload": {"ttl": 1},
            },
            {
                "sequence": 2,
                "kind": "call-paused",
                "timestamp": "2026-10-24T17:30:12.481Z",
                "nodeId": "pickup",
                "content": {"n": 1.5},
            },
        ],
        "hasMore": True,
        "nextCursor": "2",
    }

    def test_it_is_printed_as_it_came(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}/journal", self.PAGE)

        outcome = command("runs", "journal", RUN_ID, "--content", "--after=1", "--limit=2")

        assert self.PAGE == json.loads(outcome.out)
        assert f"{RUN}/journal?after=1&limit=2&content=true" == api.asked[0].path

    def test_a_table_has_a_line_an_event(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {RUN}/journal", self.PAGE)

        outcome = command("runs", "journal", RUN_ID, "--content", "--table")

        lines = [line.split() for line in outcome.out.splitlines()]
        assert [
            ["#", "time", "event", "step", "content"],
            ["1", "2026-10-24", "17:30:12.000Z", "started"],
            ["2", "2026-10-24", "17:30:12.481Z", "call-paused", "pickup", '{"n":1.5}'],
        ] == lines
        assert "--after=2" in outcome.err


class TestIdempotencyKey:
    @pytest.mark.parametrize("verb", ["cancel", "retry"])
    def test_it_is_sent(self, api: FakeApi, command: Command, verb: str) -> None:
        api.answer(f"POST {RUN}/{verb}", a_run())

        command("runs", verb, RUN_ID, "--idempotency-key=k-1")

        assert ["k-1"] == [request.headers["idempotency-key"] for request in api.sent]

    @pytest.mark.parametrize("key", ["", " ", "x" * 256])
    def test_what_is_no_key_is_a_mistake_of_usage(self, api: FakeApi, command: Command, key: str) -> None:
        outcome = command("runs", "cancel", RUN_ID, f"--idempotency-key={key}")

        assert (2, []) == (outcome.code, api.asked)
        assert "--idempotency-key" in outcome.err
