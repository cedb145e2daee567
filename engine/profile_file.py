"""Reads Java `.properties` text: entries with their line numbers, and every fault of the syntax."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from engine.atomic_file import read_limited
from engine.errors import Problem, StorageError

SIZE_LIMIT = 1_000_000
"""Bytes; a larger profile is refused before reading."""

_BOM = b"\xef\xbb\xbf"
_NATURAL_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a file; the value is as written, with escapes resolved and blanks kept."""

    value: str = field(repr=False)  # may be a key
    line: int = 0
    """1-based line where the entry starts; 0 when it does not come from a file."""
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertiesFile:
    """What a `.properties` file says. A later line for the same key replaces an earlier one."""

    file: str
    """How messages name the file."""
    entries: Mapping[str, Entry] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def text(self, key: str) -> str:
        """The value without outer blanks; empty when the key is missing."""
        entry = self.entries.get(key)
        return entry.value.strip() if entry else ""


def read_file(path: Path) -> PropertiesFile:
    """Read a file of at most `SIZE_LIMIT` bytes; what cannot be read at all is a problem, too."""
    try:
        return parse_properties(read_limited(path, SIZE_LIMIT), str(path))
    except StorageError as error:
        problem = Problem(severity="error", message=error.message, file=str(path))
        return PropertiesFile(file=str(path), problems=(problem,))


def parse_properties(data: bytes, file: str) -> PropertiesFile:
    """Parse the bytes of a `.properties` file as `java.util.Properties` does; `file` names it in the problems.

    A byte order mark is dropped, and text that is valid UTF-8 beyond ASCII is read as UTF-8, both with a warning.
    """
    problems: list[Problem] = []
    text = _decode(data, file, problems)
    entries: dict[str, Entry] = {}
    if text is not None:
        _parse(text, file, entries, problems)
    return PropertiesFile(file=file, entries=entries, problems=tuple(problems))


class _Lines:
    """The natural lines of a text as a file-like object that knows how many were taken."""

    def __init__(self, text: str) -> None:
        self._lines = _NATURAL_LINE.findall(text)
        self.taken = 0

    def readline(self) -> str:
        if self.taken == len(self._lines):
            return ""
        self.taken += 1
        line: str = self._lines[self.taken - 1]
        return line


def _decode(data: bytes, file: str, problems: list[Problem]) -> str | None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        message = "The file is UTF-16; save it as ISO-8859-1 with \\uXXXX escapes, or as UTF-8."
        problems.append(Problem(severity="error", message=message, file=file, line=1))
        return None
    if data.startswith(_BOM):
        data = data.removeprefix(_BOM)
        message = "The file starts with a byte order mark, which was ignored."
        problems.append(Problem(severity="warning", message=message, file=file, line=1))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")
    if not text.isascii():
        before = next(index for index, character in enumerate(text) if not character.isascii())
        line = len(_NATURAL_LINE.findall(text[: before + 1]))
        message = "The file was read as UTF-8; other programs read such files as ISO-8859-1 and expect \\uXXXX escapes."
        problems.append(Problem(severity="warning", message=message, file=file, line=line))
    return text


def _parse(text: str, file: str, entries: dict[str, Entry], problems: list[Problem]) -> None:
    import javaproperties

    lines = _Lines(text)
    while True:
        start = lines.taken + 1
        try:
            for element in javaproperties.parse(cast("IO[str]", lines)):  # any iterable of lines will do
                if isinstance(element, javaproperties.KeyValue):
                    _take(element.key, Entry(element.value, start, file), entries, problems)
                start = lines.taken + 1
            return
        except javaproperties.InvalidUEscapeError:
            # The text of the escape is not shown: it may be part of a key. Reading goes on with the next line.
            message = "Found \\u without four hexadecimal digits; write \\\\u for the text itself."
            problems.append(Problem(severity="error", message=message, file=file, line=start))


def _take(key: str, entry: Entry, entries: dict[str, Entry], problems: list[Problem]) -> None:
    if any("\ud800" <= character <= "\udfff" for character in key + entry.value):
        message = "Found one half of a surrogate pair, expected both (\\uD83D\\uDE00)."
        problems.append(
            Problem(severity="error", message=message, file=entry.file, line=entry.line, path=_printable(key))
        )
        return
    if key in entries:
        message = f"{key} is already on line {entries[key].line}; this later line counts."
        problems.append(Problem(severity="warning", message=message, file=entry.file, line=entry.line, path=key))
        del entries[key]  # the order of a file is that of the lines that count
    entries[key] = entry


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
