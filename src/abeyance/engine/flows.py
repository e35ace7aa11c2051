"""The one interpreter of flows, on the operations that scripts have.

Each step is a branch, in declaration order; it starts when the steps that it needs have ended, and calls its
tool under the step's own id. So what a history of a flow holds doesn't depend on how many steps were declared
before. The first step to fail ends the flow: the calls of the others are abandoned by a decision with the id
`FAILURE`, which no step can have and which stays the same whatever steps are added.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from abeyance.engine.definitions import Flow, Step
from abeyance.engine.outcomes import NodeFailed
from abeyance.engine.scripting import ScriptContext, flow_branches, flow_call, read_input, write_output
from abeyance.errors import InvalidDefinitionError

FAILURE = ":flow"
"""The id of the decision that a failed step makes; ids of steps have no colon."""
INPUT = "input"
"""The key of the flow's input in `results`."""


def flow_program(flow: Flow) -> Callable[[ScriptContext, bytes], Coroutine[Any, Any, bytes]]:
    """The program of a flow. Raises `InvalidDefinitionError` if its steps can't be put into an order."""
    ancestors = _ancestors(flow)
    positions = {step.id: index for index, step in enumerate(flow.steps)}
    after = [[positions[need] for need in step.needs] for step in flow.steps]

    async def program(context: ScriptContext, data: bytes) -> bytes:
        results: dict[str, Any] = {INPUT: read_input(flow.input, data)}
        branches = [_run(context, step, ancestors[step.id], results) for step in flow.steps]
        await flow_branches(context, flow.line, branches, after, FAILURE)
        output = results[flow.steps[-1].id] if flow.steps else None
        if flow.make_output is not None:
            output = flow.make_output(MappingProxyType(results))
        return write_output(flow.output, output)

    return program


async def _run(context: ScriptContext, step: Step, ancestors: Sequence[str], results: dict[str, Any]) -> None:
    """Run one step. It sees the input and the outputs of the steps it needs, directly or not, and no others:
    whether those had ended would depend on who was faster.
    """
    seen = MappingProxyType({name: results[name] for name in (INPUT, *ancestors)})
    try:
        call = _call_of(context, step, seen)
    except Exception as error:
        raise NodeFailed(step.id) from error
    results[step.id] = None if call is None else await call


def _call_of(context: ScriptContext, step: Step, seen: Mapping[str, Any]) -> Any:
    if step.when is not None and not step.when(seen):
        return None
    value = seen[INPUT] if step.make_input is None else step.make_input(seen)
    return flow_call(context, step, value)


def _ancestors(flow: Flow) -> dict[str, tuple[str, ...]]:
    """For each step the steps it needs, directly or not, in declaration order."""
    found: dict[str, set[str]] = {}
    left = list(flow.steps)
    while left:
        ready = [step for step in left if all(need in found for need in step.needs)]
        if not ready:
            raise InvalidDefinitionError(flow.id, f"step {left[0].id} needs a step that never ends before it")
        for step in ready:
            found[step.id] = {name for need in step.needs for name in (need, *found[need])}
        left = [step for step in left if step.id not in found]
    order = [step.id for step in flow.steps]
    return {name: tuple(other for other in order if other in needed) for name, needed in found.items()}
