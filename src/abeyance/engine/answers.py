"""Whether a value fits what a tool promises to return: the check of every answer before it is taken.

Where the tool is loaded, with the schema that the call was started under, a value must pass the JSON Schema
(formats asserted) and the model's own validation. Where it isn't, the schema that was stored beside the
journal by its digest decides alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from abeyance.engine.definitions import Definitions, Tool
from abeyance.engine.schemas import SchemaCheck, check_with_model, schema_of
from abeyance.errors import AnswerInvalidError, StoreUnavailableError
from abeyance.journal import canonical
from abeyance.journal.events import ToolRef
from abeyance.journal.store import JournalStore


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """One output shape. `adapter` is the loaded tool's model, if it is loaded."""

    schema: SchemaCheck
    adapter: TypeAdapter[Any] | None

    def refuse_unfit(self, value: bytes) -> None:
        """Return if `value` (canonical JSON) fits; else raise `AnswerInvalidError` with where it doesn't."""
        issues = self.schema.check_canonical(value)
        if not issues and self.adapter is not None:
            issues = check_with_model(self.adapter, value)
        if issues:
            raise AnswerInvalidError(issues)


class AnswerChecks:
    """The checks of one process, by the digest of the schema."""

    def __init__(self, definitions: Definitions, store: JournalStore) -> None:
        self._store = store
        self._known = {
            tool.output.digest: AnswerCheck(tool.output.schema, tool.output.adapter)
            for tool in _tools(definitions)
        }

    def at_hand(self, tool: ToolRef) -> AnswerCheck | None:
        """The check for a call of `tool`, if nothing has to be read for it."""
        return self._known.get(tool.schema_digest)

    async def of(self, tool: ToolRef) -> AnswerCheck:
        """The check for a call of `tool`, as the call was started."""
        known = self.at_hand(tool)
        if known is None:
            check = AnswerCheck(SchemaCheck(await self._stored(tool)), None)
            known = self._known[tool.schema_digest] = check
        return known

    async def schema_of(self, tool: ToolRef) -> dict[str, Any]:
        """The JSON Schema of an answer to a call of `tool`: as its model makes it, with properties in the
        model's order, else as it is stored, with sorted ones.
        """
        known = self.at_hand(tool)
        if known is None or known.adapter is None:
            return await self._stored(tool)
        return schema_of(known.adapter)

    async def _stored(self, tool: ToolRef) -> dict[str, Any]:
        document = await self._store.get_definition(bytes.fromhex(tool.schema_digest))
        schema = None if document is None else canonical.decode(document)
        if not isinstance(schema, dict):
            raise StoreUnavailableError("the output schema of the call isn't stored")
        return schema


def _tools(definitions: Definitions) -> Iterable[Tool]:
    yield from definitions.tools.values()
    for flow in definitions.flows.values():
        yield from (step.tool for step in flow.steps)
