"""Which endpoint a request goes to: breaker, cool-down and balance, on a clock the test sets."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clients.endpoints import Endpoints, EndpointState, Route
from engine.conversation import Conversation
from engine.errors import AuthenticationFailed, CircuitOpen, RateLimited, RequestRejected, ServerError
from engine.profile import ModelProfile, ProfileOptions, Provider

DOWN = ServerError("down", status=500)
BUSY = RateLimited("busy")
QUESTION = Conversation.create("", "hi")


def profile(*urls: tuple[str, int], strategy: str = "round_robin") -> ModelProfile:
    return ModelProfile(
        name="p",
        category="M",
        provider=Provider.OPENAI_CHAT,
        model="m",
        url="http://a",
        api_key="k",
        options=ProfileOptions(urls=urls, lb_strategy=strategy),
    )


ONE = profile()
TWO = profile(("http://a", 3), ("http://b", 1))


class Bench:
    """Endpoints on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.endpoints = Endpoints(clock=lambda: self.now, chance=lambda: 0.8)

    def begin(self, asked: ModelProfile = ONE, conversation: Conversation = QUESTION) -> Route:
        route = self.endpoints.route(asked, conversation)
        assert route.choose() == 0
        route.begin()
        assert route.begun
        return route

    def fail(self, times: int = 1, error: Exception = DOWN, asked: ModelProfile = ONE) -> None:
        for _ in range(times):
            self.begin(asked).fail(error, None)

    def succeed(self, asked: ModelProfile = ONE) -> str:
        route = self.begin(asked)
        route.succeed()
        return route.url

    def state(self, asked: ModelProfile = ONE) -> tuple[EndpointState, float]:
        status = self.endpoints.status(asked)[0]
        return status.state, status.seconds


def test_five_failures_in_a_row_open_it_for_30_s_then_one_probe() -> None:
    bench = Bench()
    bench.fail(4)
    bench.succeed()
    bench.fail(5)
    assert bench.state() == (EndpointState.OPEN, 30.0)
    with pytest.raises(CircuitOpen, match="failed 5 times in a row") as refused:
        bench.begin()
    assert "until" in refused.value.facts
    bench.now += 29.9
    with pytest.raises(CircuitOpen):
        bench.begin()
    bench.now += 0.2
    probe = bench.begin()
    with pytest.raises(CircuitOpen, match="finding out"):
        bench.begin()
    probe.succeed()
    assert bench.state() == (EndpointState.CLOSED, 0.0)
    bench.fail(4)
    assert bench.state()[0] is EndpointState.CLOSED


def test_each_failed_probe_doubles_the_time_up_to_300_s() -> None:
    bench = Bench()
    bench.fail(5)
    times = []
    for _ in range(6):
        times.append(bench.state()[1])
        bench.now += times[-1]
        assert bench.state()[0] is EndpointState.HALF_OPEN
        bench.fail()
    assert times == [30, 60, 120, 240, 300, 300]


def test_who_never_answers_is_asked_for_ever() -> None:
    bench = Bench()
    bench.endpoints.breaker = False
    bench.fail(3000)
    assert bench.state() == (EndpointState.OPEN, 300.0)


def test_a_probe_that_is_given_up_lets_the_next_one_find_out() -> None:
    bench = Bench()
    bench.fail(5)
    bench.now += 31
    probe = bench.begin()
    probe.release()
    bench.begin().succeed()
    assert bench.state()[0] is EndpointState.CLOSED


def test_who_began_before_it_opened_neither_closes_nor_prolongs_it() -> None:
    bench = Bench()
    early, late = bench.begin(), bench.begin()
    bench.fail(5)
    bench.now += 10
    early.succeed()
    late.fail(DOWN, None)
    assert bench.state() == (EndpointState.OPEN, 20.0)


@pytest.mark.parametrize("error", [BUSY, RequestRejected("wrong", status=400), ServerError("l", loading=True)])
def test_what_is_no_failure_of_the_server_never_opens_it(error: Exception) -> None:
    bench = Bench()
    for _ in range(9):
        bench.fail(1, error)
        bench.now += 6
    assert bench.state()[0] is EndpointState.CLOSED


@pytest.mark.parametrize(("asked", "seconds"), [(None, 5.0), (2.0, 2.0), (0.0, 0.0)])
def test_who_is_asked_too_much_is_left_alone(asked: float | None, seconds: float) -> None:
    bench = Bench()
    bench.begin().fail(BUSY, asked)
    waiting = bench.endpoints.route(ONE, QUESTION)
    assert waiting.choose() == seconds
    bench.now += seconds
    waiting.begin()
    assert waiting.begun


def test_a_cool_down_that_grew_meanwhile_is_waited_for_too() -> None:
    bench = Bench()
    first, second = bench.begin(), bench.begin()
    first.fail(BUSY, 2.0)
    waiting = bench.endpoints.route(ONE, QUESTION)
    assert waiting.choose() == 2.0
    second.fail(BUSY, 7.0)
    bench.now += 2.0
    waiting.begin()
    assert not waiting.begun
    assert waiting.choose() == 5.0


def test_a_refused_key_is_not_asked_again_until_the_profile_changes_or_a_person_says_so() -> None:
    bench = Bench()
    bench.fail(1, AuthenticationFailed("no such key"))
    with pytest.raises(CircuitOpen, match="no such key; it is not asked again"):
        bench.begin()
    bench.now += 10_000
    assert bench.state()[0] is EndpointState.REFUSED
    bench.begin(replace(ONE, api_key="other")).release()
    bench.endpoints.try_again()
    bench.succeed()
    bench.fail(5)
    bench.endpoints.try_again()
    assert bench.state()[0] is EndpointState.OPEN
    bench.endpoints.try_again(ONE)
    assert bench.state()[0] is EndpointState.CLOSED


def test_smooth_weighted_round_robin() -> None:
    bench = Bench()
    assert "".join(bench.succeed(TWO)[-1] for _ in range(8)) == "aabaaaba"


def test_those_that_are_open_or_cool_down_are_skipped() -> None:
    bench = Bench()
    bench.begin(TWO).fail(BUSY, 10.0)
    assert {bench.succeed(TWO) for _ in range(8)} == {"http://b"}
    bench.now += 10
    assert {bench.succeed(TWO) for _ in range(8)} == {"http://a", "http://b"}


def test_least_in_flight_divides_by_the_weight() -> None:
    bench = Bench()
    asked = profile(("http://a", 3), ("http://b", 1), strategy="least_in_flight")
    urls = []
    for _ in range(8):
        route = bench.begin(asked)
        assert route.gate.enter_now(0)
        urls.append(route.url[-1])
    assert "".join(urls) == "abaaabaa"


def test_random_by_weight() -> None:
    bench = Bench()
    asked = profile(("http://a", 3), ("http://b", 1), strategy="random")
    assert bench.succeed(asked) == "http://b"  # 0.8 of 4
    bench.endpoints.chance = lambda: 0.7
    assert bench.succeed(asked) == "http://a"


def test_a_conversation_stays_with_its_endpoint_while_that_is_well() -> None:
    bench = Bench()
    urls = []
    conversation = QUESTION
    for _ in range(6):
        route = bench.begin(TWO, conversation)
        route.succeed()
        urls.append(route.url)
        conversation = conversation.add_assistant("ho").add_user("hi")
    assert len(set(urls)) == 1
    bench.begin(TWO, conversation).fail(BUSY, 10.0)
    assert bench.begin(TWO, conversation).url not in urls


def test_a_repeat_prefers_another_endpoint_and_waits_only_for_one_that_failed() -> None:
    bench = Bench()
    route = bench.begin(TWO)
    asked, delays = [], []
    while True:
        asked.append(route.url[-1])
        route.fail(DOWN, None)
        delay = route.onward(repeatable=True, most=1, backoff=lambda repeat, _: float(repeat))
        if delay is None:
            break
        delays.append(delay)
        assert route.choose() == 0
        route.begin()
    assert (asked, delays) == (["a", "b", "a", "b"], [0.0, 1.0, 1.0])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_each_endpoint_gets_its_share_and_the_cycle_repeats(weights: list[int]) -> None:
    bench = Bench()
    asked = profile(*((f"http://h{number}", weight) for number, weight in enumerate(weights)))
    rounds = [[bench.succeed(asked) for _ in range(sum(weights))] for _ in range(2)]
    assert rounds[0] == rounds[1]
    counts = Counter(rounds[0])
    assert [counts[f"http://h{number}"] for number in range(len(weights))] == weights
