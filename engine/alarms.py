"""What a person wants to be told of while runs go on: cost, failures, slowness, shortened prompts (docs/budgets.md)."""

from collections import deque
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from engine.events import AnyEvent, CompletionFinished, PromptShortened, RequestFailed, RunStarted

CALLS = 20
"""Attempts a judgement needs; the share of failures is that of the last so many."""
LATENCIES = 100
"""Answers whose seconds are looked at, the newest."""


class AlarmKind(StrEnum):
    """What an alarm is about."""

    COST = "cost"
    ERRORS = "errors"
    SLOW = "slow"
    SHORTENED = "shortened"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmLimits:
    """From where on to tell; nothing is stopped by it."""

    run_cost: Decimal | None = None
    """Of one run, in the currency of the prices; None = never."""
    error_percent: int = 20
    """Failed attempts among the last 20 of a profile; 0 = never."""
    slow_seconds: int = 30
    """What 95 of 100 answers of a profile must stay below; 0 = never."""
    shortened_percent: int = 0
    """How much of a prompt may be left out, in tokens; 0 = never told."""

    def __post_init__(self) -> None:
        for name in ("error_percent", "shortened_percent"):
            if not 0 <= getattr(self, name) <= 100:
                raise ValueError(f"{name} must be from 0 to 100")
        if self.slow_seconds < 0 or (self.run_cost is not None and self.run_cost < 0):
            raise ValueError("slow_seconds and run_cost must be 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A limit that was passed."""

    kind: AlarmKind
    subject: str
    """The profile, the agent whose prompt it is, or nothing for a run."""
    value: Decimal
    limit: Decimal


class Alarms:
    """Follows the events of runs; tells each alarm once, and again only when it was over meanwhile."""

    def __init__(self, limits: AlarmLimits) -> None:
        self.limits = limits
        self._outcomes: dict[str, deque[bool]] = {}
        self._seconds: dict[str, deque[float]] = {}
        self._costs: dict[str, Decimal] = {}
        self._told: set[tuple[AlarmKind, str]] = set()
        self._kept: dict[str, int] = {}
        """Events still to come that are those of a recorded run, by run."""

    def follow(self, event: AnyEvent) -> list[Alarm]:
        """Take the next event of a run; what has to be told now."""
        if isinstance(event, RunStarted):
            self._kept[event.run_id] = event.kept
            return []
        if self._kept.get(event.run_id, 0) > 0:
            self._kept[event.run_id] -= 1
            return []
        if isinstance(event, CompletionFinished | RequestFailed):
            return [*self._cost(event), *self._profiles(event)]
        return self._shortened(event) if isinstance(event, PromptShortened) else []

    def end(self, run_id: str) -> None:
        """Forget a run."""
        self._kept.pop(run_id, None)
        self._costs.pop(run_id, None)
        self._told = {told for told in self._told if told[1].partition(" ")[0] != run_id}

    def _cost(self, event: CompletionFinished | RequestFailed) -> list[Alarm]:
        run, limit = event.run_id, self.limits.run_cost
        cost = self._costs[run] = self._costs.get(run, Decimal(0)) + event.statistics.cost
        passed = limit is not None and cost > limit
        return self._once(AlarmKind.COST, run, cost, limit or Decimal(0), passed=passed, subject="")

    def _profiles(self, event: CompletionFinished | RequestFailed) -> list[Alarm]:
        found = []
        for attempt in event.attempts:
            outcomes = self._outcomes.setdefault(attempt.profile, deque(maxlen=CALLS))
            outcomes.append(attempt.outcome != "done")
            if attempt.outcome == "done":
                self._seconds.setdefault(attempt.profile, deque(maxlen=LATENCIES)).append(attempt.seconds)
        for profile in dict.fromkeys(attempt.profile for attempt in event.attempts):
            found += self._errors(profile) + self._slow(profile)
        return found

    def _errors(self, profile: str) -> list[Alarm]:
        outcomes, limit = self._outcomes[profile], self.limits.error_percent
        share = Decimal(100 * sum(outcomes)) / len(outcomes)
        passed = bool(limit) and len(outcomes) == CALLS and share > limit
        return self._once(AlarmKind.ERRORS, profile, share, Decimal(limit), passed=passed)

    def _slow(self, profile: str) -> list[Alarm]:
        seconds, limit = sorted(self._seconds.get(profile, ())), self.limits.slow_seconds
        if len(seconds) < CALLS:
            return []
        slow = Decimal(str(round(seconds[-(-95 * len(seconds) // 100) - 1], 1)))
        return self._once(AlarmKind.SLOW, profile, slow, Decimal(limit), passed=bool(limit) and slow > limit)

    def _shortened(self, event: PromptShortened) -> list[Alarm]:
        limit = self.limits.shortened_percent
        share = Decimal(100 * (event.before - event.after)) / (event.before or 1)
        key = f"{event.run_id} {event.agent}"
        passed = bool(limit) and share >= limit
        return self._once(AlarmKind.SHORTENED, key, share, Decimal(limit), passed=passed, subject=event.agent)

    def _once(
        self, kind: AlarmKind, key: str, value: Decimal, limit: Decimal, *, passed: bool, subject: str | None = None
    ) -> list[Alarm]:
        if not passed:
            self._told.discard((kind, key))
            return []
        if (kind, key) in self._told:
            return []
        self._told.add((kind, key))
        return [Alarm(kind=kind, subject=key if subject is None else subject, value=value, limit=limit)]
