"""The shapes of requests: bodies and queries, read strictly.

Bodies come in as canonical JSON. A body that carries somebody's value (`input`, `value`) is split into
its members' bytes first, so that the value is never parsed and its numbers keep their text; what is left
is small and is checked strictly: no conversions, no fields that aren't listed.

Optional fields of requests may be `null`, which is the same as left out; `value` and `input` may be anything.
"""

import json
import re
from collections.abc import Iterable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined] # missing from the stubs
from typing import Annotated, Any, ClassVar, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from abeyance.errors import BadInputError, Issue, UnknownFieldError

MAX_ISSUES = 20
MAX_POINTER_CHARS = 200

# One JSON value after another; number tokens stay text, so that their length costs nothing.
_scan = json.JSONDecoder(parse_int=str, parse_float=str).scan_once  # type: ignore[attr-defined]
_scan_small = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def split_members(canonical: bytes) -> dict[str, bytes]:
    """The members of a canonical object, each value as its own canonical bytes.

    Raises `BadInputError` if it isn't an object.
    """
    text = canonical.decode()
    if not text.startswith("{"):
        raise BadInputError("the body must be a JSON object", (Issue("", "type"),))
    members: dict[str, bytes] = {}
    position = 1
    while text[position] == '"':
        name, colon = scanstring(text, position + 1)
        _, end = _scan(text, colon + 1)
        members[name] = text[colon + 1 : end].encode()
        position = end + 1
        if text[end] == "}":
            break
    return members


class Wire(BaseModel):
    """What every shape keeps to: strict, camelCase on the wire, no other fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


# -- requests ------------------------------------------------------------------------------------------------

# No control characters: PostgreSQL's text can't hold NUL, and a terminal must not act on a name.
_PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_PLAIN)]
LabelText = Annotated[str, StringConstraints(max_length=200, pattern=_PLAIN)]
# Canonical JSON, taken over as it is.
Content = Annotated[bytes, WithJsonSchema({})]
MAX_TTL_MS = 365 * 24 * 3_600_000


class Body(Wire):
    """A request's body. `CONTENTS` names the members that are somebody's value."""

    CONTENTS: ClassVar[frozenset[str]] = frozenset()


class StartRunBody(Body):
    """Exactly one of `flow`, `script`, `agent`, each `id` or `id@version`."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [kind]} for kind in ("flow", "script", "agent")]}
    )
    CONTENTS = frozenset({"input"})

    flow: Name | None = None
    script: Name | None = None
    agent: Name | None = None
    input: Content = Field(
        default=b"{}",
        description="Any JSON; checked against the definition's input schema.",
        json_schema_extra={"default": {}},
    )
    wait: bool = Field(default=True, description="Answer when the run ends or suspends, at most after 30 s.")
    ttl_ms: Annotated[int, Field(ge=1, le=MAX_TTL_MS)] | None = Field(
        default=None, description="Bounds every wait of the run. Left out: 30 days."
    )
    participant: Name | None = Field(
        default=None, description="The person the run is about; never in an event."
    )
    project: Name | None = None
    labels: dict[Name, LabelText] | None = Field(
        default=None, description="Kept in the run's signed events for ever: no personal data."
    )

    @model_validator(mode="after")
    def _names_one_definition(self) -> "StartRunBody":
        if sum(each is not None for each in (self.flow, self.script, self.agent)) != 1:
            raise PydanticCustomError("oneOf", "exactly one of flow, script, agent")
        _, name, version = self.definition()
        if not name or version == "":
            raise PydanticCustomError("pattern", "id or id@version")
        return self

    def definition(self) -> tuple[str, str, str | None]:
        """The definition's kind, id and version; no version where none was asked for."""
        kind = "flow" if self.flow else "script" if self.script else "agent"
        name, at, version = (self.flow or self.script or self.agent or "").partition("@")
        return kind, name, version if at else None


class ResumeBody(Body):
    """Answers the wait `waitpointId` of the run."""

    CONTENTS = frozenset({"value"})

    waitpoint_id: Name = Field(description="The wait's `tokenId`, from the run's `waitingFor.tokens`.")
    value: Content = Field(
        default=b"{}",
        description="The answer, any JSON; `null` is one. Left out: `{}`.",
        json_schema_extra={"default": {}},
    )


class NoBody(Body):
    """Nothing is asked for: no body, or `{}`."""


def _digits(text: object) -> object:
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,18}", text):
        raise PydanticCustomError("type", "a whole number, 0 or more, in digits")
    return int(text)


def _flag(text: object) -> object:
    if text not in ("true", "false"):
        raise PydanticCustomError("type", "true or false")
    return text == "true"


def _label(text: str) -> str:
    if "=" not in text:
        raise PydanticCustomError("pattern", "name=value")
    return text


Number = Annotated[int, Field(ge=0), BeforeValidator(_digits)]
Limit = Annotated[int, Field(ge=1, le=100), BeforeValidator(_digits)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Status = Literal["pending", "running", "suspended", "completed", "failed", "cancelled"]
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=2_000, pattern=r"^[!-~]+$")]
RunId = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")]


class RunsQuery(Wire):
    """Which runs; all filters must hold."""

    status: Status | None = None
    definition: Name | None = Field(default=None, description="The id of a flow, script or agent.")
    label: Annotated[Name, AfterValidator(_label)] | None = Field(default=None, description="`name=value`.")
    limit: Annotated[int, Field(ge=1, le=100), BeforeValidator(_digits)] = 50
    cursor: Cursor | None = Field(default=None, description="The `nextCursor` of the page before.")


class RunQuery(Wire):
    """How to answer for one run."""

    wait: Flag = Field(
        default=False,
        description="`true`: answer once the run ends or suspends, at most after 30 s; at once if it does.",
    )


class CheckQuery(Wire):
    """Whether to take the answer, or only to say whether it would be taken."""

    check: Flag = Field(
        default=False,
        description="`true`: take nothing, and say `acceptable`, or refuse as the answer would be refused.",
    )


class JournalQuery(Wire):
    """Which events of the run."""

    after: Number = Field(default=0, description="Only events after this `sequence`.")
    limit: Annotated[int, Field(ge=1, le=1_000), BeforeValidator(_digits)] = 100
    content: Flag = Field(default=False, description="`true`: with what was said, as long as it exists.")


class AuditQuery(Wire):
    """Which events of the whole journal; all filters must hold."""

    after: Number | None = Field(default=None, description="Only events after this `index`.")
    limit: Annotated[int, Field(ge=1, le=1_000), BeforeValidator(_digits)] = 100
    run_id: RunId | None = None
    kind: Name | None = None


Model = TypeVar("Model", bound=Wire)
SomeBody = TypeVar("SomeBody", bound=Body)


def read_body(model: type[SomeBody], canonical: bytes) -> SomeBody:
    """The request in a canonical body. Raises `BadInputError`, `UnknownFieldError`."""
    members = split_members(canonical)
    fields = {
        name: value if name in model.CONTENTS else _scan_small(value.decode(), 0)[0]
        for name, value in members.items()
    }
    return _validated(model, fields, "the body")


def read_query(model: type[Model], query: bytes) -> Model:
    """The request in a query string. Raises `BadInputError`, `UnknownFieldError`."""
    if not query:
        return model()
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=None)
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise BadInputError("the query has a parameter twice")
    return _validated(model, fields, "the query")


def read_check(query: bytes) -> bool:
    """Whether a link's query asks for a check. Other parameters aren't a link's business; a `check` that is
    neither `true` nor `false`, or is there twice, is `BadInputError`, so that no answer is taken by mistake.
    """
    if b"check" not in query and b"%" not in query:
        return False
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=None)
    given = [value for name, value in pairs if name == "check"]
    if len(given) > 1:
        raise BadInputError("the query has `check` twice")
    return _validated(CheckQuery, {"check": given[0]} if given else {}, "the query").check


def _validated(model: type[Model], fields: Mapping[str, object], where: str) -> Model:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        issues = _issues(error.errors(include_url=False, include_context=False, include_input=False))
    if any(issue.rule == "additionalProperties" for issue in issues):
        raise UnknownFieldError(f"{where} has a field that this request doesn't take", issues)
    raise BadInputError(f"{where} isn't what this request takes", issues)


# pydantic's names of broken rules, as JSON Schema names them.
_RULES = {
    "extra_forbidden": "additionalProperties",
    "missing": "required",
    "string_too_short": "minLength",
    "string_too_long": "maxLength",
    "string_pattern_mismatch": "pattern",
    "greater_than_equal": "minimum",
    "less_than_equal": "maximum",
    "literal_error": "enum",
    "oneOf": "oneOf",
    "pattern": "pattern",
}


def _issues(problems: Iterable[Any]) -> tuple[Issue, ...]:
    """What is wrong where: at most `MAX_ISSUES`, and no pointer longer than `MAX_POINTER_CHARS`."""
    found = []
    for problem in problems:
        steps = [str(step) for step in problem["loc"] if step != "[key]"]
        pointer = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
        found.append(Issue(pointer[:MAX_POINTER_CHARS], _RULES.get(problem["type"], "type")))
    return tuple(found[:MAX_ISSUES])
