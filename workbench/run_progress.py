"""What the status bar says about a run: which agent, how far, how fast, how expensive."""

from collections import deque
from decimal import Decimal

from engine.events import (
    AgentFinished,
    AgentStarted,
    BranchFailed,
    ChunkReceived,
    CompletionFinished,
    Event,
    RunFinished,
    RunStarted,
    SplitStarted,
)
from engine.statistics import CostProvenance, weakest
from workbench.token_estimate import piece_tokens

MOST_UNFINISHED = 0.97
"""Share of a run that is not finished: a loop may always go round once more."""
RATE_WINDOW = 2.0
"""Seconds over which the present speed is measured."""


class RunProgress:
    """Folds the events of one run into a few figures."""

    def __init__(self, agents: int = 1) -> None:
        """`agents`: how many the run may reach."""
        self.agent = ""
        """The agent that started last."""
        self.done = 0
        self.total = 1
        """Branches of that agent, finished and all."""
        self.cost = Decimal(0)
        self.provenances: set[CostProvenance] = set()
        self.status = ""
        """Empty while running, then finished, failed, stopped or budget."""
        self.failures = 0
        self.requests = 0
        self.cached = 0
        """Answers from the cache."""
        self._began = 0.0
        """Events before it are of the run that this one goes on from."""
        self._step = 0
        self._agents = max(1, agents)
        self._steps: dict[int, float] = {}
        """Execution → how much of it is done, 0 to 1."""
        self._branches: dict[int, int] = {}
        """Execution → its branches."""
        self._share = 0.0
        self._pieces: deque[tuple[float, int]] = deque(maxlen=4000)

    def apply(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case ChunkReceived():
                self._pieces.append((event.time, piece_tokens(event.content) + piece_tokens(event.reasoning)))
            case AgentStarted():
                self.agent, self._step = event.agent, event.step
                self.done, self.total = 0, event.splits
                self._steps[event.step], self._branches[event.step] = 0.0, max(1, event.splits)
            case SplitStarted():
                self._branches[event.step] = max(1, event.count)
                if event.step == self._step:
                    self.total = event.count
            case CompletionFinished():
                self._count(event)
            case BranchFailed():
                self.failures += 1
                self._advance(event.step)
            case AgentFinished():
                if not event.branch:
                    self._steps[event.step] = 1.0
                if event.step == self._step and self.total == 1:
                    self.done = 1
            case RunStarted() | RunFinished():
                self._bound(event)
            case _:
                pass

    def _bound(self, event: RunStarted | RunFinished) -> None:
        if isinstance(event, RunStarted):
            self._began = event.time
        else:
            self.status, self.cost = event.status, event.statistics.cost

    def _count(self, event: CompletionFinished) -> None:
        """One more answer; what an earlier run had is done, but not paid again."""
        if event.time >= self._began:
            self.cost += event.statistics.cost
            self.requests += event.statistics.requests
            self.cached += event.statistics.cached_prompts
            self.provenances.add(event.statistics.provenance)
        self._advance(event.step)
        if event.step == self._step:
            self.done = min(self.total, self.done + 1)

    def _advance(self, step: int) -> None:
        """One more branch of an execution is done."""
        self._steps[step] = min(1.0, self._steps.get(step, 0.0) + 1.0 / self._branches.get(step, 1))

    @property
    def share(self) -> float:
        """How much of the run is done, 0 to 1; never less than before.

        Agents that routes pass over leave it short until the run is finished; a loop that runs longer than the flow
        has agents only approaches the end.
        """
        if self.status == "finished":
            return 1.0
        total = self._agents if len(self._steps) <= self._agents else len(self._steps) + 1
        self._share = max(self._share, min(MOST_UNFINISHED, sum(self._steps.values()) / total))
        return self._share

    def rate(self, now: float) -> float:
        """Estimated tokens per second over the last two seconds."""
        while self._pieces and self._pieces[0][0] < now - RATE_WINDOW:
            self._pieces.popleft()
        if len(self._pieces) < 2:
            return 0.0
        span = max(now - self._pieces[0][0], 0.25)
        return sum(tokens for _, tokens in self._pieces) / span

    @property
    def provenance(self) -> CostProvenance:
        """How sure the cost so far is; a total with an unknown part is a lower bound."""
        return weakest(self.provenances)
