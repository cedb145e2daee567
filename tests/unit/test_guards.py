"""Rate limit, budget and circuit breaker, on a clock the test sets."""

import asyncio
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from engine.completion import Completion
from engine.conversation import Conversation
from engine.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    CircuitOpen,
    ConnectFailed,
    RateLimited,
    RequestRejected,
    ServerError,
    StorageError,
)
from engine.guards import Budget, CircuitBreaker, RateLimit, Spending
from engine.interceptors import Call
from engine.profile import ModelProfile, ProfileOptions, Provider
from engine.statistics import CompletionStatistics

PROFILE = ModelProfile(name="p", category="M", provider=Provider.OPENAI_CHAT, model="m", url="http://x", api_key="k")


class Clock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(round(seconds, 3))
        self.now += seconds
        await asyncio.sleep(0)


def call(text: str = "hi", *, run: str = "", profile: ModelProfile = PROFILE) -> Call:
    return Call(profile=profile, conversation=Conversation.create("", text), run_id=run)


def answer(tokens: int = 0, cost: str = "0", requests: int = 1) -> Completion:
    return Completion(statistics=CompletionStatistics(requests=requests, in_tokens=tokens, cost=Decimal(cost)))


# -- rate limit -------------------------------------------------------------------------------------------------------


async def test_so_many_requests_pass_at_once_and_then_one_by_one() -> None:
    clock = Clock()
    limit = RateLimit(requests=30, clock=clock, sleep=clock.sleep)
    assert [limit.enter_now(call()) for _ in range(31)] == [True] * 30 + [False]
    for _ in range(3):
        await limit.enter(call())
    assert clock.sleeps == [2.0, 2.0, 2.0]
    clock.now += 60
    assert [limit.enter_now(call()) for _ in range(31)].count(True) == 30


async def test_tokens_count_as_estimated_and_then_as_they_were() -> None:
    clock = Clock()
    limit = RateLimit(tokens=600, clock=clock, sleep=clock.sleep)
    first = call("x" * 400)  # 100 tokens
    assert limit.enter_now(first)
    limit.leave(first, answer(tokens=600), None)
    assert not limit.enter_now(call("x" * 400))
    await limit.enter(call("x" * 400))
    assert clock.sleeps == [10.0]  # 100 tokens leak away in ten seconds


async def test_a_prompt_larger_than_the_limit_waits_for_an_empty_bucket() -> None:
    clock = Clock()
    limit = RateLimit(tokens=60, clock=clock, sleep=clock.sleep)
    assert limit.enter_now(call("x" * 40))
    await limit.enter(call("x" * 4000))
    assert clock.sleeps == [10.0]
    assert not limit.enter_now(call("x"))


async def test_who_gives_up_waiting_leaves_no_gap() -> None:
    clock = Clock()
    stuck = asyncio.Event()

    async def wait(seconds: float) -> None:
        await stuck.wait()
        await clock.sleep(seconds)

    limit = RateLimit(requests=1, clock=clock, sleep=wait)
    assert limit.enter_now(call())
    tasks = [asyncio.create_task(limit.enter(call())) for _ in range(5)]
    await asyncio.sleep(0)
    assert not limit.enter_now(call())  # nobody overtakes those who wait
    for task in tasks[:4]:
        task.cancel()
    stuck.set()
    await tasks[4]
    assert clock.sleeps == [60.0]


@pytest.mark.parametrize(("per", "others"), [("endpoint", [False, True]), ("profile", [True, True])])
async def test_limits_are_of_an_endpoint_or_of_a_profile(per: str, others: list[bool]) -> None:
    limit = RateLimit(requests=1, per=per, clock=Clock())  # type: ignore[arg-type]
    assert limit.enter_now(call())
    other, elsewhere = replace(PROFILE, name="q"), replace(PROFILE, name="r", url="http://y")
    assert [limit.enter_now(call(profile=one)) for one in (other, elsewhere)] == others


async def test_a_profile_may_be_stricter() -> None:
    limit = RateLimit(clock=Clock())
    strict = replace(PROFILE, options=ProfileOptions(requests_per_minute=2))
    assert [limit.enter_now(call(profile=strict)) for _ in range(3)] == [True, True, False]
    assert all(limit.enter_now(call()) for _ in range(100))


# -- budget -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (Spending(cost=Decimal("1.00")), "The run has used 1.2 of the 1.00 it may cost."),
        (Spending(tokens=100), "The run has used 200 of the 100 tokens it may use."),
        (Spending(requests=2), "The run has used 2 of the 2 requests it may use."),
    ],
)
async def test_a_run_that_used_its_budget_is_refused(limit: Spending, words: str) -> None:
    budget = Budget(run=limit)
    for _ in range(2):
        one = call(run="r1")
        assert budget.enter_now(one)
        budget.leave(one, answer(tokens=100, cost="0.6"), None)
        if limit.tokens:
            break
    if limit.tokens:
        budget.leave(call(run="r1"), answer(tokens=100), None)
    with pytest.raises(BudgetExceeded) as refused:
        budget.enter_now(call(run="r1"))
    assert str(refused.value) == words
    assert refused.value.facts["spent"] in words
    assert budget.enter_now(call(run="r2"))
    assert budget.enter_now(call())


async def test_a_limit_of_zero_lets_free_models_answer() -> None:
    budget = Budget(run=Spending(cost=Decimal(0)))
    budget.leave(call(run="r"), answer(tokens=100), None)
    assert budget.enter_now(call(run="r"))
    budget.leave(call(run="r"), answer(cost="0.01"), None)
    with pytest.raises(BudgetExceeded):
        budget.enter_now(call(run="r"))


async def test_a_failed_request_is_paid_too() -> None:
    budget = Budget(run=Spending(cost=Decimal(1)))
    budget.leave(call(run="r"), answer(cost="1"), ConnectFailed("cut"))
    with pytest.raises(BudgetExceeded):
        budget.enter_now(call(run="r"))


async def test_the_day_counts_what_is_recorded_and_what_is_not_yet() -> None:
    clock = Clock()
    recorded = Spending(cost=Decimal("0.5"))
    reads = 0

    async def used_today() -> Spending:
        nonlocal reads
        reads += 1
        return recorded

    budget = Budget(day=Spending(cost=Decimal(1)), used_today=used_today, clock=clock)
    assert not budget.enter_now(call(run="r"))
    await asyncio.gather(*(budget.enter(call(run="r")) for _ in range(8)))
    assert reads == 1
    assert budget.enter_now(call(run="r"))
    budget.leave(call(run="r"), answer(cost="0.3"), None)
    budget.leave(call(), answer(cost="0.1"), None)  # outside of runs: in no record, ever
    assert budget.enter_now(call(run="r"))
    recorded = Spending(cost=Decimal("0.8"))
    clock.now += 10
    await budget.enter(call(run="r"))
    recorded = Spending(cost=Decimal("0.9"))
    clock.now += 10
    with pytest.raises(BudgetExceeded, match=r"This day has used 1\.0 of the 1 it may cost"):
        await budget.enter(call(run="r"))


async def test_a_new_day_begins_with_nothing() -> None:
    day = date(2026, 3, 1)
    budget = Budget(day=Spending(requests=1), today=lambda: day)
    budget.leave(call(run="r"), answer(), None)
    with pytest.raises(BudgetExceeded):
        budget.enter_now(call())
    day = date(2026, 3, 2)
    assert budget.enter_now(call())


async def test_a_record_that_cannot_be_read_leaves_the_own_sum() -> None:
    async def used_today() -> Spending:
        raise StorageError("broken")

    budget = Budget(day=Spending(requests=1), used_today=used_today)
    await budget.enter(call())
    budget.leave(call(run="r"), answer(), None)
    with pytest.raises(BudgetExceeded):
        await budget.enter(call())


# -- circuit breaker --------------------------------------------------------------------------------------------------


def fail(breaker: CircuitBreaker, times: int = 1, error: BaseException | None = None) -> None:
    for _ in range(times):
        one = call()
        assert breaker.enter_now(one)
        breaker.leave(one, answer(requests=0), error or ServerError("broken", status=500))


def test_it_opens_after_failures_in_a_row_and_lets_one_probe_pass() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    fail(breaker, 4)
    breaker.leave(call(), answer(), None)
    fail(breaker, 5)
    with pytest.raises(CircuitOpen, match="failed 5 times in a row; it is asked again at") as refused:
        breaker.enter_now(call())
    assert refused.value.facts["until"]
    assert not refused.value.retryable
    assert breaker.opened_for(call()) == 30
    clock.now += 30
    probe = call()
    assert breaker.enter_now(probe)
    with pytest.raises(CircuitOpen, match="one request is finding out"):
        breaker.enter_now(call())
    breaker.leave(probe, answer(), None)
    fail(breaker, 4)
    assert breaker.enter_now(call())


def test_it_stays_open_longer_each_time_up_to_a_limit() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    waits = []
    for _ in range(6):
        fail(breaker)
        waits.append(breaker.opened_for(call()))
        clock.now += waits[-1]
    assert waits == [30, 60, 120, 240, 300, 300]


def test_a_probe_that_is_cancelled_leaves_the_place_to_the_next() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    fail(breaker)
    clock.now += 30
    fail(breaker, 3, asyncio.CancelledError())
    assert breaker.enter_now(call())


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError(),
        GeneratorExit(),
        AuthenticationFailed("no"),
        RequestRejected("no", status=400),
        RateLimited("slowly"),
        ServerError("loading", status=503, loading=True),
        BudgetExceeded("enough"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_not_the_servers_fault_does_not_count(error: BaseException) -> None:
    breaker = CircuitBreaker(failures=1, clock=Clock())
    fail(breaker, 3, error)
    assert breaker.enter_now(call())


def test_another_key_or_address_is_another_endpoint() -> None:
    breaker = CircuitBreaker(failures=1, clock=Clock())
    fail(breaker)
    for other in (replace(PROFILE, api_key="new"), replace(PROFILE, url="http://y"), replace(PROFILE, model="n")):
        assert breaker.enter_now(call(profile=other))
    with pytest.raises(CircuitOpen):
        breaker.enter_now(call(profile=replace(PROFILE, name="the same server")))
