"""What a pane shows of a text: marks for unseen characters, closed paragraphs, pretty JSON."""

import re

import msgspec

from workbench.text_format import visible_text

PARAGRAPH = 2000
"""Characters after which an open paragraph is closed for display: one endless paragraph makes every insertion slow."""
SOFT_PARAGRAPH = 1900
"""From here on a blank closes it."""
MARKS = 8
"""Combining marks shown on one character."""
JSON_LIMIT = 1_000_000
"""Characters up to which JSON is laid out."""

_COMBINING = "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"  # noqa: E501
_STACKED = re.compile(f"([{_COMBINING}]{{{MARKS}}})[{_COMBINING}]+")
_FENCE = re.compile(r"\A\s*```[a-zA-Z]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)


class TextShaper:
    """Turns text, as it comes in pieces, into what a pane inserts; remembers how long the open paragraph is."""

    def __init__(self) -> None:
        self._open = 0
        self._held = ""

    def feed(self, piece: str, last: bool = False) -> str:
        """Shape the next piece; a character whose look depends on the next one waits for it, except in the `last`."""
        piece = self._held + piece
        self._held = ""
        if not last and piece.endswith(("\r", "\u200d")):
            piece, self._held = piece[:-1], piece[-1]
        shown = _STACKED.sub(r"\1…", visible_text(piece))
        if self._open + len(shown) < SOFT_PARAGRAPH:
            newline = shown.rfind("\n")
            self._open = self._open + len(shown) if newline < 0 else len(shown) - newline - 1
            return shown
        return self._close_paragraphs(shown)

    def _close_paragraphs(self, shown: str) -> str:
        lines = shown.split("\n")
        for number, line in enumerate(lines):
            pieces = []
            start = 0
            while self._open + len(line) - start > SOFT_PARAGRAPH:
                soft = max(start, start + SOFT_PARAGRAPH - self._open)
                hard = start + max(1, PARAGRAPH - self._open)
                blank = line.find(" ", soft, hard)
                if blank < 0 and len(line) <= hard:
                    break
                end = hard if blank < 0 else blank + 1
                pieces.append(line[start:end])
                start, self._open = end, 0
            pieces.append(line[start:])
            self._open += len(line) - start
            lines[number] = "\n".join(pieces)
            if number < len(lines) - 1:
                self._open = 0
        return "\n".join(lines)


def looks_like_json(text: str) -> bool:
    """Whether a text begins as a JSON object or list, bare or fenced."""
    start = text[:200].lstrip()
    return start.startswith(("{", "[{", '["', "[\n", "```json"))


def pretty_json(text: str) -> str | None:
    """Lay out JSON, bare or in one code fence, numbers as written; None when it is no JSON or very long."""
    if len(text) > JSON_LIMIT:
        return None
    fenced = _FENCE.match(text)
    source = fenced.group(1) if fenced else text
    try:
        data = source.encode()
        msgspec.json.decode(data)
        return msgspec.json.format(data, indent=2).decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return None
