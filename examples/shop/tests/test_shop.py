"""A tool is a function: its test needs no server and no store."""

import json
from pathlib import Path

import pytest
from shop import OrderRef, request_pickup

from abeyance import PauseAnswer, ToolContext


def test_the_carrier_is_handed_the_link_and_the_call_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request has the link to answer at, and a reference that stays the same when it is sent again."""
    requests = tmp_path / "carrier.jsonl"
    monkeypatch.setenv("SHOP_CARRIER_FILE", str(requests))
    ctx = ToolContext.for_test()

    answer = request_pickup(OrderRef(orderId="ord_1001"), ctx)

    assert isinstance(answer, PauseAnswer)
    assert {
        "orderId": "ord_1001",
        "callbackUrl": ctx.wait_token.url,
        "reference": ctx.idempotency_key,
    } == json.loads(requests.read_text())
