"""What the status bar says about a run."""

from decimal import Decimal

import pytest

from engine.events import RunFinished, Statistics
from engine.statistics import CostProvenance
from tests.helpers.run_events import RUN, START, Script, fan_out, simple_run
from workbench.run_progress import RunProgress


def folded(events: list[object]) -> RunProgress:
    progress = RunProgress()
    for event in events:
        progress.apply(event)  # type: ignore[arg-type]
    return progress


def test_branches_are_counted_as_they_are_answered() -> None:
    script = Script()
    progress = folded([*fan_out(script, ["a", "b", "c"]), *[script.answer(1.0, "x", "1/3")]])
    assert (progress.done, progress.total) == (1, 3)
    assert progress.status == ""


def test_cost_status_and_agent_of_a_finished_run() -> None:
    progress = folded(list(simple_run(Script(), "Hello world, again")))
    assert progress.agent == "Writer"
    assert (progress.done, progress.total) == (1, 1)
    assert progress.status == ""
    assert progress.cost == Decimal("0.0004")
    assert progress.provenance is CostProvenance.MEASURED
    progress.apply(RunFinished(time=START + 9, run_id=RUN, status="stopped", statistics=Statistics(cost=Decimal(2))))
    assert (progress.status, progress.cost) == ("stopped", Decimal(2))


def test_speed_is_that_of_the_last_two_seconds() -> None:
    events = list(simple_run(Script(), "Hello world, again"))
    progress = folded(events)
    times = [event.time for event in events if type(event).__name__ == "ChunkReceived"]
    assert progress.rate(times[-1]) > 0
    assert progress.rate(times[-1] + 60) == pytest.approx(0.0)


def test_the_share_moves_over_the_agents_with_branches_as_parts_and_is_full_at_the_end() -> None:
    script = Script()
    progress = RunProgress(4)
    shares = []

    def apply(*events: object) -> None:
        for event in events:
            progress.apply(event)  # type: ignore[arg-type]
        shares.append(progress.share)

    apply(script.run(), script.begin("First", 0.0))
    apply(script.answer(1.0, "x"), script.leave(1.0, "Second"))
    apply(script.begin("Second", 1.0, splits=4), *(script.split(number, 4, "x", 1.0) for number in (1, 2, 3, 4)))
    apply(script.answer(2.0, "x", "1/4"))
    apply(script.answer(2.0, "x", "2/4"))
    apply(script.answer(3.0, "x", "3/4"), script.answer(3.0, "x", "4/4"), script.leave(3.0, "Third"))
    apply(script.begin("Third", 3.0), script.leave(3.5, "Fourth"))
    assert shares == pytest.approx([0, 0.25, 0.25, 0.3125, 0.375, 0.5, 0.75])
    apply(RunFinished(time=START + 9, run_id=RUN, status="finished", statistics=Statistics()))
    assert progress.share == 1.0


def test_a_loop_never_moves_the_share_back_nor_fills_it_early() -> None:
    script = Script()
    progress, shares = RunProgress(2), [0.0]
    progress.apply(script.run())
    for at in range(6):
        progress.apply(script.begin("Again", float(at)))
        shares.append(progress.share)
        if at > 2:
            assert progress.share < 1.0
        progress.apply(script.leave(at + 0.5, "Again"))
        shares.append(progress.share)
    assert shares == sorted(shares)


def test_a_run_that_failed_stays_where_it_was() -> None:
    script = Script()
    progress = RunProgress(2)
    for event in (script.run(), script.begin("First", 0.0), script.answer(1.0, "x"), script.leave(1.0, "Second")):
        progress.apply(event)
    progress.apply(RunFinished(time=START + 9, run_id=RUN, status="failed", statistics=Statistics()))
    assert progress.share == 0.5
