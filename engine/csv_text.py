"""CSV for other programs: what a spreadsheet would run as a formula is guarded, or all is exact (docs/batch.md)."""

import csv
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Protocol

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
"""What may stand between cells, with its name."""

_ACTING = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_QUOTED = re.compile(r'"(?:[^"]|"")*+(?:"|\Z)')


Cell = str | int | float | Decimal


class Sink(Protocol):
    """What bytes can be written to."""

    def write(self, data: bytes, /) -> object:
        """Take all of the bytes."""
        ...


def guarded(text: str) -> str:
    """The text, behind an apostrophe when a spreadsheet would take it for a formula; numbers stay numbers."""
    return f"'{text}" if text.startswith(_ACTING) and not _NUMBER.fullmatch(text) else text


def delimiter_of(header: str) -> str:
    """What separates the cells of a header line: the most frequent of DELIMITERS outside quotes, else the comma."""
    outside = _QUOTED.sub("", header)
    return max(DELIMITERS, key=outside.count)


class CsvWriter:
    """Writes rows as UTF-8: texts in quotes, numbers without, lines that end with CR LF."""

    def __init__(self, sink: Sink, *, exact: bool = False) -> None:
        """Write to `sink`; `exact` leaves texts as they are, for programs that read them back."""
        self._sink = sink
        self._exact = exact
        self._writer = csv.writer(self, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")

    def row(self, cells: Iterable[Cell]) -> None:
        """Write one row."""
        self._writer.writerow([self._text(cell) if isinstance(cell, str) else cell for cell in cells])

    def write(self, text: str) -> None:
        """Where the rows come out."""
        self._sink.write(text.encode("utf-8", "replace"))  # half a character (a lone surrogate) has no bytes

    def _text(self, cell: str) -> str:
        return cell if self._exact else guarded(cell)


def unique_names(names: Sequence[str], taken: Sequence[str], prefix: str) -> list[str]:
    """The names, those in `taken` behind the prefix as often as needed."""
    result: list[str] = []
    for name in names:
        while name in taken or name in result:
            name = f"{prefix}{name}"
        result.append(name)
    return result
