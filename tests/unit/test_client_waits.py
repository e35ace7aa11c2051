"""`client.waits` reads what the API writes, and sends what it takes."""

import json
from datetime import datetime

import pytest

from abeyance.client import Client
from abeyance.client import waits as results
from abeyance.client.errors import UnexpectedReply
from abeyance.http import waits_render as render
from abeyance.http.schemas import read_body
from abeyance.http.waits_samples import LINK, SHOWN, WAIT
from abeyance.http.waits_schemas import ExtendBody
from abeyance.journal.canonical import canonicalise
from tests.unit.cli.fake_api import FakeApi, serving

PATH = f"/v1/runs/{WAIT.run_id}/waits/{WAIT.id.replace(':', '%3A')}"


def client(api: FakeApi) -> Client:
    return Client(api.url, "k" * 32)


class TestWaits:
    def test_every_field_arrives(self) -> None:
        source = render.shown(SHOWN).decode()

        wait = results.parse_wait(json.loads(source), source)

        assert (WAIT.id, str(WAIT.run_id), WAIT.kind, WAIT.state, WAIT.name, WAIT.node, WAIT.line) == (
            wait.id, wait.run_id, wait.kind, wait.state, wait.name, wait.node_id, wait.line,
        )  # fmt: skip
        assert wait.tool is not None
        assert (WAIT.tool_id, WAIT.tool_version) == (wait.tool.id, wait.tool.version)
        assert (WAIT.created_at, WAIT.due_at, WAIT.links) == (wait.created_at, wait.due_at, wait.links)
        assert wait.attempts is not None
        assert SHOWN.attempts.counts == wait.attempts.counts
        assert [(each.verdict, each.size, each.client.hex()) for each in SHOWN.attempts.newest] == [
            (each.verdict, each.size, each.client) for each in wait.attempts.newest
        ]

    def test_a_link_is_not_in_the_wait_s_own_text(self) -> None:
        """So that no log of it has one."""
        source = render.rotated(WAIT, LINK).decode()

        wait = results.parse_wait(json.loads(source), source)

        assert LINK == wait.link
        assert LINK not in repr(wait)

    def test_what_extends_a_wait_is_what_the_api_reads(self) -> None:
        until = datetime.fromisoformat("2026-10-25T11:00:00.123456+02:00")
        with serving() as api:
            api.answer(f"POST {PATH}/extend", render.wait(WAIT))

            with client(api) as opened:
                opened.waits.extend(WAIT.run_id, WAIT.id, until=until)

            (sent,) = api.sent
        assert until == read_body(ExtendBody, canonicalise(sent.body)).until

    def test_a_time_without_a_zone_is_no_moment(self) -> None:
        with serving() as api, client(api) as opened, pytest.raises(ValueError, match="time zone"):
            opened.waits.extend(WAIT.run_id, WAIT.id, until=WAIT.created_at.replace(tzinfo=None))

    def test_a_reply_that_lacks_something_is_told_so(self) -> None:
        with pytest.raises(UnexpectedReply):
            results.parse_wait({"waitId": "x"}, "")
