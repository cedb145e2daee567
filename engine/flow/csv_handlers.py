"""Handlers of answers that are lines of cells (docs/handlers.md says what is forgiven)."""

import dataclasses
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Union, get_args, get_origin, get_type_hints

from engine.completion import Chunk, Completion
from engine.flow.context import Context
from engine.flow.handlers import (
    DONE,
    Again,
    Done,
    Handler,
    HandlerResult,
    StreamedReasoning,
    read_aside,
    store_reasoning,
)

_QUOTES = "´`'“”„‟«»\""
_PAIRS = frozenset(
    {(mark, mark) for mark in _QUOTES} | {tuple(pair) for pair in ("“”", "„“", "„”", "‟”", "«»", "»«", "`´")}
)
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})\s*\w*\s*")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an answer, and how many lines had another number of cells."""

    rows: tuple[tuple[str, ...], ...]
    dropped: int = 0


def read_rows(answer: str, headings: Sequence[str], separator: str = ";") -> Rows:
    """Find the rows in an answer, whatever stands around them; each has one cell per heading."""
    lines = _data_lines(answer, headings, separator)
    rows: list[tuple[str, ...]] = []
    dropped = 0
    for line in lines:
        cells = _cells(line, len(headings), separator)
        if cells is None:
            dropped += 1
        else:
            rows.append(cells)
    return Rows(tuple(rows), dropped)


def _data_lines(answer: str, headings: Sequence[str], separator: str) -> Iterator[str]:
    text = answer.replace("\\r", "\r").replace("\\n", "\n").replace("\r", "").strip()
    if len(text) > 1 and (text[0], text[-1]) in _PAIRS and not any(mark in text[1:-1] for mark in (text[0], text[-1])):
        text = text[1:-1]
    names = {heading.strip().casefold() for heading in headings}
    leading = True
    for line in text.split("\n"):
        if not line.strip() or _FENCE.fullmatch(line) or (len(headings) > 1 and separator not in line):
            continue
        if leading:
            cells = [line] if len(headings) == 1 else line.split(separator)
            if {cell_text(cell).casefold() for cell in cells} == names:
                continue
            leading = False
        yield line


def _cells(line: str, count: int, separator: str) -> tuple[str, ...] | None:
    """The cells of a line; None when their number is wrong."""
    if count == 1:
        return (cell_text(line),)
    cells = line.split(separator)
    if len(cells) == count:
        return tuple(map(cell_text, cells))
    quoted = _quoted_cells(line, separator) if '"' in line else []
    return tuple(quoted) if len(quoted) == count else None


def _quoted_cells(line: str, separator: str) -> list[str]:
    """Cells of a line where separators between double quotes belong to the cell."""
    cells: list[str] = []
    position = 0
    while True:
        end = _end_of_quoted(line, position, separator)
        if end < 0:
            end = line.find(separator, position)
            end = len(line) if end < 0 else end
        cells.append(cell_text(line[position:end]))
        if end >= len(line):
            return cells
        position = end + len(separator)


def _end_of_quoted(line: str, start: int, separator: str) -> int:
    """Where the cell ends that begins here with a double quote; -1 when none does, or nothing closes it."""
    while start < len(line) and line[start].isspace() and not line.startswith(separator, start):
        start += 1
    if not line.startswith('"', start):
        return -1
    position = start + 1
    while (close := line.find('"', position)) >= 0:
        if line.startswith('"', close + 1):
            position = close + 2
            continue
        end = close + 1
        while end < len(line) and line[end].isspace() and not line.startswith(separator, end):
            end += 1
        if end == len(line) or line.startswith(separator, end):
            return end
        position = close + 1
    return -1


def cell_text(cell: str) -> str:
    """A cell without white space and one pair of quotes around it."""
    text = cell.strip()
    if len(text) < 2 or (text[0], text[-1]) not in _PAIRS:
        return text
    inner = text[1:-1]
    return inner.replace('""', '"') if text[0] == '"' else inner


class CsvHandler(Handler):
    """The columns of an answer go to the keys of their headings, with a prefix."""

    def __init__(self, headings: Sequence[str], prefix: str = "", *, separator: str = ";") -> None:
        """Raises ValueError without headings, or for a separator no line can have."""
        _check(headings, separator)
        self.headings = tuple(headings)
        self.prefix = prefix
        self.separator = separator
        self._thinking = StreamedReasoning(f"{prefix}_reasoning")

    def before_stream(self, context: Context) -> None:
        """Drop the thinking of an earlier answer."""
        self._thinking.begin(context)

    def on_chunk(self, chunk: Chunk, context: Context) -> None:
        """Append thinking to its key."""
        self._thinking.add(chunk, context)

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Replace the keys of all headings; a blank answer changes none, one without any row is asked for again."""
        found = Rows(())
        if completion.content.strip():
            found = await read_aside(
                lambda answer: read_rows(answer, self.headings, self.separator), completion.content
            )
            if not found.rows:
                return _again(self.headings, self.separator)
            for index, heading in enumerate(self.headings):
                context[self.prefix + heading] = [row[index] for row in found.rows]
        store_reasoning(f"{self.prefix}_reasoning", completion, context)
        return _done(found.dropped)

    def keep(self, partial: Completion, context: Context) -> None:
        """Store the thinking; a table that breaks off is of no use."""
        store_reasoning(f"{self.prefix}_reasoning", partial, context)


class CsvRowsHandler(Handler):
    """The rows of an answer become objects of a dataclass, a list of them under one key."""

    def __init__(
        self, row_type: type, key: str = "rows", *, separator: str = ";", list_separator: str | None = ","
    ) -> None:
        """Read the fields of the dataclass: text, int, float, bool, list of texts; each may be `| None`.

        Raises TypeError for a class with anything else, ValueError for separators that cannot be told apart.
        """
        self._read = _columns(row_type, list_separator)
        self.row_type = row_type
        self.key = key
        self.separator = separator
        self.list_separator = list_separator
        _check(tuple(self._read), separator)
        if separator == list_separator:
            raise ValueError(f"cells and the texts in them are both separated by {separator!r}")

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Replace the key; rows that do not fit the fields are left out, an answer without any other is asked again."""
        objects: list[object] = []
        dropped = 0
        if completion.content.strip():
            objects, dropped = await read_aside(self._objects, completion.content)
            if not objects:
                return _again(tuple(self._read), self.separator, self.list_separator)
            context[self.key] = objects
        return _done(dropped)

    def _objects(self, answer: str) -> tuple[list[object], int]:
        found = read_rows(answer, tuple(self._read), self.separator)
        objects: list[object] = []
        for row in found.rows:
            try:
                values = {name: read(cell) for (name, read), cell in zip(self._read.items(), row, strict=True)}
                objects.append(self.row_type(**values))
            except ValueError:
                continue
        return objects, found.dropped + len(found.rows) - len(objects)


_Read = Callable[[str], object]


def _columns(row_type: type, list_separator: str | None) -> dict[str, _Read]:
    if not dataclasses.is_dataclass(row_type):
        raise TypeError(f"{row_type!r} is no dataclass")
    hints = get_type_hints(row_type)
    return {
        entry.name: _column(row_type, entry.name, hints[entry.name], list_separator)
        for entry in dataclasses.fields(row_type)
        if entry.init
    }


def _column(row_type: type, name: str, hint: object, list_separator: str | None) -> _Read:
    """The function that reads a cell of one field; it raises ValueError."""
    optional = False
    if get_origin(hint) in (Union, types.UnionType):
        choices = [choice for choice in get_args(hint) if choice is not type(None)]
        optional = len(choices) < len(get_args(hint))
        hint = choices[0] if len(choices) == 1 else hint
    if get_origin(hint) in (list, tuple) and get_args(hint) in ((str,), (str, ...)):
        make: type = list if get_origin(hint) is list else tuple
        return lambda cell: make(_texts(cell, list_separator))
    reads: dict[object, _Read] = {str: str, int: int, float: float, bool: _true}
    read = reads.get(hint)
    if read is None:
        raise TypeError(f"{row_type.__name__}.{name} is {hint}, expected text, int, float, bool or list of texts")
    return lambda cell: _value(read, cell, optional=optional)


def _value(read: _Read, cell: str, *, optional: bool) -> object:
    if not _is_empty(cell):
        return read(cell)
    if not optional:
        raise ValueError("a value is needed")
    return None


def _is_empty(cell: str) -> bool:
    return not cell or cell.casefold() == "null"


def _true(cell: str) -> bool:
    return cell.casefold() == "true"


def _texts(cell: str, separator: str | None) -> list[str]:
    if separator is None or _is_empty(cell):
        return []
    return [text for part in cell.split(separator) if (text := part.strip())]


def _check(headings: Sequence[str], separator: str) -> None:
    if not headings or not all(heading.strip() for heading in headings):
        raise ValueError("a table needs headings, none of them empty")
    if not separator or "\n" in separator or "\r" in separator:
        raise ValueError(f"cells cannot be separated by {separator!r}")


def _again(headings: Sequence[str], separator: str, list_separator: str | None = None) -> Again:
    header = separator.join(headings)
    lists = f' Separate the entries inside one cell by "{list_separator}".' if list_separator else ""
    return Again(
        f'it has no row with {len(headings)} cells separated by "{separator}"',
        f'Your answer has no usable row. Answer with one line per row, its cells separated by "{separator}", in the '
        f"order of this header:\n{header}\nWrite nothing else.{lists}",
    )


def _done(dropped: int) -> Done:
    if not dropped:
        return DONE
    rows = "1 row of the answer was" if dropped == 1 else f"{dropped} rows of the answer were"
    return Done(f"{rows} left out: the cells do not fit the columns.")
