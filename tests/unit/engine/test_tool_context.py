"""What a handler is given, and which pauses it may ask for."""

import copy
import logging
import math
from typing import Any

import pytest

from abeyance import InvalidPauseError, PauseAnswer, PauseNotAvailableError, ToolContext, WaitToken

URL = "https://runs.example/v1/wait-tokens/Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE/complete"


class TestPause:
    @pytest.mark.case("A16", "L01")
    def test_no_time_is_a_day(self) -> None:
        assert 86_400_000 == ToolContext.for_test().pause().timeout_ms

    @pytest.mark.case("A16", "L01")
    @pytest.mark.parametrize("timeout_ms", [1, 2_073_599_999, 2_073_600_000])
    def test_one_millisecond_to_24_days_are_taken(self, timeout_ms: int) -> None:
        assert timeout_ms == ToolContext.for_test().pause(timeout_ms).timeout_ms

    @pytest.mark.case("A16", "L01")
    @pytest.mark.parametrize(
        "timeout_ms", [0, -1, 2_073_600_001, 1.5, 1.0, True, "1000", math.inf, math.nan, None, 10**30, b"1"]
    )
    def test_any_other_time_is_refused_and_remembered(self, timeout_ms: Any) -> None:
        context = ToolContext.for_test()

        with pytest.raises(InvalidPauseError):
            context.pause(timeout_ms=timeout_ms)

        assert context.refusal is not None
        assert "invalid-pause" == context.refusal.code

    @pytest.mark.parametrize("name", [None, "x", "the carrier's pickup confirmation", "é" * 200, "🚚" * 200])
    def test_names_of_1_to_200_characters_are_taken(self, name: str | None) -> None:
        assert name == ToolContext.for_test().pause(name=name).name

    @pytest.mark.parametrize(
        "name",
        ["", " ", "\u2003\u00a0", "a" * 201, "a\nb", "a\x00", "\x1b[2J", "a\x7f", "a\x85", "\ud800", 7, b"x"],
    )
    def test_any_other_name_is_refused_without_being_quoted(self, name: Any) -> None:
        context = ToolContext.for_test()

        with pytest.raises(InvalidPauseError) as caught:
            context.pause(name=name)

        assert context.refusal is not None
        assert repr(name) not in str(caught.value)

    def test_the_line_is_the_callers(self) -> None:
        context = ToolContext.for_test()

        answer = context.pause()

        line = TestPause.test_the_line_is_the_callers.__code__.co_firstlineno + 3
        assert f"{__name__}:{line}" == answer.line

    def test_only_its_own_answers_are_its_own(self) -> None:
        context = ToolContext.for_test()
        first, second = context.pause(), context.pause()

        assert context.made(first)
        assert context.made(second)
        assert not context.made(PauseAnswer(first.timeout_ms, first.name, first.line))
        assert not context.made(copy.copy(first))
        assert not context.made(ToolContext.for_test().pause())


class TestPauseNotAvailable:
    def test_link_and_pause_are_refused_and_remembered(self) -> None:
        link, pause = ToolContext.for_test(pauses=False), ToolContext.for_test(pauses=False)

        with pytest.raises(PauseNotAvailableError):
            _ = link.wait_token
        with pytest.raises(PauseNotAvailableError):
            pause.pause(timeout_ms=-1)

        for context in (link, pause):
            assert context.refusal is not None
            assert "pause-not-available" == context.refusal.code

    def test_having_a_link_can_not_be_asked_for_quietly(self) -> None:
        with pytest.raises(PauseNotAvailableError):
            getattr(ToolContext.for_test(pauses=False), "wait_token", None)

    def test_the_first_refusal_counts(self) -> None:
        context = ToolContext.for_test()
        for wrong in (0, 1):
            with pytest.raises(InvalidPauseError):
                context.pause(name="" if wrong else None, timeout_ms=0)

        assert context.refusal is not None
        assert "timeout_ms" in context.refusal.reason


class TestToolContext:
    def context(self) -> ToolContext:
        return ToolContext(
            run_id="run",
            idempotency_key="key",
            tool_id="a.b",
            attempt=2,
            wait_token=WaitToken("pause:key:1", URL),
        )

    def test_the_link_stays_the_same(self) -> None:
        context = self.context()

        assert context.wait_token is context.wait_token
        assert URL == context.wait_token.url

    def test_no_repr_shows_the_link(self) -> None:
        context = self.context()

        assert "wait-tokens" not in repr(context) + repr(context.wait_token)

    def test_the_link_and_its_token_can_be_taken_out_of_a_text(self) -> None:
        token = URL.split("/")[-2]

        assert "no <link>, no <link>" == self.context().redact(f"no {URL}, no {token}")
        assert "nothing" == ToolContext.for_test(pauses=False).redact("nothing")

    def test_cancelling_is_seen(self) -> None:
        context = self.context()
        assert not context.cancelled

        context.cancel()

        assert context.cancelled
        assert ToolContext.for_test(cancelled=True).cancelled

    def test_log_records_carry_the_call(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, logger="abeyance.tools"):
            self.context().log.info("booked", extra={"van": 7})

        record = vars(caplog.records[0])
        assert ("a.b", "run", 2, 7) == (record["toolId"], record["runId"], record["attempt"], record["van"])


class TestPageOfALink:
    @pytest.mark.parametrize(
        "server", ["https://flows.example", "https://example.org/some/v1/wait-tokens/path"]
    )
    def test_it_is_where_the_link_is_under_the_public_address(self, server: str) -> None:
        token = WaitToken("pause:1:1", f"{server}/v1/wait-tokens/T-0_k/complete")

        assert f"{server}/w/T-0_k" == token.page_url
        assert "T-0_k" not in repr(token)
