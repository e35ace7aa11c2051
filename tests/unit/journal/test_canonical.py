"""Canonical JSON: which bytes are taken, and which bytes stand for them."""

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum, StrEnum
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.errors import BadInputError
from abeyance.journal.canonical import InvalidJsonError, Limits, canonicalise, decode, encode

CHARACTERS = st.characters(exclude_categories=["Cs"])
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**1_000) + 1, max_value=10**1_000 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(CHARACTERS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(CHARACTERS), inner),
    max_leaves=20,
)
P7 = b'{"pickupId":"pk_7","pickupAt":"2026-10-25T09:00:00Z"}'


def problem_of(raw: bytes) -> str:
    with pytest.raises(InvalidJsonError) as refused:
        canonicalise(raw)
    return refused.value.problem


@pytest.fixture(params=[640, 4_300, 0], ids=["least", "default", "none"])
def digit_limit(request: pytest.FixtureRequest) -> Iterator[int]:
    """Set the interpreter's own limit on the digits of integers, as `PYTHONINTMAXSTRDIGITS` does."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(request.param)
    yield request.param
    sys.set_int_max_str_digits(before)


class TestForm:
    def test_keys_are_sorted_and_white_space_is_dropped(self) -> None:
        sent = b' {\n "b" : [ 1 , { } , [ ] ] ,\t"a" : { "d" : null , "c" : true } }\r\n'

        assert b'{"a":{"c":true,"d":null},"b":[1,{},[]]}' == canonicalise(sent)

    def test_keys_are_sorted_by_code_point_not_by_utf_16_unit(self) -> None:
        # U+FB33 is below U+1F600 as a code point, above its first surrogate as a UTF-16 unit.
        assert '{"\ufb33":2,"😀":1}'.encode() == canonicalise('{"😀":1,"\ufb33":2}'.encode())

    def test_sorting_looks_at_unescaped_keys(self) -> None:
        assert b'{"a":1,"b":2}' == canonicalise(b'{"b":2,"\\u0061":1}')

    def test_escapes_are_the_shortest(self) -> None:
        sent = b'"\\u0041\\/\\u0022\\\\\\u0008\\f\\n\\r\\t\\u001F\\u007f\\u00e9\\u2028\\ud83d\\ude00"'

        assert '"A/\\"\\\\\\b\\f\\n\\r\\t\\u001f\x7fé\u2028😀"'.encode() == canonicalise(sent)

    @pytest.mark.parametrize("token", ["null", "true", "false", '""', "{}", "[]", "0", '"a"'])
    def test_any_value_may_stand_alone(self, token: str) -> None:
        assert token.encode() == canonicalise(f" {token}\n".encode())

    @given(JSON_VALUES)
    def test_canonical_bytes_come_back_unchanged(self, value: object) -> None:
        canonical = encode(value)

        assert canonical == canonicalise(canonical)

    @given(JSON_VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
    def test_layout_and_escapes_of_the_sender_make_no_difference(
        self, value: object, indent: int | str | None, ascii_only: bool
    ) -> None:
        sent = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()

        assert encode(value) == canonicalise(sent)

    @given(st.dictionaries(st.text(CHARACTERS), st.integers(), max_size=4))
    def test_the_order_of_keys_makes_no_difference(self, members: dict[str, int]) -> None:
        forms = {canonicalise(json.dumps(dict(order)).encode()) for order in permutations(members.items())}

        assert {encode(members)} == forms

    @pytest.mark.case("A07")
    @pytest.mark.parametrize(
        "again",
        [
            b'{"pickupAt":"2026-10-25T09:00:00Z","pickupId":"pk_7"}',
            b'{ "pickupId" : "pk_7",\n"pickupAt" : "2026-10-25T09:00:00Z" }\n',
            b'{"\\u0070ickupId":"pk\\u005f7","pickupAt":"2026-10-25T09:00:00Z"}',
        ],
    )
    def test_order_white_space_and_escapes_keep_an_answer_the_same(self, again: bytes) -> None:
        assert canonicalise(P7) == canonicalise(again)

    @pytest.mark.case("A07")
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("true", "1"),
            ("1", "1.0"),
            ("1.0", "1.00"),
            ("100", "1e2"),
            ("0", "-0"),
            ('"1"', "1"),
            ("null", "{}"),
        ],
    )
    def test_different_tokens_are_different_answers(self, one: str, other: str) -> None:
        assert canonicalise(one.encode()) != canonicalise(other.encode())

    @pytest.mark.case("A07")
    def test_text_is_not_folded(self) -> None:
        assert canonicalise('"\u00e9"'.encode()) != canonicalise('"e\u0301"'.encode())


class TestNumbers:
    @pytest.mark.case("D10")
    @pytest.mark.parametrize(
        "token",
        [
            "9007199254740993",
            "9223372036854775808",
            "-9223372036854775809",
            "0.1",
            "1.10",
            "1e2",
            "1E+2",
            "-0",
            "-0.0",
            "1e22",
            "123456789012345678901234567890",
            "1.000000000000000005",
            "10000000000000000999",
            "1e-400",
        ],
    )
    def test_the_token_stays_as_it_was_sent(self, token: str) -> None:
        assert f'{{"n":[{token}]}}'.encode() == canonicalise(f'{{"n":[{token}]}}'.encode())

    def test_a_thousand_digits_pass_and_one_more_is_refused(self, digit_limit: int) -> None:
        longest = b"-" + b"9" * 1_000

        assert longest == canonicalise(longest)
        assert "too-many-digits" == problem_of(b"[1" + b"0" * 1_000 + b"]")

    def test_digits_after_the_point_count_too(self) -> None:
        assert b"-0." + b"1" * 999 == canonicalise(b"-0." + b"1" * 999)
        assert "too-many-digits" == problem_of(b"0." + b"1" * 1_000)

    def test_digits_of_an_exponent_count_too(self) -> None:
        assert "too-many-digits" == problem_of(b"1e-" + b"9" * 1_000)

    def test_a_real_number_that_no_double_holds_is_refused(self) -> None:
        assert b"1.7976931348623157e308" == canonicalise(b"1.7976931348623157e308")
        assert "not-finite" == problem_of(b'{"n":-1e309}')

    @pytest.mark.case("D07")
    @pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity"])
    def test_nan_and_infinity_are_refused(self, token: bytes) -> None:
        assert "not-finite" == problem_of(b'{"n":' + token + b"}")

    @pytest.mark.parametrize(
        "token",
        [
            "nan",
            "-NaN",
            "01",
            "1.",
            ".5",
            "+1",
            "0x1",
            "1_0",
            "1e",
            "--1",
            "- 1",
            "\u0661",
            "1\u0661",
            "1.\u0661",
        ],
    )
    def test_what_only_looks_like_a_number_is_refused(self, token: str) -> None:
        assert "not-json" == problem_of(f"[{token}]".encode())


class TestRefusals:
    @pytest.mark.case("D08")
    @pytest.mark.parametrize(
        "sent",
        [
            b'{"approved":false,"approved":true}',
            b'{"a":1,"\\u0061":2}',
            b'[{"x":{"b":1,"a":2,"b":1}}]',
            b'{"":1,"":1}',
        ],
    )
    def test_duplicate_keys_are_refused(self, sent: bytes) -> None:
        assert "duplicate-key" == problem_of(sent)

    @pytest.mark.parametrize(
        "sent",
        [
            b"",
            b" \r\n",
            b"{",
            b"[1,]",
            b'{"a":1,}',
            b"{} {}",
            b"{pickupId:pk_7}",
            b"'a'",
            b'"\x01"',
            b'"a\nb"',
            b'"\\x41"',
            b'"\\u12"',
            b"/**/1",
            b"\x0c1",
            b"\xc2\xa01",
            b"True",
            b'"a',
            b'"\\',
        ],
    )
    def test_what_is_not_json_is_refused(self, sent: bytes) -> None:
        assert "not-json" == problem_of(sent)

    @pytest.mark.parametrize(
        "sent",
        [
            b'"\\ud800"',
            b'"\\udc00\\ud800"',
            b'{"\\ud83d":1}',
            b'["\\ud83d","\\ude00"]',
            b'"\\uD83D\\\\uDE00"',
        ],
    )
    def test_half_a_surrogate_pair_is_refused(self, sent: bytes) -> None:
        assert "lone-surrogate" == problem_of(sent)

    @pytest.mark.case("D09")
    @pytest.mark.parametrize(
        "sent",
        [
            P7.decode().encode("utf-16"),
            P7.decode().encode("utf-16-le"),
            P7.decode().encode("utf-16-be"),
            P7.decode().encode("utf-32"),
            b"1\x00\x00\x00",
            b"1\x00",
            b'{"a":"\xe9"}',
            b'"\xed\xa0\x80"',
            b'"\xc0\x80"',
        ],
    )
    def test_other_encodings_are_refused_by_name(self, sent: bytes) -> None:
        assert "not-utf-8" == problem_of(sent)

    @pytest.mark.case("D09")
    def test_a_byte_order_mark_is_skipped_once(self) -> None:
        mark = b"\xef\xbb\xbf"

        assert canonicalise(P7) == canonicalise(mark + P7)
        assert "not-json" == problem_of(mark)
        assert "not-json" == problem_of(mark + mark + P7)

    @pytest.mark.case("D05")
    def test_nul_in_strings_and_keys_is_data(self) -> None:
        sent = b'{"\\u0000":"a\\u0000b","text":"\\\\u0000"}'

        assert sent == canonicalise(sent)
        assert {"\0": "a\0b", "text": "\\u0000"} == decode(sent)

    def test_the_error_says_where_in_bytes(self) -> None:
        with pytest.raises(InvalidJsonError) as refused:
            canonicalise('\ufeff{"é":secret}'.encode())

        assert 9 == refused.value.position
        assert "this isn't JSON (at byte 9)" == str(refused.value)

    def test_the_error_is_bad_input_and_holds_no_value(self) -> None:
        with pytest.raises(BadInputError) as refused:
            canonicalise(b'{"secret":1,"secret":2}')

        assert "bad-input" == refused.value.code
        assert "secret" not in repr(refused.value) + refused.value.reason


class TestDepthAndCount:
    @pytest.mark.case("D03")
    @pytest.mark.parametrize("depth", [50, 64, 65, 100])
    def test_a_hundred_levels_pass(self, depth: int) -> None:
        arrays = b"[" * depth + b"]" * depth
        objects = b'{"a":' * depth + b"1" + b"}" * depth

        assert arrays == canonicalise(arrays) == encode(decode(arrays))
        assert objects == canonicalise(objects) == encode(decode(objects))

    @pytest.mark.case("D03")
    @pytest.mark.parametrize("depth", [101, 500, 990, 1_000, 5_000, 100_000])
    @pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"]":'])
    @pytest.mark.parametrize("closed", [True, False])
    def test_more_are_refused_balanced_or_not(self, depth: int, opening: bytes, closed: bool) -> None:
        closing = (b"]" if opening == b"[" else b"}") * depth if closed else b""

        assert "too-deep" == problem_of(opening * depth + b"1" + closing)

    def test_depth_is_counted_level_by_level(self) -> None:
        wide = b"[" + b",".join([b"[[]]"] * 200) + b"]"

        assert wide == canonicalise(wide)

    def test_brackets_in_strings_are_text(self) -> None:
        sent = b'["' + b"[{" * 500 + b'","\\"[","\\\\"]'

        assert sent == canonicalise(sent)

    def test_a_hundred_thousand_values_pass_and_one_more_is_refused(self) -> None:
        most = b"[" + b",".join([b"1"] * 99_999) + b"]"

        assert most == canonicalise(most)
        assert "too-many-values" == problem_of(b"[1," + most[1:])

    @pytest.mark.parametrize("item", [b"[]", b"{}", b'[""]', b'{"a,b":"[,]"}', b"[ ]"])
    def test_empty_and_filled_containers_are_counted_right(self, item: bytes) -> None:
        sent = b"[" + b",".join([item] * 4) + b"]"
        filled = len(item) > 3
        exact = Limits(values=9 if filled else 5)

        assert 4 == len(json.loads(canonicalise(sent, limits=exact)))
        with pytest.raises(InvalidJsonError):
            canonicalise(sent, limits=Limits(values=exact.values - 1))

    def test_commas_in_strings_are_not_values(self) -> None:
        sent = b'"' + b"," * 200_000 + b'"'

        assert sent == canonicalise(sent)

    @pytest.mark.parametrize("piece", [b"[", b"]", b'"', b"\\", b'"\\', b"[]", b",", b"{}", b'"a":', b"[[],"])
    def test_a_mebibyte_of_anything_ends_quickly(self, piece: bytes) -> None:
        # Quadratic reading would take minutes here; the faulthandler limit is the judge.
        with pytest.raises(InvalidJsonError):
            canonicalise((piece * 1_048_576)[:1_048_576])

    @given(st.binary(max_size=40) | st.text('[]{}",:\\ \t1ae-.nu\ufeff', max_size=30).map(str.encode))
    def test_any_bytes_are_taken_as_json_says_or_refused(self, raw: bytes) -> None:
        try:
            canonical = canonicalise(raw)
        except InvalidJsonError:
            return

        assert json.loads(raw) == json.loads(canonical)


class TestDecode:
    @given(JSON_VALUES)
    def test_a_value_comes_back_with_its_types(self, value: object) -> None:
        assert repr(value) == repr(reordered(decode(encode(value)), value))

    def test_long_integers_come_back_whatever_the_interpreter_allows(self, digit_limit: int) -> None:
        for number in (10**999, -(10**1_000) + 1, 10**500, 10**500 - 1, 0, -7):
            assert number == decode(encode([number]))[0]  # type: ignore[index]

    def test_real_numbers_can_be_read_exactly(self) -> None:
        assert [1, Decimal("1.000000000000000005")] == decode(
            b"[1,1.000000000000000005]", parse_float=Decimal
        )

    def test_damaged_bytes_are_refused(self) -> None:
        for damaged in (b'{"a":', b"NaN", b"\xff", b"[" * 200):
            with pytest.raises(InvalidJsonError):
                decode(damaged)


class TestEncode:
    @pytest.mark.case("D07")
    @pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
    def test_nan_and_infinity_are_refused(self, number: float) -> None:
        with pytest.raises(InvalidJsonError) as refused:
            encode({"n": [number]})

        assert "not-finite" == refused.value.problem

    def test_tuples_are_arrays_and_enums_their_values(self) -> None:
        class Colour(StrEnum):
            RED = "red"

        class Size(IntEnum):
            SMALL = 1

        assert b'["red",1,[],true]' == encode((Colour.RED, Size.SMALL, (), True))

    @pytest.mark.parametrize("value", [object(), b"x", {1}, Decimal(1), [1j]])
    def test_what_json_has_no_form_for_is_refused_by_type(self, value: object) -> None:
        with pytest.raises(TypeError, match="JSON has no form for"):
            encode(value)

    @pytest.mark.parametrize("key", [1, None, True, b"a", ("a",)])
    def test_keys_are_strings(self, key: object) -> None:
        with pytest.raises(TypeError, match="keys of a JSON object are strings, not"):
            encode({"a": 1, key: 2})

    @pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["\ud83d"]])
    def test_half_a_surrogate_pair_is_refused(self, value: object) -> None:
        with pytest.raises(InvalidJsonError) as refused:
            encode(value)

        assert "lone-surrogate" == refused.value.problem

    def test_a_value_that_holds_itself_is_refused(self) -> None:
        endless: list[object] = []
        endless += [endless, endless]

        with pytest.raises(InvalidJsonError) as refused:
            encode(endless)

        assert "too-deep" == refused.value.problem

    def test_one_value_held_many_times_is_counted_each_time(self) -> None:
        doubled: object = 1
        for _ in range(60):
            doubled = [doubled, doubled]

        with pytest.raises(InvalidJsonError) as refused:
            encode(doubled)

        assert "too-many-values" == refused.value.problem

    @pytest.mark.parametrize(
        "number", [10**1_000, -(10**1_000), 1 << 1_000_000], ids=["1001", "-1001", "300k"]
    )
    def test_longer_integers_are_refused(self, number: int) -> None:
        with pytest.raises(InvalidJsonError) as refused:
            encode(number)

        assert "too-many-digits" == refused.value.problem


def reordered(value: object, like: object) -> object:
    """Return `value` with the key order of `like`, so that representations can be compared."""
    if isinstance(value, dict) and isinstance(like, dict):
        return {key: reordered(value[key], like[key]) for key in like}
    if isinstance(value, list) and isinstance(like, list):
        return [reordered(one, other) for one, other in zip(value, like, strict=True)]
    return value
