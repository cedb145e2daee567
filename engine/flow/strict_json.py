"""Reads JSON that a person wrote: every fault has its line and column, and no input takes long or much memory."""

import json
import math
import re
from typing import NoReturn

from engine.errors import FlowFileError

MAX_DEPTH = 200
"""Levels of nesting."""
MAX_PARTS = 300_000
"""Texts and brackets, and commas between values, in one document: some 10,000 agents, opened in about a second."""

# Possessive, and an open string reaches to the end: every character is looked at once.
_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"(\s*+:)?|\Z)|[\[\]{},]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def decode_text(data: bytes, name: str) -> str:
    """The text of a UTF-8 file (a byte order mark is passed over); raises FlowFileError with the line."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or data[:4].count(0) >= 2:
        raise FlowFileError(f"{name}: found UTF-16 or UTF-32 text, expected UTF-8.", hint="Save the file as UTF-8.")
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        message = f"{name}:{line}:{column}: found the byte 0x{data[error.start]:02x}, expected UTF-8 text."
        raise FlowFileError(message, hint="Save the file as UTF-8.", facts=_place(line, column)) from error


def parse_json(text: str, name: str) -> object:
    """The value of a JSON text; raises FlowFileError with name, line and column.

    Stricter than the standard: no NaN or infinity, no name twice in one object, no half characters (lone surrogates).
    """
    _check_structure(text, name)
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        _fail(text, error.pos, name, f"{error.msg[:1].lower()}{error.msg[1:]}, found {_excerpt(text, error.pos)}")
    except UnicodeEncodeError as error:
        raise FlowFileError(f"{name}: a text holds half a character (a lone \\uD8xx escape).") from error
    except ValueError as error:
        literal = error.args[0] if isinstance(error, _NotFinite) else r"\d{4301,}"
        found = next(
            (m for m in re.finditer(rf'"[^"\\]*+(?:\\.[^"\\]*+)*+"|({literal})', text, re.DOTALL) if m[1]), None
        )
        number = f"the number {found[1][:20]}" if found else "a number"
        _fail(text, found.start() if found else 0, name, f"found {number}, which is not allowed or too large")
    return value


def _check_structure(text: str, name: str) -> None:
    names: list[set[str]] = []
    commas = 0
    for count, match in enumerate(_PART.finditer(text)):
        first = text[match.start()]
        commas += first == ","
        if max(commas, count - commas) >= MAX_PARTS:
            raise FlowFileError(f"{name}: found more than {MAX_PARTS:,} values, which is too large to open.")
        if first == ",":
            continue
        if first == "{" or first == "[":
            names.append(set())
            if len(names) > MAX_DEPTH:
                _fail(text, match.start(), name, f"nested deeper than {MAX_DEPTH} levels")
        elif first != '"':
            if names:
                names.pop()
        elif match[1] and names:
            key = match[0][: -len(match[1])]
            if key in names[-1]:
                _fail(text, match.start(), name, f"found the name {key} twice in one object")
            names[-1].add(key)


class _NotFinite(ValueError):
    """A number without a value; the argument finds it in the text."""


def _refuse_constant(text: str) -> NoReturn:
    raise _NotFinite(re.escape(text))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NotFinite(re.escape(text))
    return number


def _fail(text: str, position: int, name: str, message: str) -> NoReturn:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    raise FlowFileError(f"{name}:{line}:{column}: {message}.", facts=_place(line, column))


def _excerpt(text: str, position: int) -> str:
    rest = text[position : position + 20].split("\n")[0]
    return repr(rest) if rest else "the end of the line" if position < len(text) else "the end of the file"


def _place(line: int, column: int) -> dict[str, str]:
    return {"line": str(line), "column": str(column)}
