"""The trace of a branch: what happened to it, as short symbols in order."""

from enum import StrEnum


class Kind(StrEnum):
    """What a trace entry tells; the durations can be left out by it."""

    WALK = "walk"
    SPLIT = "split"
    CATEGORY = "category"
    SKIPPED = "skipped"
    AGENT = "agent"
    DURATION = "duration"
    FINISH = "finish"
    RETRY = "retry"
    FATAL = "fatal"
    MERGE = "merge"
    GRADE = "grade"
    NEXT = "next"


WALK = "‖"
SKIPPED = "○"
TOKEN_LIMIT = "⏹"  # noqa: S105 - a symbol, not a password
FILTERED = "⛔"
TOOL_CALLS = "🔧"
ERROR = "❌"
RETRY = "⚠"
FATAL = "☢"
PASSED = "✓"
FAILED = "✗"
COMPLETION = "→"
NEW_CONVERSATION = "🗨"
CONVERSATION = "↴"


class Trace:
    """An immutable list of entries; `add` shares all earlier ones, so that a copy for a branch costs nothing."""

    __slots__ = ("_before", "_kind", "_text")

    def __init__(self, before: "Trace | None" = None, kind: Kind = Kind.WALK, text: str = "") -> None:
        self._before = before
        self._kind = kind
        self._text = text

    def add(self, kind: Kind, text: str) -> "Trace":
        """Append an entry."""
        return Trace(self, kind, text)

    def entries(self) -> tuple[tuple[Kind, str], ...]:
        """All entries, oldest first."""
        found: list[tuple[Kind, str]] = []
        node = self
        while node._before is not None:
            found.append((node._kind, node._text))
            node = node._before
        found.reverse()
        return tuple(found)

    def text(self, *, timed: bool = False) -> str:
        """Join the entries by `, `; the durations only when `timed`."""
        return ", ".join(text for kind, text in self.entries() if timed or kind is not Kind.DURATION)

    def __bool__(self) -> bool:
        return self._before is not None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Trace) and self.entries() == other.entries())

    def __hash__(self) -> int:
        return hash(self.entries())

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Trace({self.text(timed=True)!r})"


EMPTY = Trace()
"""The trace of a context that has not been anywhere."""
