"""The shipped JSON Schema is that of the code, and what we ship satisfies it."""

import json
from collections.abc import Mapping

import pytest

from engine import bundled
from engine.flow.flow_schema import schema_text

SCHEMA = json.loads(bundled.read_text("resources", "flow.schema.json"))
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def faults(value: object, schema: Mapping[str, object], path: str = "$") -> list[str]:
    """The places where a value breaks a schema; knows the words our schema uses."""
    if "$ref" in schema:
        return faults(value, SCHEMA["$defs"][str(schema["$ref"]).rsplit("/", 1)[1]], path)
    if "anyOf" in schema:
        options = [faults(value, option, path) for option in schema["anyOf"]]  # type: ignore[attr-defined]
        return [] if any(not option for option in options) else options[0]
    if "const" in schema and value != schema["const"]:
        return [path]
    if "enum" in schema and value not in schema["enum"]:  # type: ignore[operator]
        return [path]
    kind = schema.get("type")
    if kind is not None and (
        not isinstance(value, TYPES[str(kind)]) or (isinstance(value, bool) and kind != "boolean")
    ):
        return [path]
    found: list[str] = []
    if isinstance(value, dict):
        properties: Mapping[str, Mapping[str, object]] = schema.get("properties", {})  # type: ignore[assignment]
        rest = schema.get("additionalProperties", True)
        found += [f"{path}.{name}" for name in schema.get("required", ()) if name not in value]  # type: ignore[attr-defined]
        for name, entry in value.items():
            inner = properties.get(name, rest if isinstance(rest, dict) else {})
            found += faults(entry, inner, f"{path}.{name}")
    if isinstance(value, list):
        items = schema.get("prefixItems") or [schema.get("items", {})] * len(value)
        if len(value) != len(items):  # type: ignore[arg-type]
            return [path]
        for index, entry in enumerate(value):
            found += faults(entry, items[index], f"{path}[{index}]")  # type: ignore[index]
    return found


def test_the_shipped_schema_is_that_of_the_code() -> None:
    text = bundled.read_text("resources", "flow.schema.json")
    assert text == schema_text(), "run: python -m engine.flow.flow_schema > resources/flow.schema.json"


@pytest.mark.parametrize("name", bundled.names("resources", "flows", suffix=".flow.json"))
def test_the_samples_satisfy_it(name: str) -> None:
    assert faults(json.loads(bundled.read_text("resources", "flows", f"{name}.flow.json")), SCHEMA) == []


def test_it_refuses_what_is_wrong() -> None:
    good = json.loads(bundled.read_text("resources", "flows", "thinking.flow.json"))
    assert faults({**good, "name": 3}, SCHEMA) == ["$.name"]
    assert faults({**good, "format": "other"}, SCHEMA) == ["$.format"]
    assert faults({key: value for key, value in good.items() if key != "name"}, SCHEMA) == ["$.name"]
    assert faults({**good, "agents": [{"name": "a", "type": "CHAT"}]}, SCHEMA) == ["$.agents[0].type"]
    assert faults({**good, "editor": {"positions": {"a": [1]}}}, SCHEMA) == ["$.editor.positions.a"]
    assert faults({**good, "unknown": 3}, SCHEMA) == []
