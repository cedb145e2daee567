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
    SplitStarted,
)
from engine.statistics import CostProvenance, weakest
from workbench.token_estimate import piece_tokens

RATE_WINDOW = 2.0
"""Seconds over which the present speed is measured."""


class RunProgress:
    """Folds the events of one run into a few figures."""

    def __init__(self) -> None:
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
        self._step = 0
        self._pieces: deque[tuple[float, int]] = deque(maxlen=4000)

    def apply(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case ChunkReceived():
                self._pieces.append((event.time, piece_tokens(event.content) + piece_tokens(event.reasoning)))
            case AgentStarted():
                self.agent, self._step = event.agent, event.step
                self.done, self.total = 0, event.splits
            case SplitStarted():
                if event.step == self._step:
                    self.total = event.count
            case CompletionFinished():
                self.cost += event.statistics.cost
                self.provenances.add(event.statistics.provenance)
                if event.step == self._step:
                    self.done = min(self.total, self.done + 1)
            case BranchFailed():
                self.failures += 1
            case AgentFinished():
                if event.step == self._step and self.total == 1:
                    self.done = 1
            case RunFinished():
                self.status = event.status
                self.cost = event.statistics.cost
            case _:
                pass

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
