"""The description of the API, held to the routes, the table of errors and the models."""

import json
from collections.abc import Iterator
from typing import Any

import falcon.inspect
import falcon.testing
import jsonschema_rs
import pytest

from abeyance.http import openapi
from abeyance.http.errors import INTERNAL_CODE, TABLE
from abeyance.http.operations import OPERATIONS
from tests.api.fake_runs import FakeRuns, api

DOCUMENT = json.loads(openapi.document_bytes())


def routes() -> set[tuple[str, str]]:
    """What the application answers, HEAD apart: it goes with GET."""
    return {
        (method.method, route.path.replace(":path}", "}"))
        for route in falcon.inspect.inspect_routes(api(FakeRuns()))
        for method in route.methods
        if not method.internal and method.method != "HEAD"
    }


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for child in tree.values():
            yield from nodes(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from nodes(child)


def resolve(reference: str) -> Any:
    found = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def media() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Every example with its schema, bodies and answers alike."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            shown = {"request": operation.get("requestBody", {}), **operation["responses"]}
            for name, part in shown.items():
                for content in part.get("content", {}).values():
                    place = f"{method} {path} {name}"
                    if "example" in content:
                        yield place, content["schema"], content["example"]
                    for example in content.get("examples", {}).values():
                        yield place, content["schema"], resolve(example["$ref"])["value"]


class TestDocument:
    def test_it_has_every_route_and_no_other(self) -> None:
        described = {
            (method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods
        }

        assert routes() == described

    def test_it_has_every_code_of_the_table_and_no_other(self) -> None:
        codes = {row.example.code for row in TABLE} | {INTERNAL_CODE}

        assert codes == DOCUMENT["components"]["examples"].keys()

    def test_every_code_is_shown_at_a_route(self) -> None:
        shown = {
            code
            for methods in DOCUMENT["paths"].values()
            for operation in methods.values()
            for response in operation["responses"].values()
            for content in response.get("content", {}).values()
            for code in content.get("examples", {})
        }

        assert set() == DOCUMENT["components"]["examples"].keys() - shown

    def test_every_reference_leads_somewhere(self) -> None:
        references = {node["$ref"] for node in nodes(DOCUMENT) if "$ref" in node}

        assert references
        assert all(resolve(reference) is not None for reference in references)

    @pytest.mark.parametrize(
        ("place", "schema", "example"), list(media()), ids=lambda part: part if isinstance(part, str) else ""
    )
    def test_every_example_fits_its_schema(self, place: str, schema: dict[str, Any], example: Any) -> None:
        validator = jsonschema_rs.Draft202012Validator(
            {**schema, "components": DOCUMENT["components"]}, validate_formats=True
        )

        assert [] == [error.message for error in validator.iter_errors(example)], place

    def test_a_field_of_an_answer_is_left_out_or_has_a_value(self) -> None:
        """`null` is not described where it is never sent; a failure's message is where it is."""
        schemas = DOCUMENT["components"]["schemas"]

        assert {"type": "string"} == {"type": schemas["Token"]["properties"]["name"]["type"]}
        assert {"type": "null"} in schemas["FailureAnswer"]["properties"]["message"]["anyOf"]

    def test_answers_may_gain_fields_and_requests_may_not(self) -> None:
        """A client that is made from the document must outlive the next release."""
        closed = {
            name
            for name, schema in DOCUMENT["components"]["schemas"].items()
            if schema.get("additionalProperties") is False
        }

        bodies = {"StartRunBody", "ResumeBody", "NoBody", "ExportBody", "ExtendBody", "CreateKeyBody"}
        bodies |= {"CreateWorkspaceBody", "CreateProjectBody"}
        assert bodies == closed

    @pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
    def test_only_what_is_open_asks_for_no_key(self, operation: Any) -> None:
        client = falcon.testing.TestClient(api(FakeRuns()))
        path = operation.path.replace("{token}", "t").replace("{id}", "i")

        status = client.simulate_request(operation.method, path).status_code

        described = DOCUMENT["paths"][operation.path][operation.method.lower()]
        assert operation.open_to_all == (described.get("security") == [])
        assert operation.open_to_all == (status != 401)

    def test_it_is_served_as_it_is(self) -> None:
        result = falcon.testing.TestClient(api(FakeRuns())).simulate_get("/v1/openapi.json")

        assert "application/json" == result.headers["Content-Type"]
        assert DOCUMENT == result.json
