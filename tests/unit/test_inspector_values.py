"""What the inspector's fields stand on: checks with their place, typed values, schemas as tables, previews."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.flow.expression_check import expression_fault
from engine.flow.flow_file import read_flow
from engine.flow.flow_keys import keys_before
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, HandlerSpec, InputSpec, OperationSpec, RouteSpec
from engine.flow.prompt_preview import preview_prompt
from engine.flow.schema_check import schema_faults
from workbench.designer.json_field import json_or_text, parse_object, value_text
from workbench.designer.schema_table import KINDS, FlatSchema, Property, flat_schema, schema_of
from workbench.designer.sections.flow_inputs import typed_default
from workbench.designer.typed_values import number, one_line, unescaped, whole_number


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("a < ", (4, 4)),
        ("a b", (2, 3)),
        ("a | nofilter", (4, 12)),
        ("a +* 3", (3, 4)),
        ("(a", (2, 2)),
        ("a is fun", (5, 8)),
        ("tpoic < 2", (0, 5)),
        ("all.tpoic | max", (4, 9)),
        ("passed and a", (0, 6)),
    ],
)
def test_the_fault_of_an_expression_has_a_place(source: str, place: tuple[int, int]) -> None:
    fault = expression_fault(source, {"a", "topic"}, passed=False)
    assert fault is not None
    assert (fault.start, fault.end) == place


def test_a_good_expression_has_no_fault() -> None:
    assert expression_fault("all.a | map('int') | max < 50 and passed", {"a"}) is None
    assert expression_fault("anything > 1") is None


@given(st.text(max_size=60))
def test_any_text_has_its_fault_inside_of_itself(source: str) -> None:
    fault = expression_fault(source, {"a"})
    assert fault is None or 0 <= fault.start <= fault.end <= len(source)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "objekt"}, "$.type"),
        ({"properties": []}, "$.properties"),
        ({"properties": {"a": {"minLength": -1}}}, "$.properties.a.minLength"),
        ({"properties": {"a": {}}, "required": ["b"]}, "$.required[0]"),
        ({"items": 3}, "$.items"),
        ({"anyOf": [{}, {"enum": 1}]}, "$.anyOf[1].enum"),
    ],
)
def test_the_fault_of_a_schema_has_a_path(schema: dict[str, Any], path: str) -> None:
    assert [place for place, _ in schema_faults(schema)] == [path]


def test_a_good_schema_has_no_fault() -> None:
    schema = {"type": ["object", "null"], "properties": {"a": {"type": "array", "items": True}}, "required": ["a"]}
    assert list(schema_faults(schema)) == []


ROWS = st.builds(
    Property,
    name=st.text(max_size=5),
    kind=st.sampled_from(KINDS),
    description=st.text(max_size=5),
    required=st.booleans(),
)


@given(st.lists(ROWS, min_size=1, unique_by=lambda row: row.name))
def test_a_table_is_the_schema_it_makes(rows: list[Property]) -> None:
    flat = FlatSchema(properties=tuple(rows))
    assert flat_schema(schema_of(flat)) == flat


def test_a_schema_keeps_what_its_table_does_not_show() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "enum": ["x"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    flat = flat_schema(schema)
    assert flat is not None
    assert schema_of(flat) == schema
    assert flat_schema({"type": "object", "properties": {"a": {"type": "object"}}}) is None


@given(st.recursive(st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_a_value_is_typed_as_it_is_shown(value: Any) -> None:
    assert json_or_text(value_text(value)) == value
    assert type(json_or_text(value_text(value))) is type(value)


@given(st.text())
def test_a_text_in_one_line_is_that_text_again(text: str) -> None:
    assert unescaped(one_line(text)) == text


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "²", "9" * 10, "x"])
def test_no_whole_number_from_1(text: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number from 1"):
        whole_number(1)(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e400", "x"])
def test_no_number_above_0(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number above 0"):
        number(0, above=True)(text)


def test_json_names_line_and_column() -> None:
    with pytest.raises(ValueError, match="Line 2, column 3"):
        parse_object('{"a":\n  x}')
    with pytest.raises(ValueError, match="object"):
        parse_object("[1]")
    with pytest.raises(ValueError, match="NaN"):
        parse_object('{"a": NaN}')
    assert parse_object(" ") is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("text", "7", "7"),
        ("number", "7", 7),
        ("number", "x", "x"),
        ("number", "true", "true"),
        ("boolean", "true", True),
        ("list", "a\nb", ["a", "b"]),
        ("list", '["a\\nb"]', ["a\nb"]),
        ("json", '{"a": 1}', {"a": 1}),
        ("text", "", None),
    ],
)
def test_a_typed_default_has_the_type_of_its_input(kind: str, text: str, value: object) -> None:
    assert typed_default(kind, text) == value


def test_an_agent_may_use_what_comes_before_it() -> None:
    first = AgentSpec(name="A", type=AgentType.COMPLETION, routes=(RouteSpec(to="B"),))
    second = AgentSpec(
        name="B",
        type=AgentType.COMPLETION,
        before=(OperationSpec(set="n", to="1"),),
        handler=HandlerSpec(key="late"),
    )
    spec = FlowSpec(name="", inputs=(InputSpec(key="topic"),), agents=(first, second))
    assert keys_before(spec, "A") == ["topic"]
    assert keys_before(spec, "B") == ["n", "response", "response_reasoning", "topic"]


def test_a_preview_expands_every_split_without_calling_plug_ins() -> None:
    agent = AgentSpec(
        name="A",
        type=AgentType.COMPLETION,
        before=(OperationSpec(set="n", to="topic | length"), OperationSpec(call="danger")),
        system_prompt="{{n}} of them",
        template="About [[topic]]",
        routes=(RouteSpec(to="Gone"),),
    )
    preview = asyncio.run(preview_prompt(agent, {"topic": ["x", "y"]}))
    assert preview.count == 2
    assert [preview.prompt(index) for index in range(2)] == [("2 of them", "About x"), ("2 of them", "About y")]
    assert "danger" in preview.note


def test_a_preview_says_why_nothing_is_split() -> None:
    agent = AgentSpec(name="A", type=AgentType.COMPLETION, template="About [[topic]]")
    preview = asyncio.run(preview_prompt(agent, {"topic": []}))
    assert (preview.count, preview.prompt(0)) == (1, ("", "About [[topic]]"))
    assert "no value of topic" in preview.note


def test_notes_are_kept_in_the_file() -> None:
    loaded = read_flow('{"format": "workbench.flow", "version": 1, "name": "x", "notes": "mind", "agents": []}')
    assert (loaded.spec.notes, loaded.problems) == ("mind", ())
