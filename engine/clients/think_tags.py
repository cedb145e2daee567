"""Splits a leading `<think>…</think>` off the text of an answer that arrives in pieces."""

from typing import Protocol

OPEN, CLOSE = "<think>", "</think>"
BLANKS = " \t\r\n"


class TextSplitter(Protocol):
    """What may stand between the text of an answer and its channels."""

    passed: bool
    """Whether all further text is content."""

    def feed(self, text: str) -> tuple[str, str]:
        """Take a piece of text, give the (reasoning, content) that is certain by now."""
        ...

    def close(self) -> tuple[str, str]:
        """Give what was held back when the answer ends."""
        ...


class ThinkTags:
    """Holds back what may be the beginning of a tag until it is decided; later tags stay text."""

    __slots__ = ("_held", "_inside", "passed")

    def __init__(self, *, prefilled: bool = False) -> None:
        self._inside = prefilled
        self._held = ""
        self.passed = False
        """Whether all further text is content."""

    def feed(self, text: str) -> tuple[str, str]:
        """Take a piece of text, give the (reasoning, content) that is certain by now."""
        if self.passed:
            return "", text
        held = self._held + text
        if not self._inside:
            start = held.lstrip(BLANKS)
            if not start.startswith(OPEN):
                if OPEN.startswith(start):
                    self._held = held
                    return "", ""
                self.passed, self._held = True, ""
                return "", held
            self._inside = True
            held = start.removeprefix(OPEN)
        reasoning, close, content = held.partition(CLOSE)
        if close:
            self.passed, self._held = True, ""
            return reasoning, content
        certain = len(held) - _beginning(held)
        self._held = held[certain:]
        return held[:certain], ""

    def close(self) -> tuple[str, str]:
        """Give what was held back when the answer ends."""
        held, self._held = self._held, ""
        return (held, "") if self._inside and not self.passed else ("", held)


def _beginning(text: str) -> int:
    """Length of the longest end of the text that begins a closing tag."""
    return next((size for size in range(min(len(CLOSE) - 1, len(text)), 0, -1) if CLOSE.startswith(text[-size:])), 0)
