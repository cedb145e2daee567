"""Reads the JSON that models write: comments, single quotes, missing quotes, trailing commas.

Text of a model is data: it is parsed by recursive descent with limits, never evaluated, and yields one value or a
failure.
"""

import json
import math
import re
from dataclasses import dataclass

MAX_DEPTH = 200
MAX_DIGITS = 100

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[^\s,:{}\[\]\"'#/]+")
_SPACE = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)+", re.DOTALL)
_PLAIN = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}
_NEXT = re.compile(r"\s*(\S)")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_WORDS: dict[str, bool | float | None] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    "NaN": math.nan,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "-Infinity": -math.inf,
}


class JsonFault(ValueError):
    """The text is not JSON, however leniently read; the message says what was found where."""


def parse(text: str) -> object:
    """The one value in the text; raises JsonFault, also for anything but blanks and comments after the value."""
    if "\\u" not in text:  # escaped surrogates are put together below
        try:
            value = json.loads(text, strict=False, parse_int=_number, parse_float=_number)
        except RecursionError:
            raise JsonFault(f"nested deeper than {MAX_DEPTH}") from None
        except ValueError:
            pass  # not strict JSON: read it leniently, which also finds the fault
        else:
            _check_depth(value)
            return value
    reader = _Reader(text)
    value = reader.value(0)
    reader.skip_space()
    if reader.position < len(text):
        raise reader.fault("the end")
    return value


def repair(text: str) -> str:
    """Close strings that were left open before a bracket, and escape quotes inside strings."""
    out: list[str] = []
    inside = False
    position = 0
    while position < len(text):
        char = text[position]
        if not inside:
            inside = char == '"'
            out.append(char)
        elif char == "\\":
            out.append(text[position : position + 2])
            position += 1
        elif char == '"':
            following = _NEXT.match(text, position + 1)
            closes = following is None or following.group(1) in ":,}]"
            out.append(char if closes else '\\"')
            inside = not closes
        elif char in "}]":
            _close_before_space(out)
            out.append(char)
            inside = False
        else:
            out.append(char)
        position += 1
    return "".join(out)


def _close_before_space(out: list[str]) -> None:
    """Put a quote before the white space at the end."""
    space = len(out)
    while space and out[space - 1].isspace():
        space -= 1
    out.insert(space, '"')


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise JsonFault(f"nested deeper than {MAX_DEPTH}")


@dataclass(slots=True)
class _Reader:
    text: str
    position: int = 0

    def fault(self, wanted: str) -> JsonFault:
        line = self.text.count("\n", 0, self.position) + 1
        found = repr(self.text[self.position : self.position + 10]) if self.position < len(self.text) else "the end"
        return JsonFault(f"line {line}: expected {wanted}, found {found}")

    def skip_space(self) -> None:
        match = _SPACE.match(self.text, self.position)
        if match:
            self.position = match.end()

    def next_char(self) -> str:
        """The next character after blanks and comments; empty at the end."""
        self.skip_space()
        return self.text[self.position : self.position + 1]

    def value(self, depth: int) -> object:
        if depth > MAX_DEPTH:
            raise JsonFault(f"nested deeper than {MAX_DEPTH}")
        char = self.next_char()
        if char == "{":
            return self.map(depth)
        if char == "[":
            return self.list(depth)
        if char in ('"', "'"):
            return self.string(char)
        return self.scalar()

    def map(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        self.position += 1
        while (char := self.next_char()) != "}":
            name = self.string(char) if char in ('"', "'") and char else self.word("a name or }")
            if self.next_char() != ":":
                raise self.fault(":")
            self.position += 1
            # A name that comes again moves nothing: the last value wins at the first place.
            found[name] = self.value(depth + 1)
            if self.next_char() == ",":
                self.position += 1
            elif self.next_char() != "}":
                raise self.fault(", or }")
        self.position += 1
        return found

    def list(self, depth: int) -> list[object]:
        found: list[object] = []
        self.position += 1
        while (char := self.next_char()) != "]":
            if char == ",":
                found.append(None)
            else:
                found.append(self.value(depth + 1))
            if self.next_char() == ",":
                self.position += 1
            elif self.next_char() != "]":
                raise self.fault(", or ]")
        self.position += 1
        return found

    def word(self, wanted: str) -> str:
        match = _WORD.match(self.text, self.position)
        if not match:
            raise self.fault(wanted)
        self.position = match.end()
        return match.group()

    def string(self, quote: str) -> str:
        parts: list[str] = []
        self.position += 1
        while True:
            plain = _PLAIN[quote].match(self.text, self.position)
            if plain:
                parts.append(plain.group())
                self.position = plain.end()
            char = self.text[self.position : self.position + 1]
            if not char:
                raise self.fault(quote)
            self.position += 1
            if char == quote:
                return _whole("".join(parts))
            parts.append(self.escape())

    def escape(self) -> str:
        """What a backslash and the characters after it stand for; any other character stands for itself."""
        char = self.text[self.position : self.position + 1]
        self.position += 1
        if char == "u":
            code = _HEX4.match(self.text, self.position)
            if code:
                self.position = code.end()
                return chr(int(code.group(), 16))
        return _ESCAPES.get(char, char)

    def scalar(self) -> object:
        number = _NUMBER.match(self.text, self.position)
        word = _WORD.match(self.text, self.position)
        if number and word and number.end() == word.end():
            self.position = number.end()
            return _number(number.group())
        if word and word.group() in _WORDS:
            self.position = word.end()
            return _WORDS[word.group()]
        raise self.fault("a value")


def _number(text: str) -> int | float:
    if sum(char.isdigit() for char in text) > MAX_DIGITS:
        raise JsonFault(f"a number of more than {MAX_DIGITS} digits")
    return float(text) if any(char in text for char in ".eE") else int(text)


def _whole(text: str) -> str:
    """Join surrogate pairs that were written as two escapes; a lone half becomes U+FFFD."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
