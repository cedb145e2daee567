"""What a comparison does, how far it is, and what came of its cells."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Literal, NamedTuple

import msgspec

from engine.batch_values import DISK_PATIENCE
from engine.events import ErrorInfo, GradeOutcome, Statistics
from engine.flow.tools import AllowTool, refuse

LEAST_PROFILES, MOST_PROFILES = 2, 8
MOST_CELLS = 100_000
CONCURRENCY = 4
"""Cells at a time on each server elsewhere, unless told otherwise; a server on this machine has one."""
CONTENT_KEPT = 64_000
"""Characters of an answer that stay with its cell; the whole of it is in its recorded run."""


class Cell(NamedTuple):
    """One answer of a comparison."""

    row: int
    """From 1."""
    profile: str
    repeat: int
    """From 1."""


class GraderColumn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column that judges each answer."""

    name: str
    """What the column is called."""
    kind: Literal["key", "expected", "binary", "rating", "vote"]
    """`key`: an output of the flow is the grade; `expected`: the answer against a column of the dataset; the others ask
    a model: yes or no, 0 to 100, yes or no by majority."""
    key: str = ""
    """The output, or the column with what is expected."""
    match: Literal["equal", "contains", "pattern"] = "contains"
    """How an answer meets what is expected; letter case and blanks around it do not matter."""
    profile: str = ""
    """Who judges: a profile or category; empty: category M."""
    question: str = ""
    """What to judge by. Empty: whether it answers the prompt well."""


class CompareJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a comparison does; its rows are kept beside it."""

    title: str
    flow_text: str
    """The flow as a file; a prompt is a flow of one agent."""
    flow_file: str = ""
    """Absolute path of that file; empty for a prompt, a sample or a flow without one."""
    prompt: bool = False
    """Whether the flow was made from a prompt."""
    profiles: tuple[str, ...]
    category: str = ""
    """Only agents of this category ask the compared profiles; empty: all do."""
    repeats: int = 1
    graders: tuple[GraderColumn, ...] = ()
    dataset: str = ""
    """Where the rows came from, for people."""
    inputs: dict[str, object] = {}
    """The same for all rows."""


class CompareRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row: what all profiles are given."""

    row: int
    """From 1."""
    values: dict[str, object] = {}
    line: int = 0
    """In the dataset; 0 for one that was typed."""
    fault: str = ""
    """Why it cannot be asked; then none of its cells is."""


class CellStatus(StrEnum):
    """What became of an answer."""

    ANSWERED = "answered"
    NO_ANSWER = "no_answer"
    """The model ended without a text."""
    CUT_OFF = "cut_off"
    """The limit of tokens or a fault ended it in the middle."""
    FAILED = "failed"
    BUDGET = "budget"
    """A limit of its run ended it."""
    INVALID = "invalid"
    """The row is faulty."""


class CellGrade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a grader made of one answer."""

    grader: str
    outcome: GradeOutcome
    rating: float | None = None
    """0 to 100; of graders that say yes or no, 100 or 0. None without a verdict: it never counts as 0."""
    explanation: str = ""
    statistics: Statistics = Statistics()
    """What judging cost; not part of the cell's own figures."""


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person thinks of one answer."""

    thumb: Literal[-1, 0, 1] = 0
    stars: int = 0
    """1 to 5; 0 = none."""
    note: str = ""
    blind: bool = False
    """Whether names were hidden when it was given."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said."""
        return not (self.thumb or self.stars or self.note)


class CellResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one cell."""

    row: int
    profile: str
    repeat: int
    status: CellStatus
    run_id: str = ""
    content: str = ""
    """The answer: the outputs of the flow, or what its last agent said; at most CONTENT_KEPT characters."""
    reasoning: str = ""
    model: str = ""
    """As the server named it."""
    finish: str = ""
    """Finish reason of the last request."""
    prompt: str = ""
    """Digest of the first prompt that was sent: equal in a row when all were asked the same."""
    statistics: Statistics = Statistics()
    """Of the whole run; `first_token` is that of the last request."""
    error: ErrorInfo | None = None
    grades: tuple[CellGrade, ...] = ()

    @property
    def cell(self) -> Cell:
        """Which cell."""
        return Cell(self.row, self.profile, self.repeat)

    @property
    def score(self) -> float | None:
        """The mean of what graders gave; None without a verdict."""
        given = [grade.rating for grade in self.grades if grade.rating is not None]
        return sum(given) / len(given) if given else None

    @property
    def out_tps(self) -> float | None:
        """Answer and reasoning tokens a second; None when nothing was measured, for answers from the cache too."""
        used = self.statistics
        tokens = used.out_tokens + used.reasoning_out_tokens
        return tokens / used.seconds if used.requests and used.seconds > 0 and tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRecord:
    """A recorded comparison."""

    id: str
    started: datetime
    """Aware, UTC."""
    status: str
    """running, finished, failed, stopped, budget, or crashed: its process died."""
    reason: str
    rows: int
    job: CompareJob
    done: int
    """Committed cells."""

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.rows * len(self.job.profiles) * self.job.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """How a comparison is run this time; none of it changes what is asked."""

    concurrency: int = CONCURRENCY
    """Cells at a time on each server that is not on this machine."""
    max_cost: Decimal | None = None
    """No cell begins once all of them have cost this, graders included; units of the profiles' prices."""
    retry_failed: bool = False
    """Ask cells again that failed or met a limit."""
    again: frozenset[Cell] = frozenset()
    """Cells to ask anew although they have a result; never from the cache."""
    use_cache: bool = True
    """Take the first of several repeats from the cache; what comes is kept there."""
    allow_tool: AllowTool = refuse
    disk_patience: float = DISK_PATIENCE
    """Seconds to wait for a disk that takes no results; then the comparison fails, and can go on later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareProgress:
    """How far a comparison is."""

    comparison_id: str
    total: int
    done: int
    failed: int
    """Of those, cells without an answer: failed, ended by a limit, faulty."""
    running: int
    seconds: float
    """Since this part began."""
    seconds_left: float | None
    """As far as can be told; None before the first cell."""
    statistics: Statistics
    """Of all cells, earlier parts included, without graders."""
    grading: Statistics
    """Of all graders."""
    fault: str = ""
    """Why results cannot be saved at the moment."""
    status: str = "running"
    """running; then finished, failed, stopped or budget."""
    reason: str = ""
