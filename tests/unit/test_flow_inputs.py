"""What a person types becomes the values of a context, or a clear error."""

import re
from pathlib import Path

import pytest

from engine.errors import FlowInvalid
from engine.flow.flow_inputs import input_values, inputs_context
from engine.flow.flow_spec import FlowSpec, InputSpec


def values(kind: str, given: object, **fields: object) -> list[object]:
    return input_values(InputSpec(key="k", type=kind, **fields), given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("text", "a\n b ", ["a\n b "]),
        ("text", "", [""]),
        ("text", 3, ["3"]),
        ("text", True, ["true"]),
        ("number", "3", [3]),
        ("number", " -2.50 ", [-2.5]),
        ("number", 1e3, [1000.0]),
        ("boolean", "Yes", [True]),
        ("boolean", "0", [False]),
        ("boolean", False, [False]),
        ("list", "one\n\n two\r\nthree\n", ["one", " two", "three"]),
        ("list", '["a", 1, [2]]', ["a", 1, [2]]),
        ("list", "[x] not JSON\n[y]", ["[x] not JSON", "[y]"]),
        ("list", ("a", "b"), ["a", "b"]),
        ("list", " ", []),
        ("json", '{"a": [1]}', [{"a": [1]}]),
        ("json", "[1, 2]", [1, 2]),
        ("json", {"a": 1}, [{"a": 1}]),
        ("json", "", []),
        ("number", "", []),
        ("number", None, []),
    ],
)
def test_values(kind: str, given: object, expected: list[object]) -> None:
    assert values(kind, given) == expected


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("text", ["a"], "found a list of 1, expected a text"),
        ("number", "1,5", 'found "1,5", expected a number with a decimal point'),
        ("number", "nan", 'found "nan", expected a number'),
        ("number", True, "found true, expected a number"),
        ("boolean", "maybe", 'found "maybe", expected yes or no'),
        ("list", 3, "found 3, expected a list"),
        ("json", "{", "JSON:1:2: "),
        ("file", "/no/such/file", "No such file"),
        ("file", 3, "expected the path of a text file"),
        ("image", "a.png", "a.png"),
        ("image", "https://", "expected a picture"),
    ],
)
def test_faults(kind: str, given: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        values(kind, given)


def test_choices_and_defaults() -> None:
    assert values("choice", "b", choices=("a", "b")) == ["b"]
    with pytest.raises(ValueError, match='found "c", expected one of a, b'):
        values("choice", "c", choices=("a", "b"))
    assert values("number", " ", default=7) == [7]
    assert values("list", None, default=["x", "y"]) == ["x", "y"]
    with pytest.raises(ValueError, match="found nothing, expected a text"):
        values("text", "", required=True)


def test_a_file_is_read_but_never_one_the_flow_chose(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("grüße", encoding="utf-8")
    assert values("file", str(path)) == ["grüße"]
    assert values("file", path) == ["grüße"]
    assert values("file", None, default=str(path)) == [str(path)]
    assert values("file", str(path), default=str(path)) == [str(path)]
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="UTF-16"):
        values("file", str(path))


def test_all_problems_come_together() -> None:
    spec = FlowSpec(
        name="f",
        inputs=(InputSpec(key="count", type="number"), InputSpec(key="topic", required=True), InputSpec(key="x")),
    )
    context = inputs_context(spec, {"count": "4", "topic": "tea"})
    assert context.values_copy() == {"count": [4], "topic": ["tea"], "x": []}
    with pytest.raises(FlowInvalid) as caught:
        inputs_context(spec, {"count": "four", "topik": "tea"})
    assert [problem.path for problem in caught.value.problems] == ["$.inputs", "$.inputs[0]", "$.inputs[1]"]
    assert str(caught.value) == '"topik" is not an input of the flow; did you mean "topic"? (and 2 more)'
