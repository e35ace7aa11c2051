"""Values against the JSON Schema (2020-12) that other systems were promised, and against the model itself.

An answer is taken only if both accept it. The schema decides as JSON Schema reads it: no conversions, formats
asserted, `1.0` is an integer and `true` is no number, patterns as in ECMA-262 for the usual classes and
anchors. Then the model validates the same bytes in pydantic's strict JSON mode: in its lax mode, `bool | int`
takes `1.0` for `True`. No issue names a value; a path may hold a key. A missing member has the path that it
would have, and the rule `required`, whichever of the two misses it.

Neither check can be made to hang: patterns run on an engine that is linear in time, or with a bounded number
of steps if they look around; nothing is fetched; unions that make validation exponential are refused (see
`refuse_ambiguous_unions`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from itertools import combinations
from typing import Any, Final

import jsonschema_rs
from pydantic import TypeAdapter, ValidationError

from abeyance.errors import InvalidDefinitionError, Issue
from abeyance.journal.canonical import decode, encode

MAX_ISSUES: Final = 20
MAX_POINTER_CHARACTERS: Final = 200

# About 5 ms of matching; only patterns with lookaround or back-references are counted.
_MAX_BACKTRACKS: Final = 100_000


def schema_of(shape: TypeAdapter[Any] | type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of what `shape` takes, with wire names.

    Raises `InvalidDefinitionError` for unions that can't be validated in a bounded time, and pydantic's own
    errors for types that have no schema.
    """
    schema = _adapter_of(shape).json_schema(mode="validation", by_alias=True)
    refuse_ambiguous_unions(schema)
    return schema


def schema_digest(schema: dict[str, Any]) -> str:
    """Return the SHA-256 of the schema's canonical bytes, in hex."""
    return sha256(encode(schema)).hexdigest()


class SchemaCheck:
    """One schema, compiled once. Raises `ValueError` if it isn't one, or refers to something outside."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._validator = _compile(schema)
        # Listing every branch's errors doubles with each level here, while the verdict doesn't.
        self._explains = not any(_recursive_unions(schema))

    def check(self, value: object) -> list[Issue]:
        """Return where `value` breaks which rule: at most `MAX_ISSUES`, none if it fits."""
        if self._validator.is_valid(value):
            return []
        if not self._explains:
            return [Issue(path="", rule="anyOf")]
        found = self._validator.evaluate(value).errors()
        issues = [
            _issue(one["instanceLocation"], _keyword(one["schemaLocation"]), one["error"]) for one in found
        ]
        return _first(issues) or [Issue(path="", rule="schema")]

    def check_canonical(self, canonical: bytes) -> list[Issue]:
        """As `check`, of canonical JSON; numbers that no double holds are compared exactly."""
        return self.check(decode(canonical, parse_float=_exact))


def read_model(shape: TypeAdapter[Any] | type[Any], canonical: bytes) -> Any:
    """Return what the model makes of canonical JSON, in strict mode, where `1.0` and `1e2` count as integers.

    Raises pydantic's `ValidationError`, and whatever the model's own validators raise.
    """
    adapter = _adapter_of(shape)
    try:
        return adapter.validate_json(canonical, strict=True)
    except ValidationError:
        whole = _TOKENS.sub(_whole_if_integral, canonical)
        if whole == canonical:
            raise
        return adapter.validate_json(whole, strict=True)


def check_with_model(shape: TypeAdapter[Any] | type[Any], canonical: bytes) -> list[Issue]:
    """Return what the model has against canonical JSON: at most `MAX_ISSUES`, none if it fits."""
    try:
        read_model(shape, canonical)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        value = decode(canonical)
        return _first([_model_issue(value, one["loc"], one["type"]) for one in found])
    except Exception as error:  # a model's own validators may raise anything
        return [Issue(path="", rule=type(error).__name__)]
    return []


def refuse_ambiguous_unions(schema: Mapping[str, Any]) -> None:
    """Raise `InvalidDefinitionError` if a recursive union needs several of its branches tried at each level.

    Pydantic tries all branches of a union that may fit, again at each level below: 25 levels of a union of
    two take 16 seconds, from a body of 300 bytes. With a discriminator it looks at one.
    """
    for union, recursive in _recursive_unions(schema):
        if "discriminator" in union:
            continue
        if any(_types(schema, one) & _types(schema, other) for one, other in combinations(recursive, 2)):
            raise InvalidDefinitionError(
                str(schema.get("title", "schema")),
                "a recursive union of types that look alike takes exponential time to validate: give each a "
                "`Literal` tag and the union `Field(discriminator=...)`",
            )


_ALL_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def _recursive_unions(schema: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """The unions of which two or more branches lead back to them, with these branches."""
    definitions = {"#": {key: part for key, part in schema.items() if key != "$defs"}}
    definitions |= {f"#/$defs/{name}": part for name, part in schema.get("$defs", {}).items()}
    direct = {name: _references(part) for name, part in definitions.items()}
    for name, part in definitions.items():
        for union in _unions(part):
            branches = [*union.get("anyOf", ()), *union.get("oneOf", ())]
            recursive = [branch for branch in branches if name in _reached(_references(branch), direct)]
            if len(recursive) > 1:
                yield union, recursive


def _parts(schema: object) -> Iterator[dict[str, Any]]:
    """Every object in a schema, itself included."""
    if isinstance(schema, dict):
        yield schema
    if isinstance(schema, dict | list):
        for part in schema.values() if isinstance(schema, dict) else schema:
            yield from _parts(part)


def _unions(schema: object) -> Iterator[dict[str, Any]]:
    return (part for part in _parts(schema) if "anyOf" in part or "oneOf" in part)


def _references(schema: object) -> set[str]:
    return {part["$ref"] for part in _parts(schema) if isinstance(part.get("$ref"), str)}


def _reached(start: set[str], direct: Mapping[str, set[str]]) -> set[str]:
    """The definitions that are reached from `start`, by one reference or more."""
    reached: set[str] = set()
    open_ends = set(start)
    while open_ends:
        name = open_ends.pop()
        reached.add(name)
        open_ends |= direct.get(name, set()) - reached
    return reached


def _types(schema: Mapping[str, Any], branch: Mapping[str, Any]) -> frozenset[str]:
    """The JSON types that a branch may take, as far as it says so itself or by references."""
    seen: set[str] = set()
    while "$ref" in branch and branch["$ref"] not in seen:
        seen.add(branch["$ref"])
        branch = schema.get("$defs", {}).get(branch["$ref"].removeprefix("#/$defs/"), {})
    named = branch.get("type", _ALL_TYPES)
    return frozenset([named] if isinstance(named, str) else named)


def _adapter_of(shape: TypeAdapter[Any] | type[Any]) -> TypeAdapter[Any]:
    return shape if isinstance(shape, TypeAdapter) else TypeAdapter(shape)


def _compile(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    linear = jsonschema_rs.RegexOptions()
    try:
        return jsonschema_rs.Draft202012Validator(
            schema, validate_formats=True, offline=True, pattern_options=linear
        )
    except jsonschema_rs.ValidationError:
        # Not for the linear engine, or no schema at all, which the other engine's error says as well.
        bounded = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKS)
        return jsonschema_rs.Draft202012Validator(
            schema, validate_formats=True, offline=True, pattern_options=bounded
        )


def _exact(token: str) -> float | Decimal:
    # A double tells numbers of 15 digits apart; sign and point are the other two characters.
    if len(token) <= 17 and "e" not in token and "E" not in token:
        return float(token)
    try:
        return Decimal(token)
    except InvalidOperation:  # an exponent of more than 18 digits, so zero or next to it
        return float(token)


_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][0-9.eE+-]*+')
_REAL: Final = re.compile(rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


def _whole_if_integral(found: re.Match[bytes]) -> bytes:
    """Return the token of an integral number without point and exponent, any other token as it is."""
    token = found.group()
    parts = _REAL.fullmatch(token)
    if parts is None:
        return token
    sign, whole, fraction, exponent = parts.groups(default=b"")
    digits = whole + fraction
    if not digits.strip(b"0"):
        return b"0"
    # More digits of exponent are next to zero: what no double holds was refused before.
    if len(exponent) > 5:
        return token
    scale = int(exponent or 0) - len(fraction)
    if scale < 0 and digits[scale:].strip(b"0"):
        return token
    shifted = digits + b"0" * scale if scale >= 0 else digits[:scale]
    return sign + shifted.lstrip(b"0")


_KEYWORDS: Final = frozenset(
    "additionalProperties allOf anyOf const contains dependentRequired dependentSchemas enum "
    "exclusiveMaximum exclusiveMinimum format items maxItems maxLength maxProperties maximum minItems "
    "minLength minProperties minimum multipleOf not oneOf pattern patternProperties prefixItems properties "
    "propertyNames required type unevaluatedItems unevaluatedProperties uniqueItems".split()
)


def _keyword(location: str) -> str:
    """The keyword that refused, of its place in the schema (`/oneOf/0/type`); `schema` if there is none."""
    return next((token for token in reversed(location.split("/")) if token in _KEYWORDS), "schema")


def _issue(location: str, rule: str, message: str) -> Issue:
    """The issue of one error. Only the message (`"pickupAt" is a required property`) says what is missing."""
    if rule == "required" and message.startswith('"'):
        name, _ = json.JSONDecoder(strict=False).raw_decode(message)
        location += _step(name)
    return Issue(_shortened(location), rule)


def _model_issue(value: object, location: tuple[int | str, ...], kind: str) -> Issue:
    pointer = _pointer(value, location)
    if kind == "missing" and location:
        return Issue(_shortened(pointer + _step(location[-1])), "required")
    return Issue(_shortened(pointer), kind)


def _step(name: int | str) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def _pointer(value: object, location: tuple[int | str, ...]) -> str:
    """Return pydantic's location as a JSON pointer: steps that are no key or index of `value` name types."""
    pointer = ""
    for step in location:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            continue
        pointer += _step(step)
    return pointer


def _shortened(pointer: str) -> str:
    """Return the pointer, or that of the nearest value around whose pointer isn't too long."""
    if len(pointer) <= MAX_POINTER_CHARACTERS:
        return pointer
    return pointer[: pointer.rindex("/", 0, MAX_POINTER_CHARACTERS)]


def _first(issues: list[Issue]) -> list[Issue]:
    return list(dict.fromkeys(issues))[:MAX_ISSUES]
