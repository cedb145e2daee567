"""Tokens per second and cost of a run over its time, folded from its events."""

from dataclasses import dataclass, field
from decimal import Decimal

from engine.events import AnyEvent, ChunkReceived, CompletionFinished, RunFinished, RunStarted
from engine.statistics import CostProvenance, weakest
from workbench.token_estimate import piece_tokens

BIN = 0.5
"""Seconds a rate is measured over."""
MAX_BINS = 7200
"""Bins kept; beyond them two become one."""


@dataclass(slots=True)
class RunSeries:
    """Bins of tokens, and the cost after each request."""

    started: float | None = None
    ended: float | None = None
    bin: float = BIN
    """Seconds a bin; doubles when a run is very long."""
    content: list[int] = field(default_factory=list)
    """Tokens of answers by bin."""
    reasoning: list[int] = field(default_factory=list)
    """Tokens of thinking by bin."""
    costs: list[tuple[float, float]] = field(default_factory=list)
    """Seconds since the start and the cost until then."""
    cost: Decimal = Decimal(0)
    provenances: set[CostProvenance] = field(default_factory=set)
    _streamed: set[tuple[int, str, int]] = field(default_factory=set)

    def apply(self, event: AnyEvent) -> None:
        """Take the next event; one from before the start is of the run that this one goes on from."""
        if self.started is not None and event.time < self.started and not isinstance(event, RunStarted):
            return
        match event:
            case ChunkReceived():
                self._streamed.add((event.step, event.branch, event.attempt))
                self._add(event.time, piece_tokens(event.content), piece_tokens(event.reasoning))
            case CompletionFinished():
                self._finish(event)
            case RunStarted():
                self.clear()
                self.started = event.time
            case RunFinished():
                self.ended = event.time
                self._grow_to(event.time)
            case _:
                pass

    def clear(self) -> None:
        """Forget the run."""
        self.started = self.ended = None
        self.bin, self.cost = BIN, Decimal(0)
        for part in (self.content, self.reasoning, self.costs, self.provenances, self._streamed):
            part.clear()

    def _finish(self, event: CompletionFinished) -> None:
        done = event.statistics
        if self.started is None or not done.requests:
            return
        if (event.step, event.branch, event.attempt) not in self._streamed:
            self._spread(event.time, done.seconds, done.out_tokens, done.reasoning_out_tokens)
        self.cost += done.cost
        self.provenances.add(done.provenance)
        self.costs.append((event.time - self.started, float(self.cost)))

    def _spread(self, end: float, seconds: float, content: int, reasoning: int) -> None:
        """Tokens of an answer that came at once count evenly over the time of its request."""
        parts = max(1, round(seconds / self.bin))
        for part in range(parts):
            moment = end - seconds * (parts - 1 - part) / parts
            self._add(
                moment,
                content * (part + 1) // parts - content * part // parts,
                reasoning * (part + 1) // parts - reasoning * part // parts,
            )

    def _add(self, moment: float, content: int, reasoning: int) -> None:
        number = self._grow_to(moment)
        if number is not None:
            self.content[number] += content
            self.reasoning[number] += reasoning

    def _grow_to(self, moment: float) -> int | None:
        if self.started is None:
            return None
        number = max(0, int((moment - self.started) / self.bin))
        while number >= MAX_BINS:
            self.bin *= 2
            for bins in (self.content, self.reasoning):
                bins[:] = [sum(bins[place : place + 2]) for place in range(0, len(bins), 2)]
            number = int((moment - self.started) / self.bin)
        missing = number + 1 - len(self.content)
        if missing > 0:
            self.content.extend([0] * missing)
            self.reasoning.extend([0] * missing)
        return number

    def rates(self, until: float | None = None) -> tuple[list[float], list[float], list[float]]:
        """Times (middle of the bins, seconds), and tokens per second of answers with thinking, and of thinking alone.

        The bin that is still filling is left out, except at the end of the run.
        """
        count = len(self.content)
        if until is not None and self.started is not None and self.ended is None:
            # Only looking must not make the bins coarser: a recorded run begins long before now.
            count = min(MAX_BINS, max(0, int((until - self.started) / self.bin)))
        times = [(number + 0.5) * self.bin for number in range(count)]
        quiet = [0] * (count - len(self.content))
        thinking = [tokens / self.bin for tokens in [*self.reasoning[:count], *quiet]]
        content = [*self.content[:count], *quiet]
        both = [tokens / self.bin + thought for tokens, thought in zip(content, thinking, strict=True)]
        return times, both, thinking

    @property
    def provenance(self) -> CostProvenance:
        """The weakest provenance so far."""
        return weakest(self.provenances)
