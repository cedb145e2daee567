"""The arguments of a tool for people: its schema as a table, as fields of a form, and what was typed as arguments."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from engine.errors import FlowFileError
from engine.flow.context import text_of
from engine.flow.flow_inputs import input_values
from engine.flow.flow_spec import InputSpec
from engine.flow.strict_json import parse_json

DEEPEST, MOST_ROWS = 6, 200
"""Of a table: objects inside of objects, and rows."""

Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRow:
    """One argument, or a part of one."""

    name: str
    """`filter.since` for a member of an object, `names[].first` for one of the entries of a list."""
    type: str
    required: bool
    description: str = ""
    default: str = ""


def schema_rows(schema: Schema) -> list[SchemaRow]:
    """The table of a schema, the parts of an argument below it; of an endless one the beginning."""
    return list(islice(_rows(schema, "", 0), MOST_ROWS))


def _rows(schema: Schema, prefix: str, depth: int) -> Iterator[SchemaRow]:
    required = _texts(schema.get("required"))
    for name, part in _properties(schema).items():
        yield SchemaRow(
            name=f"{prefix}{name}",
            type=type_text(part),
            required=name in required,
            description=_text(part.get("description")),
            default=json.dumps(part["default"], ensure_ascii=False, default=str) if "default" in part else "",
        )
        if depth < DEEPEST:
            yield from _rows(part, f"{prefix}{name}.", depth + 1)
            items = part.get("items")
            if isinstance(items, Mapping):
                yield from _rows(items, f"{prefix}{name}[].", depth + 1)


def type_text(schema: Schema) -> str:
    """What a schema takes, in words: `string`, `one of "a", "b"`, `array of integer`, `number or null`."""
    if isinstance(values := schema.get("enum"), Sequence) and not isinstance(values, str):
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False, default=str) for value in values[:20])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False, default=str)
    for word in ("anyOf", "oneOf"):
        if isinstance(parts := schema.get(word), Sequence):
            return " or ".join(dict.fromkeys(type_text(part) for part in parts[:20] if isinstance(part, Mapping)))
    found = schema.get("type")
    kind = found if isinstance(found, str) else " or ".join(_texts(found)) or "any"
    items = schema.get("items")
    return f"array of {type_text(items)}" if kind == "array" and isinstance(items, Mapping) and items else kind


def form_inputs(schema: Schema) -> list[InputSpec]:
    """A field for each argument; objects and lists are typed as JSON."""
    required = _texts(schema.get("required"))
    return [_input(name, part, required=name in required) for name, part in _properties(schema).items()]


def _input(name: str, schema: Schema, *, required: bool) -> InputSpec:
    help_, default, kind = _text(schema.get("description")), schema.get("default"), schema.get("type")
    choices = _choices(schema)
    if kind == "boolean" and not choices and (required or default is not None):
        return InputSpec(key=name, type="boolean", help=help_, required=required, default=bool(default))
    if kind == "boolean" and not choices:
        choices = ("true", "false")
    if choices:
        offered = choices if required or default is not None else ("", *choices)
        first = offered[0] if default is None else text_of(default)
        return InputSpec(key=name, type="choice", help=help_, required=required, default=first, choices=offered)
    if kind in ("integer", "number"):
        return InputSpec(key=name, type="number", help=help_, required=required, default=default)
    if kind == "string":
        return InputSpec(key=name, help=help_, required=required, default=default)
    written = "" if default is None else json.dumps(default, ensure_ascii=False, default=str)
    return InputSpec(key=name, type="json", help=help_, required=required, default=written)


def typed_arguments(schema: Schema, texts: Mapping[str, str]) -> dict[str, object]:
    """The arguments from what was typed in the fields; an empty one that is not required is left out.

    Raises ValueError that names the argument, what was found and what is expected.
    """
    arguments: dict[str, object] = {}
    properties = _properties(schema)
    for item in form_inputs(schema):
        text = texts.get(item.key, "")
        if not text.strip() and not (item.required and item.type == "text"):
            continue
        try:
            arguments[item.key] = _value(item, properties[item.key], text)
        except (ValueError, FlowFileError) as error:
            raise ValueError(f"{item.key}: {str(error).rstrip('.')}") from None
    return arguments


def _value(item: InputSpec, schema: Schema, text: str) -> object:
    if item.type == "json":
        return parse_json(text, item.key)
    if item.type == "choice":
        values = schema.get("enum")
        known = [*values] if isinstance(values, Sequence) and not isinstance(values, str) else [True, False]
        found = [value for value in known if text_of(value) == text]
        if not found:
            raise ValueError(f"found {text!r}, expected one of {', '.join(map(text_of, known))}")
        return found[0]
    if item.type == "text":
        return text
    (value,) = input_values(item, text)
    return value


def _choices(schema: Schema) -> tuple[str, ...]:
    values = schema.get("enum")
    if not isinstance(values, Sequence) or isinstance(values, str):
        return ()
    return tuple(text_of(value) for value in values)


def _properties(schema: Schema) -> dict[str, Schema]:
    found = schema.get("properties")
    if not isinstance(found, Mapping):
        return {}
    return {str(name): part if isinstance(part, Mapping) else {} for name, part in found.items()}


def _texts(value: object) -> tuple[str, ...]:
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    return tuple(str(one) for one in value) if listed else ()  # type: ignore[attr-defined]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
