"""What a run made of an agent and of a link, as the canvas shows it. Qt-free."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from engine.completion import Phase, ReasoningAudit
from engine.events import Graded, GradeOutcome, Statistics
from engine.flow.run_plan import PlannedAgent
from engine.statistics import CostProvenance, weakest

Link = tuple[str, str | None, bool | None]
"""From, to (None ends the flow), and the grader's verdict if there was one."""


class CardState(StrEnum):
    """What a run made of an agent."""

    IDLE = "idle"
    PLANNED = "planned"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    WARNING = "warning"
    FAILED = "failed"
    CACHED = "cached"
    FROZEN = "frozen"
    STALE = "stale"
    STOPPED = "stopped"


@dataclass(slots=True)
class AgentRun:
    """One agent in the present run, over all its executions."""

    state: CardState = CardState.IDLE
    total: int = 0
    """Branches of the executions under way, or of the last ones."""
    done: int = 0
    """How many of `total` were answered or failed."""
    failures: int = 0
    cached: int = 0
    """Answers from the cache, or of a frozen agent."""
    frozen: int = 0
    stale: tuple[str, ...] = ()
    """What has changed since a frozen agent gave its answer."""
    answers: int = 0
    retries: int = 0
    reason: str = ""
    """Why it failed or what it warns of, in words."""
    phase: Phase | None = None
    spent: float = 0.0
    """Seconds in executions that are over."""
    since: float | None = None
    """Event time at which the running executions began."""
    in_tokens: int = 0
    out_tokens: int = 0
    cost: Decimal = Decimal(0)
    provenance: CostProvenance = CostProvenance.FREE
    estimated: bool = False
    streamed: int = 0
    """Estimated tokens of answers that have not ended."""
    output: str = ""
    """First line of the last answer."""
    output_branch: str = ""
    grades: dict[GradeOutcome, int] = field(default_factory=dict)
    """What it, a grader, made of the answers so far: the last verdict stands last."""
    rating: float | None = None
    """Of the last verdict."""
    explanation: str = ""
    audit: ReasoningAudit | None = None
    """What thinking did to one of its answers."""
    planned: PlannedAgent | None = None
    """What it is going to ask, while it is planned."""
    own_pass: int = 0
    """Which of its `passes` through the flow this is; 0: all of them together."""
    passes: int = 0

    @property
    def live_tokens(self) -> int:
        """Output tokens so far; the part that still streams is an estimate."""
        return self.out_tokens + self.streamed

    @property
    def is_over(self) -> bool:
        """Whether it ran and is not running."""
        return self.state in (
            CardState.FINISHED,
            CardState.WARNING,
            CardState.FAILED,
            CardState.CACHED,
            CardState.FROZEN,
            CardState.STALE,
            CardState.STOPPED,
        )

    def add(self, statistics: Statistics) -> None:
        """Count one answer."""
        self.in_tokens += statistics.in_tokens + statistics.cached_in_tokens
        self.out_tokens += statistics.out_tokens + statistics.reasoning_out_tokens
        self.cost += statistics.cost
        self.estimated |= statistics.estimated
        both = (self.provenance, statistics.provenance) if self.answers else (statistics.provenance,)
        self.provenance = weakest(both)
        self.answers += 1

    def note_grade(self, graded: Graded, outcome: GradeOutcome) -> None:
        """Count one verdict, or that there is none."""
        self.grades[outcome] = self.grades.pop(outcome, 0) + 1
        self.rating, self.explanation = graded.rating, graded.explanation

    def settle(self, statistics: Statistics) -> None:
        """Take the run's own totals, which are exact; they leave out what came from the cache."""
        self.streamed = 0
        if not statistics.requests:
            return
        self.in_tokens = statistics.in_tokens + statistics.cached_in_tokens
        self.out_tokens = statistics.out_tokens + statistics.reasoning_out_tokens
        self.cost = statistics.cost
        self.provenance = statistics.provenance
        self.estimated = statistics.estimated


@dataclass(slots=True)
class LinkRun:
    """One link in the present run."""

    count: int = 0
    """Branches that went along."""
    flowing: int = 0
    """Executions under way that it led to."""
    ungraded: int = 0
    """How many of `count` had no verdict that can be read: neither passed nor failed."""


@dataclass(frozen=True, slots=True)
class FrozenMark:
    """That an agent is frozen."""

    since: float
    """Seconds since the epoch; 0: not known."""
    stale: tuple[str, ...] = ()


def settled_state(run: AgentRun) -> CardState:
    """How executions that ended by themselves went."""
    if run.failures:
        return CardState.FAILED
    if run.retries or run.reason or run.audit:
        return CardState.WARNING
    if run.frozen and run.frozen >= run.answers:
        return CardState.STALE if run.stale else CardState.FROZEN
    if run.cached and run.cached >= run.answers:
        return CardState.CACHED
    return CardState.FINISHED
