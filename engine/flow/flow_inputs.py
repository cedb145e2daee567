"""The declared inputs of a flow: converts what was typed, read or passed into the values of a context."""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.atomic_file import read_limited
from engine.conversation import ImagePart
from engine.errors import FlowFileError, FlowInvalid, Problem, StorageError
from engine.flow.context import Context, text_of
from engine.flow.flow import Flow
from engine.flow.flow_spec import FlowSpec, InputSpec
from engine.flow.report import did_you_mean
from engine.flow.strict_json import decode_text, parse_json

FILE_LIMIT = 20_000_000
"""Bytes of a file given as input."""

_ADDRESS = re.compile(r"(?:data:|https?://)", re.IGNORECASE)
_YES = frozenset(["true", "yes", "on", "1"])
_NO = frozenset(["false", "no", "off", "0"])


def inputs_context(spec: FlowSpec | Flow, values: Mapping[str, object]) -> Context:
    """The context a run starts with.

    Values may be texts, as typed or from a command line, or already of their type; a missing or blank one takes the
    default, and without one its key has no values. Raises FlowInvalid with every problem.
    """
    problems = [
        Problem(severity="error", message=f'"{key}" is not an input of the flow{_near(key, spec)}', path="$.inputs")
        for key in values
        if all(item.key != key for item in spec.inputs)
    ]
    context = Context()
    for index, item in enumerate(spec.inputs):
        try:
            context[item.key] = input_values(item, values.get(item.key))
        except ValueError as error:
            message = f'The input "{item.key}": {error}.'
            problems.append(Problem(severity="error", message=message, path=f"$.inputs[{index}]"))
    if problems:
        raise FlowInvalid.of(problems)
    return context


def input_values(item: InputSpec, given: object) -> list[object]:
    """The values of one input; raises ValueError that says what was found and expected."""
    if _is_blank(given, item.type) or (item.type in ("file", "image") and given == item.default):
        if not _is_blank(item.default, item.type):
            return default_values(item)
        if item.required:
            raise ValueError(f"found nothing, expected {_EXPECTED[item.type]}")
        return [""] if item.type == "text" and given == "" else []
    if item.type == "choice" and text_of(given) not in item.choices:
        raise ValueError(f"found {_shown(given)}, expected one of {', '.join(item.choices)}")
    return _READERS[item.type](given)


def inner_values(item: InputSpec, given: object) -> list[object]:
    """The values of an input that another flow gives: as `input_values`, but a file is its text, never a path.

    A picture is its address.
    """
    if item.type == "file":
        return _text(item.default if given is None else given)
    if item.type == "image":
        return [] if _is_blank(given, "image") else _image_address(given)
    return input_values(item, given)


def default_values(item: InputSpec) -> list[object]:
    """The values of the default; of a file it is the text itself, so that a flow never chooses what is read."""
    if item.type == "file":
        return _text(item.default)
    return _image_address(item.default) if item.type == "image" else input_values(item, item.default)


def _is_blank(value: object, kind: str) -> bool:
    return value is None or (isinstance(value, str) and (not value.strip() if kind != "text" else value == ""))


def _text(value: object) -> list[object]:
    if isinstance(value, list | dict | tuple):
        raise ValueError(f"found {_shown(value)}, expected {_EXPECTED['text']}")
    return [text_of(value)]


def _number(value: object) -> list[object]:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return [value]
    if isinstance(value, str) and len(value) <= 100:
        try:
            number = float(value)
            if math.isfinite(number):
                return [int(value) if value.strip().lstrip("+-").isdecimal() else number]
        except ValueError:
            pass
    raise ValueError(f"found {_shown(value)}, expected {_EXPECTED['number']}")


def _boolean(value: object) -> list[object]:
    if isinstance(value, bool):
        return [value]
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in _YES | _NO:
        raise ValueError(f"found {_shown(value)}, expected {_EXPECTED['boolean']}")
    return [word in _YES]


def _list(value: object) -> list[object]:
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, str):
        raise ValueError(f"found {_shown(value)}, expected {_EXPECTED['list']}")
    if value.lstrip().startswith("["):
        try:
            entries = parse_json(value, "list")
        except FlowFileError:
            entries = None  # a line that only begins with a bracket
        if isinstance(entries, list):
            return entries
    return [line for line in value.splitlines() if line.strip()]


def _json(value: object) -> list[object]:
    if isinstance(value, str):
        try:
            value = parse_json(value, "JSON")
        except FlowFileError as error:
            raise ValueError(error.message.rstrip(".")) from error
    return list(value) if isinstance(value, list | tuple) else [value]


def _file(value: object) -> list[object]:
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"found {_shown(value)}, expected {_EXPECTED['file']}")
    path = Path(value).expanduser()
    try:
        return [decode_text(read_limited(path, FILE_LIMIT), str(path))]
    except (StorageError, FlowFileError) as error:
        raise ValueError(error.message.rstrip(".")) from error


def _image(value: object) -> list[object]:
    """A picture as an address: that of a file holds all its bytes."""
    if isinstance(value, ImagePart) or (isinstance(value, str) and _ADDRESS.match(value)):
        return _image_address(value)
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"found {_shown(value)}, expected {_EXPECTED['image']}")
    path = Path(value).expanduser()
    try:
        data = read_limited(path, FILE_LIMIT)
    except StorageError as error:
        raise ValueError(error.message.rstrip(".")) from error
    try:
        return [ImagePart.of_bytes(data).address]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _image_address(value: object) -> list[object]:
    if isinstance(value, ImagePart):
        return [value.address]
    if not isinstance(value, str):
        raise ValueError(f"found {_shown(value)}, expected a picture as a data: or http(s) address")
    return [ImagePart.of_url(value).address]


_READERS: Mapping[str, Callable[[object], list[object]]] = {
    "text": _text,
    "number": _number,
    "boolean": _boolean,
    "choice": _text,
    "list": _list,
    "json": _json,
    "file": _file,
    "image": _image,
}

_EXPECTED = {
    "text": "a text",
    "number": "a number with a decimal point",
    "boolean": "yes or no",
    "choice": "one of the choices",
    "list": "a list, one value a line or as JSON",
    "json": "JSON",
    "file": "the path of a text file",
    "image": "the path of an image",
}


def _shown(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"


def _near(key: str, spec: FlowSpec | Flow) -> str:
    names = [item.key for item in spec.inputs]
    return did_you_mean(key, names) or (f"; its inputs are: {', '.join(names)}." if names else "; it has none.")
