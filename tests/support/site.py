"""A deployment whose links are used from outside: real servers, and a pack that quotes what it shouldn't.

`python -m tests.support.site serve …` is `abeyance serve …` in which a link whose token begins with `crash`
breaks the API, with everything that a careless error may quote.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.pages import ROOT
from tests.support.project import Project, Server, answers, wait_until
from tests.support.raw_http import RawConnection, RawResponse, request

API_KEY = "a-key-without-a-prefix-0123456789"
ANSWER_CANARY = "canary-of-an-answer-5d1e"
KEY_CANARY = "canary-of-an-idempotency-key-91c4"
JSON = ("Content-Type", "application/json")
PACK = '''
"""Hands links on, and quotes secrets in every way that goes wrong."""

import asyncio
import json
import threading

import httpx
from pydantic import BaseModel, Field

from abeyance import PauseAnswer, ToolContext, flow, script, step, tool


class Order(BaseModel):
    order_id: str = Field(alias="orderId")


class Pickup(BaseModel):
    """When the carrier comes."""

    pickup_id: str = Field(alias="pickupId")


def tell(ctx: ToolContext) -> None:
    told = {"run": ctx.run_id, "link": ctx.wait_token.url, "key": ctx.idempotency_key}
    with open("links.jsonl", "a") as file:
        file.write(json.dumps(told) + "\\n")


@tool(id="site.ask", pauses=True)
def ask(order: Order, ctx: ToolContext) -> Pickup | PauseAnswer:
    tell(ctx)
    ctx.log.info("asked the carrier to post to %s", ctx.wait_token.url)
    return ctx.pause(timeout_ms=3_600_000, name="the confirmation")


@tool(id="site.spill", pauses=True)
async def spill(order: Order, ctx: ToolContext) -> Pickup | PauseAnswer:
    """Every way in which a handler's words may get into a log."""
    tell(ctx)
    quoted = f"{ctx.wait_token.url} {ctx.idempotency_key}"

    async def fail() -> None:
        raise RuntimeError(quoted)

    def break_thread() -> None:
        raise RuntimeError(quoted)

    task = asyncio.ensure_future(fail())
    await asyncio.wait([task])
    del task
    thread = threading.Thread(target=break_thread)
    thread.start()
    thread.join()
    async with httpx.AsyncClient() as client:
        try:
            await client.post(f"http://127.0.0.1:9/pickups?callback={ctx.wait_token.url}")
        except httpx.ConnectError as error:
            raise RuntimeError(f"{error} {quoted}") from error
    return ctx.pause()


asking = flow("site.asking", input=Order, steps=[step("ask", ask)])
spilling = flow("site.spilling", input=Order, steps=[step("spill", spill)])
'''


@dataclass
class Site:
    """The project, its store, and the servers that serve it. `ports` are free ones."""

    project: Project
    ports: list[int]
    keys: list[str] = field(default_factory=list)

    def set_up(self, url: str | None, **variables: str) -> None:
        """Write the pack, make the keys; `url` is PostgreSQL's, else the store is SQLite."""
        folder = self.project.folder
        (folder / "site_pack.py").write_text(PACK)
        (folder / "pyproject.toml").write_text('[tool.abeyance]\npack = "site_pack"\n')
        self.project.environment |= {
            "ABEYANCE_API_KEY": API_KEY,
            "ABEYANCE_KEY_DIR": str(folder / "keys"),
            "ABEYANCE_ORIGIN": "abeyance.example/site",
            "ABEYANCE_LOG_LEVEL": "debug",
            **({"ABEYANCE_DATABASE_URL": url} if url else {}),
            **{name: value for name, value in variables.items() if value},
        }
        self.project.shell(f"abeyance keys make {folder / 'keys'}")

    def serve(self, command: str = "abeyance serve", **variables: str) -> tuple[Server, int]:
        """Start a server on a port of its own; it is ready on return."""
        port = self.ports.pop()
        server = self.project.serve(command, ABEYANCE_PORT=str(port), **variables)

        def is_ready() -> bool:
            assert server.process.poll() is None, server.printed
            return answers(f"http://127.0.0.1:{port}/ready")

        wait_until(is_ready, "it is ready")
        return server, port

    def serve_breakable(self, **variables: str) -> tuple[Server, int]:
        """As `serve`, with an API that a link breaks."""
        path = f"{ROOT / 'src'}:{ROOT}"
        return self.serve(f"{sys.executable} -P -m tests.support.site serve", PYTHONPATH=path, **variables)

    def start_run(self, port: int, flow: str = "site.asking") -> dict[str, Any]:
        """Start a run and wait until it rests; the links and keys of all runs are in `told`."""
        headers = [
            JSON,
            ("Authorization", f"Bearer {API_KEY}"),
            ("Idempotency-Key", f"{KEY_CANARY}-{len(self.keys)}"),
        ]
        self.keys.append(headers[-1][1])
        body = json.dumps({"flow": flow, "input": {"orderId": "ord_1"}}).encode()
        reply = send(port, request("/v1/runs", body, headers))
        assert reply.status in (201, 202), reply.body
        run: dict[str, Any] = json.loads(reply.body)
        return run

    def told(self) -> list[dict[str, str]]:
        """What handlers told the outside: run, link, key."""
        file = self.project.folder / "links.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def path(self, number: int = -1) -> str:
        """The path of a link."""
        link = self.told()[number]["link"]
        return link[link.index("/v1/wait-tokens/") :]

    def secrets(self) -> Iterable[str]:
        """What no log may hold."""
        yield from (API_KEY, ANSWER_CANARY, KEY_CANARY)
        for line in self.told():
            yield line["key"]
            yield line["link"].removesuffix("/complete").rpartition("/")[2]


def send(port: int, message: bytes) -> RawResponse:
    """The reply to one request on a connection of its own."""
    with RawConnection(port, timeout_s=60) as connection:
        connection.send(message)
        reply = connection.read()
        assert reply is not None
        return reply


def post(port: int, path: str, body: bytes = b"{}", *headers: tuple[str, str]) -> RawResponse:
    """Post JSON to a path."""
    return send(port, request(path, body, [JSON, *headers]))


def _break_links() -> None:
    from abeyance.engine.runs import Runs

    opens = Runs.open_link

    async def open_link(self: Runs, token: str) -> Any:
        if token.startswith("crash"):
            raise RuntimeError(f"{token} {API_KEY} {ANSWER_CANARY} /v1/wait-tokens/{token}/complete")
        return await opens(self, token)

    Runs.open_link = open_link  # type: ignore[method-assign]


if __name__ == "__main__":
    from abeyance.cli import main

    _break_links()
    sys.exit(main(sys.argv[1:]))
