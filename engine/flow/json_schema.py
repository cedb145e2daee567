"""Checks a value against the part of JSON Schema that answers of models need; servers get the whole schema anyway.

Checked: type, enum, const, properties, required, additionalProperties, items, minItems, maxItems, minLength, maxLength,
pattern, minimum, maximum, exclusiveMinimum, exclusiveMaximum, anyOf, allOf. Others are left to the server.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

Schema = Mapping[str, object]

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
_LONGEST_MATCHED = 200
"""Characters of a text that is compared with a pattern."""
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_BOUNDS: Final[tuple[tuple[str, str, Callable[[float, float], bool]], ...]] = (
    ("minimum", "at least", operator.ge),
    ("maximum", "at most", operator.le),
    ("exclusiveMinimum", "more than", operator.gt),
    ("exclusiveMaximum", "less than", operator.lt),
)


def faults(value: object, schema: object, path: str = "$") -> Iterator[str]:
    """Each thing that is wrong, with its JSON path: what was expected, what was found."""
    if schema is False:
        yield f"{path}: nothing is allowed here"
    if not isinstance(schema, Mapping):
        return
    if "type" in schema and not _is_type(value, schema["type"]):
        yield f"{path}: expected {_types(schema['type'])}, found {_shown(value)}"
        return
    if "enum" in schema and not any(_same(value, item) for item in _items(schema["enum"])):
        yield f"{path}: expected one of {_shown(schema['enum'])}, found {_shown(value)}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{path}: expected {_shown(schema['const'])}, found {_shown(value)}"
    if isinstance(value, dict):
        yield from _object_faults(value, schema, path)
    elif isinstance(value, list):
        yield from _size_faults(len(value), schema, "Items", "items", path)
        for index, item in enumerate(value):
            yield from faults(item, schema.get("items"), f"{path}[{index}]")
    elif isinstance(value, str):
        yield from _size_faults(len(value), schema, "Length", "characters", path)
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not _may_match(pattern, value):
            yield f"{path}: expected a text like {pattern}, found {_shown(value)}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _range_faults(value, schema, path)
    yield from _combined_faults(value, schema, path)


def _object_faults(value: Mapping[str, object], schema: Schema, path: str) -> Iterator[str]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    for name in _items(schema.get("required")):
        if name not in value:
            yield f"{path}: {_shown(name)} is missing"
    for name, item in value.items():
        if name in known:
            yield from faults(item, known[name], f"{path}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{path}: {_shown(name)} is not expected"
        else:
            yield from faults(item, schema.get("additionalProperties"), f"{path}.{name}")


def _size_faults(size: int, schema: Schema, suffix: str, what: str, path: str) -> Iterator[str]:
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if isinstance(least, int) and size < least:
        yield f"{path}: expected at least {least} {what}, found {size}"
    if isinstance(most, int) and size > most:
        yield f"{path}: expected at most {most} {what}, found {size}"


def _may_match(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern; true where finding out could take for ever, or the pattern is not Python's."""
    if len(text) > _LONGEST_MATCHED or _REPEATED_GROUP.search(pattern):
        return True
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True


def _range_faults(value: float, schema: Schema, path: str) -> Iterator[str]:
    for keyword, words, holds in _BOUNDS:
        bound = schema.get(keyword)
        if isinstance(bound, int | float) and not isinstance(bound, bool) and not holds(value, bound):
            yield f"{path}: expected {words} {bound}, found {value}"


def _combined_faults(value: object, schema: Schema, path: str) -> Iterator[str]:
    for part in _items(schema.get("allOf")):
        yield from faults(value, part, path)
    choices = _items(schema.get("anyOf"))
    if choices and all(any(faults(value, choice, path)) for choice in choices):
        yield f"{path}: fits none of the allowed forms, found {_shown(value)}"


def _is_type(value: object, wanted: object) -> bool:
    names = [wanted] if isinstance(wanted, str) else _items(wanted)
    return any(_is_one(value, str(name)) for name in names)


def _is_one(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, ()))


def _types(wanted: object) -> str:
    return wanted if isinstance(wanted, str) else " or ".join(str(name) for name in _items(wanted))


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _same(left: object, right: object) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
