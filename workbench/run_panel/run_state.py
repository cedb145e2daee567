"""What is known of a run: agent executions, their branches and attempts. Times are seconds since the epoch."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from engine.completion import FinishReason, Phase, ReasoningAudit
from engine.events import (
    CompletionFinished,
    ErrorInfo,
    Graded,
    GradeOutcome,
    PromptShortened,
    Retrying,
    Statistics,
    StopProved,
    ToolCalled,
)
from engine.formed_request import FormedRequest
from engine.statistics import CostProvenance, weakest
from workbench.token_estimate import piece_tokens


class State(StrEnum):
    """Where an attempt, a branch or an agent execution is, and how it ended."""

    QUEUED = "queued"
    RUNNING = "running"
    ANSWERED = "answered"
    DONE = "done"
    """Ended without asking a model."""
    CACHED = "cached"
    FROZEN = "frozen"
    """A recorded answer of a frozen agent."""
    REJECTED = "not usable"
    """The handler could not use the answer; another attempt may follow."""
    NO_ANSWER = "no answer"
    CUT_OFF = "cut off"
    STOPPED = "stopped"
    FAILED = "failed"


OPEN_STATES = frozenset({State.QUEUED, State.RUNNING})
GOOD_STATES = frozenset({State.ANSWERED, State.DONE, State.CACHED, State.FROZEN})
_WORST_FIRST = (State.FAILED, State.STOPPED, State.NO_ANSWER, State.CUT_OFF, State.REJECTED)


def grade_outcome(graded: Graded) -> GradeOutcome:
    """What became of a grade, also of one that an older version recorded."""
    if graded.outcome is not None:
        return graded.outcome
    return GradeOutcome.PASSED if graded.passed else GradeOutcome.FAILED


def answer_state(event: CompletionFinished, *, frozen: bool, cached: bool) -> State:
    """What an answer makes of its attempt."""
    if event.finish_reason is FinishReason.ERROR:
        return State.FAILED
    if event.finish_reason is FinishReason.STOPPED:
        return State.STOPPED
    if event.no_answer:
        return State.NO_ANSWER
    if event.finish_reason is FinishReason.TOKEN_LIMIT_REACHED:
        return State.CUT_OFF
    if frozen:
        return State.FROZEN
    return State.CACHED if cached else State.ANSWERED


@dataclass(slots=True)
class Span:
    """One phase of a call."""

    phase: Phase
    start: float
    end: float | None = None

    def seconds(self, now: float) -> float:
        """How long it took, or has taken until `now`."""
        return max(0.0, (now if self.end is None else self.end) - self.start)


class StreamedText:
    """Text that grows by pieces; readers keep their own position, so a hidden reader costs nothing."""

    __slots__ = ("_text", "_waiting", "length", "revision", "tokens")

    def __init__(self) -> None:
        self._text = ""
        self._waiting: list[str] = []
        self.length = 0
        self.tokens = 0
        """An estimate without a tokenizer."""
        self.revision = 0
        """Grows when the text was replaced by another one: readers start again."""

    def append(self, piece: str) -> None:
        """Add a piece."""
        self._waiting.append(piece)
        self.length += len(piece)
        self.tokens += piece_tokens(piece)

    @property
    def text(self) -> str:
        """Everything so far."""
        if self._waiting:
            self._text += "".join(self._waiting)
            self._waiting.clear()
        return self._text

    def settle(self, text: str) -> None:
        """Take the final text, which is nearly always what was streamed."""
        if text != self.text:
            self._text = text
            self.length = len(text)
            self.revision += 1


@dataclass(slots=True)
class Totals:
    """Sums of finished requests; what came from the cache was not spent and only counts as a cached prompt."""

    requests: int = 0
    cached_prompts: int = 0
    in_tokens: int = 0
    cached_in_tokens: int = 0
    out_tokens: int = 0
    reasoning_out_tokens: int = 0
    cost: Decimal = Decimal(0)
    seconds: float = 0.0
    kept_in: int = 0
    kept_out: int = 0
    """Tokens of the answers from the cache, in and out with reasoning."""
    estimated: bool = False
    provenances: set[CostProvenance] = field(default_factory=set)

    @classmethod
    def of(cls, parts: Iterable[Statistics]) -> "Totals":
        """The sum of several calls or sums."""
        totals = cls()
        for part in parts:
            totals.add(part)
        return totals

    def add(self, part: Statistics) -> None:
        """Count one call, or another sum."""
        self.requests += part.requests
        self.cached_prompts += part.cached_prompts
        if not part.requests:
            self.kept_in += part.in_tokens + part.cached_in_tokens
            self.kept_out += part.out_tokens + part.reasoning_out_tokens
            return
        self.in_tokens += part.in_tokens
        self.cached_in_tokens += part.cached_in_tokens
        self.out_tokens += part.out_tokens
        self.reasoning_out_tokens += part.reasoning_out_tokens
        self.cost += part.cost
        self.seconds += part.seconds
        self.estimated = self.estimated or part.estimated
        self.provenances.add(part.provenance)

    def statistics(self, wall_seconds: float = 0.0) -> Statistics:
        """The sums; their provenance is the weakest of the parts'."""
        return Statistics(
            requests=self.requests,
            cached_prompts=self.cached_prompts,
            in_tokens=self.in_tokens,
            cached_in_tokens=self.cached_in_tokens,
            out_tokens=self.out_tokens,
            reasoning_out_tokens=self.reasoning_out_tokens,
            cost=self.cost,
            provenance=weakest(self.provenances),
            estimated=self.estimated,
            seconds=self.seconds,
            effective_seconds=wall_seconds,
        )


@dataclass(slots=True, eq=False)
class Attempt:
    """One request to a model and what came of it."""

    number: int
    started: float
    state: State = State.RUNNING
    ended: float | None = None
    spans: list[Span] = field(default_factory=list)
    content: StreamedText = field(default_factory=StreamedText)
    reasoning: StreamedText = field(default_factory=StreamedText)
    profile: str = ""
    model: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    raw: str = ""
    """The raw prompt of a text completion, and the format it is written in."""
    raw_format: str = ""
    parameters: dict[str, object] = field(default_factory=dict)
    statistics: Statistics | None = None
    finish_reason: FinishReason | None = None
    finish_raw: str = ""
    cached: bool = False
    frozen_from: str = ""
    """The run whose answer it was given; empty: the agent is not frozen."""
    stale: tuple[str, ...] = ()
    """What has changed since that answer came."""
    no_answer: bool = False
    audit: ReasoningAudit | None = None
    """What its thinking did to the answer."""
    from_thinking: bool = False
    """A person took the thinking of an earlier run as the answer."""
    proof: StopProved | None = None
    """What is known of its server after a stop."""
    failure: str = ""
    """Why the handler could not use the answer."""
    error: ErrorInfo | None = None
    request: FormedRequest | None = None
    """What went out last, byte for byte; None: nothing did, or an earlier version recorded the run."""
    shortened: PromptShortened | None = None
    """What of the turns was not sent, if the prompt was too long."""
    retries: list[Retrying] = field(default_factory=list)
    tools: list[ToolCalled] = field(default_factory=list)

    @property
    def incomplete(self) -> bool:
        """Whether the text is only a part of what the model would have said."""
        return self.state in (State.FAILED, State.STOPPED) and bool(self.content.length or self.reasoning.length)

    def seconds(self, now: float) -> float:
        """Wall time so far."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)

    def phase_seconds(self, phase: Phase, now: float) -> float:
        """Time spent in one phase so far."""
        return sum(span.seconds(now) for span in self.spans if span.phase is phase)

    def content_tokens(self) -> tuple[int, bool]:
        """Tokens of the answer, and whether that is an estimate."""
        if self.statistics is not None:
            return self.statistics.out_tokens, self.statistics.estimated
        return self.content.tokens, True

    def reasoning_tokens(self) -> tuple[int, bool]:
        """Tokens of the thinking, and whether that is an estimate."""
        if self.statistics is not None:
            return self.statistics.reasoning_out_tokens, self.statistics.estimated
        return self.reasoning.tokens, True

    def first_token(self) -> float | None:
        """Seconds from the start to the first text, None before it."""
        if self.statistics is not None and self.statistics.first_token is not None:
            return self.statistics.first_token
        for span in self.spans:
            if span.phase in (Phase.THINKING, Phase.ANSWERING):
                return max(0.0, span.start - self.started)
        return None

    def tokens_per_second(self, now: float) -> float:
        """Output tokens with reasoning per second since the first token; 0 before it."""
        first = self.first_token()
        if first is None:
            return 0.0
        total = self.statistics.seconds if self.statistics is not None and not self.cached else self.seconds(now)
        span = total - first
        return (self.content_tokens()[0] + self.reasoning_tokens()[0]) / span if span > 0 else 0.0


@dataclass(slots=True, eq=False)
class Branch:
    """One path of an agent execution."""

    step: int
    path: str
    agent: str
    started: float
    index: int = 1
    count: int = 1
    label: str = ""
    state: State = State.QUEUED
    ended: float | None = None
    attempts: list[Attempt] = field(default_factory=list)
    error: ErrorInfo | None = None
    grade: Graded | None = None
    """What a grader made of the answer."""
    kept: bool = False
    """It was finished in the run that this one goes on from."""

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def name(self) -> str:
        """`2/5 CSV export`, or the agent's name when there is one branch."""
        if self.count < 2:
            return self.agent
        return f"{self.index}/{self.count} {self.label}".rstrip()

    @property
    def warned(self) -> bool:
        """Whether something went wrong on the way that the branch got over."""
        return any(attempt.state is State.REJECTED or attempt.retries or attempt.stale for attempt in self.attempts)

    def seconds(self, now: float) -> float:
        """Wall time so far."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)


@dataclass(slots=True, eq=False)
class Step:
    """One execution of an agent."""

    number: int
    agent: str
    path: str
    started: float
    category: str = ""
    splits: int = 1
    from_step: int = 0
    within: int = 0
    """The execution it happens inside of, that of a flow run as one node; 0 for none."""
    ended: float | None = None
    branches: dict[str, Branch] = field(default_factory=dict)
    merged: tuple[int, int] | None = None
    """Inputs and outputs of the merge."""
    leaving: list[str | None] = field(default_factory=list)
    """Where each context went; None ends the flow."""

    left: list[tuple[str, dict[str, list[object]]]] = field(default_factory=list)
    """Branch and keys of each context that left."""

    totals: Totals = field(default_factory=Totals)
    """What its finished requests used."""
    spent: Totals = field(default_factory=Totals)
    """The part of it that is new in this run."""
    kept: bool = False
    """It began in the run that this one goes on from, and nothing of it is new."""
    asked: int = 0
    """Attempts so far."""
    open_attempts: set[Attempt] = field(default_factory=set)
    """Attempts under way; the figures of many branches must not be summed again and again."""
    warnings: list[str] = field(default_factory=list)
    troubled: int = 0
    """Refused answers and repeated requests."""
    counts: dict[State, int] = field(default_factory=dict)
    """Branches by state."""
    grades: dict[GradeOutcome, int] = field(default_factory=dict)
    """Branches by what a grader made of them."""

    def add(self, branch: Branch) -> None:
        """A branch begins."""
        self.branches[branch.path] = branch
        self.counts[branch.state] = self.counts.get(branch.state, 0) + 1

    def change(self, branch: Branch, state: State) -> None:
        """A branch takes another state."""
        self.counts[branch.state] -= 1
        branch.state = state
        self.counts[state] = self.counts.get(state, 0) + 1

    def end_attempt(self, attempt: Attempt, moment: float) -> None:
        """Nothing more comes of an attempt."""
        self.open_attempts.discard(attempt)
        attempt.ended = attempt.ended or moment
        if attempt.spans and attempt.spans[-1].end is None:
            attempt.spans[-1].end = moment

    def note_grade(self, branch: Branch, graded: Graded) -> None:
        """A branch was graded; once, but for one that walks on from a recorded run."""
        if branch.grade is not None:
            self.grades[grade_outcome(branch.grade)] -= 1
        branch.grade = graded
        outcome = grade_outcome(graded)
        self.grades[outcome] = self.grades.get(outcome, 0) + 1

    @property
    def finished_count(self) -> int:
        """Branches that are over, well or not."""
        return sum(count for state, count in self.counts.items() if state not in OPEN_STATES)

    @property
    def done_count(self) -> int:
        """Branches that came to their end by themselves: answered or failed, not stopped."""
        return self.finished_count - self.counts.get(State.STOPPED, 0)

    @property
    def state(self) -> State:
        """The state of all branches together: running while one runs, then the worst."""
        states = {state for state, count in self.counts.items() if count}
        if not states or (states & OPEN_STATES) or len(self.branches) < self.splits:
            if self.ended is None:
                return State.QUEUED if states == {State.QUEUED} else State.RUNNING
            states -= OPEN_STATES
        for state in _WORST_FIRST:
            if state in states:
                return state
        if len(states) == 1 and states <= {State.CACHED, State.FROZEN}:
            return next(iter(states))
        return State.DONE if states <= {State.DONE} else State.ANSWERED

    @property
    def warned(self) -> bool:
        """Whether a branch got over something that went wrong, or was given a stale answer."""
        return self.troubled > 0

    def seconds(self, now: float) -> float:
        """Wall time so far."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)

    def shift(self, seconds: float) -> None:
        """Move all its times."""
        parts: list[Step | Branch | Attempt] = [self, *self.branches.values(), *self.attempts()]
        for part in parts:
            part.started += seconds
            part.ended = None if part.ended is None else part.ended + seconds
        for attempt in self.attempts():
            for span in attempt.spans:
                span.start += seconds
                span.end = None if span.end is None else span.end + seconds

    def attempts(self) -> Iterable[Attempt]:
        """All attempts of all branches."""
        return (attempt for branch in self.branches.values() for attempt in branch.attempts)
