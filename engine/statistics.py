"""Token usage, cost and throughput: exact decimals for money, floats for seconds."""

from collections.abc import Container
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum


class CostProvenance(StrEnum):
    """Where a cost comes from."""

    MEASURED = "measured"
    """From token counts (or a cost) the server reported, and known prices."""
    ESTIMATED = "estimated"
    """At least one count was estimated here; shown with `~`."""
    FREE = "free"
    """All prices are a written 0."""
    UNKNOWN = "unknown"
    """A price is missing: never shown as 0, totals show `≥`."""


def weakest(provenances: Container[CostProvenance]) -> CostProvenance:
    """The least certain of them, which is that of their sum: unknown, estimated, measured, free; of none: free."""
    order = (CostProvenance.UNKNOWN, CostProvenance.ESTIMATED, CostProvenance.MEASURED)
    return next((one for one in order if one in provenances), CostProvenance.FREE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Currency units per token; None = unknown."""

    input: Decimal | None = None
    cached_input: Decimal | None = None
    """None = as `input`."""
    output: Decimal | None = None
    reasoning: Decimal | None = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionStatistics:
    """What one completion used. Token counts do not overlap: input excludes cached, output excludes reasoning."""

    requests: int = 1
    duration: float = 0.0
    """Seconds, wall time of the request."""
    in_tokens: int = 0
    cached_in_tokens: int = 0
    out_tokens: int = 0
    reasoning_out_tokens: int = 0
    cost: Decimal = Decimal(0)
    provenance: CostProvenance = CostProvenance.UNKNOWN
    estimated: bool = False
    """A token count was estimated here, not reported by the server."""
    cached: bool = False
    """Answered from the cache: nothing was requested or paid."""
    first_token: float | None = None
    """Seconds from sending to the first content or reasoning."""

    @property
    def tokens_per_second(self) -> float:
        """Output (with reasoning) tokens per second after the first token; 0 when unknown."""
        span = self.duration - (self.first_token or 0.0)
        return (self.out_tokens + self.reasoning_out_tokens) / span if span > 0 else 0.0


def per_second_text(tokens: int, milliseconds: int) -> str:
    """Tokens per second with at most two decimals, half-even, decimal point; `0` for no time."""
    if milliseconds <= 0:
        return "0"
    rate = (Decimal(tokens) * 1000 / Decimal(milliseconds)).quantize(Decimal("0.01"), ROUND_HALF_EVEN)
    return format(rate.normalize(), "f")


@dataclass(slots=True)
class RequestStatistic:
    """Totals of a run; all its branches add to the same object."""

    requests: int = 0
    cached_prompts: int = 0
    in_tokens: int = 0
    cached_in_tokens: int = 0
    out_tokens: int = 0
    reasoning_out_tokens: int = 0
    request_seconds: float = 0.0
    """Sum of the durations of all requests."""
    cost: Decimal = field(default_factory=lambda: Decimal(0))
    effective_seconds: float = 0.0
    """Wall time of the walk, set when it ends."""
    provenances: set[CostProvenance] = field(default_factory=set)

    def add(self, done: CompletionStatistics) -> None:
        """Count one completion; a cache hit counts as a cached prompt only."""
        if done.cached:
            self.cached_prompts += 1
        else:
            self.requests += done.requests
            self.in_tokens += done.in_tokens
            self.cached_in_tokens += done.cached_in_tokens
            self.out_tokens += done.out_tokens
            self.reasoning_out_tokens += done.reasoning_out_tokens
            self.provenances.add(done.provenance)
        self.request_seconds += done.duration
        self.cost += done.cost

    def join(self, other: "RequestStatistic") -> None:
        """Add the totals of a separate walk."""
        self.requests += other.requests
        self.cached_prompts += other.cached_prompts
        self.in_tokens += other.in_tokens
        self.cached_in_tokens += other.cached_in_tokens
        self.out_tokens += other.out_tokens
        self.reasoning_out_tokens += other.reasoning_out_tokens
        self.request_seconds += other.request_seconds
        self.cost += other.cost
        self.effective_seconds += other.effective_seconds
        self.provenances |= other.provenances

    @property
    def cost_provenance(self) -> CostProvenance:
        """The weakest provenance of what was paid."""
        return weakest(self.provenances)

    def tps(self, seconds: float | None = None) -> str:
        """Input, output and reasoning tokens per second over `seconds` (missing: the effective duration)."""
        tokens = self.in_tokens + self.out_tokens + self.reasoning_out_tokens
        return per_second_text(tokens, self._milliseconds(seconds))

    def out_tps(self, seconds: float | None = None) -> str:
        """Output and reasoning tokens per second over `seconds` (missing: the effective duration)."""
        return per_second_text(self.out_tokens + self.reasoning_out_tokens, self._milliseconds(seconds))

    def _milliseconds(self, seconds: float | None) -> int:
        return round((self.effective_seconds if seconds is None else seconds) * 1000)
