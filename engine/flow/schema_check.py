"""Checks a JSON schema itself, before a model is asked to keep to it: what is known is well formed."""

from collections.abc import Iterator, Mapping

from engine.flow.json_places import member
from engine.flow.report import did_you_mean

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_DEEPEST = 50


def schema_faults(schema: object, path: str = "$", depth: int = 0) -> Iterator[tuple[str, str]]:
    """JSON path and sentence of each part that no schema may have."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield path, "A schema is an object."
        return
    if depth > _DEEPEST:
        yield path, "The schema is too deep."
        return
    yield from _type_faults(schema, path)
    yield from _value_faults(schema, path)
    properties = schema.get("properties")
    if properties is not None and not isinstance(properties, Mapping):
        yield f"{path}.properties", "properties is an object: name of a value, and its schema."
    elif properties is not None:
        for name, part in properties.items():
            yield from schema_faults(part, member(f"{path}.properties", str(name)), depth + 1)
    yield from _required_faults(schema, properties, path)
    for keyword in ("items", "additionalProperties", "not"):
        if keyword in schema:
            yield from schema_faults(schema[keyword], f"{path}.{keyword}", depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(keyword)
        if parts is not None and (not isinstance(parts, list) or not parts):
            yield f"{path}.{keyword}", f"{keyword} is a list of schemas."
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            yield from schema_faults(part, f"{path}.{keyword}[{index}]", depth + 1)


def _type_faults(schema: Mapping[str, object], path: str) -> Iterator[tuple[str, str]]:
    if "type" not in schema:
        return
    kinds = schema["type"]
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in TYPES:
            near = did_you_mean(str(kind), TYPES) or f"; one of {', '.join(TYPES)}."
            yield f"{path}.type", f'"{str(kind)[:40]}" is no type{near}'


def _value_faults(schema: Mapping[str, object], path: str) -> Iterator[tuple[str, str]]:
    for keyword in _COUNTS:
        value = schema.get(keyword, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            yield f"{path}.{keyword}", f"{keyword} is a whole number from 0."
    for keyword in _BOUNDS:
        value = schema.get(keyword, 0)
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield f"{path}.{keyword}", f"{keyword} is a number."
    if "enum" in schema and not isinstance(schema["enum"], list):
        yield f"{path}.enum", "enum is a list of values."


def _required_faults(schema: Mapping[str, object], properties: object, path: str) -> Iterator[tuple[str, str]]:
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield f"{path}.required", "required is a list of names."
        return
    known = properties if isinstance(properties, Mapping) else {}
    for index, name in enumerate(required):
        if known and name not in known:
            yield (
                f"{path}.required[{index}]",
                f'"{name}" is required, but no property{did_you_mean(name, known) or "."}',
            )
