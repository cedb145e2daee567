"""Line and column of JSON paths."""

import json

from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Problem
from engine.flow.json_places import above, member, placed, positions

TEXT = """{
  "a b": {"x": [1, {"y": "}\\"]"}, []]},
  "last": tru
}"""


def test_values_are_found_where_they_stand() -> None:
    text = TEXT.replace("tru\n", "true\n")
    found = positions(text, {'$["a b"].x[1].y', "$.last", "$.none"})
    assert {path: text[at : at + 4] for path, at in found.items()} == {
        "$": "{\n  ",
        '$["a b"]': '{"x"',
        '$["a b"].x': "[1, ",
        '$["a b"].x[1]': '{"y"',
        '$["a b"].x[1].y': '"}\\"',
        "$.last": "true",
    }


def test_a_missing_field_has_the_place_of_what_it_should_be_in() -> None:
    text = TEXT.replace("tru\n", "true\n")
    problems = [Problem(severity="error", message="m", path=path) for path in ('$["a b"].x[1].gone', "$.last", "key")]
    assert [(problem.line, problem.column) for problem in placed(problems, text)] == [(2, 20), (3, 11), (0, 0)]
    assert str(placed(problems, text)[1]) == "3:11:$.last: error: m"


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(values, st.sampled_from([None, 1]))
def test_each_value_of_any_document_is_found(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    expected: dict[str, object] = {}

    def collect(part: object, path: str) -> None:
        expected[path] = part
        if isinstance(part, dict):
            for key, inner in part.items():
                collect(inner, member(path, key))
        elif isinstance(part, list):
            for index, inner in enumerate(part):
                collect(inner, f"{path}[{index}]")

    collect(value, "$")
    # Keys with dots or brackets of their own make paths whose ancestors cannot be told from the path alone.
    plain = {path for path in expected if '["' not in path}
    found = positions(text, plain)
    decoder = json.JSONDecoder()
    assert {path: decoder.raw_decode(text, found[path])[0] for path in plain} == {
        path: expected[path] for path in plain
    }


def test_what_lies_around() -> None:
    assert list(above("$.a[1].b")) == ["$.a[1].b", "$.a[1]", "$.a", "$"]
