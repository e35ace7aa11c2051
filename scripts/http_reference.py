"""Write ``docs/reference/http.md`` from the OpenAPI document: ``python -m scripts.http_reference``.

``tests/docs/test_http_reference.py`` compares the page with what this writes.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from abeyance.http import openapi
from abeyance.http.errors import INTERNAL_CODE, INTERNAL_STATUS, TABLE
from abeyance.http.idempotency import HEADER

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "http.md"

HEAD = """# HTTP API

<!-- Written by `python -m scripts.http_reference`; change `src/abeyance/http/`, or that script. -->

The same as OpenAPI 3.1: `GET /v1/openapi.json`.

## What every request keeps to

- **The key**: `Authorization: Bearer <key>`, the deployment's or an API key. No key is asked for at links,
  `/health`, `/ready` and `/v1/openapi.json`.
- **Rights**: each route says which grants it takes. Without one the answer is `403 permission-denied`, and
  `details.grant` says which is missing; then comes whether the thing is there (`404`). How to give keys out
  is in [give out API keys](../how-to/give-out-api-keys.md).
- **The workspace** is the API key's; with the deployment's key the one that the header `Abeyance-Workspace`
  names, left out `default`. What belongs to another workspace, or to another project than a key is bound to,
  is not there: `404`, and lists leave it out.
- **Bodies** are JSON in UTF-8 with `Content-Type: application/json` (or `application/*+json`), at most 1 MiB,
  100 levels and 100,000 values; no duplicate keys, no NaN or Infinity. No bytes at all are `{}`. A number
  keeps its text: `1.10` is stored and answered as `1.10`.
- **Unknown fields and parameters** are refused. A field that may be left out may also be `null`.
- **Methods**: `HEAD` is there where `GET` is; any other method is `405` with `Allow`.

`GET` and `POST /w/{token}` are no part of this API: they are the page of a link, HTML for a person, which
takes an answer by the checks of the link, in their order, with the same statuses. It is described in
[answer a link](../how-to/answer-a-link.md#the-page-for-a-person).

## What every answer keeps to

- **Times** are RFC 3339 in UTC with milliseconds and `Z`. What isn't there is left out.
- **Lists** are `data`, `hasMore` and, if there is more, `nextCursor`.
- **Headers**: `Cache-Control: no-store`, and `X-Request-Id`, which the server's log has too.
- **A refusal** took nothing. Its `code` is the contract, its `message` is for people; `details.issues` says
  where a value breaks which rule, as a JSON pointer and a JSON Schema keyword, never the value. A member that
  is missing has the path that it would have: `{"path": "/pickupAt", "rule": "required"}`.
- **Before the API** the server itself answers, in text and without these headers: `414` to a request line
  over 4,094 bytes, `431` to a header over 8,190 bytes or to over 100 headers, `400` to what isn't HTTP/1.1,
  `501` to a transfer encoding but chunked, `403` to a WebSocket. A number of 5,000 digits as a length closes
  the connection.
- **Fields may be added** to answers; leave aside those that you don't know.

## Idempotency-Key

With the header `Idempotency-Key` a request counts once, however often it is sent in 24 hours: send it again
with the same key whenever you can't know whether it was taken. How to use it is in
[start runs from your app](../how-to/start-runs-from-your-app.md#send-a-request-again).

- **The key** is 1 to 255 characters of UTF-8, none of them a control character; a UUID is a good one. In
  double quotes (RFC 8941) it is the same key. It belongs to the workspace, the key that the request is
  authorized by, and the request's path. Two different headers, an empty one and a wrong one are `400
  bad-input`.
- **The same request again** is answered byte for byte as the first one was, with `Idempotency-Replayed:
  true`. Until the first one was answered, and where its answer is over 256 KiB or can't be read any more, the
  run that came of it is shown as it is now, with the same header; a request that waits for its run waits then
  too.
- **Another request with the key** (method, query or body differ; white space and the order of members don't
  count) is `409 idempotency-key-body-mismatch`.
- **While the first one is under way** and nothing came of it yet, `409 idempotency-key-in-flight` with
  `Retry-After`.
- **A refusal doesn't use the key up**: nothing was taken, and a good request with the same key is taken.
- **An answer that holds a secret isn't kept**: `409 idempotency-replay-withheld`. So is one whose process
  died before it could be kept, where no run came of the request; look what came of it before you use a new
  key.
- The **links** take no key: the same answer again is accepted in any case. `?check=true` takes nothing, and
  so looks at no key.

"""


def page(document: dict[str, Any] | None = None) -> str:
    """The whole page."""
    document = document or openapi.document()
    parts = [HEAD, *_operations(document), "## Shapes\n\n", *_shapes(document), *_codes(document)]
    return "".join(parts).rstrip("\n") + "\n"


def _operations(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"## {method.upper()} {path}\n\n{operation['summary']}. {operation['description']}\n\n"
            yield from _parameters(operation["parameters"])
            if "requestBody" in operation:
                yield from _body(operation["requestBody"])
            yield from _answers(operation["responses"])


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    rows = [
        (f"`{each['name']}`", _type(each["schema"]), each.get("description", ""))
        for each in parameters
        if each["in"] == "query"
    ]
    yield from _table(("query", "type", ""), rows)
    if any(each["name"] == HEADER for each in parameters):
        yield f"Takes an [{HEADER}](#idempotency-key).\n\n"


def _body(body: dict[str, Any]) -> Iterator[str]:
    ((_, content),) = body["content"].items()
    yield f"Body: {_type(content['schema']) or 'any JSON'}\n\n{_json(content['example'])}"


def _answers(responses: dict[str, Any]) -> Iterator[str]:
    rows, example = [], None
    for status, response in responses.items():
        if "$ref" in response:  # the same at every operation; the head of the page says it
            continue
        ((_, content),) = response["content"].items()
        if codes := content.get("examples"):
            rows.append((status, ", ".join(f"[{code}](#{code})" for code in codes), ""))
        else:
            rows.append((status, response["description"], _type(content["schema"])))
            example = example if example is not None else content["example"]
    yield from _table(("status", "", "body"), rows)
    if isinstance(example, str):
        yield f"```text\n{example}```\n\n"
    elif example is not None:
        yield _json(example)


def _shapes(document: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"### {name}\n\n{_one_line(schema.get('description', ''))}\n\n"
        required = schema.get("required", [])
        rows = [
            (
                f"`{field}`" + ("" if field in required else "?"),
                _type(each) or "any JSON",
                each.get("description", ""),
            )
            for field, each in schema.get("properties", {}).items()
        ]
        yield from _table(("field", "type", ""), rows)


def _codes(document: dict[str, Any]) -> Iterator[str]:
    yield "## Codes\n\n"
    statuses = [(row.example.code, row.status) for row in TABLE] + [(INTERNAL_CODE, INTERNAL_STATUS)]
    for code, status in statuses:
        example = document["components"]["examples"][code]["value"]
        yield f"### {code}\n\n`{status}`\n\n{_json(example)}"


def _type(schema: dict[str, Any]) -> str:
    """The type in words, with a link where it is a shape of its own."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{_word(value)}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"array of {_type(schema['items']) or 'any JSON'}"
    kind = str(schema.get("format", schema.get("type", "")))
    text = kind + _range(schema.get("minimum"), schema.get("maximum"), "")
    text += _range(schema.get("minLength"), schema.get("maxLength"), " characters")
    default = schema.get("default")
    return text + (f", default `{json.dumps(default)}`" if default is not None else "")


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _range(low: int | None, high: int | None, unit: str) -> str:
    if high is None:
        return "" if low is None else f", {low}{unit} or more"
    return f", at most {high}{unit}" if low is None else f", {low} to {high}{unit}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if not rows:
        return
    for row in (head, tuple("---" for _ in head), *rows):
        cells = " | ".join(_one_line(cell).replace("|", "\\|") for cell in row)
        yield f"| {cells} |\n"
    yield "\n"


def _json(value: object) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```\n\n"


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
