"""Rates and costs of the branches of a run, as the dashboard draws them."""

from decimal import Decimal

from engine.completion import FinishReason
from engine.events import ChunkReceived, CompletionFinished, RunFinished, RunStarted, Statistics
from engine.statistics import CostProvenance
from workbench.branch_series import OTHERS, SHOWN, BranchSeries
from workbench.dashboard.live_charts import cost_points, rate_points


def chunk(branch: str, time: float, text: str = "word " * 8) -> ChunkReceived:
    return ChunkReceived(time=time, run_id="r", agent="A", step=1, branch=branch, content=text)


def done(branch: str, time: float, cost: str) -> CompletionFinished:
    used = Statistics(requests=1, out_tokens=30, cost=Decimal(cost), provenance=CostProvenance.MEASURED, seconds=1.0)
    return CompletionFinished(
        time=time, run_id="r", agent="A", step=1, branch=branch, attempt=1, profile="p", model="m", content="",
        reasoning="", finish_reason=FinishReason.DONE, statistics=used,
    )  # fmt: skip


def series(*events: object, kept: int = 0) -> BranchSeries:
    found = BranchSeries()
    for event in (RunStarted(time=100.0, run_id="r", flow="F", kept=kept), *events):
        found.apply(event)  # type: ignore[arg-type]  # any events
    return found


def test_each_branch_has_its_tokens_and_costs() -> None:
    found = series(chunk("1/2", 100.2), chunk("2/2", 101.5), done("1/2", 102.0, "0.5"), done("1/2", 103.0, "0.25"))
    assert found.is_running
    first, second = found.lines["1/2"], found.lines["2/2"]
    assert (min(first.tokens), min(second.tokens)) == (0, 1)
    assert cost_points(first, 4.0) == [(0.0, 0.0), (2.0, 0.0), (2.0, 0.5), (3.0, 0.5), (3.0, 0.75), (4.0, 0.75)]
    found.apply(RunFinished(time=104.0, run_id="r", status="finished", statistics=Statistics(), outputs={}))
    assert not found.is_running


def test_an_answer_that_came_at_once_counts_when_it_came() -> None:
    found = series(done("", 102.0, "0"))
    assert dict(found.lines[""].tokens) == {2: 30}
    assert rate_points(found.lines[""], 0, 3, ended=True) == [(2.0, 0.0), (2.5, 30.0), (3.0, 0.0)]


def test_many_branches_share_the_last_line() -> None:
    found = series(*(chunk(f"{number}/50", 100.0) for number in range(50)))
    assert len(found.lines) == SHOWN + 1
    assert found.lines[OTHERS].tokens[0] > found.lines["0/50"].tokens[0]


def test_what_the_earlier_run_did_is_left_out() -> None:
    assert list(series(chunk("1/2", 90.0), chunk("2/2", 101.0), kept=1).lines) == ["2/2"]
