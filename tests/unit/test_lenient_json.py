import contextlib
import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.lenient_json import JsonFault, parse, repair

busy_machine = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 'x'}", {"a": "x"}),
        ('{"a": 1, /* c */ "b": 2 // end\n}', {"a": 1, "b": 2}),
        ("[1, 2, # no more\n]", [1, 2]),
        ("[1,,2]", [1, None, 2]),
        ("[+3, .5, 1., -0]", [3, 0.5, 1.0, 0]),
        ("[True, False, None, true, null]", [True, False, None, True, None]),
        (r'["\_\'", "😀"]', ["_'", "😀"]),
        (r'["\ud83d"]', ["\ufffd"]),
        ('["a\nb\tc"]', ["a\nb\tc"]),
        ("'it is'", "it is"),
    ],
)
def test_what_models_write(text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1", '{"a"}', '{"a":}', '{"a":1} x', '"open', "[1 2]", "{a b: 1}", "word", '{"a":1}{"b":2}', "1-2"],
)
def test_what_is_no_value(text: str) -> None:
    with pytest.raises(JsonFault, match="expected"):
        parse(text)


def test_the_fault_names_line_and_text() -> None:
    with pytest.raises(JsonFault, match=r"line 2: expected a value, found 'oops\}'"):
        parse('{"a": 1,\n"b": oops}')


@pytest.mark.parametrize(
    "text", ["[" * 3000 + "]" * 3000, "[" * 201 + "1," + "]" * 201, '{"a":' * 3000 + "1" + "}" * 3000]
)
def test_depth_is_limited(text: str) -> None:
    with pytest.raises(JsonFault, match="deeper than 200"):
        parse(text)
    assert parse("[" * 200 + "]" * 200)


@pytest.mark.parametrize("text", ["9" * 6000, "[" + "1" * 101 + "]", "{a:" + "1" * 101 + "}", "0." + "3" * 200])
def test_digits_are_limited(text: str) -> None:
    with pytest.raises(JsonFault, match="100 digits"):
        parse(text)
    assert parse("9" * 100) == int("9" * 100)


@pytest.mark.parametrize(
    "text",
    [
        '"' * 200_000,
        "/*" * 200_000,
        "/**/" * 100_000,
        '" ' * 100_000,
        "1" * 200_000,
        "[1e" * 50_000,
        "{" * 200_000,
        '{"a" ' * 50_000,
        "[" + "'a" * 100_000,
    ],
)
def test_hostile_text_ends_soon(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(JsonFault):
        parse(text)
    with contextlib.suppress(JsonFault):
        parse(repair(text))
    assert time.process_time() - began < 20  # quadratic behaviour would take minutes


def test_repair_closes_and_escapes() -> None:
    assert parse(repair('{\n "field": "not closed\n}')) == {"field": "not closed"}
    assert parse(repair('{"t": "He said "hi" to me"}')) == {"t": 'He said "hi" to me'}
    assert repair(r'{"a": "b\"c"}') == r'{"a": "b\"c"}'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@busy_machine
@given(json_values)
def test_reads_all_json(value: object) -> None:
    text = json.dumps(value)
    assert parse(text) == parse(f"/**/{text}") == value


@busy_machine
@given(json_values)
def test_repair_leaves_what_is_right(value: object) -> None:
    # Only outside of strings: a bracket, or a quote before a comma, inside one is what the repair is about.
    text = json.dumps(value)
    if not any(char in text for char in "\\}]"):
        assert repair(text) == text


@busy_machine
@given(st.text(alphabet="{}[]\"':,\\/*# \na1.-"))
def test_any_text_is_a_value_or_a_fault(text: str) -> None:
    for candidate in (text, repair(text)):
        with contextlib.suppress(JsonFault):
            parse(candidate)
