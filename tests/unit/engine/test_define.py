"""What `@tool`, `step`, `flow` and `@script` take, and what they refuse."""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from abeyance import (
    InvalidDefinitionError,
    PauseAnswer,
    Retry,
    ToolContext,
    flow,
    script,
    step,
    tool,
)
from abeyance.engine.definitions import Flow, Script, Step, Tool

if TYPE_CHECKING:
    from abeyance import ScriptContext


class Order(BaseModel):
    order_id: str = Field(alias="orderId", pattern=r"^ord_\d+$")


class Pickup(BaseModel):
    pickup_id: str = Field(alias="pickupId")


class FewerFields(BaseModel):
    more: str = "left out"


class UnderAnotherName(BaseModel):
    orderId: str


class FilledIn(BaseModel):
    pickup_id: str

    @model_validator(mode="before")
    @classmethod
    def fill_in(cls, given: Any) -> Any:
        return {"pickup_id": "pk_1"}


class AnyFields(BaseModel):
    model_config = ConfigDict(extra="allow")


class Chosen(BaseModel):
    reference: str = Field(validation_alias=AliasChoices("reference", "orderId"))


@tool(id="test.look-up", mutating=False)
def look_up(order: Order) -> Pickup:
    """Look an order's pickup up."""
    return Pickup(pickupId=f"pk_{order.order_id}")


@tool(id="test.pause", pauses=True, effects=[{"kind": "external-side-effect", "resource": "external:x"}])
async def pause(order: Order, ctx: ToolContext) -> Pickup | PauseAnswer:
    return ctx.pause()


def refused(make: Callable[[], object]) -> str:
    with pytest.raises(InvalidDefinitionError) as caught:
        make()
    return caught.value.reason


class TestTool:
    def test_a_tool_is_its_functions_contract(self) -> None:
        assert ("test.look-up", "0.1.0", False, 300_000) == (
            look_up.id,
            look_up.version,
            look_up.mutating,
            look_up.timeout_ms,
        )
        assert "Look an order's pickup up." == look_up.description
        assert (False, False, False) == (look_up.takes_context, look_up.is_async, look_up.pauses)
        assert "pickupId" in json.loads(look_up.output.document)["properties"]
        assert hashlib.sha256(look_up.output.document).hexdigest() == look_up.output.digest

    def test_a_tool_is_called_like_its_function(self) -> None:
        assert "pk_ord_1" == look_up(Order(orderId="ord_1")).pickup_id

    def test_the_output_of_a_pausing_tool_is_without_the_pause(self) -> None:
        assert look_up.output.digest == pause.output.digest
        assert (True, True, True) == (pause.takes_context, pause.is_async, pause.pauses)

    def test_line_is_module_and_number(self) -> None:
        module, _, number = look_up.line.partition(":")

        assert __name__ == module
        assert look_up.handler.__code__.co_firstlineno == int(number)

    def test_types_of_the_place_where_it_stands_are_found(self) -> None:
        """Also from annotations that are texts, and without evaluating the context's."""

        class Local(BaseModel):
            n: int

        @tool(id="test.local")
        def local(order: "Local", ctx: "ToolContext") -> "Annotated[int, Field(ge=1)] | None":
            return order.n

        assert {"n"} == set(json.loads(local.input.document)["properties"])
        assert {"anyOf"} == set(json.loads(local.output.document))

    def test_any_type_that_json_schema_has_is_taken(self) -> None:
        @tool(id="test.any")
        def count(names: list[str]) -> dict[str, int]:
            return {name: len(name) for name in names}

        assert "array" == json.loads(count.input.document)["type"]

    def test_a_decorated_function_keeps_its_contract(self) -> None:
        @functools.wraps(look_up.handler)
        def wrapped(*args: Any) -> Any:
            return look_up.handler(*args)

        assert look_up.input.digest == tool(id="test.wrapped")(wrapped).input.digest

    @pytest.mark.parametrize(
        "bad",
        ["", "Shop.x", "shop..x", ".x", "x.", "shop x", "-x", "shop.x\n", "ä", "a@1", "a" * 201, None, 1],
    )
    def test_wrong_ids_are_refused(self, bad: Any) -> None:
        assert "id" in refused(lambda: tool(id=bad)(look_up.handler))

    @pytest.mark.parametrize("good", ["x", "shop.request-pickup", "a.b.c", "0", "a_b", "a" * 200])
    def test_good_ids_are_taken(self, good: str) -> None:
        assert good == tool(id=good)(look_up.handler).id

    @pytest.mark.parametrize(
        "bad", ["", "1", "1.0", "v1.0.0", "1.0.0\n", "1.0.0 ", "1.0." + "0" * 64, 1.0, None]
    )
    def test_wrong_versions_are_refused(self, bad: Any) -> None:
        assert "version" in refused(lambda: tool(id="x", version=bad)(look_up.handler))

    @pytest.mark.parametrize("bad", [0, -1, True, 1.0, "1", None, 2_073_600_001])
    def test_wrong_time_limits_are_refused(self, bad: Any) -> None:
        assert "timeout_ms" in refused(lambda: tool(id="x", timeout_ms=bad)(look_up.handler))

    @pytest.mark.parametrize("bad", [{}, {"kind": ""}, {"kind": 1}, {"kind": "reads", "x": "y"}, "reads"])
    def test_wrong_effects_are_refused(self, bad: Any) -> None:
        assert "effect" in refused(lambda: tool(id="x", effects=[bad])(look_up.handler))

    def test_missing_annotations_are_refused(self) -> None:
        def no_input(order) -> int: ...  # type: ignore[no-untyped-def, empty-body]
        def no_output(order: int): ...  # type: ignore[no-untyped-def]

        assert "parameter `order`" in refused(lambda: tool(id="x")(no_input))
        assert "return value" in refused(lambda: tool(id="x")(no_output))
        assert "annotation" in refused(lambda: tool(id="x")(lambda order: order))

    def test_annotations_that_mean_nothing_are_refused(self) -> None:
        def unknown(order: "Nothing") -> int: ...  # type: ignore[name-defined, empty-body] # noqa: F821
        def unfit(order: object, ctx: ToolContext) -> Callable[[], int]: ...  # type: ignore[empty-body]

        assert "NameError" in refused(lambda: tool(id="x")(unknown))
        assert "output" in refused(lambda: tool(id="x")(unfit))

    def test_other_parameters_are_refused(self) -> None:
        def none() -> int: ...  # type: ignore[empty-body]
        def three(a: int, b: ToolContext, c: int) -> int: ...  # type: ignore[empty-body]
        def star(*a: int) -> int: ...  # type: ignore[empty-body]
        def keyword(a: int, *, ctx: ToolContext) -> int: ...  # type: ignore[empty-body]
        def two_values(a: int, b: int) -> int: ...  # type: ignore[empty-body]
        def swapped(ctx: ToolContext, a: int) -> int: ...  # type: ignore[empty-body]
        def generator(a: int) -> int:  # type: ignore[misc]
            yield 1

        for function in (none, three, star, keyword, two_values, swapped, generator, look_up, int):
            refused(lambda function=function: tool(id="x")(function))  # type: ignore[misc]

    def test_a_pause_must_be_declared_in_both_places(self) -> None:
        def can(order: int, ctx: ToolContext) -> int | PauseAnswer: ...  # type: ignore[empty-body]
        def cannot(order: int, ctx: ToolContext) -> int: ...  # type: ignore[empty-body]
        def only(order: int, ctx: ToolContext) -> PauseAnswer: ...  # type: ignore[empty-body]
        def inside(order: int, ctx: ToolContext) -> list[PauseAnswer]: ...  # type: ignore[empty-body]
        def without_context(order: int) -> int | PauseAnswer: ...  # type: ignore[empty-body]

        assert "`pauses=True`" in refused(lambda: tool(id="x")(can))
        assert "`Output | PauseAnswer`" in refused(lambda: tool(id="x", pauses=True)(cannot))
        assert "Output | PauseAnswer" in refused(lambda: tool(id="x", pauses=True)(only))
        assert "not inside" in refused(lambda: tool(id="x", pauses=True)(inside))
        assert "ToolContext" in refused(lambda: tool(id="x", pauses=True)(without_context))
        assert "mutating" in refused(lambda: tool(id="x", pauses=True, mutating=False)(can))


def always(results: Mapping[str, Any]) -> bool:
    return True


class TestStep:
    @pytest.mark.parametrize("bad", ["", "input", "a.b", "a b", "-a", "a" * 65, "a\n", None])
    def test_wrong_ids_are_refused(self, bad: Any) -> None:
        refused(lambda: step(bad, look_up))

    @pytest.mark.parametrize(
        "bad",
        [
            {"needs": "pickup"},
            {"when": 1},
            {"when": lambda: True},
            {"input": lambda a, b: a},
            {"when": pause.handler},
            {"retry": 3},
            {"retry": Retry(attempts=0)},
            {"retry": Retry(attempts=True)},
            {"retry": Retry(delay_ms=-1)},
            {"retry": Retry(delay_ms=0.5)},  # type: ignore[arg-type]
            {"retry": Retry(max_delay_ms=-1)},
            {"retry": Retry(backoff="linear")},  # type: ignore[arg-type]
        ],
    )
    def test_wrong_arguments_are_refused(self, bad: dict[str, Any]) -> None:
        refused(lambda: step("a", look_up, **bad))

    def test_only_a_tool_can_be_called(self) -> None:
        refused(lambda: step("a", look_up.handler))  # type: ignore[arg-type]


class TestFlow:
    def make(self, *steps: Step, **more: Any) -> Flow:
        return flow("test.flow", input=Order, steps=steps, **more)

    def test_unknown_needs_circles_and_repeated_ids_are_refused(self) -> None:
        assert "no step" in refused(lambda: self.make(step("a", look_up, needs=["b"])))
        assert "two steps" in refused(lambda: self.make(step("a", look_up), step("a", look_up)))
        assert "twice" in refused(lambda: self.make(step("a", look_up), step("b", look_up, needs=["a", "a"])))
        assert "circle: a" in refused(lambda: self.make(step("a", look_up, needs=["a"])))
        assert "circle: b, c" in refused(
            lambda: self.make(
                step("a", look_up), step("b", look_up, needs=["a", "c"]), step("c", look_up, needs=["b"])
            )
        )

    def test_a_need_may_stand_later_in_the_list(self) -> None:
        assert ("b", "a") == tuple(
            each.id for each in self.make(step("b", look_up, needs=["a"]), step("a", look_up)).steps
        )

    def test_a_thousand_steps_pass_and_one_more_is_refused(self) -> None:
        chain = [step("s0", look_up)]
        chain += [step(f"s{n}", look_up, needs=[f"s{n - 1}"]) for n in range(1, 1_000)]

        assert 1_000 == len(self.make(*chain).steps)
        assert "1001 steps" in refused(lambda: self.make(*chain, step("more", look_up)))

    def test_a_step_that_would_lack_a_field_in_every_run_is_refused(self) -> None:
        @tool(id="test.tell")
        def tell(pickup: Pickup) -> None: ...

        reason = refused(lambda: self.make(step("a", look_up), step("b", tell, needs=["a"])))

        assert "step 'b' gets the flow's input, which lacks the 'pickupId' of test.tell" in reason
        assert "`input=lambda results: results['a']`" in reason
        self.make(step("a", look_up), step("b", tell, needs=["a"], input=lambda found: found["a"]))

    @pytest.mark.parametrize(
        "taken", [dict[str, str], Any, FewerFields, UnderAnotherName, FilledIn, AnyFields, Chosen]
    )
    def test_a_step_that_may_work_is_not_refused(self, taken: Any) -> None:
        def handler(given: Any) -> None: ...

        handler.__annotations__["given"] = taken

        assert ("a",) == tuple(each.id for each in self.make(step("a", tool(id="test.other")(handler))).steps)

    def test_an_input_that_keeps_other_fields_may_have_any(self) -> None:
        @tool(id="test.tell")
        def tell(pickup: Pickup) -> None: ...

        assert 1 == len(flow("test.flow", input=AnyFields, steps=[step("a", tell)]).steps)

    def test_no_steps_and_other_things_are_refused(self) -> None:
        refused(lambda: self.make())
        refused(lambda: self.make(look_up))  # type: ignore[arg-type]

    def test_the_document_says_what_a_waiting_run_depends_on(self) -> None:
        made = self.make(step("a", look_up, when=always, retry=Retry(attempts=2)), output=Pickup)
        document = json.loads(made.document)

        assert hashlib.sha256(made.document).hexdigest() == made.digest
        assert {"kind", "id", "version", "input", "output", "makeOutput", "steps"} == set(document)
        assert {"id", "needs", "tool", "when", "input", "retry"} == set(document["steps"][0])
        assert {
            "id": "test.look-up",
            "version": "0.1.0",
            "input": look_up.input.digest,
            "output": look_up.output.digest,
        } == document["steps"][0]["tool"]

    def test_the_digest_follows_what_is_defined(self) -> None:
        """Each change of what a run depends on gives another digest; the same definition gives the same."""

        @tool(id="test.look-up", version="0.2.0")
        def newer(order: Order) -> Pickup:
            return Pickup(pickupId="1")

        def never(results: Mapping[str, Any]) -> bool:
            return False

        variants = [
            self.make(step("a", look_up)),
            self.make(step("b", look_up)),
            self.make(step("a", newer)),
            self.make(step("a", look_up, when=always)),
            self.make(step("a", look_up, when=never)),
            self.make(step("a", look_up, retry=Retry(attempts=2))),
            self.make(step("a", look_up), version="0.2.0"),
            self.make(step("a", look_up), output=Pickup),
            self.make(step("a", look_up), make_output=always),
            flow("test.flow", input=AnyFields, steps=[step("a", look_up)]),
        ]

        assert len(variants) == len({each.digest for each in variants})
        assert variants[0].digest == self.make(step("a", look_up)).digest

    def test_functions_without_a_source_are_refused(self) -> None:
        names: dict[str, Any] = {}
        exec("def when(results): return True", names)

        assert "source" in refused(lambda: self.make(step("a", look_up, when=names["when"])))


class TestScript:
    def make(self) -> Script:
        @script(id="test.script")
        async def refund(ctx: "ScriptContext", order: Order) -> Pickup:
            return Pickup(pickupId="1")

        return refund

    def test_a_script_is_its_functions_contract(self) -> None:
        made = self.make()
        document = json.loads(made.document)

        assert {"kind", "id", "version", "input", "output", "source"} == set(document)
        assert hashlib.sha256(made.document).hexdigest() == made.digest
        assert made.digest == self.make().digest
        assert look_up.input.digest == made.input.digest

    def test_the_digest_follows_the_source(self) -> None:
        @script(id="test.script")
        async def refund(ctx: "ScriptContext", order: Order) -> Pickup:
            return Pickup(pickupId="2")

        assert self.make().digest != refund.digest

    def test_indentation_is_no_change(self) -> None:
        made = self.make()
        for _ in range(1):

            @script(id="test.script")
            async def refund(ctx: "ScriptContext", order: Order) -> Pickup:
                return Pickup(pickupId="1")

        assert made.digest == refund.digest

    def test_other_functions_are_refused(self) -> None:
        def sync(ctx: "ScriptContext", order: int) -> int: ...  # type: ignore[empty-body]
        async def one(order: int) -> int: ...  # type: ignore[empty-body]
        async def no_output(ctx: "ScriptContext", order: int): ...  # type: ignore[no-untyped-def]
        async def pauses(ctx: "ScriptContext", order: int) -> int | PauseAnswer: ...  # type: ignore[empty-body]

        for function in (sync, one, no_output, pauses, 7):
            refused(lambda function=function: script(id="x")(function))  # type: ignore[misc]


class TestEquality:
    def test_definitions_are_equal_to_themselves_alone(self) -> None:
        """They stand in sets and as keys, though their effects are dicts."""
        again: Tool = tool(id="test.look-up", mutating=False)(look_up.handler)

        assert {look_up, pause} == {look_up, pause}
        assert look_up != again
