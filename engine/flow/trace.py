"""The trace of a branch: what happened to it, as short symbols in order."""

from collections.abc import Container, Iterable, Sequence
from enum import StrEnum
from typing import cast

from engine.checkpoints import TraceEntry


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
FROZEN = "❄"
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

    def fold(self, kind: Kind, text: str, inside: Sequence["Trace"]) -> "Trace":
        """Append one entry that holds the traces of what happened inside of it: a flow run as one node."""
        return _Folded(self, kind, text, tuple(inside))

    def entries(self) -> tuple[tuple[Kind, str], ...]:
        """All entries, oldest first."""
        found: list[tuple[Kind, str]] = []
        node = self
        while node._before is not None:
            found.append((node._kind, node._text))
            node = node._before
        found.reverse()
        return tuple(found)

    @classmethod
    def of(cls, entries: Iterable[TraceEntry]) -> "Trace":
        """The trace with these entries, oldest first."""
        trace = EMPTY
        for kind, text, *folded in entries:
            if folded:
                inside = [Trace.of(other) for other in cast("list[list[TraceEntry]]", folded[0])]
                trace = trace.fold(Kind(str(kind)), str(text), inside)
            else:
                trace = trace.add(Kind(str(kind)), str(text))
        return trace

    def since(self, known: Container[int]) -> "tuple[Trace | None, list[TraceEntry]]":
        """The last earlier state whose id is known, and the entries added after it, oldest first."""
        found: list[TraceEntry] = []
        node = self
        while node._before is not None and id(node) not in known:
            inside = [trace.since(())[1] for trace in node.inside]
            found.append([node._kind.value, node._text, inside] if inside else [node._kind.value, node._text])
            node = node._before
        found.reverse()
        return (None if node._before is None else node), found

    def text(self, *, timed: bool = False) -> str:
        """Join the entries by `, `; the durations only when `timed`."""
        return ", ".join(text for kind, text in self.entries() if timed or kind is not Kind.DURATION)

    def unfolded(self, *, timed: bool = False) -> str:
        """The text with what is folded into an entry behind it, in braces, one trace after the other."""
        texts: list[str] = []
        node = self
        while node._before is not None:
            if timed or node._kind is not Kind.DURATION:
                inside = node.inside
                folded = "; ".join(trace.unfolded(timed=timed) for trace in inside)
                texts.append(f"{node._text} {{{folded}}}" if inside else node._text)
            node = node._before
        return ", ".join(reversed(texts))

    @property
    def has_folds(self) -> bool:
        """Whether anything is folded into an entry."""
        node = self
        while node._before is not None:
            if node.inside:
                return True
            node = node._before
        return False

    @property
    def inside(self) -> "tuple[Trace, ...]":
        """The traces folded into the last entry."""
        return ()

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


class _Folded(Trace):
    """A last entry with traces inside."""

    __slots__ = ("_inside",)

    def __init__(self, before: Trace, kind: Kind, text: str, inside: tuple[Trace, ...]) -> None:
        super().__init__(before, kind, text)
        self._inside = inside

    @property
    def inside(self) -> tuple[Trace, ...]:
        """The traces folded into the last entry."""
        return self._inside


EMPTY = Trace()
"""The trace of a context that has not been anywhere."""
