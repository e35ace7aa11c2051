"""The description of the API, OpenAPI 3.1.0: from the operations, the models and the table of errors.

Nothing is written twice: schemas come from the models that read requests, refusals with their examples
from the table that answers them, answers' examples from the code that renders them.
"""

import json
from functools import cache
from typing import Any, TypeAlias

from pydantic.json_schema import models_json_schema

import abeyance
from abeyance.http import samples
from abeyance.http.access import ACCESS_BY_PATH
from abeyance.http.answers import ProblemBody, Run
from abeyance.http.errors import (
    INTERNAL_CODE,
    INTERNAL_MESSAGE,
    INTERNAL_STATUS,
    TABLE,
    body_of,
    error_body,
    find_row,
)
from abeyance.http.idempotency import HEADER, MAX_KEY_LENGTH, REPLAYED
from abeyance.http.operations import OPERATIONS, Answer, Operation
from abeyance.http.schemas import Body, NoBody, Wire

Tree: TypeAlias = dict[str, Any]

_ABOUT = (
    "Runs that wait for the outside world. JSON in camelCase; times are RFC 3339 in UTC with "
    "milliseconds and `Z`. Every answer has `X-Request-Id`, which refusals repeat as `requestId`. `code` "
    "is the contract, `message` is for people. Whatever is refused took nothing. A request works in the "
    "workspace of its API key; with the deployment's key in the one that the header `Abeyance-Workspace` "
    "names, left out `default`. What belongs to another workspace, or to another project than a key is bound "
    "to, is not there: `404`, and lists leave it out."
)
_CONTENT_TYPE = "application/json"
_HEADERS = {
    "X-Request-Id": "The request's id; the log has it too.",
    "Retry-After": "Send the same request again after so many seconds.",
    "Allow": "The methods that the route takes.",
    "WWW-Authenticate": "`Bearer`.",
    "Location": "The run's address.",
    "Idempotency-Replayed": "`true`: an earlier request with this key did it, and this is its answer.",
}
# What gunicorn answers by itself, in text, before a request gets to the API (its limit_request_line and
# limit_request_field_size).
_BEFORE = {
    "414": "The request line is over 4,094 bytes. Answered before the API, in text.",
    "431": "A header is over 8,190 bytes, or there are over 100. Answered before the API, in text.",
}
_RETRY_STATUSES = (429, 503)
_KEY_PARAMETER: Tree = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Makes the request count once, however often it is sent in 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
}
_LOCATED_STATUSES = (201, 202)


@cache
def document_bytes() -> bytes:
    """The document as it is served. Made once, when it is first asked for."""
    return json.dumps(document(), ensure_ascii=False, separators=(",", ":")).encode()


def document() -> Tree:
    """The whole document."""
    paths: Tree = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "abeyance", "version": abeyance.__version__, "description": _ABOUT},
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "examples": examples(),
            "headers": {name: _header(says) for name, says in _HEADERS.items()},
            "responses": {status: _text(says) for status, says in _BEFORE.items()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def examples() -> Tree:
    """One refusal of every code."""
    found = {row.example.code: body_of(row, row.example, samples.REQUEST_ID) for row in TABLE}
    found[INTERNAL_CODE] = error_body(INTERNAL_CODE, INTERNAL_MESSAGE, samples.REQUEST_ID)
    return {code: {"value": json.loads(body)} for code, body in found.items()}


def _operation(operation: Operation) -> Tree:
    tree: Tree = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"{operation.description} {_rights(operation)}".rstrip(),
        "parameters": [
            *_path_parameters(operation.path),
            *_query_parameters(operation.query),
            *([_KEY_PARAMETER] if operation.idempotent else []),
        ],
        "responses": _responses(operation),
    }
    if operation.open_to_all:
        tree["security"] = []
    if operation.body or operation.any_json:
        schema = _ref(operation.body) if operation.body else {}
        content = {_CONTENT_TYPE: {"schema": schema, "example": operation.body_example}}
        tree["requestBody"] = {"required": operation.body not in (None, NoBody), "content": content}
    return tree


def _rights(operation: Operation) -> str:
    """Which grants the operation takes."""
    if operation.open_to_all:
        return ""
    access = ACCESS_BY_PATH[operation.path][operation.method]
    if access.reach == "deployment":
        return "Takes the deployment's own key."
    grants = [f"`{grant}`" for grant in access.grants]
    if not grants:
        return "Takes any key."
    return f"Takes the grant{'s' if grants[1:] else ''} {' and '.join(grants)}."


def _path_parameters(path: str) -> list[Tree]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(model: type[Wire] | None) -> list[Tree]:
    if model is None:
        return []
    parameters = []
    for name, schema in as_answered(model.model_json_schema())["properties"].items():
        says = {"description": schema.pop("description")} if "description" in schema else {}
        parameters.append({"name": name, "in": "query", **says, "schema": schema})
    return parameters


def _responses(operation: Operation) -> Tree:
    responses: Tree = {str(answer.status): _answer(answer) for answer in operation.answers}
    if operation.idempotent:
        for response in responses.values():
            response["headers"][REPLAYED] = {"$ref": f"#/components/headers/{REPLAYED}"}
    refused: dict[int, list[str]] = {}
    for kind in operation.every_refusal():
        row = find_row(kind)
        if row is None:
            raise LookupError(f"{kind.__name__} has no row in the table of errors")
        refused.setdefault(row.status, []).append(kind.code)
    refused[INTERNAL_STATUS] = [INTERNAL_CODE]
    for status, codes in sorted(refused.items()):
        responses[str(status)] = _refusal(status, codes)
    for number in _BEFORE:
        responses[number] = {"$ref": f"#/components/responses/{number}"}
    if operation.idempotent:
        responses["409"]["headers"]["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return responses


def _answer(answer: Answer) -> Tree:
    if answer.model is None:
        content: Tree = {answer.media: {"schema": {"type": "string"}, "example": answer.example.decode()}}
    else:
        schema = _ref(answer.model)
        if answer.instead is not None:
            schema = {"anyOf": [schema, _ref(answer.instead)]}
        content = {_CONTENT_TYPE: {"schema": schema, "example": json.loads(answer.example)}}
    headers = _headers(answer.status)
    if answer.model is not Run:
        headers.pop("Location", None)
    return {"description": answer.says, "headers": headers, "content": content}


def _refusal(status: int, codes: list[str]) -> Tree:
    shown = {code: {"$ref": f"#/components/examples/{code}"} for code in codes}
    return {
        "description": " or ".join(f"`{code}`" for code in codes),
        "headers": _headers(status),
        "content": {_CONTENT_TYPE: {"schema": _ref(ProblemBody), "examples": shown}},
    }


def _headers(status: int) -> Tree:
    names = ["X-Request-Id"]
    names += ["Retry-After"] if status in _RETRY_STATUSES else []
    names += ["Location"] if status in _LOCATED_STATUSES else []
    names += {401: ["WWW-Authenticate"], 405: ["Allow"]}.get(status, [])
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _text(says: str) -> Tree:
    return {"description": says, "content": {"text/plain": {"schema": {"type": "string"}}}}


def _header(says: str) -> Tree:
    return {"description": says, "schema": {"type": "string"}}


def _ref(model: type[Wire]) -> Tree:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _schemas() -> Tree:
    models: list[type[Wire]] = [ProblemBody]
    for operation in OPERATIONS:
        models += [operation.body] if operation.body else []
        shapes = [(answer.model, answer.instead) for answer in operation.answers]
        models += [shape for pair in shapes for shape in pair if shape]
    _, found = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(models)],
        ref_template="#/components/schemas/{model}",
    )
    requests = {each.__name__ for each in Body.__subclasses__()}
    return {
        name: schema if name in requests else as_answered(schema) for name, schema in found["$defs"].items()
    }


def as_answered(schema: Tree) -> Tree:
    """The schema of an answer: its missing fields are left out, never `null`, and a later release may add
    fields.
    """
    schema.pop("additionalProperties", None)
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        choices = field.get("anyOf", [])
        if name not in required and {"type": "null"} in choices:
            (kept,) = (choice for choice in choices if choice != {"type": "null"})
            del field["anyOf"]
            field.update(kept)
        if field.get("default", ...) is None:
            del field["default"]
    return schema
