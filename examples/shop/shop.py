"""Ship an order: book a carrier's pickup, and wait until the carrier confirms it."""

import json
import os

from pydantic import BaseModel, Field

from abeyance import PauseAnswer, ToolContext, flow, step, tool


class OrderRef(BaseModel):
    """Which order."""

    order_id: str = Field(alias="orderId", pattern=r"^ord_\d+$")


class Pickup(BaseModel):
    """When the carrier comes."""

    pickup_id: str = Field(alias="pickupId")
    pickup_at: str = Field(alias="pickupAt")


@tool(
    id="shop.request-pickup",
    pauses=True,
    effects=[{"kind": "external-side-effect", "resource": "external:carrier"}],
)
def request_pickup(order: OrderRef, ctx: ToolContext) -> Pickup | PauseAnswer:
    """Book a carrier pickup for an order. Returns its id and time once the carrier confirms it."""
    ask_carrier(order.order_id, callback_url=ctx.wait_token.url, reference=ctx.idempotency_key)
    return ctx.pause(timeout_ms=2 * 60 * 60 * 1000, name="the carrier's pickup confirmation")


ship_order = flow("shop.ship-order", input=OrderRef, steps=[step("pickup", request_pickup)])


def ask_carrier(order_id: str, callback_url: str, reference: str) -> None:
    """Stands in for the carrier's API: each request is a line of the file that SHOP_CARRIER_FILE names."""
    carrier_file = os.environ.get("SHOP_CARRIER_FILE")
    if carrier_file is None:
        return
    request = {"orderId": order_id, "callbackUrl": callback_url, "reference": reference}
    with open(carrier_file, "a", encoding="utf-8") as requests:
        requests.write(json.dumps(request) + "\n")
