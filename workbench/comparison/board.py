"""What the page Compare shows: rows, answers as they come, figures. Long answers stay on the disk."""

import random
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
from PySide6.QtCore import QObject, Signal

from engine.comparison_summary import ComparisonSummary, ProfileFigures
from engine.comparison_values import Cell, CellResult, CellStatus, CompareJob, CompareRow, Mark
from engine.completion import Phase
from engine.events import AnyEvent, ChunkReceived, PhaseChanged, Retrying, RunStarted
from engine.flow.context import text_of

PREVIEW = 4_000
"""Characters of an answer that are kept for the grid."""
SHOWN_INPUT = 600
LEAST_WORD = 4
"""Letters of a word that is marked."""
MOST_OWN = 0.6
"""Share of the words that may be marked."""

_WORD = re.compile(r"\w+")


@dataclass(slots=True)
class Live:
    """An answer that is on its way."""

    began: float
    phase: Phase = Phase.QUEUED
    content: str = ""
    reasoning: str = ""
    note: str = ""
    """What it waits for, a retry for instance."""


@dataclass(slots=True)
class Answer:
    """An answer that is there; its texts are shortened."""

    result: CellResult
    length: int
    """Characters of the whole answer."""
    digest: int
    """Equal for answers that say the same, blanks and letter case aside."""

    @classmethod
    def of(cls, result: CellResult) -> "Answer":
        """What the grid keeps of a result."""
        small = msgspec.structs.replace(result, content=result.content[:PREVIEW], reasoning=result.reasoning[:PREVIEW])
        return cls(small, len(result.content), hash(" ".join(result.content.split()).casefold()))


class Line:
    """One line of the grid: a row, and which of its repeats."""

    __slots__ = ("repeat", "row")

    def __init__(self, row: CompareRow, repeat: int) -> None:
        self.row = row
        self.repeat = repeat

    def cell(self, profile: str) -> Cell:
        """The cell of a profile."""
        return Cell(self.row.row, profile, self.repeat)


class Board(QObject):
    """One comparison as it is known so far."""

    reset = Signal()
    """Another comparison, or other lines."""
    cell_changed = Signal(object)
    """A Cell looks different."""
    figures_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.job = CompareJob(title="", flow_text="", profiles=())
        self.lines: list[Line] = []
        """Those on show."""
        self.marks: dict[Cell, Mark] = {}
        self.live: dict[Cell, Live] = {}
        self.answers: dict[Cell, Answer] = {}
        self.blind = False
        self.shows_reasoning = False
        self._all: list[Line] = []
        self._comparison_id = ""
        self._summary = ComparisonSummary(())
        self._words = ""
        self._only_different = False

    # -- taking in ----------------------------------------------------------------------------------------------------

    def show(self, comparison_id: str, job: CompareJob, rows: Sequence[CompareRow]) -> None:
        """Show a comparison, with no answers yet."""
        self._comparison_id, self.job = comparison_id, job
        self._all = [Line(row, repeat) for row in rows for repeat in range(1, job.repeats + 1)]
        self.marks, self.live, self.answers = {}, {}, {}
        self._summary = ComparisonSummary(job.profiles)
        self._choose_lines()
        self.figures_changed.emit()

    def take_answers(self, answers: Iterable[Answer]) -> None:
        """Take answers that were there before; `filter` and figures follow with `all_taken`."""
        for answer in answers:
            self._take(answer)

    def all_taken(self) -> None:
        """Show what `take_answers` took."""
        self._choose_lines()
        self.figures_changed.emit()

    def take_result(self, result: CellResult) -> None:
        """Take a result that has just come."""
        self._take(Answer.of(result))
        self.live.pop(result.cell, None)
        self.cell_changed.emit(result.cell)
        self.figures_changed.emit()

    def _take(self, answer: Answer) -> None:
        self._summary.add(answer.result)
        self.answers[answer.result.cell] = answer

    def take_event(self, cell: Cell, event: AnyEvent) -> None:
        """Follow an answer that is on its way."""
        if isinstance(event, RunStarted):
            self.live[cell] = Live(time.monotonic())
            self.answers.pop(cell, None)
        live = self.live.get(cell)
        if live is None:
            return
        match event:
            case PhaseChanged():
                live.phase, live.note = event.phase, ""
            case Retrying():
                live.note = event.reason
            case ChunkReceived():
                if len(live.content) < PREVIEW:
                    live.content += event.content
                if len(live.reasoning) < PREVIEW:
                    live.reasoning += event.reasoning
            case _:
                return
        self.cell_changed.emit(cell)

    def end_live(self) -> None:
        """Nothing is on its way any more."""
        cells = list(self.live)
        self.live.clear()
        for cell in cells:
            self.cell_changed.emit(cell)

    def set_marks(self, marks: dict[Cell, Mark]) -> None:
        """Take what people said before."""
        self.marks = marks
        for cell, mark in marks.items():
            self._summary.mark(cell, mark)
        self.figures_changed.emit()

    def set_mark(self, cell: Cell, mark: Mark) -> None:
        """Take what a person says now."""
        if mark.is_empty:
            self.marks.pop(cell, None)
        else:
            self.marks[cell] = mark
        self._summary.mark(cell, mark)
        self.cell_changed.emit(cell)
        self.figures_changed.emit()

    # -- choosing -----------------------------------------------------------------------------------------------------

    def filter(self, words: str, *, only_different: bool) -> None:
        """Show lines whose inputs or answers have these words, and only those with different answers."""
        self._words, self._only_different = words.casefold().strip(), only_different
        self._choose_lines()

    def set_blind(self, blind: bool) -> None:
        """Hide who answered."""
        self.blind = blind
        self.reset.emit()

    def _choose_lines(self) -> None:
        self.lines = [line for line in self._all if self._is_wanted(line)]
        self.reset.emit()

    def _is_wanted(self, line: Line) -> bool:
        if self._only_different and not self.differs(line):
            return False
        if not self._words:
            return True
        texts = [input_text(line.row)]
        texts += [found.result.content for found in self._answers_of(line)]
        return any(self._words in text.casefold() for text in texts)

    def _answers_of(self, line: Line) -> list[Answer]:
        return [found for name in self.job.profiles if (found := self.answers.get(line.cell(name))) is not None]

    def differs(self, line: Line) -> bool:
        """Whether its answers so far say different things."""
        return len({found.digest for found in self._answers_of(line)}) > 1

    @property
    def different(self) -> int:
        """How many lines have different answers."""
        return sum(map(self.differs, self._all))

    @property
    def line_count(self) -> int:
        """How many lines there are, shown or not."""
        return len(self._all)

    # -- asking -------------------------------------------------------------------------------------------------------

    def columns(self, line: Line) -> tuple[str, ...]:
        """The profiles from left to right: shuffled for each row while names are hidden, always in the same way."""
        if not self.blind:
            return self.job.profiles
        names = list(self.job.profiles)
        random.Random(f"{self._comparison_id} {line.row.row}").shuffle(names)  # noqa: S311 - no secret
        return tuple(names)

    def is_open(self, line: Line) -> bool:
        """Whether answers are shown: with hidden names only when all of the line are there."""
        return not self.blind or all(line.cell(name) in self.answers for name in self.job.profiles)

    @property
    def voted(self) -> int:
        """Lines with a mark."""
        marked = {(cell.row, cell.repeat) for cell in self.marks}
        return sum((line.row.row, line.repeat) in marked for line in self._all)

    def figures(self) -> list[ProfileFigures]:
        """The figures of each profile."""
        return self._summary.figures()

    def same(self, profile: str) -> tuple[int, int]:
        """In how many lines a profile says the same as another, and of how many answers."""
        same = count = 0
        for line in self._all:
            own = self.answers.get(line.cell(profile))
            if own is None or own.result.status is not CellStatus.ANSWERED:
                continue
            count += 1
            others = (self.answers.get(line.cell(name)) for name in self.job.profiles if name != profile)
            same += any(other is not None and other.digest == own.digest for other in others)
        return same, count

    def own_words(self, line: Line, profile: str) -> frozenset[str]:
        """The words that only this answer of the line has, and that are worth a mark."""
        words = {
            name: frozenset(words_of(found.result.content))
            for name in self.job.profiles
            if (found := self.answers.get(line.cell(name))) is not None
        }
        own = words.pop(profile, None)
        if not own or not words:
            return frozenset()
        # Small words tell nothing apart, and where nearly all differ, marks would only be noise.
        rare = own.difference(*words.values())
        shown = frozenset(word for word in rare if len(word) >= LEAST_WORD or word.isdigit())
        return shown if len(shown) <= MOST_OWN * len(own) else frozenset()

    @property
    def prompts_agree(self) -> bool | None:
        """Whether all profiles were sent the same prompts; None before two were."""
        told = False
        for line in self._all:
            prompts = {found.result.prompt for found in self._answers_of(line) if found.result.prompt}
            told = told or len(prompts) == 1
            if len(prompts) > 1:
                return False
        return True if told else None


def words_of(text: str) -> list[str]:
    """The words of a text, letter case aside."""
    return _WORD.findall(text.casefold())


def input_text(row: CompareRow) -> str:
    """What a row asks, in short."""
    values = [(key, text_of(value)) for key, value in row.values.items()]
    if len(values) == 1:
        return values[0][1][:SHOWN_INPUT]
    return "\n".join(f"{key}: {text[:SHOWN_INPUT]}" for key, text in values)
