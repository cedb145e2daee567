"""What differs between two texts, in few short lines."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

from PySide6.QtCore import QCoreApplication

MAX_LINES = 16
MAX_WIDTH = 120
"""Characters shown of a line, the sign before it aside."""
MOST_COMPARED = 300
"""Lines of each text that are matched one by one: the work grows with the square of their number."""
LEAD = 30
"""Characters shown before the place where a long line begins to differ."""


def difference(before: str, after: str) -> str:
    """The lines that went (`-`) and came (`+`), the same ones left out; empty when the texts are equal.

    Long lines are shown around the place where they differ, of many lines the first ones.
    """
    changes = list(_changes(before.splitlines(), after.splitlines()))
    if len(changes) <= MAX_LINES:
        return "\n".join(changes)
    rest = QCoreApplication.translate("text_difference", "… and %1 more lines")
    return "\n".join([*changes[: MAX_LINES - 1], rest.replace("%1", str(len(changes) - MAX_LINES + 1))])


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(old), len(new)) > MOST_COMPARED:
        yield from _signed(old, new)
        return
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _signed(old[old_start:old_end], new[new_start:new_end])


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """How many elements are the same at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _signed(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    place = _common(old[0], new[0]) if len(old) == len(new) == 1 else 0
    for sign, lines in (("-", old), ("+", new)):
        for line in lines:
            yield f"{sign} {_shortened(line, place)}"


def _shortened(line: str, place: int) -> str:
    if len(line) <= MAX_WIDTH:
        return line.strip()
    start = max(0, min(place - LEAD, len(line) - MAX_WIDTH))
    part = line[start : start + MAX_WIDTH].strip()
    return f"{'…' if start else ''}{part}{'…' if start + MAX_WIDTH < len(line) else ''}"
