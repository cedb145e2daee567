"""A JSON schema of a flat object as a table, and back; what the table does not show stays as it is."""

from collections.abc import Collection, Mapping
from itertools import count
from typing import Any

import msgspec

SCALARS = ("string", "number", "integer", "boolean")
KINDS = (*SCALARS, *(f"{kind}[]" for kind in SCALARS))
"""Types of a value in the table; `[]` is a list of them."""


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the object."""

    name: str
    kind: str = "string"
    description: str = ""
    required: bool = True
    rest: dict[str, Any] = {}


class FlatSchema(msgspec.Struct, frozen=True, kw_only=True):
    """An object without objects inside."""

    properties: tuple[Property, ...] = ()
    rest: dict[str, Any] = {}


def flat_schema(schema: Mapping[str, Any] | None) -> FlatSchema | None:
    """The table of a schema; None when it is no flat object."""
    if schema is None:
        return FlatSchema()
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, Mapping) or not isinstance(required, list):
        return None
    rows = [_property(name, part, name in required) for name, part in properties.items()]
    if any(row is None for row in rows) or any(name not in properties for name in required):
        return None
    rest = {key: value for key, value in schema.items() if key not in ("type", "properties", "required")}
    return FlatSchema(properties=tuple(row for row in rows if row is not None), rest=rest)


def _property(name: str, part: Any, required: bool) -> Property | None:
    if not isinstance(part, Mapping):
        return None
    kind, items = part.get("type"), part.get("items")
    rest = {key: value for key, value in part.items() if key not in ("type", "description")}
    if kind == "array" and isinstance(items, Mapping) and list(items) == ["type"]:
        kind = f"{items['type']}[]"
        rest.pop("items")
    description = part.get("description", "")
    if kind not in KINDS or not isinstance(description, str):
        return None
    return Property(name=name, kind=kind, description=description, required=required, rest=rest)


def schema_of(flat: FlatSchema) -> dict[str, Any] | None:
    """The schema of a table; None when there is nothing in it."""
    if not flat.properties and not flat.rest:
        return None
    parts: dict[str, Any] = {}
    for row in flat.properties:
        scalar = row.kind.removesuffix("[]")
        part: dict[str, Any] = {"type": scalar}
        if scalar != row.kind:
            part = {"type": "array", "items": {"type": scalar}}
        if row.description:
            part["description"] = row.description
        parts[row.name] = part | row.rest
    schema: dict[str, Any] = {"type": "object", "properties": parts}
    required = [row.name for row in flat.properties if row.required]
    return schema | ({"required": required} if required else {}) | flat.rest


def free_name(taken: Collection[str], wanted: str) -> str:
    """A name that is not taken: `value`, `value2`, `value3`, …"""
    numbers = (wanted if number == 1 else f"{wanted}{number}" for number in count(1))
    return next(name for name in numbers if name not in taken)
