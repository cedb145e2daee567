"""Alarms: told once when a limit is passed, again only after it was over, never for what a recorded run did."""

from decimal import Decimal

import pytest

from engine import EngineSettings
from engine.alarms import AlarmKind, AlarmLimits, Alarms
from engine.completion import FinishReason
from engine.errors import Attempted
from engine.events import CompletionFinished, PromptShortened, RequestFailed, RunStarted, Statistics


def answered(seconds: float = 1.0, cost: str = "0", run: str = "r") -> CompletionFinished:
    return CompletionFinished(
        time=0.0,
        run_id=run,
        attempt=1,
        profile="p",
        model="m",
        content="x",
        reasoning="",
        finish_reason=FinishReason.DONE,
        statistics=Statistics(requests=1, cost=Decimal(cost)),
        attempts=(Attempted(profile="p", host="h", outcome="done", seconds=seconds),),
    )


def failed() -> RequestFailed:
    return RequestFailed(
        time=0.0,
        run_id="r",
        attempt=1,
        profile="p",
        model="m",
        error="transient",
        statistics=Statistics(),
        attempts=(Attempted(profile="p", host="h", outcome="transient", seconds=0.1),),
    )


def kinds(alarms: Alarms, *events: CompletionFinished | RequestFailed | PromptShortened) -> list[tuple[str, str]]:
    return [(alarm.kind.value, f"{alarm.value:f}") for event in events for alarm in alarms.follow(event)]


def test_the_cost_of_a_run_is_told_once_for_each_run() -> None:
    alarms = Alarms(AlarmLimits(run_cost=Decimal("0.5")))
    assert kinds(alarms, answered(cost="0.5")) == []
    assert kinds(alarms, answered(cost="0.1"), answered(cost="0.1")) == [("cost", "0.6")]
    assert kinds(alarms, answered(cost="0.6", run="other")) == [("cost", "0.6")]
    alarms.end("r")
    assert kinds(alarms, answered(cost="0.4")) == []


def test_failures_are_told_above_their_share_of_the_last_twenty() -> None:
    alarms = Alarms(AlarmLimits(error_percent=20))
    assert kinds(alarms, *(failed() for _ in range(4)), *(answered() for _ in range(16))) == []
    assert kinds(alarms, *(answered() for _ in range(16)), *(failed() for _ in range(4))) == []
    assert kinds(alarms, failed(), failed()) == [("errors", "25")]
    assert kinds(alarms, *(answered() for _ in range(20))) == []
    assert kinds(alarms, *(failed() for _ in range(20))) == [("errors", "25")]


def test_slow_answers_are_told_by_the_fifth_slowest_of_a_hundred() -> None:
    alarms = Alarms(AlarmLimits(slow_seconds=30))
    assert kinds(alarms, *(answered(40.0) for _ in range(19))) == []
    assert kinds(alarms, answered(40.0)) == [("slow", "40.0")]
    fast = Alarms(AlarmLimits(slow_seconds=30))
    assert kinds(fast, *(answered(1.0) for _ in range(95)), *(answered(40.0) for _ in range(5))) == []
    assert kinds(fast, answered(40.0)) == [("slow", "40.0")]


def test_a_prompt_that_lost_much_is_told() -> None:
    shortened = PromptShortened(time=0.0, run_id="r", agent="A", before=1000, after=500, budget=500)
    alarms = Alarms(AlarmLimits(shortened_percent=50))
    (alarm,) = alarms.follow(shortened)
    assert (alarm.kind, alarm.subject, alarm.value, alarm.limit) == (AlarmKind.SHORTENED, "A", 50, 50)
    assert alarms.follow(shortened) == []
    assert Alarms(AlarmLimits()).follow(shortened) == []


def test_what_a_recorded_run_did_raises_nothing() -> None:
    alarms = Alarms(AlarmLimits(run_cost=Decimal(1)))
    alarms.follow(RunStarted(time=0.0, run_id="r", flow="f", kept=2))
    assert kinds(alarms, answered(cost="5"), answered(cost="5")) == []
    assert kinds(alarms, answered(cost="2")) == [("cost", "2")]


def test_limits_switched_off_tell_nothing() -> None:
    alarms = Alarms(AlarmLimits(error_percent=0, slow_seconds=0))
    assert kinds(alarms, *(failed() for _ in range(40)), *(answered(99.0, "9") for _ in range(40))) == []


@pytest.mark.parametrize("limits", [{"error_percent": 101}, {"slow_seconds": -1}, {"run_cost": Decimal(-1)}])
def test_limits_that_cannot_be(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        EngineSettings(alarms=AlarmLimits(**limits))  # type: ignore[arg-type]
