"""Random programs on a real engine, while answers, crashes, cancels and time come as they like.

A program is a block: a list of statements, as JSON. What it sees goes into the arguments of what it asks for
next, so that one wrong value shows as another program. Outside, every entered handler is counted.
"""

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from abeyance import PauseAnswer, Retry, ToolContext, flow, script, step, tool
from abeyance.engine.scripting import ScriptContext
from abeyance.errors import AbeyanceError, CallFailedError, WaitTokenClosedError
from tests.support.carrier import Empty, Loose
from tests.support.engine import Deployment, EngineProcess, definitions_of

Block = list[Any]
UNKNOWN = "unknown"
TAKEN = "taken"

_LEAVES = st.one_of(
    st.tuples(st.sampled_from(["look", "pay", "ask", "ask", "step", "uuid"]), st.integers(0, 3)),
    st.tuples(st.just("hasty"), st.integers(0, 3)),
    st.tuples(st.just("sleep"), st.integers(0, 30)),
)


def _blocks(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    block = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.sampled_from(["gather", "race"]), st.lists(block, min_size=1, max_size=3)),
        st.tuples(st.just("try"), st.tuples(block, block)),
        st.tuples(st.just("try"), st.tuples(block.map(lambda found: [*found, ("fail", 0)]), block)),
    )


PROGRAMS: st.SearchStrategy[Block] = st.lists(
    st.recursive(_LEAVES, _blocks, max_leaves=12), min_size=3, max_size=6
)
"""Blocks of statements, three levels deep at most or so."""
FLOWS = st.lists(
    st.tuples(st.sampled_from(["pay", "ask", "flaky"]), st.integers(0, 7), st.integers(1, 3)),
    min_size=2,
    max_size=5,
)
"""Steps of a flow: tool, a bit for each earlier step that it needs, attempts."""


class World:
    """What is outside of the engine: tools with their effects, links that were handed out."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.ran: dict[str, Counter[str]] = defaultdict(Counter)
        self.links: dict[str, list[tuple[str, str]]] = defaultdict(list)

        @tool(id="c.look", mutating=False)
        async def look(given: Loose) -> Loose:
            return given

        @tool(id="c.pay")
        async def pay(given: Loose, ctx: ToolContext) -> Loose:
            self.ran[ctx.run_id][ctx.idempotency_key] += 1
            await self._take_time()
            return Loose("paid")

        @tool(id="c.flaky")
        async def flaky(given: Loose, ctx: ToolContext) -> Loose:
            self.ran[ctx.run_id][ctx.idempotency_key] += 1
            if ctx.attempt == 1:
                raise RuntimeError("the first attempt fails")
            return Loose(ctx.attempt)

        self.look, self.pay, self.flaky = look, pay, flaky
        self.ask, self.hasty = self._asking("c.ask", 3_600_000), self._asking("c.hasty", 5)
        self.tools = (look, pay, flaky, self.ask, self.hasty)

    def _asking(self, name: str, timeout_ms: int) -> Any:
        @tool(id=name, pauses=True)
        async def asking(given: Loose, ctx: ToolContext) -> Loose | PauseAnswer:
            self.ran[ctx.run_id][ctx.idempotency_key] += 1
            self.links[ctx.run_id].append((ctx.wait_token.id, ctx.wait_token.url))
            await self._take_time()
            return ctx.pause(timeout_ms=timeout_ms)

        return asking

    async def _take_time(self) -> None:
        await asyncio.sleep(self.rng.choice((0, 0.002, 0.02)))

    def script(self, program: Block) -> Any:
        """The script of a block."""

        @script(id="c.script")
        async def main(ctx: ScriptContext, given: Empty) -> Loose:
            return Loose(await self._run(ctx, program, ""))

        return main

    async def _run(self, ctx: ScriptContext, block: Block, seen: str) -> str:
        for kind, more in block:
            perform = getattr(self, f"_{kind}", self._call)
            seen = _digest(seen, await perform(ctx, kind, more, seen))
        return seen

    async def _call(self, ctx: ScriptContext, kind: str, more: Any, seen: str) -> Any:
        answer: Loose = await ctx.call(getattr(self, kind), Loose([more, seen]))
        return answer.root

    async def _step(self, ctx: ScriptContext, kind: str, more: Any, seen: str) -> Any:
        return await ctx.step("step", lambda: more, seen)

    async def _sleep(self, ctx: ScriptContext, kind: str, more: Any, seen: str) -> None:
        await ctx.sleep(more / 1000)

    async def _uuid(self, ctx: ScriptContext, kind: str, more: Any, seen: str) -> Any:
        return await ctx.uuid()

    async def _fail(self, ctx: ScriptContext, kind: str, more: Any, seen: str) -> None:
        raise ValueError(more)

    async def _gather(self, ctx: ScriptContext, kind: str, more: Any, seen: str) -> Any:
        parts = (self._run(ctx, part, seen) for part in more)
        return await ctx.gather(*parts, return_exceptions=True)

    async def _race(self, ctx: ScriptContext, kind: str, more: Any, seen: str) -> Any:
        return await ctx.race(*(self._run(ctx, part, seen) for part in more))

    async def _try(self, ctx: ScriptContext, kind: str, more: Any, seen: str) -> str:
        try:
            return await self._run(ctx, more[0], seen)
        except (CallFailedError, ValueError) as error:
            return await self._run(ctx, more[1], f"{seen}{type(error).__name__}")

    def flow(self, steps: list[tuple[str, int, int]]) -> Any:
        """The flow of drawn steps."""
        made = []
        for place, (kind, needs, attempts) in enumerate(steps):
            before = [f"s{other}" for other in range(place) if needs >> other & 1]
            retry = Retry(attempts=attempts, delay_ms=5)
            made.append(
                step(
                    f"s{place}",
                    getattr(self, kind),
                    needs=before,
                    retry=retry,
                    input=_seen,
                )
            )
        return flow("c.flow", input=Empty, steps=made)


def _seen(results: Mapping[str, Any]) -> Loose:
    return Loose(sorted(map(str, results.items())))


def _digest(seen: str, value: object) -> str:
    return hashlib.sha256(f"{seen} {value}".encode()).hexdigest()[:8]


class Chaos:
    """One run, and what is done to it. `said` is what the sender of each answer was told, by wait."""

    def __init__(self, deployment: Deployment, world: World) -> None:
        self.deployment = deployment
        self.world = world
        self.rng = world.rng
        self.said: dict[str, list[str]] = defaultdict(list)
        self.crashes = 0
        self.cancelled = False

    async def play(self, processes: list[EngineProcess], definition: Any, moves: int) -> UUID:
        """Start a run, do `moves` random things to it, then let it end."""
        view = await processes[0].start(definition, wait=False)
        for _ in range(moves):
            if (await processes[0].runs.get(view.id)).status in ("completed", "failed", "cancelled"):
                break
            await self._move(processes, view.id)
        await self._let_end(processes, view.id)
        return view.id

    async def _move(self, processes: list[EngineProcess], run_id: UUID) -> None:
        chance = self.rng.random()
        process = self.rng.choice(processes)
        if chance < 0.3:
            await self._answer(process, run_id)
        elif chance < 0.55:
            self.deployment.world.advance(timedelta(milliseconds=self.rng.randint(0, 40)))
        elif chance < 0.67:
            self._crash(process)
        elif chance < 0.675:
            await self._cancel(process, run_id)
        else:
            await asyncio.sleep(self.rng.random() * 0.01)

    def _crash(self, process: EngineProcess) -> None:
        if self.crashes < 4:  # a fifth may use up a call's runs
            self.crashes += 1
            process.vanish()
        if self.rng.random() < 0.7:
            self.deployment.world.advance(timedelta(seconds=61))

    async def _answer(self, process: EngineProcess, run_id: UUID) -> None:
        links = self.world.links[str(run_id)]
        if not links:
            await asyncio.sleep(0.001)
            return
        wait, url = self.rng.choice(links)
        value = f'"answer {self.rng.randint(1, 2)}"'
        self.said[wait].append(f"{value} {await self._told(process, url, value.encode())}")

    async def _told(self, process: EngineProcess, url: str, value: bytes) -> str:
        try:
            await asyncio.wait_for(process.answer(url, value), 2)
        except WaitTokenClosedError as error:
            return error.state
        except TimeoutError:
            return UNKNOWN  # the process that was asked has vanished
        return TAKEN

    async def _cancel(self, process: EngineProcess, run_id: UUID) -> None:
        try:
            await asyncio.wait_for(process.runs.cancel(run_id), 2)
            self.cancelled = True
        except (AbeyanceError, TimeoutError):
            pass

    async def _let_end(self, processes: list[EngineProcess], run_id: UUID) -> None:
        """Answer what still asks, and let time pass, until the run has ended."""
        end = asyncio.get_running_loop().time() + 20
        while (await processes[0].runs.get(run_id)).status not in ("completed", "failed", "cancelled"):
            for wait, url in list(self.world.links[str(run_id)]):
                told = await self._told(self.rng.choice(processes), url, b'"at last"')
                self.said[wait].append(f'"at last" {told}')
            self.deployment.world.advance(timedelta(milliseconds=50))
            if self.rng.random() < 0.05:
                self.deployment.world.advance(timedelta(seconds=61))
            assert asyncio.get_running_loop().time() < end, await processes[0].topics(run_id)
            await asyncio.sleep(0.005)

    def definitions(self, definition: Any) -> Any:
        """What a replay needs."""
        return definitions_of(definition, *self.world.tools)
