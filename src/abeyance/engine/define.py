"""How tools, flows and scripts are written: `@tool`, `step` and `flow`, `@script`.

Each returns an immutable definition (`abeyance.engine.definitions`). What is wrong is refused where it
stands, with `InvalidDefinitionError` and its reason, so that a pack either loads whole or not at all.

A flow's document names its tools by id, version and schema digests, and the functions of its steps by the
digest of their source; a script's document has the digest of its source. Helpers that they call are not in
it: whether a waiting run still fits is decided by replay, the digest only says who is asked first.
"""

import hashlib
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from abeyance.engine.definitions import ONCE, Flow, Retry, Script, Shape, Step, Tool
from abeyance.engine.signatures import Signature, read_script_signature, read_tool_signature, shape_of
from abeyance.engine.source import line_of_caller, line_of_function, source_digest
from abeyance.engine.step_inputs import missing_field
from abeyance.engine.tool_context import MAX_PAUSE_MS
from abeyance.errors import InvalidDefinitionError
from abeyance.journal import canonical

MAX_ID_LENGTH = 200
MAX_STEP_ID_LENGTH = 64
MAX_VERSION_LENGTH = 64
MAX_STEPS = 1_000
MAX_ATTEMPTS = 1_000
FLOW_INPUT = "input"
"""The key of the flow's input in `results`, and so no step's id."""

_ID = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*")
_STEP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_EFFECT_KEYS = frozenset({"kind", "resource", "notes"})

Results = Mapping[str, Any]


def tool(
    *,
    id: str,
    version: str = "0.1.0",
    pauses: bool = False,
    mutating: bool = True,
    timeout_ms: int = 300_000,
    effects: Sequence[Mapping[str, str]] = (),
    description: str | None = None,
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function `(input)` or `(input, ctx)`, sync or async, with annotations.

    `pauses`: it may return `ctx.pause()`, and then its return annotation is `Output | PauseAnswer`.
    `mutating=False`: it only reads. `timeout_ms`: the time limit of one run of it. `effects`: what it does
    outside, as `{"kind": …, "resource": …}`. `description`: the docstring, if left out.
    The tool can be called like the function, for a unit test with `ToolContext.for_test()`.
    """

    def decorate(function: Callable[..., Any]) -> Tool:
        _check_id(id)
        signature = read_tool_signature(id, function, sys._getframe(1).f_locals)
        _check_pauses(id, signature, pauses=pauses, mutating=mutating)
        return make_tool(
            id=id,
            version=version,
            description=inspect.getdoc(function) or "" if description is None else description,
            handler=function,
            signature=signature,
            pauses=pauses,
            mutating=mutating,
            timeout_ms=timeout_ms,
            effects=effects,
            line=line_of_function(function),
        )

    return decorate


def make_tool(
    *,
    id: str,
    version: str,
    description: str,
    handler: Callable[..., Any],
    signature: Signature,
    pauses: bool,
    mutating: bool,
    timeout_ms: int,
    effects: Sequence[Mapping[str, str]],
    line: str,
) -> Tool:
    """A checked tool from its parts. `tool` and `http_tool` end here."""
    _check_id(id)
    _check_version(id, version)
    if not is_whole(timeout_ms) or not 1 <= timeout_ms <= MAX_PAUSE_MS:
        raise InvalidDefinitionError(id, f"timeout_ms takes whole milliseconds, 1 to {MAX_PAUSE_MS}")
    return Tool(
        id=id,
        version=version,
        description=description,
        handler=handler,
        input=shape_of(id, signature.input, "input"),
        output=shape_of(id, signature.output, "output"),
        takes_context=signature.takes_context,
        is_async=signature.is_async,
        pauses=pauses,
        mutating=mutating,
        timeout_ms=timeout_ms,
        effects=tuple(_checked_effect(id, effect) for effect in effects),
        line=line,
    )


def step(
    id: str,
    tool: Tool,
    *,
    needs: Sequence[str] = (),
    when: Callable[[Results], bool] | None = None,
    input: Callable[[Results], Any] | None = None,  # noqa: A002 - as in `tool`
    retry: Retry = ONCE,
) -> Step:
    """One step of a flow: call `tool` after the steps `needs`.

    `when(results)` decides whether it runs, `input(results)` makes its input; both are pure functions of
    `results["input"]` (the flow's input) and the outputs of the steps it needs. Without `input` it gets the
    flow's input. `retry` says how often a failed call is tried again.
    """
    name = f"step {id!r}"
    if not _fits(_STEP_ID, id, MAX_STEP_ID_LENGTH):
        raise InvalidDefinitionError(
            name, f"its id takes letters, digits, - and _, at most {MAX_STEP_ID_LENGTH}"
        )
    if id == FLOW_INPUT:
        raise InvalidDefinitionError(name, f"{FLOW_INPUT!r} is the flow's own input in `results`")
    if not isinstance(tool, Tool):
        raise InvalidDefinitionError(
            name, "it calls something that isn't a tool; decorate it with @tool(id=…)"
        )
    if isinstance(needs, str):
        raise InvalidDefinitionError(name, "needs takes a list of step ids")
    for what, function in (("when", when), ("input", input)):
        _check_pure(name, what, function)
    _check_retry(name, retry)
    return Step(
        id=id,
        tool=tool,
        needs=tuple(needs),
        when=when,
        make_input=input,
        retry=retry,
        line=line_of_caller(),
    )


def flow(
    id: str,
    *,
    input: Any,  # noqa: A002 - as in `tool`
    steps: Sequence[Step],
    version: str = "0.1.0",
    output: Any = None,
    make_output: Callable[[Results], Any] | None = None,
) -> Flow:
    """A flow: its input's type, and its steps. Steps that don't need each other run in parallel.

    The run's output is `make_output(results)`, or else the output of the last step of the list. `output` is
    its type, if it is to be checked.
    """
    _check_id(id)
    _check_version(id, version)
    _check_steps(id, steps)
    _check_pure(id, "make_output", make_output)
    _check_inputs(id, input, steps)
    input_shape = shape_of(id, input, "input")
    output_shape = None if output is None else shape_of(id, output, "output")
    document = canonical.encode(
        {
            "kind": "flow",
            "id": id,
            "version": version,
            "input": _schema(input_shape),
            "output": None if output_shape is None else _schema(output_shape),
            "makeOutput": _digest(id, make_output),
            "steps": [_step_document(id, each) for each in steps],
        }
    )
    return Flow(
        id=id,
        version=version,
        input=input_shape,
        steps=tuple(steps),
        document=document,
        digest=hashlib.sha256(document).hexdigest(),
        output=output_shape,
        make_output=make_output,
        line=line_of_caller(),
    )


def script(
    *,
    id: str,
    version: str = "0.1.0",
) -> Callable[[Callable[..., Awaitable[Any]]], Script]:
    """Make a script of an `async def (ctx, input)` that awaits only its context's operations."""

    def decorate(function: Callable[..., Awaitable[Any]]) -> Script:
        _check_id(id)
        _check_version(id, version)
        signature = read_script_signature(id, function, sys._getframe(1).f_locals)
        input_shape = shape_of(id, signature.input, "input")
        output_shape = shape_of(id, signature.output, "output")
        document = canonical.encode(
            {
                "kind": "script",
                "id": id,
                "version": version,
                "input": _schema(input_shape),
                "output": _schema(output_shape),
                "source": _digest(id, function),
            }
        )
        return Script(
            id=id,
            version=version,
            function=function,
            input=input_shape,
            output=output_shape,
            document=document,
            digest=hashlib.sha256(document).hexdigest(),
            line=line_of_function(function),
        )

    return decorate


def _fits(pattern: re.Pattern[str], text: object, longest: int) -> bool:
    return isinstance(text, str) and len(text) <= longest and pattern.fullmatch(text) is not None


def _check_id(definition: object) -> None:
    if not _fits(_ID, definition, MAX_ID_LENGTH):
        raise InvalidDefinitionError(
            repr(definition),
            f"an id is lower-case words of a-z, 0-9, - and _, joined by dots, at most {MAX_ID_LENGTH}: "
            "`shop.request-pickup`",
        )


def _check_version(definition: str, version: object) -> None:
    if not _fits(_VERSION, version, MAX_VERSION_LENGTH):
        raise InvalidDefinitionError(
            definition, f"its version must be like `1.2.3` or `1.2.3-rc.1`, at most {MAX_VERSION_LENGTH}"
        )


def _check_pauses(definition: str, signature: Signature, *, pauses: bool, mutating: bool) -> None:
    if not pauses and signature.can_pause:
        raise InvalidDefinitionError(definition, "it can return PauseAnswer: declare it with `pauses=True`")
    if not pauses:
        return
    if not signature.can_pause:
        raise InvalidDefinitionError(definition, "with `pauses=True` it returns `Output | PauseAnswer`")
    if not signature.takes_context:
        raise InvalidDefinitionError(definition, "with `pauses=True` it takes a ToolContext after its input")
    if not mutating:
        raise InvalidDefinitionError(
            definition, "a tool that pauses hands a link to somebody, so it can't be `mutating=False`"
        )


def _checked_effect(definition: str, effect: object) -> Mapping[str, str]:
    given = dict(effect) if isinstance(effect, Mapping) else {}
    texts = all(isinstance(value, str) for value in given.values())
    if not texts or not given.get("kind") or not _EFFECT_KEYS.issuperset(given):
        raise InvalidDefinitionError(
            definition, 'an effect is {"kind": …} with, if they help, "resource" and "notes", all texts'
        )
    return given


def _check_pure(definition: str, what: str, function: object) -> None:
    if function is None:
        return
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise InvalidDefinitionError(definition, f"`{what}` takes a plain function of `results`")
    try:
        inspect.signature(function).bind({})
    except (TypeError, ValueError) as error:
        raise InvalidDefinitionError(
            definition, f"`{what}` is called with `results` alone: {error}"
        ) from error


def _check_retry(definition: str, retry: Retry) -> None:
    if not isinstance(retry, Retry):
        raise InvalidDefinitionError(definition, "retry takes `Retry(attempts=…, delay_ms=…)`")
    if not is_whole(retry.attempts) or not 1 <= retry.attempts <= MAX_ATTEMPTS:
        raise InvalidDefinitionError(definition, f"Retry.attempts counts all tries, 1 to {MAX_ATTEMPTS}")
    for name, value in (("delay_ms", retry.delay_ms), ("max_delay_ms", retry.max_delay_ms)):
        if not is_whole(value) or not 0 <= value <= MAX_PAUSE_MS:
            raise InvalidDefinitionError(definition, f"Retry.{name} takes 0 to {MAX_PAUSE_MS} milliseconds")
    if retry.backoff not in ("fixed", "exponential"):
        raise InvalidDefinitionError(definition, "Retry.backoff takes 'fixed' or 'exponential'")


def is_whole(value: object) -> bool:
    """Whether this is an `int`; `True` is one for Python, and isn't for whoever writes a definition."""
    return isinstance(value, int) and not isinstance(value, bool)


def _check_steps(definition: str, steps: Sequence[Step]) -> None:
    if not steps or not all(isinstance(each, Step) for each in steps):
        raise InvalidDefinitionError(definition, "steps takes a list of `step(…)`, at least one")
    if len(steps) > MAX_STEPS:
        raise InvalidDefinitionError(definition, f"it has {len(steps)} steps; at most {MAX_STEPS} are taken")
    ids = [each.id for each in steps]
    repeated = _first_repeated(ids)
    if repeated is not None:
        raise InvalidDefinitionError(definition, f"two steps have the id {repeated!r}")
    known = set(ids)
    for each in steps:
        unknown = [need for need in each.needs if need not in known]
        if unknown:
            raise InvalidDefinitionError(
                definition, f"step {each.id!r} needs {unknown[0]!r}, which is no step"
            )
        if _first_repeated(each.needs) is not None:
            raise InvalidDefinitionError(definition, f"step {each.id!r} names one need twice")
    _check_acyclic(definition, steps)


def _check_inputs(definition: str, flow_input: Any, steps: Sequence[Step]) -> None:
    for each in steps:
        name = None if each.make_input is not None else missing_field(flow_input, each.tool)
        if name is not None:
            raise InvalidDefinitionError(
                definition,
                f"step {each.id!r} gets the flow's input, which lacks the {name!r} of {each.tool.id}; "
                f"say what it takes: `input=lambda results: results[{(*each.needs, FLOW_INPUT)[0]!r}]`",
            )


def _first_repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _check_acyclic(definition: str, steps: Sequence[Step]) -> None:
    open_needs = {each.id: set(each.needs) for each in steps}
    while ready := [name for name, needs in open_needs.items() if not needs]:
        for name in ready:
            del open_needs[name]
        for needs in open_needs.values():
            needs.difference_update(ready)
    if open_needs:
        stuck = ", ".join(sorted(open_needs)[:5])
        raise InvalidDefinitionError(definition, f"its steps wait for each other in a circle: {stuck}")


def _schema(shape: Shape) -> Any:
    return canonical.decode(shape.document)


def _digest(definition: str, function: Callable[..., Any] | None) -> str | None:
    if function is None:
        return None
    try:
        return source_digest(function)
    except (OSError, TypeError) as error:
        reason = "the source of its code can't be read; define it in a file that Python can find"
        raise InvalidDefinitionError(definition, reason) from error


def _step_document(definition: str, each: Step) -> dict[str, Any]:
    return {
        "id": each.id,
        "needs": list(each.needs),
        "tool": {
            "id": each.tool.id,
            "version": each.tool.version,
            "input": each.tool.input.digest,
            "output": each.tool.output.digest,
        },
        "when": _digest(definition, each.when),
        "input": _digest(definition, each.make_input),
        "retry": {
            "attempts": each.retry.attempts,
            "delayMs": each.retry.delay_ms,
            "backoff": each.retry.backoff,
            "maxDelayMs": each.retry.max_delay_ms,
        },
    }
