"""Timeouts of waits and the time to live of runs, as API, client and command line give them.

Deadlines are stored times: what is shown, what refuses a late answer and what fails the run is one moment.
"""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from abeyance import Client
from tests.support.fleet import KEY, Fleet
from tests.support.fleet_fixture import servers

pytestmark = pytest.mark.slow

__all__ = ["servers"]

DAY = timedelta(days=1)
MILLISECOND = timedelta(milliseconds=1)


def time_of(text: str) -> datetime:
    """A time of the API."""
    return datetime.fromisoformat(text)


def lifetime(run: Any) -> timedelta:
    """From its start to when its time to live is over, as shown: to the millisecond."""
    return time_of(run["expiresAt"]) - time_of(run["createdAt"])


def token(run: Any) -> Any:
    """The wait of a run."""
    (found,) = run["waitingFor"]["tokens"]
    return found


class TestTimeout:
    @pytest.mark.case("A16", "L01")
    @pytest.mark.parametrize("milliseconds", [1_000_000, 2_073_600_000 - 1, 2_073_600_000])
    def test_a_wait_lasts_exactly_as_long_as_its_pause_says(self, servers: Fleet, milliseconds: int) -> None:
        """Up to 24 days."""
        run = servers.start("fleet.strict", uuid4().hex, timeoutMs=milliseconds)

        wait = token(run)

        lasts = time_of(wait["timesOutAt"]) - time_of(wait["createdAt"])
        assert abs(lasts - timedelta(milliseconds=milliseconds)) <= MILLISECOND

    @pytest.mark.case("A16", "L01")
    @pytest.mark.parametrize("milliseconds", [2_073_600_001, 0, -1, 10**15])
    def test_another_time_fails_the_call(self, servers: Fleet, milliseconds: int) -> None:
        """With a code of its own, at once."""
        run = servers.start("fleet.strict", uuid4().hex, timeoutMs=milliseconds)

        assert ("failed", "invalid-pause") == (run["status"], run["failure"]["code"])

    @pytest.mark.case("L06")
    def test_a_wait_of_a_millisecond_times_out_once(self, servers: Fleet) -> None:
        run = servers.start("fleet.strict", uuid4().hex, timeoutMs=1)

        ended = servers.settled(run["id"])

        assert "wait-token-timed-out" == ended["failure"]["code"]
        assert 1 == servers.topics(run["id"]).count("wait-token-timed-out")


class TestTimeToLive:
    def test_is_thirty_days_unless_something_else_is_said(self, servers: Fleet) -> None:
        run = servers.start("fleet.strict", uuid4().hex)

        assert 30 * DAY == lifetime(run)

    def test_is_said_through_the_api_the_client_and_the_command_line(self, servers: Fleet) -> None:
        order = {"name": uuid4().hex}
        with Client(f"http://127.0.0.1:{servers.port}", KEY) as client:
            of_client = client.runs.start(flow="fleet.strict", input=order, ttl_ms=365 * 86_400_000)
        of_api = servers.start("fleet.strict", order["name"], ttl_ms=90_061_001)
        typed = servers.operator.shell(
            f"abeyance runs start --flow=fleet.strict --input='{json.dumps(order)}' --ttl 2h"
        )

        assert 365 * DAY == of_client.expires_at - of_client.created_at
        assert timedelta(milliseconds=90_061_001) == lifetime(of_api)
        assert timedelta(hours=2) == lifetime(json.loads(typed.stdout))

    @pytest.mark.parametrize("milliseconds", [365 * 86_400_000 + 1, 0, -1, 10**30, 1.5, "1", True])
    def test_beyond_a_year_or_below_a_millisecond_it_is_refused(
        self, servers: Fleet, milliseconds: object
    ) -> None:
        name = uuid4().hex
        body = {"flow": "fleet.strict", "input": {"name": name}, "ttlMs": milliseconds}

        reply = servers.post("/v1/runs", body)

        assert (400, "bad-input") == (reply.status, json.loads(reply.body)["error"]["code"])
        assert [] == servers.noted(name)

    def test_on_the_command_line_too(self, servers: Fleet) -> None:
        start = 'abeyance runs start --flow=fleet.strict --input=\'{"name":"x"}\' --ttl'

        codes = [
            servers.operator.shell(f"{start} {ttl}", check=False).returncode for ttl in ("0", "-1", "1w")
        ]

        assert [2, 2, 2] == codes
        assert 1 == servers.operator.shell(f"{start} 366d", check=False).returncode

    def test_it_bounds_every_wait(self, servers: Fleet) -> None:
        """The wait is shown to end with the run."""
        run = servers.start("fleet.strict", uuid4().hex, timeoutMs=2_073_600_000, ttl_ms=60_000)

        assert run["expiresAt"] == token(run)["timesOutAt"]

    def test_when_it_passes_the_run_fails_and_its_link_says_so(self, servers: Fleet) -> None:
        """Not the wait: nothing follows the end."""
        name = uuid4().hex
        run = servers.start("fleet.strict", name, ttl_ms=1_500)

        ended = servers.settled(run["id"])

        assert ("failed", "run-expired") == (ended["status"], ended["failure"]["code"])
        assert ["suspended", "failed"] == servers.topics(run["id"])[-2:]
        assert time_of(ended["completedAt"]) >= time_of(ended["expiresAt"])
        reply = servers.send(servers.link(name), b'{"pickupId":"pk_1"}')
        assert (409, "cancelled") == (reply.status, json.loads(reply.body)["error"]["details"]["state"])

    def test_a_handler_that_goes_on_is_told(self, servers: Fleet) -> None:
        """Its run has ended under it; what it returns is dropped."""
        name = uuid4().hex
        run = servers.start("fleet.strict", name, wait=False, does="hold", ttl_ms=1_500)

        assert "run-expired" == servers.settled(run["id"])["failure"]["code"]

        servers.until(lambda: servers.noted(name)[-1].get("cancelled") is True, "the handler is told")
        assert ["started", "call-started", "failed"] == servers.topics(run["id"])
