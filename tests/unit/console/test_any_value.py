"""Any value of a schema that has a form can be typed into it, and comes out the same, digit for digit."""

import json
from datetime import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from abeyance.console.filling import fill, names_of
from abeyance.console.making import form_of, json_form_of
from abeyance.engine.schemas import SchemaCheck
from abeyance.journal.canonical import canonicalise

# What a person types: pairs of a control's name and its text, and the JSON that is to come of it.
Typed = tuple[str, list[tuple[str, str]]]
Shape = tuple[dict[str, Any], st.SearchStrategy[Typed]]

# Controls are named by a letter and the path; a part of a form is typed as if it were the whole, then put in.
CHARACTERS = st.characters(
    categories=("L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Co"), exclude_characters="\r"
)
WORDS = st.text(CHARACTERS, min_size=1, max_size=20).filter(lambda text: text.strip())
LINES = WORDS.map(lambda text: text.replace("\n", " ")).filter(lambda text: text.strip())
NAMES = st.text(st.characters(categories=("L", "M", "N", "P", "S", "Z")), min_size=1, max_size=6)
WHOLE = st.one_of(st.integers(-(10**30), 10**30).map(str), st.sampled_from(["-0", "1e2", "100e-2"]))
NUMBERS = st.one_of(
    WHOLE, st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
)
FIRST_YEAR_OF_FOUR_DIGITS = datetime.fromisoformat("1000-01-01")
MOMENTS = st.builds(
    lambda moment, offset: f"{moment:%Y-%m-%dT%H:%M:%S}{offset}",
    st.datetimes(min_value=FIRST_YEAR_OF_FOUR_DIGITS),
    st.sampled_from(["Z", "+05:45", "-03:30"]),
)


def plain(text: str) -> Typed:
    return json.dumps(text, ensure_ascii=False), [("v", text)]


def token(text: str) -> Typed:
    return text, [("v", text)]


def put(step: str, typed: Typed) -> list[tuple[str, str]]:
    """The controls of a part, as parts of the whole."""
    return [(name[0] + step + name[1:], text) for name, text in typed[1]]


SCALARS: st.SearchStrategy[Shape] = st.sampled_from(
    [
        ({"type": "string"}, WORDS.map(plain)),
        ({"type": "string", "maxLength": 4000}, WORDS.map(plain)),
        ({"type": "string", "format": "date"}, st.dates().map(lambda day: plain(day.isoformat()))),
        ({"type": "string", "format": "date-time"}, MOMENTS.map(plain)),
        (
            {"type": "string", "format": "date-time"},
            MOMENTS.map(lambda text: (json.dumps(text), [("v", text[:19]), ("z", zone(text))])),
        ),
        ({"type": "integer"}, WHOLE.map(token)),
        ({"type": "number"}, NUMBERS.map(token)),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, NUMBERS.map(token)),
        ({"type": "boolean"}, st.sampled_from(["true", "false"]).map(token)),
        ({"enum": ["a", "", 1, 2.5, True, [1], None]}, st.sampled_from(['"a"', '""', "1", "2.5"]).map(token)),
        ({"const": "fixed"}, st.just(('"fixed"', []))),
        ({"type": ["string", "null"]}, st.one_of(WORDS.map(plain), st.just(("null", [])))),
        ({}, st.sampled_from(["null", "[1,{}]", '"x"', "{}", "1.50"]).map(token)),
    ]
)


def zone(text: str) -> str:
    return text[19:].replace("Z", "+00:00")


def lists() -> st.SearchStrategy[Shape]:
    def shape(item: tuple[Any, ...]) -> Shape:
        schema, lines, to_json = item
        return {"type": "array", "items": schema}, st.lists(lines, max_size=4).map(
            lambda items: (f"[{','.join(map(to_json, items))}]", [("v", "\r\n".join(items))])
        )

    return st.sampled_from(
        [
            ({"type": "string"}, LINES, lambda text: json.dumps(text, ensure_ascii=False)),
            ({"type": "integer"}, WHOLE, str),
            ({"type": "boolean"}, st.sampled_from(["Yes", "No"]), lambda text: str(text == "Yes").lower()),
            ({"enum": ["red", "blue"]}, st.sampled_from(["red", "blue"]), json.dumps),
        ]
    ).map(shape)


@st.composite
def objects(draw: st.DrawFn, parts: st.SearchStrategy[Shape]) -> Shape:
    """An object of some members, of which some may be left out."""
    members = draw(st.dictionaries(NAMES, st.tuples(parts, st.booleans()), min_size=1, max_size=4))
    required = [name for name, (_, needed) in members.items() if needed]
    schema = {"type": "object", "properties": {n: shape[0] for n, (shape, _) in members.items()}}

    @st.composite
    def values(draw: st.DrawFn) -> Typed:
        texts, controls = [], []
        for name, (shape, needed) in members.items():
            typed = draw(shape[1])
            if not needed and (draw(st.booleans()) or is_empty(typed)):
                continue
            texts.append(f"{json.dumps(name, ensure_ascii=False)}:{typed[0]}")
            controls += put("/" + name.replace("~", "~0").replace("/", "~1"), typed)
        return "{" + ",".join(texts) + "}", controls

    return {**schema, "required": required}, values()


def is_empty(typed: Typed) -> bool:
    """Whether nobody who sees it filled in could tell it from a field that was left alone."""
    return typed[0] == "null" or not any(text.strip() for name, text in typed[1] if name[0] != "z")


def choices(parts: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    def branch(number: int, values: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
        return values.map(lambda typed: (typed[0], [("c", str(number)), *put(f"/~b{number}", typed)]))

    def either(shapes: list[Shape]) -> Shape:
        branches = [branch(number, values) for number, (_, values) in enumerate(shapes)]
        return {"oneOf": [schema for schema, _ in shapes]}, st.one_of(*branches)

    return st.lists(parts, min_size=2, max_size=3).map(either)


LEAVES = st.one_of(SCALARS, lists())
SHAPES = st.recursive(LEAVES, lambda parts: st.one_of(objects(parts), choices(objects(parts))), max_leaves=8)


class TestAnyValue:
    @settings(deadline=None)
    @given(data=st.data())
    def test_what_is_typed_in_comes_out(self, data: st.DataObject) -> None:
        schema, values = data.draw(SHAPES)
        expected, controls = data.draw(values)
        form = form_of(schema)

        filled = fill(form, dict(controls))

        assert {} == filled.problems, (schema, controls)
        assert canonicalise(expected.encode()) == canonicalise(filled.text.encode()), (schema, controls)
        assert {name for name, _ in controls} <= names_of(form)

    @settings(deadline=None)
    @given(value=st.recursive(st.none() | st.booleans() | st.text(CHARACTERS) | WHOLE.map(float), st.lists))
    def test_any_json_comes_out_of_the_form_for_json(self, value: Any) -> None:
        text = json.dumps(value)

        filled = fill(json_form_of({}), {"v": text})

        assert canonicalise(text.encode()) == filled.text.encode()

    @settings(deadline=None)
    @given(
        shape=SHAPES,
        typed=st.dictionaries(st.sampled_from(["v", "c", "z"]), st.text(CHARACTERS)),
        data=st.data(),
    )
    def test_whatever_is_sent_there_is_json_to_put_to_the_link(
        self, shape: Shape, typed: dict[str, str], data: st.DataObject
    ) -> None:
        """Nonsense in any control ends in an answer that is refused or taken, never in a crash."""
        form = form_of(shape[0])
        names = sorted(names_of(form)) or ["v"]
        given = data.draw(
            st.dictionaries(st.sampled_from(names), st.text(CHARACTERS) | st.sampled_from("012"))
        )

        filled = fill(form, given | typed)

        canonicalise(filled.text.encode())
        for field, text in filled.used:
            SchemaCheck(dict(field.schema)).check_canonical(canonicalise(text.encode()))
