"""Tokens per second and cost of each branch of a run, folded from its events."""

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal

from engine.events import AnyEvent, ChunkReceived, CompletionFinished, RunFinished, RunStarted
from engine.statistics import CostProvenance, weakest
from workbench.token_estimate import piece_tokens

SHOWN = 7
"""Branches with a line of their own, the first ones; all later ones are one."""
OTHERS = "…"
"""The name of those."""
KEPT = 120
"""Seconds of rates that are kept."""


@dataclass(slots=True)
class BranchLine:
    """One branch; the empty name is the way before the first split."""

    tokens: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By second since the start."""
    costs: dict[int, Decimal] = field(default_factory=dict)
    """Second → what the branch had cost at its end."""
    cost: Decimal = Decimal(0)
    provenances: set[CostProvenance] = field(default_factory=set)

    @property
    def provenance(self) -> CostProvenance:
        """The weakest so far."""
        return weakest(self.provenances)


@dataclass(slots=True)
class BranchSeries:
    """The branches of the run on show."""

    run_id: str = ""
    started: float | None = None
    ended: float | None = None
    kept: int = 0
    """Events still to come that are those of the run this one goes on from."""
    lines: dict[str, BranchLine] = field(default_factory=dict)
    _streamed: set[tuple[int, str, int]] = field(default_factory=set)

    @property
    def is_running(self) -> bool:
        """Whether more is to come."""
        return self.started is not None and self.ended is None

    def apply(self, event: AnyEvent) -> None:
        """Take the next event."""
        if isinstance(event, RunStarted):
            self.clear()
            self.run_id, self.started, self.kept = event.run_id, event.time, event.kept
        elif self.kept:
            self.kept -= 1
        elif isinstance(event, ChunkReceived):
            self._streamed.add((event.step, event.branch, event.attempt))
            self._add(event.branch, event.time, piece_tokens(event.content) + piece_tokens(event.reasoning))
        elif isinstance(event, CompletionFinished):
            self._finish(event)
        elif isinstance(event, RunFinished):
            self.ended = event.time

    def clear(self) -> None:
        """Forget the run."""
        self.run_id, self.started, self.ended, self.kept = "", None, None, 0
        self.lines.clear()
        self._streamed.clear()

    def _line(self, branch: str) -> BranchLine:
        known = branch in self.lines or len(self.lines) < SHOWN
        return self.lines.setdefault(branch if known else OTHERS, BranchLine())

    def _second(self, moment: float) -> int:
        return max(0, int(moment - (self.started or moment)))

    def _add(self, branch: str, moment: float, tokens: int) -> None:
        line, second = self._line(branch), self._second(moment)
        line.tokens[second] += tokens
        if len(line.tokens) > 2 * KEPT:
            for old in [one for one in line.tokens if one < second - KEPT]:
                del line.tokens[old]

    def _finish(self, event: CompletionFinished) -> None:
        used = event.statistics
        place = (event.step, event.branch, event.attempt)
        if not used.requests:
            return
        if place not in self._streamed:
            self._add(event.branch, event.time, used.out_tokens + used.reasoning_out_tokens)
        self._streamed.discard(place)
        line = self._line(event.branch)
        line.cost += used.cost
        line.provenances.add(used.provenance)
        line.costs[self._second(event.time)] = line.cost
