"""Separates the raw text of a model into reasoning and content while it arrives in pieces.

How the text is cut into pieces makes no difference. Both channels lose white space at their ends, and the marks of the
prompt format. A mark counts where it can be told while the text comes: what was given out is never taken back, with the
one exception that `moved` tells of.
"""

import re
from collections.abc import Iterable
from typing import Protocol


class RawAnswer(Protocol):
    """Takes an answer apart, piece by piece."""

    passed: bool
    """Whether all further text is content as it stands."""
    cut_off: bool
    """Set it before `close` when the model did not end its turn itself."""
    moved: bool
    """After `close`: what was given out as reasoning turned out to be the content, which `close` gave out whole."""

    def feed(self, text: str) -> tuple[str, str]:
        """Take a piece of text, give the (reasoning, content) that is certain by now."""
        ...

    def close(self) -> tuple[str, str]:
        """Give what was held back when the answer ends."""
        ...


def separated(answer: RawAnswer, raw: str) -> tuple[str, str | None]:
    """Content and reasoning (None when there is none) of a whole text; `answer` is used up."""
    thought, text = answer.feed(raw)
    last_thought, last_text = answer.close()
    if answer.moved:
        thought = last_thought = ""
    return text + last_text, (thought + last_thought) or None


class _Channel:
    """Drops white space at the beginning and holds it back at the end."""

    __slots__ = ("_begun", "_blanks")

    def __init__(self) -> None:
        self._begun = False
        self._blanks: list[str] = []

    def feed(self, text: str) -> str:
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        certain = text.rstrip()
        if not certain:
            if text:
                self._blanks.append(text)
            return ""
        result = "".join((*self._blanks, certain))
        self._blanks = [text[len(certain) :]] if len(certain) < len(text) else []
        return result


class PlainAnswer:
    """Everything is content; the marks are deleted. Subclasses give meaning to marks."""

    passed = False

    def __init__(self, marks: Iterable[str] = ()) -> None:
        self._marks = tuple(sorted(marks, key=len, reverse=True))
        self._find = re.compile("|".join(map(re.escape, self._marks)) or r"(?!)")
        self._held = ""
        """The end of the text, when it may be the beginning of a mark."""
        self._channels = (_Channel(), _Channel())
        self._given: tuple[list[str], list[str]] = ([], [])
        """Reasoning and content since the last time."""
        self.cut_off = False
        self.moved = False

    def feed(self, text: str) -> tuple[str, str]:
        """Take a piece of text, give the (reasoning, content) that is certain by now."""
        held, start = self._held + text, 0
        end = len(held) - self._beginning(held)
        while (found := self._find.search(held, start)) and found.start() < end:
            self._text(held[start : found.start()])
            start = found.end()
            self._mark(found[0])
        if start < end:
            self._text(held[start:end])
        self._held = held[max(start, end) :]
        return self._taken()

    def close(self) -> tuple[str, str]:
        """Give what was held back when the answer ends."""
        held, self._held, start = self._held, "", 0
        for found in self._find.finditer(held):
            self._text(held[start : found.start()])
            start = found.end()
            self._mark(found[0])
        self._text(held[start:])
        self._end()
        return self._taken()

    def _beginning(self, text: str) -> int:
        """Length of the longest end of the text that begins a mark and may become it, or a longer one."""
        longest = min(len(self._marks[0]) - 1, len(text)) if self._marks else 0
        for size in range(longest, 0, -1):
            end = text[-size:]
            if any(len(mark) > size and mark.startswith(end) for mark in self._marks):
                return size
        return 0

    def _text(self, text: str) -> None:
        self._give(text, reasoning=False)

    def _mark(self, mark: str) -> None:
        pass

    def _end(self) -> None:
        pass

    def _give(self, text: str, *, reasoning: bool) -> None:
        if text and (certain := self._channels[not reasoning].feed(text)):
            self._given[not reasoning].append(certain)

    def _taken(self) -> tuple[str, str]:
        thought, text = map("".join, self._given)
        self._given[0].clear()
        self._given[1].clear()
        return thought, text


class ThinkAnswer(PlainAnswer):
    """A thought between two marks leads the answer.

    Args:
        opens, closes: the marks; both count once, the first one only where the answer begins.
        header: what the answer may begin with and is not part of it.
        ends: what the turn ends with: the rest is no part of the answer when `cuts`, else they are only deleted.
        opened: the prompt has opened the thought. When it is never closed nor opened again, a text that the model ended
            itself is the content after all.
    """

    def __init__(
        self,
        opens: str = "<think>",
        closes: str = "</think>",
        *,
        header: str = "",
        ends: Iterable[str] = (),
        cuts: bool = True,
        opened: bool = False,
    ) -> None:
        ends = tuple(ends)
        super().__init__(mark for mark in (opens, closes, header, *ends) if mark)
        self._opens, self._closes, self._ends = opens, closes, ends if cuts else ()
        self._dropped = {header, *ends}
        self._opened = opened
        self._thinking = opened
        self._fresh = True
        """Nothing but white space came so far."""
        self._explicit = not opened
        self._over = False
        self._thought: list[str] = []

    def _text(self, text: str) -> None:
        if self._over or not text:
            return
        if self._fresh:
            if self._opened and text.startswith("\n"):
                self._explicit = True
            self._fresh = text.isspace()
        if self._thinking and not self._explicit:
            self._thought.append(text)
        self._give(text, reasoning=self._thinking)

    def _mark(self, mark: str) -> None:
        if self._over:
            return
        if mark in self._ends:
            self._over = True
        elif mark in self._dropped:
            return
        elif mark == self._opens and self._fresh:
            self._thinking = self._explicit = True
            self._fresh = False
        elif mark == self._closes and self._thinking:
            self._thinking, self._explicit, self._fresh = False, True, False
            self._thought.clear()
        else:
            self._text(mark)

    def _end(self) -> None:
        if self._thinking and not self._explicit and not self.cut_off and any(map(str.strip, self._thought)):
            self.moved = True
            self._given[0].clear()
            self._give("".join(self._thought), reasoning=False)


class ChannelAnswer(PlainAnswer):
    """Messages with channels: the first `final` one is the content, the first `analysis` one the reasoning.

    Source: OpenAI, harmony response format. An answer without any channel is content.
    """

    START, CHANNEL, MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
    ENDS = ("<|end|>", "<|return|>", "<|call|>")

    def __init__(self) -> None:
        super().__init__((self.START, self.CHANNEL, self.MESSAGE, *self.ENDS))
        self._head: list[str] | None = []
        """The text before a channel or its name; None inside a message. At first it may be the answer itself."""
        self._plain = True
        self._named = False
        self._seen: set[str] = set()
        self._target = ""

    def _text(self, text: str) -> None:
        if not text:
            return
        if self._head is None:
            if self._target in ("final", "analysis"):
                self._give(text, reasoning=self._target == "analysis")
            return
        self._head.append(text)
        # A recipient may stand before the first channel (` to=functions.f<|channel|>…`).
        if self._plain and not _maybe_recipient("".join(self._head)):
            self._open("final")
            self._give("".join(self._head or ()), reasoning=False)
            self._head = None

    def _mark(self, mark: str) -> None:
        if mark == self.MESSAGE and self._head is not None:
            name = "".join(self._head).split() if self._named else ["final"]
            self._plain = False
            self._open(name[0] if name else "")
            self._head = None
        elif mark in (self.START, self.CHANNEL):
            self._plain, self._named = False, mark == self.CHANNEL
            self._head = []

    def _open(self, name: str) -> None:
        self._target = "" if name in self._seen else name
        self._seen.add(name)

    def _end(self) -> None:
        if self._plain and self._head:
            self._give("".join(self._head), reasoning=False)


def _maybe_recipient(text: str) -> bool:
    start = text.lstrip()[:3]
    return "to=".startswith(start)
