"""Guards that come with the engine: rate limit, budget, circuit breaker (docs/interceptors.md)."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

from engine.completion import Completion
from engine.errors import (
    BudgetExceeded,
    CircuitOpen,
    ConnectFailed,
    ProtocolError,
    RateLimited,
    RequestError,
    RequestRejected,
    ServerError,
    StorageError,
)
from engine.interceptors import Call
from engine.statistics import RequestStatistic

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


class LeakyBucket:
    """Takes `rate` a minute; what has not leaked away fills it, and it holds one minute's worth."""

    def __init__(self, rate: float, *, clock: Clock = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._level = 0.0
        self._then = clock()

    def wait(self, amount: float) -> float:
        """Seconds until there is room for this amount; more than the bucket holds needs an empty one."""
        now = self._clock()
        self._level = max(0.0, self._level - (now - self._then) * self.rate / 60)
        self._then = now
        surplus = self._level + min(amount, self.rate) - self.rate
        return max(0.0, surplus * 60 / self.rate)

    def take(self, amount: float) -> None:
        """Fill in an amount, also one that overflows; a negative one gives back."""
        self._level = max(0.0, self._level + amount)


class _Line:
    """The buckets of one profile or endpoint, and who waits for them in order of arrival."""

    def __init__(self, requests: int, tokens: int, clock: Clock) -> None:
        self.requests = LeakyBucket(requests, clock=clock) if requests else None
        self.tokens = LeakyBucket(tokens, clock=clock) if tokens else None
        self.first = asyncio.Lock()

    def wait(self, tokens: int) -> float:
        return max(
            self.requests.wait(1) if self.requests else 0.0,
            self.tokens.wait(tokens) if self.tokens else 0.0,
        )

    def take(self, tokens: int) -> None:
        if self.requests:
            self.requests.take(1)
        if self.tokens:
            self.tokens.take(tokens)


class Totals:
    """Adds up what each profile has used since the program started, failed requests too."""

    def __init__(self) -> None:
        self.by_profile: dict[str, RequestStatistic] = {}

    def enter_now(self, call: Call) -> bool:
        """Lets all pass."""
        return True

    async def enter(self, call: Call) -> None:
        """Lets all pass."""

    def leave(self, call: Call, completion: Completion, error: BaseException | None) -> None:
        """Add what the call used."""
        self.by_profile.setdefault(call.profile.name, RequestStatistic()).add(completion.statistics)


class RateLimit:
    """Lets so many requests and tokens a minute pass, of each endpoint or profile; the others wait in line.

    A request counts with an estimate of its prompt, after its answer with the tokens it really had.
    """

    def __init__(
        self,
        *,
        requests: int = 0,
        tokens: int = 0,
        per: Literal["endpoint", "profile"] = "endpoint",
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Set the limits a minute.

        Args:
            requests: 0 = what the profile's `requestsPerMinute` says, if anything; the stricter of both holds.
            tokens: input (also what the server had cached), output and reasoning; 0 = no limit.
            per: what has limits of its own.
            clock: seconds, monotonic.
            sleep: how to wait.
        """
        self._requests = requests
        self._tokens = tokens
        self._per = per
        self._clock = clock
        self._sleep = sleep
        self._lines: dict[tuple[str, ...], _Line] = {}
        self._taken: dict[int, int] = {}
        """Tokens a call counted with, by its identity, while it is under way."""

    def enter_now(self, call: Call) -> bool:
        """Pass if there is room and nobody waits."""
        line = self._line(call)
        if line is None:
            return True
        tokens = self._estimate(call)
        if line.first.locked() or line.wait(tokens) > 0:
            return False
        self._pass(line, call, tokens)
        return True

    async def enter(self, call: Call) -> None:
        """Wait in line; who gives up leaves no gap."""
        line = self._line(call)
        if line is None:
            return
        tokens = self._estimate(call)
        async with line.first:
            while (seconds := line.wait(tokens)) > 0:
                await self._sleep(seconds)
            self._pass(line, call, tokens)

    def leave(self, call: Call, completion: Completion, error: BaseException | None) -> None:
        """Count the tokens the call really had instead of the estimate."""
        line = self._line(call)
        estimate = self._taken.pop(id(call), 0)
        if line is not None and line.tokens is not None:
            line.tokens.take(_tokens(completion) - estimate)

    def _pass(self, line: _Line, call: Call, tokens: int) -> None:
        line.take(tokens)
        self._taken[id(call)] = tokens

    def _line(self, call: Call) -> _Line | None:
        limits = [limit for limit in (self._requests, call.profile.options.requests_per_minute) if limit > 0]
        requests = min(limits, default=0)
        if not requests and not self._tokens:
            return None
        place = (call.profile.name,) if self._per == "profile" else call.endpoint
        key = (*place, str(requests))
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(requests, self._tokens, self._clock)
        return line

    def _estimate(self, call: Call) -> int:
        return math.ceil(sum(len(turn.text) for turn in call.conversation.turns) / 4) if self._tokens else 0


def _tokens(completion: Completion) -> int:
    used = completion.statistics
    return used.in_tokens + used.cached_in_tokens + used.out_tokens + used.reasoning_out_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What was used, or may be used; as a limit None means none."""

    requests: int | None = None
    tokens: int | None = None
    cost: Decimal | None = None

    def plus(self, completion: Completion) -> "Spending":
        """With what a completion used."""
        return self.and_also(
            Spending(
                requests=completion.statistics.requests, tokens=_tokens(completion), cost=completion.statistics.cost
            )
        )

    def and_also(self, other: "Spending") -> "Spending":
        """The sum of both."""
        return Spending(
            requests=(self.requests or 0) + (other.requests or 0),
            tokens=(self.tokens or 0) + (other.tokens or 0),
            cost=(self.cost or Decimal(0)) + (other.cost or Decimal(0)),
        )

    @property
    def limits_anything(self) -> bool:
        """Whether any limit is set."""
        return (self.requests, self.tokens, self.cost) != (None, None, None)


UsedToday = Callable[[], Awaitable[Spending]]
"""What all recorded runs have used today, in local time; raises StorageError."""

REREAD_SECONDS = 2.0
MAX_RUNS = 1000
"""Runs whose spending is remembered."""


class Budget:
    """Refuses requests when a run, or this day, has used up its money, tokens or requests.

    The day counts all recorded runs when `used_today` is given, else what this process asked since midnight. Who has
    passed is not stopped, so the limit is exceeded by at most what goes on at the same time.
    """

    def __init__(
        self,
        *,
        run: Spending = Spending(),
        day: Spending = Spending(),
        used_today: UsedToday | None = None,
        clock: Clock = time.monotonic,
        today: Callable[[], date] = lambda: datetime.now().astimezone().date(),
    ) -> None:
        self.run = run
        """Limits of each run; requests outside of runs have only the limits of the day."""
        self.day = day
        self._used_today = used_today
        self._clock = clock
        self._today = today
        self._runs: dict[str, Spending] = {}
        self._recorded = Spending()
        self._own = Spending()
        """Today, of runs, since `_recorded` was read."""
        self._outside = Spending()
        """Today, outside of runs: in no record."""
        self._date = today()
        self._read_at = -math.inf
        self._reading = asyncio.Lock()

    def spent(self, run_id: str) -> Spending:
        """What a run has used so far."""
        return self._runs.get(run_id, Spending())

    def enter_now(self, call: Call) -> bool:
        """Pass, unless what was used today has to be read first; raises BudgetExceeded."""
        if self.run.limits_anything and call.run_id:
            _check(self.spent(call.run_id), self.run, "run", "The run")
        if not self.day.limits_anything:
            return True
        self._begin_day()
        if self._used_today is not None and self._clock() - self._read_at > REREAD_SECONDS:
            return False
        self._check_day()
        return True

    async def enter(self, call: Call) -> None:
        """Pass; raises BudgetExceeded."""
        async with self._reading:
            if self._used_today is not None and self._clock() - self._read_at > REREAD_SECONDS:
                await self._read(self._used_today)
        self._check_day()

    def leave(self, call: Call, completion: Completion, error: BaseException | None) -> None:
        """Add what the call used."""
        self._begin_day()
        if call.run_id:
            self._runs[call.run_id] = self._runs.pop(call.run_id, Spending()).plus(completion)
            self._own = self._own.plus(completion)
            if len(self._runs) > MAX_RUNS:
                del self._runs[next(iter(self._runs))]
        else:
            self._outside = self._outside.plus(completion)

    async def _read(self, used_today: UsedToday) -> None:
        """What was added before is in the record, what is added meanwhile may be: better twice than never."""
        before, self._own = self._own, Spending()
        try:
            self._recorded = await used_today()
        except StorageError:  # told elsewhere; then this process's own sum must do
            self._own = before.and_also(self._own)
        except BaseException:
            self._own = before.and_also(self._own)
            raise
        self._read_at = self._clock()

    def _check_day(self) -> None:
        _check(self._recorded.and_also(self._own).and_also(self._outside), self.day, "day", "This day")

    def _begin_day(self) -> None:
        if (day := self._today()) != self._date:
            self._date, self._read_at = day, -math.inf
            self._recorded = self._own = self._outside = Spending()


def _check(spent: Spending, limit: Spending, kind: str, who: str) -> None:
    for name, used, most in (
        ("cost", spent.cost, limit.cost),
        ("tokens", spent.tokens, limit.tokens),
        ("requests", spent.requests, limit.requests),
    ):
        # A limit of 0 still lets free models answer.
        if most is None or not used or used < most:
            continue
        what = "" if name == "cost" else f" {name}"
        raise BudgetExceeded(
            f"{who} has used {used:f} of the {most:f}{what} it may {'cost' if name == 'cost' else 'use'}."
            if isinstance(used, Decimal) and isinstance(most, Decimal)
            else f"{who} has used {used} of the {most}{what} it may use.",
            hint="Raise the budget in the settings, or wait until tomorrow." if kind == "day" else "Raise the budget.",
            facts={"limit": f"{kind}_{name}", "spent": str(used), "most": str(most)},
        )


@dataclass(slots=True)
class _Circuit:
    """The state of one endpoint."""

    failures: int = 0
    until: float = 0.0
    """When a probe may be sent, while it is open."""
    openings: int = 0
    """How often it opened in a row; 0 = it is closed."""
    probing: bool = False


class CircuitBreaker:
    """Refuses requests to an endpoint that failed several times in a row, until a single probe succeeds."""

    def __init__(
        self, *, failures: int = 5, seconds: float = 30.0, most: float = 300.0, clock: Clock = time.monotonic
    ) -> None:
        """Say when it opens.

        Args:
            failures: in a row; a request with all its repeats counts once.
            seconds: how long it stays open; doubled each time the probe fails.
            most: and never longer than this.
            clock: seconds, monotonic.
        """
        self._failures = failures
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._circuits: dict[tuple[str, str, str, str], _Circuit] = {}

    def opened_for(self, call: Call) -> float:
        """Seconds the endpoint of a call stays refused; 0 = it is asked."""
        circuit = self._circuit(call)
        return max(0.0, circuit.until - self._clock()) if circuit.openings else 0.0

    def enter_now(self, call: Call) -> bool:
        """Pass; raises CircuitOpen."""
        circuit = self._circuit(call)
        if circuit.openings:
            seconds = max(0.0, circuit.until - self._clock())
            if seconds or circuit.probing:
                raise _circuit_open(call, seconds, circuit)
            circuit.probing = True
        return True

    async def enter(self, call: Call) -> None:
        """Never needed: it refuses or lets pass at once."""

    def leave(self, call: Call, completion: Completion, error: BaseException | None) -> None:
        """Count a failure, or forget those before a success."""
        circuit = self._circuit(call)
        circuit.probing = False
        if error is None:
            circuit.failures = circuit.openings = 0
        elif _is_failure(error):
            circuit.failures += 1
            if circuit.openings or circuit.failures >= self._failures:
                if not circuit.openings or circuit.until <= self._clock():
                    circuit.openings += 1
                circuit.until = self._clock() + min(self._most, self._seconds * 2.0 ** (circuit.openings - 1))

    def _circuit(self, call: Call) -> _Circuit:
        # Another key or address is another endpoint: it begins anew.
        return self._circuits.setdefault((*call.endpoint, call.profile.api_key), _Circuit())


def _is_failure(error: BaseException) -> bool:
    """Transient failures and odd answers; not those of the request, the key, the quota, or a cancellation."""
    if isinstance(error, RequestRejected):
        return error.retryable
    if isinstance(error, RateLimited | CircuitOpen) or not isinstance(error, RequestError):
        return False
    if isinstance(error, ServerError):
        return not error.loading
    return error.retryable or isinstance(error, ConnectFailed | ProtocolError)


def _circuit_open(call: Call, seconds: float, circuit: _Circuit) -> CircuitOpen:
    facts = {"profile": call.profile.name, "model": call.profile.model, "failures": str(circuit.failures)}
    if seconds:
        until = datetime.fromtimestamp(time.time() + seconds).astimezone()
        return CircuitOpen(
            f"The server of {call.profile.name} failed {circuit.failures} times in a row; "
            f"it is asked again at {until:%H:%M:%S}.",
            hint="Look at the server, or choose another profile.",
            facts={**facts, "until": until.isoformat(timespec="seconds")},
        )
    return CircuitOpen(
        f"The server of {call.profile.name} failed {circuit.failures} times in a row; "
        "one request is finding out if it is back.",
        hint="Try again in a moment.",
        facts=facts,
    )
