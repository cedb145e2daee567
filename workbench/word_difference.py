"""What differs between two texts, word by word, as pieces in reading order. Qt-free."""

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

MOST_WORDS = 3000
"""Words of each text that are matched one by one: the work grows with the square of their number."""
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class Piece(NamedTuple):
    """A stretch of text."""

    kind: str
    """`same`, `removed` (only in the first) or `added` (only in the second)."""
    text: str


def word_difference(first: str, second: str) -> list[Piece]:
    """The pieces of both texts: without the added ones they are the first, without the removed ones the second.

    Long texts are compared line by line, and what is still too long counts as changed as a whole.
    """
    parts = _WORDS.findall(first), _WORDS.findall(second)
    if max(map(len, parts)) > MOST_WORDS:
        parts = _LINES.findall(first), _LINES.findall(second)
    return list(_joined(_pieces(*parts)))


def _pieces(old: list[str], new: list[str]) -> Iterator[Piece]:
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    yield Piece("same", "".join(old[:start]))
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(left), len(right)) > MOST_WORDS:
        yield Piece("removed", "".join(left))
        yield Piece("added", "".join(right))
    else:
        for tag, from_old, to_old, from_new, to_new in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            if tag == "equal":
                yield Piece("same", "".join(left[from_old:to_old]))
            else:
                yield Piece("removed", "".join(left[from_old:to_old]))
                yield Piece("added", "".join(right[from_new:to_new]))
    yield Piece("same", "".join(old[len(old) - end :]))


def _common(first: list[str], second: list[str]) -> int:
    """How many elements are the same at the beginning."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Changes with only blanks between them are one: words in their order read better than confetti."""
    removed = added = blank = ""
    for kind, text in pieces:
        if kind == "removed":
            removed, added, blank = f"{removed}{blank}{text}", added + blank, ""
        elif kind == "added":
            removed, added, blank = removed + blank, f"{added}{blank}{text}", ""
        elif text.isspace() and "\n" not in text and (removed or added):
            blank += text
        elif text:
            yield from _change(removed, added)
            yield Piece("same", blank + text)
            removed = added = blank = ""
    yield from _change(removed, added)
    if blank:
        yield Piece("same", blank)


def _change(removed: str, added: str) -> Iterator[Piece]:
    if removed:
        yield Piece("removed", removed)
    if added:
        yield Piece("added", added)
