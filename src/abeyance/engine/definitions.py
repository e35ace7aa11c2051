"""What a pack defines: tools, flows and scripts, as data. How they are written is `abeyance.engine.define`.

A definition's *document* is canonical JSON that says everything about it that a waiting run depends on (id,
version, schemas, steps; for a script the digest of its source); its SHA-256 is the definition's digest.
Definitions are immutable, hold no state of any run, and are equal only to themselves.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from abeyance.engine.schemas import SchemaCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a step's call is tried in all, and the pause before the next try.

    `backoff` is `fixed` (always `delay_ms`) or `exponential` (doubles each time, at most `max_delay_ms`).
    """

    attempts: int = 1
    delay_ms: int = 0
    backoff: Literal["fixed", "exponential"] = "fixed"
    max_delay_ms: int = 3_600_000

    def delay_before(self, attempt: int) -> int:
        """Milliseconds to wait before try number `attempt` (from 2)."""
        if self.backoff == "fixed":
            return min(self.delay_ms, self.max_delay_ms)
        return min(self.delay_ms << min(attempt - 2, 40), self.max_delay_ms)


ONCE = Retry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One side of a tool, flow or script: the type's own validation, its JSON Schema, and both digests.

    `document` is the schema as canonical JSON, `digest` its SHA-256 in hex, `annotation` the type as it was
    written. `own_schema` is the schema
    without `format`, for what our own side writes: pydantic writes times without a zone and fractions of
    durations, which the formats don't know, and reads them back.
    """

    adapter: TypeAdapter[Any]
    schema: SchemaCheck
    own_schema: SchemaCheck
    document: bytes
    digest: str
    annotation: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """One tool. `handler` takes the validated input, and the `ToolContext` if `takes_context`.

    `pauses`: it may return `ctx.pause()`. `mutating=False`: it only reads, so its start needs no record
    before it runs. `timeout_ms` is the time limit of one run of the handler. `line` is where it is defined.
    """

    id: str
    version: str
    description: str
    handler: Callable[..., Any]
    input: Shape
    output: Shape
    takes_context: bool
    is_async: bool
    pauses: bool = False
    mutating: bool = True
    timeout_ms: int = 300_000
    effects: tuple[Mapping[str, str], ...] = ()
    line: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the handler as it was written, for a unit test: no validation, no record."""
        return self.handler(*args, **kwargs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One step of a flow: which tool, after which steps, under which condition, from which input.

    `when(results)` decides whether it runs at all; `make_input(results)` makes its input from the flow's
    input (`results["input"]`) and the outputs of earlier steps (by step id; a skipped one is `None`). Both
    must be pure. Without `make_input` the step gets the flow's input.
    """

    id: str
    tool: Tool
    needs: tuple[str, ...] = ()
    when: Callable[[Mapping[str, Any]], bool] | None = None
    make_input: Callable[[Mapping[str, Any]], Any] | None = None
    retry: Retry = ONCE
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flow:
    """Steps with their order as data. The output is `make_output(results)`, or the last step's output."""

    id: str
    version: str
    input: Shape
    steps: tuple[Step, ...]
    document: bytes
    digest: str
    output: Shape | None = None
    make_output: Callable[[Mapping[str, Any]], Any] | None = None
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Script:
    """An `async def` that awaits only its context's operations. Called as `function(ctx, input)`."""

    id: str
    version: str
    function: Callable[..., Awaitable[Any]]
    input: Shape
    output: Shape
    document: bytes
    digest: str
    line: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call the function as it was written, for a unit test with a context of the test's own."""
        return self.function(*args, **kwargs)


Definition = Flow | Script


@dataclass(slots=True)
class Definitions:
    """What a process has loaded, by kind and id. Filled by `abeyance.engine.packs`."""

    tools: dict[str, Tool] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)
    scripts: dict[str, Script] = field(default_factory=dict)

    def find(self, kind: str, id: str, version: str | None = None) -> Definition | None:
        """The definition with this id, if its version is `version` or none is asked for."""
        found = self.flows.get(id) if kind == "flow" else self.scripts.get(id) if kind == "script" else None
        return found if found is not None and version in (None, found.version) else None

    def digests(self) -> list[bytes]:
        """The first 16 bytes of every loaded definition's digest, as `run_control` holds them."""
        loaded: list[Definition] = [*self.flows.values(), *self.scripts.values()]
        return [bytes.fromhex(definition.digest)[:16] for definition in loaded]
