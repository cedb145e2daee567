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
