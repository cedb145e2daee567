"""A tool's schema as table and as fields, and what was typed as arguments."""

from typing import Any

import pytest

from engine.flow import json_schema
from engine.flow.plugin_tools import SAMPLE_TOOLS
from engine.flow.tool_form import MOST_ROWS, form_inputs, schema_rows, type_text, typed_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where"},
        "days": {"type": "integer", "default": 3},
        "unit": {"enum": ["C", "F"]},
        "level": {"enum": [1, 2, None]},
        "exact": {"type": "boolean"},
        "now": {"type": "boolean", "default": True},
        "filter": {
            "type": "object",
            "properties": {
                "since": {"type": ["string", "null"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["since"],
        },
        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"const": "x"}}}},
        "any": {},
    },
    "required": ["city", "unit"],
}


def test_the_table_has_every_argument_and_its_parts() -> None:
    told = [(row.name, row.type, row.required, row.default) for row in schema_rows(SCHEMA)]
    assert told == [
        ("city", "string", True, ""),
        ("days", "integer", False, "3"),
        ("unit", 'one of "C", "F"', True, ""),
        ("level", "one of 1, 2, null", False, ""),
        ("exact", "boolean", False, ""),
        ("now", "boolean", False, "true"),
        ("filter", "object", False, ""),
        ("filter.since", "string or null", True, ""),
        ("filter.tags", "array of string", False, ""),
        ("parts", "array of object", False, ""),
        ("parts[].name", '"x"', False, ""),
        ("any", "any", False, ""),
    ]
    assert schema_rows(SCHEMA)[0].description == "Where"
    assert type_text({"anyOf": [{"type": "null"}, {"type": "integer"}]}) == "null or integer"


def test_what_is_typed_becomes_arguments_of_their_types() -> None:
    kinds = {item.key: item.type for item in form_inputs(SCHEMA)}
    assert kinds == {
        "city": "text",
        "days": "number",
        "unit": "choice",
        "level": "choice",
        "exact": "choice",
        "now": "boolean",
        "filter": "json",
        "parts": "json",
        "any": "json",
    }
    texts = {
        "city": "Bern",
        "days": "4",
        "unit": "F",
        "level": "2",
        "exact": "",
        "now": "false",
        "filter": '{"since": null}',
    }
    arguments = typed_arguments(SCHEMA, texts)
    assert arguments == {"city": "Bern", "days": 4, "unit": "F", "level": 2, "now": False, "filter": {"since": None}}
    assert list(json_schema.faults(arguments, SCHEMA)) == []
    assert typed_arguments(SCHEMA, {"city": "", "exact": "true", "unit": "C"}) == {
        "city": "",
        "exact": True,
        "unit": "C",
    }


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"city": "Bern", "unit": "C", "days": "many"}, "days: found"),
        ({"city": "Bern", "unit": "K"}, "unit: found 'K', expected one of C, F"),
        ({"city": "Bern", "unit": "C", "filter": "{"}, "filter: "),
    ],
)
def test_what_cannot_be_read_is_told_with_its_name(texts: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        typed_arguments(SCHEMA, texts)


@pytest.mark.parametrize(
    "schema",
    [{}, {"properties": []}, {"properties": {"a": 1}}, {"required": "a"}, {"properties": {"a": {"enum": "x"}}}],
)
def test_odd_schemas_are_taken_as_far_as_they_go(schema: dict[str, Any]) -> None:
    assert len(schema_rows(schema)) == len(form_inputs(schema))
    assert typed_arguments(schema, {}) == {}


def test_a_schema_without_end_has_a_table_with_one() -> None:
    wide: dict[str, Any] = {"properties": {str(number): {"type": "string"} for number in range(9)}}
    for _ in range(20):
        wide = {"properties": {str(number): wide for number in range(9)}}
    assert len(schema_rows(wide)) == MOST_ROWS


def test_all_own_tools_have_forms() -> None:
    for tool in SAMPLE_TOOLS.values():
        assert form_inputs(tool.definition.parameters)
