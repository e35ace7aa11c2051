"""`abeyance waits`: what is sent, what is printed, how it exits."""

import json

import pytest

from abeyance.http import waits_render as render
from abeyance.http.waits_samples import LINK, SHOWN, WAIT
from tests.unit.cli.conftest import Command
from tests.unit.cli.fake_api import FakeApi

RUN, ID = str(WAIT.run_id), WAIT.id
PATH = f"/v1/runs/{RUN}/waits/{ID.replace(':', '%3A')}"


def a_wait(**more: object) -> dict[str, object]:
    return {**json.loads(render.wait(WAIT)), **more}


class TestList:
    def test_it_asks_for_what_was_given_and_prints_the_page(self, api: FakeApi, command: Command) -> None:
        api.answer("GET /v1/waits", {"data": [a_wait()], "hasMore": False})

        outcome = command(
            "waits", "list", "--kind=token", "--name=the carrier", "--tool=t.x", f"--run={RUN}", "--limit=7",
            "--cursor=c",
        )  # fmt: skip

        assert (0, ID) == (outcome.code, json.loads(outcome.out)["data"][0]["waitId"])
        query = f"kind=token&name=the+carrier&tool=t.x&run={RUN}&limit=7&cursor=c"
        assert [query] == [asked.path.partition("?")[2].replace("%20", "+") for asked in api.asked]

    def test_a_table_says_how_to_go_on(self, api: FakeApi, command: Command) -> None:
        odd = a_wait(name="line\nbreak\x1b[31m")
        api.answer("GET /v1/waits", {"data": [odd], "hasMore": True, "nextCursor": "abc"})

        outcome = command("waits", "list", "--table")

        assert "shop.request-pickup@0.1.0" in outcome.out
        assert "line\\u000abreak\\u001b[31m" in outcome.out
        assert "There are more: --cursor=abc" in outcome.err


class TestShow:
    def test_it_names_the_command_that_answers_by_hand(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {PATH}", render.shown(SHOWN))

        outcome = command("waits", "show", RUN, ID)

        assert 2 == len(json.loads(outcome.out)["attempts"]["newest"])
        assert outcome.err.splitlines() == [
            f'The wait for "the carrier\'s pickup confirmation" of run {RUN} is open since '
            "2026-10-24T17:30:12.481Z and times out at 2026-10-25T09:00:00.000Z; 1 link answers it.",
            "Requests with its links so far: 1 bad-input, 1 wait-token-output-invalid.",
            f"To answer it by hand: abeyance runs resume {RUN} --waitpoint={ID} --output=<json>",
        ]

    def test_a_table_has_the_attempts(self, api: FakeApi, command: Command) -> None:
        api.answer(f"GET {PATH}", render.shown(SHOWN))

        outcome = command("waits", "show", RUN, ID, "--table")

        assert "wait-token-output-invalid  up to 256" in outcome.out

    @pytest.mark.parametrize(
        ("state", "said"), [("completed", "was answered"), ("timed-out", "timed out at 2026-10-24T18:")]
    )
    def test_a_closed_wait_says_how_it_ended(
        self, api: FakeApi, command: Command, state: str, said: str
    ) -> None:
        api.answer(f"GET {PATH}", a_wait(state=state, closedAt="2026-10-24T18:00:00.000Z"))

        outcome = command("waits", "show", RUN, ID)

        assert said in outcome.err
        assert "by hand" not in outcome.err

    def test_a_timer_needs_nobody(self, api: FakeApi, command: Command) -> None:
        timer = {"waitId": "timer:3", "kind": "timer", "dueAt": "2026-10-24T18:00:00.000Z", "nodeId": "3"}
        api.answer(f"GET /v1/runs/{RUN}/waits/timer%3A3", {**a_wait(), **timer, "timesOutAt": None})

        outcome = command("waits", "show", RUN, "timer:3")

        assert outcome.err == f"Run {RUN} waits for timer in step 3 until 2026-10-24T18:00:00.000Z.\n"


class TestExtend:
    def test_it_sends_the_moment_and_says_the_new_deadline(self, api: FakeApi, command: Command) -> None:
        api.answer(f"POST {PATH}/extend", a_wait())

        outcome = command("waits", "extend", RUN, ID, "--until=2026-10-25T11:00:00+02:00")

        assert {"until": "2026-10-25T11:00:00+02:00"} == json.loads(api.sent[0].body)
        assert "now times out at 2026-10-25T09:00:00.000Z." in outcome.err

    @pytest.mark.parametrize("until", ["tomorrow", "2026-10-25T11:00:00", "", "2026-10-25"])
    def test_a_time_without_a_zone_is_a_mistake(self, api: FakeApi, command: Command, until: str) -> None:
        outcome = command("waits", "extend", RUN, ID, f"--until={until}")

        assert (2, []) == (outcome.code, api.asked)


class TestRotate:
    def test_the_link_is_printed_this_once(self, api: FakeApi, command: Command) -> None:
        api.answer(f"POST {PATH}/rotate", render.rotated(WAIT, LINK))

        outcome = command("waits", "rotate", RUN, ID, "--idempotency-key=k-1")

        assert (b"{}", "k-1") == (api.sent[0].body, api.sent[0].headers["idempotency-key"])
        assert LINK == json.loads(outcome.out)["link"]
        assert LINK not in outcome.err
        assert "only time" in outcome.err


class TestRevoke:
    def test_it_says_what_can_be_done_now(self, api: FakeApi, command: Command) -> None:
        api.answer(f"POST {PATH}/revoke", a_wait(links=0))

        outcome = command("waits", "revoke", RUN, ID)

        assert f"abeyance runs resume {RUN} --waitpoint={ID} --output=<json>" in outcome.err
        assert f"abeyance waits rotate {RUN} {ID}" in outcome.err


class TestRefusals:
    @pytest.mark.parametrize("change", ["extend", "rotate", "revoke"])
    def test_a_closed_wait_exits_with_1_and_its_state(
        self, api: FakeApi, command: Command, change: str
    ) -> None:
        api.refuse(f"POST {PATH}/{change}", 409, "wait-token-closed", {"state": "cancelled"})
        more = ["--until=2026-10-25T11:00:00Z"] if change == "extend" else []

        outcome = command("waits", change, RUN, ID, *more)

        assert 1 == outcome.code
        assert "error[wait-token-closed]" in outcome.err
        assert "cancelled" in outcome.err
