"""Keeping the log: what goes wrong is said, and stops the signing only if it has to."""

import logging
from typing import cast

import pytest

from abeyance.audit.keeping import LogKeeper
from abeyance.audit.log import Log
from abeyance.errors import StoreUnavailableError, VerificationError

pytestmark = pytest.mark.anyio


class Steps:
    """A log whose steps go as they are told, then well."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.done = 0

    async def step(self) -> bool:
        if self.failures:
            raise self.failures.pop(0)
        self.done += 1
        return False


async def nothing() -> None:
    """Seal nothing."""


def keeper_of(steps: Steps) -> LogKeeper:
    return LogKeeper(cast(Log, steps), lambda: True, nothing)


class TestFinish:
    async def test_a_store_that_is_gone_is_tried_again(self) -> None:
        steps = Steps(StoreUnavailableError())
        keeper = keeper_of(steps)

        await keeper.finish()
        await keeper.finish()

        assert (None, 1) == (keeper.problem, steps.done)

    @pytest.mark.parametrize("failure", [VerificationError("the tiles differ"), RuntimeError("secret")])
    async def test_anything_else_stops_the_signing_with_an_alarm(
        self, failure: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        steps = Steps(failure)
        keeper = keeper_of(steps)

        with caplog.at_level(logging.CRITICAL):
            await keeper.finish()
            await keeper.finish()

        assert keeper.problem is not None
        assert 0 == steps.done
        assert ["CRITICAL"] == [record.levelname for record in caplog.records]
        assert "secret" not in caplog.text
