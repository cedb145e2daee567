"""Endpoints and how they fare: circuit breaker, cool-down, and which one a request goes to."""

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from engine.clients.addresses import target_of
from engine.clients.failures import Failure, failure_class
from engine.clients.gate import Gate
from engine.conversation import Conversation, Role
from engine.errors import CircuitOpen
from engine.profile import ModelProfile

MOST_FAILURES = 5
"""In a row; then the endpoint is refused."""
OPEN_SECONDS, MOST_OPEN_SECONDS = 30.0, 300.0
"""How long it is refused at first, and at most: each failed probe doubles the time."""
COOL_SECONDS = 5.0
"""How long an endpoint that takes no more requests is left alone when it does not say."""
MOST_REMEMBERED = 10_000
"""Conversations whose endpoint is remembered."""

Clock = Callable[[], float]


class EndpointState(StrEnum):
    """Whether an endpoint is asked."""

    CLOSED = "closed"
    COOLING = "cooling"
    OPEN = "open"
    HALF_OPEN = "half open"
    """One request may find out if it is back."""
    REFUSED = "refused"
    """It did not accept key or address; it is asked again when the profile changes or a person says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStatus:
    """How one endpoint of a profile fares, for a view."""

    url: str
    weight: int
    state: EndpointState
    seconds: float = 0.0
    """Until it is asked again; 0 = now, or not by itself."""
    failures: int = 0
    """In a row."""
    running: int = 0


@dataclass(slots=True)
class Health:
    """The circuit breaker and the cool-down of one endpoint; times are those of the clock of `Endpoints`."""

    failures: int = 0
    openings: int = 0
    """How often it opened in a row; 0 = it is closed."""
    until: float = 0.0
    """When a probe may be sent, while it is open."""
    probing: bool = False
    cool_until: float = 0.0
    refused: ModelProfile | None = None
    """The profile it did not accept."""
    reason: str = ""
    """Why it did not."""

    def state(self, now: float, profile: ModelProfile) -> EndpointState:
        """Whether a request of this profile may be sent now."""
        if self.refused is not None and self.refused == profile:
            return EndpointState.REFUSED
        if self.openings and now < self.until:
            return EndpointState.OPEN
        if now < self.cool_until:
            return EndpointState.COOLING
        return EndpointState.HALF_OPEN if self.openings else EndpointState.CLOSED

    def admits(self, now: float, profile: ModelProfile) -> bool:
        """Whether it is asked, now or after its cool-down."""
        state = self.state(now, profile)
        return state not in (EndpointState.OPEN, EndpointState.REFUSED) and not (self.openings and self.probing)

    def begin(self) -> bool:
        """Note that a request is sent; whether it is a probe."""
        self.probing = self.openings > 0
        return self.probing

    def succeed(self, *, probe: bool) -> None:
        """Note a whole answer; while it is open only that of the probe counts."""
        if probe or not self.openings:
            self.failures = self.openings = 0
            self.probing, self.refused = False, None

    def fail(self, now: float, *, probe: bool) -> None:
        """Note a failure; one of a request that began before it opened tells nothing new."""
        if self.openings and not probe:
            return
        self.failures += 1
        if probe or self.failures >= MOST_FAILURES:
            self.openings += 1
            doublings = min(self.openings - 1, 16)  # who never answers would get beyond any float
            self.until = now + min(MOST_OPEN_SECONDS, OPEN_SECONDS * 2.0**doublings)
            self.probing = False


@dataclass(slots=True)
class Target:
    """One endpoint on the way of one request."""

    url: str
    weight: int
    gate: Gate
    health: Health
    attempts: int = 0
    exhausted: bool = False
    waited_until: float = 0.0
    """The end of the cool-down that has been waited for."""


@dataclass(slots=True)
class _Pool:
    """The urls of a profile: the current values of the smooth weighted round robin, and who talks to whom."""

    values: dict[str, int] = field(default_factory=dict)
    conversations: OrderedDict[int, str] = field(default_factory=OrderedDict)


class Endpoints:
    """The gates and the health of all endpoints, shared by all runs."""

    def __init__(self, *, clock: Clock = time.monotonic, chance: Callable[[], float] = random.random) -> None:
        self.clock = clock
        self.chance = chance
        self.breaker = True
        """Whether endpoints that fail are refused for a while."""
        self._gates: dict[tuple[str, str, str], Gate] = {}
        self._health: dict[tuple[str, str, str, str], Health] = {}
        self._pools: dict[tuple[object, ...], _Pool] = {}

    def gate(self, profile: ModelProfile, url: str) -> Gate:
        """The gate of an endpoint: provider, host and model."""
        return self._gates.setdefault((profile.provider, target_of(url).netloc, profile.model), Gate())

    def health(self, profile: ModelProfile, url: str) -> Health:
        """How an endpoint fares; with another key it is another one."""
        key = (profile.provider, target_of(url).netloc, profile.model, profile.api_key)
        return self._health.setdefault(key, Health())

    def targets(self, profile: ModelProfile) -> list[Target]:
        """The endpoints of a profile in its order."""
        urls = profile.options.urls or ((profile.url, 1),)
        return [Target(url, weight, self.gate(profile, url), self.health(profile, url)) for url, weight in urls]

    def status(self, profile: ModelProfile) -> list[EndpointStatus]:
        """How the endpoints of a profile fare now."""
        now = self.clock()
        found = []
        for target in self.targets(profile):
            state = target.health.state(now, profile)
            until = {EndpointState.OPEN: target.health.until, EndpointState.COOLING: target.health.cool_until}
            found.append(
                EndpointStatus(
                    url=target.url,
                    weight=target.weight,
                    state=state,
                    seconds=max(0.0, until.get(state, now) - now),
                    failures=target.health.failures,
                    running=target.gate.running,
                )
            )
        return found

    def try_again(self, profile: ModelProfile | None = None) -> None:
        """Ask the endpoints of a profile again at once; without one, all that did not accept a key or an address."""
        if profile is None:
            for health in self._health.values():
                health.refused = None
            return
        for target in self.targets(profile):
            health = target.health
            health.failures = health.openings = 0
            health.cool_until, health.probing, health.refused = 0.0, False, None

    def route(self, profile: ModelProfile, conversation: Conversation) -> "Route":
        """The way of one request."""
        return Route(self, profile, conversation)

    def pool(self, profile: ModelProfile) -> _Pool:
        """What the requests to several endpoints share."""
        return self._pools.setdefault((profile.provider, profile.model, profile.options.urls), _Pool())


class Route:
    """The way of one request: `choose`, wait, `begin`, then `succeed`, `fail` or `release`, until nothing is left."""

    def __init__(self, endpoints: Endpoints, profile: ModelProfile, conversation: Conversation) -> None:
        self.targets = endpoints.targets(profile)
        self._endpoints = endpoints
        self._profile = profile
        self._conversation = conversation
        self._next: Target | None = None
        self._target = self.targets[0]
        self._probe = False
        self._under_way = False

    @property
    def url(self) -> str:
        """Where the request goes."""
        return self._target.url

    @property
    def gate(self) -> Gate:
        """The one before it."""
        return self._target.gate

    def choose(self) -> float:
        """Choose an endpoint; seconds until it is over its cool-down. Raises CircuitOpen when none may be asked."""
        now = self._endpoints.clock()
        target, self._next = self._next, None
        if target is None or not self._open(target, now):
            open_ones = [one for one in self.targets if not one.exhausted and self._open(one, now)]
            if not open_ones:
                raise self._refusal(now)
            target = self._balanced(open_ones, now)
        self._target = target
        seconds = self._cooling(target, now)
        if seconds:
            self._next, target.waited_until = target, target.health.cool_until
        return seconds

    @property
    def begun(self) -> bool:
        """Whether a request is under way."""
        return self._under_way

    def begin(self) -> None:
        """Note that the request is sent, unless the endpoint may not be asked any more: then choose again."""
        now = self._endpoints.clock()
        if self._open(self._target, now) and not self._cooling(self._target, now):
            self._target.attempts += 1
            self._probe, self._under_way = self._target.health.begin(), True

    def succeed(self) -> None:
        """Note a whole answer."""
        self._under_way = False
        self._target.health.succeed(probe=self._probe)
        if len(self.targets) > 1:
            known = self._endpoints.pool(self._profile).conversations
            known[_turns_hash(self._conversation, len(self._conversation.turns))] = self.url
            if len(known) > MOST_REMEMBERED:
                known.popitem(last=False)

    def fail(self, error: Exception, asked_wait: float | None) -> None:
        """Note a failure; one of the request itself says nothing about the endpoint."""
        kind = failure_class(error)
        health, now = self._target.health, self._endpoints.clock()
        if kind in (Failure.TRANSIENT, Failure.ODD):
            self._under_way = False
            health.fail(now, probe=self._probe)
        elif kind is Failure.THROTTLED:
            health.cool_until = max(health.cool_until, now + (COOL_SECONDS if asked_wait is None else asked_wait))
        elif kind is Failure.CONFIG:
            health.refused, health.reason = self._profile, str(error)
        self.release()

    def release(self) -> None:
        """Give back the place of a probe that found out nothing."""
        if self._under_way and self._probe:
            self._target.health.probing = False
        self._under_way = False

    def again(self) -> None:
        """Ask the same endpoint once more without counting it."""
        self._target.attempts -= 1
        self._next = self._target

    def onward(self, *, repeatable: bool, most: int, backoff: Callable[[int, str], float]) -> float | None:
        """After a failure: seconds until the next attempt, None when no endpoint is left.

        Another endpoint is preferred; one that was not asked yet is asked at once. `backoff` gives the seconds before
        the n-th repeat of an address, from 1.
        """
        now = self._endpoints.clock()
        if not repeatable or self._target.attempts > most:
            self._target.exhausted = True
        left = [one for one in self.targets if not one.exhausted and self._open(one, now)]
        others = [one for one in left if one is not self._target and not self._cooling(one, now)]
        if not left:
            return None
        self._next = self._balanced(others or left, now)
        delay = backoff(self._next.attempts, self._next.url) if self._next.attempts else 0.0
        cooling = self._next.health.cool_until
        if cooling > now:
            delay, self._next.waited_until = max(delay, cooling - now), cooling
        return delay

    def _open(self, target: Target, now: float) -> bool:
        return not self._endpoints.breaker or target.health.admits(now, self._profile)

    def _cooling(self, target: Target, now: float) -> float:
        until = target.health.cool_until
        return 0.0 if until <= target.waited_until else max(0.0, until - now)

    def _balanced(self, targets: Sequence[Target], now: float) -> Target:
        """One of them, as the profile says; those that cool down only when all do."""
        if len(self.targets) == 1:
            return targets[0]
        warm = [one for one in targets if not self._cooling(one, now)]
        if not warm:
            return min(targets, key=lambda one: one.health.cool_until)
        pool = self._endpoints.pool(self._profile)
        if not any(one.attempts for one in self.targets) and (url := self._earlier(pool)):
            for target in warm:
                if target.url == url:
                    return target
        match self._profile.options.lb_strategy:
            case "least_in_flight":
                return min(warm, key=lambda one: one.gate.running / one.weight)
            case "random":
                return _by_weight(warm, self._endpoints.chance())
        return _smooth(warm, pool.values)

    def _earlier(self, pool: _Pool) -> str:
        """The endpoint that gave the last answer of this conversation: it may have kept the prompt."""
        turns = self._conversation.turns
        last = next((i for i in reversed(range(len(turns))) if turns[i].role is Role.ASSISTANT), 0)
        return pool.conversations.get(_turns_hash(self._conversation, last), "") if last else ""

    def _refusal(self, now: float) -> CircuitOpen:
        profile, refused = self._profile, [one for one in self.targets if not one.exhausted]
        facts = {"profile": profile.name, "model": profile.model, "url": profile.url}
        who = f"The server of {profile.name}" if len(self.targets) == 1 else f"No server of {profile.name}"
        states = [one.health.state(now, profile) for one in refused]
        if EndpointState.OPEN not in states and EndpointState.REFUSED in states:
            return CircuitOpen(
                f"{refused[states.index(EndpointState.REFUSED)].health.reason.removesuffix('.')}; "
                "it is not asked again with this profile.",
                hint="Correct the profile, or start a run to ask once more.",
                facts=facts,
            )
        seconds = min((one.health.until - now for one in refused if one.health.until > now), default=0.0)
        failures = str(max((one.health.failures for one in refused), default=0))
        if not seconds:
            return CircuitOpen(
                f"{who} {'failed' if len(self.targets) == 1 else 'answers'}: one request is finding out if it is back.",
                hint="Try again in a moment.",
                facts={**facts, "failures": failures},
            )
        until = datetime.fromtimestamp(time.time() + seconds).astimezone()
        said = f"failed {failures} times in a row; it is" if len(self.targets) == 1 else "answers; they are"
        return CircuitOpen(
            f"{who} {said} asked again at {until:%H:%M:%S}.",
            hint="Look at the server, or choose another profile.",
            facts={**facts, "failures": failures, "until": until.isoformat(timespec="seconds")},
        )


def _smooth(targets: Sequence[Target], values: dict[str, int]) -> Target:
    """Smooth weighted round robin: weights a:3, b:1 give a a b a."""
    for target in targets:
        values[target.url] = values.get(target.url, 0) + target.weight
    chosen = max(targets, key=lambda one: values[one.url])
    values[chosen.url] -= sum(one.weight for one in targets)
    return chosen


def _by_weight(targets: Sequence[Target], chance: float) -> Target:
    """One by weight; `chance` is from 0 up to, but not, 1."""
    rest = chance * sum(one.weight for one in targets)
    for target in targets:
        rest -= target.weight
        if rest < 0:
            return target
    return targets[-1]


def _turns_hash(conversation: Conversation, count: int) -> int:
    return hash(tuple((turn.role, turn.text) for turn in conversation.turns[:count]))
