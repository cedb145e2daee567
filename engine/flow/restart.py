"""Where a recorded run goes on: what its walk still has to do, and what it keeps of what is done."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from engine.checkpoints import Checkpoint, Position
from engine.events import AnyEvent, RunStarted, Statistics
from engine.flow.agent import Agent
from engine.flow.context import Context, Skip
from engine.flow.gathering import Arrival
from engine.flow.recorded_answers import RecordedAnswer
from engine.statistics import RequestStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginStep:
    """A step that is done as a whole."""

    step: int
    agent: Agent
    context: Context
    position: Position
    from_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStep:
    """A step of which some splits are still to do, or all are done and the merge is not."""

    step: int
    agent: Agent
    context: Context
    """Prepared: `before` has run."""
    position: Position
    count: int
    skip: Skip
    done: dict[int, Context]
    """The splits that wait to be merged, by number."""
    todo: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChooseNext:
    """A context whose step is done; only its way on is to be chosen."""

    step: int
    agent: Agent
    context: Context
    position: Position
    index: int


@dataclass(slots=True, kw_only=True)
class Restart:
    """A walk in the middle. It may be used once: its contexts change."""

    origin: str
    """`resume` or `from`."""
    parent: str
    """The recorded run."""
    edited: bool = False
    begins: list[BeginStep] = field(default_factory=list)
    steps: list[OpenStep] = field(default_factory=list)
    chooses: list[ChooseNext] = field(default_factory=list)
    waiting: list[tuple[Agent, Arrival]] = field(default_factory=list)
    """Contexts at gathering agents."""
    ended: list[tuple[Position, Context]] = field(default_factory=list)
    next_number: int = 1
    checkpoints: Sequence[Checkpoint] = ()
    """Those that stay true."""
    events: Sequence[AnyEvent] = ()
    """Those of what is kept."""
    answers: Sequence[RecordedAnswer] = ()
    """Of requests in steps that were not finished."""
    results: Mapping[tuple[str, str, str], tuple[str, bool]] = field(default_factory=dict)
    """What tools gave, by id, name and arguments of the call: output, and whether it failed."""
    statistic: RequestStatistic = field(default_factory=RequestStatistic)
    """What is used from here on; all contexts share it."""
    before: Statistics | None = None
    warnings: list[str] = field(default_factory=list)
    alive: frozenset[int] = frozenset()
    """Numbers of the recorded steps that stay, done or not."""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return not (self.begins or self.steps or self.chooses or self.waiting)

    @property
    def redone(self) -> frozenset[tuple[int, str | None]]:
        """What is done again: (step, branch), None for all branches of a step."""
        whole: set[tuple[int, str | None]] = {(step.step, None) for step in self.begins}
        for opened in self.steps:
            branch = f"{opened.context.branch}." if opened.context.branch else ""
            whole |= {
                (opened.step, f"{branch}{index + 1}/{opened.count}" if opened.count > 1 else None)
                for index in opened.todo
            }
        return frozenset(whole)

    def announced(self, started: RunStarted) -> RunStarted:
        """The first event, with where the run comes from."""
        return msgspec.structs.replace(
            started,
            origin=self.origin,
            parent=self.parent,
            kept=len(self.events),
            edited=self.edited,
            before=self.before,
        )

    def kept_checkpoints(self, run_id: str) -> Iterator[Checkpoint]:
        """What the new run has reached before it begins."""
        return (msgspec.structs.replace(checkpoint, run_id=run_id) for checkpoint in self.checkpoints)

    def kept_events(self, run_id: str) -> Iterator[AnyEvent]:
        """The events of what is kept, as those of the new run."""
        return (msgspec.structs.replace(event, run_id=run_id) for event in self.events)
