"""Tokens per second and cost over the time of a run."""

from decimal import Decimal

import pytest

from engine.events import RunFinished
from engine.statistics import CostProvenance
from tests.helpers.run_events import RUN, START, Script, statistics
from workbench.charts.run_series import MAX_BINS, RunSeries


def started() -> tuple[Script, RunSeries]:
    script, series = Script(), RunSeries()
    series.apply(script.run())
    series.apply(script.begin("A", 0))
    return script, series


def test_rates_by_half_seconds() -> None:
    script, series = started()
    for number in range(10):
        series.apply(script.text(0.05 * number, "word"))
    for number in range(5):
        series.apply(script.text(1.0 + 0.05 * number, reasoning="hm"))
    series.apply(RunFinished(time=START + 1.4, run_id=RUN, status="finished"))
    times, both, thinking = series.rates()
    assert times == [0.25, 0.75, 1.25]
    assert both == [20.0, 0.0, 10.0]
    assert thinking == [0.0, 0.0, 10.0]


def test_the_bin_that_is_filling_is_left_out() -> None:
    script, series = started()
    series.apply(script.text(0.1, "word"))
    series.apply(script.text(0.6, "word"))
    assert series.rates(START + 0.9)[1] == [2.0]


def test_looking_at_a_run_of_long_ago_while_it_is_read_changes_nothing() -> None:
    script, series = started()
    series.apply(script.text(0.1, "word"))
    times, both, _ = series.rates(START + 1_000_000)
    assert (len(times), both[:2]) == (MAX_BINS, [2.0, 0.0])
    series.apply(RunFinished(time=START + 0.9, run_id=RUN, status="finished"))
    assert series.rates()[:2] == ([0.25, 0.75], [2.0, 0.0])


def test_an_answer_that_came_at_once_is_spread_over_its_time() -> None:
    script, series = started()
    series.apply(script.answer(2.0, "long", statistics=statistics(out_tokens=40, seconds=2.0)))
    _, both, _ = series.rates()
    assert sum(both) * series.bin == pytest.approx(40)
    assert max(both) == 20.0


def test_cost_adds_up_and_an_unknown_price_is_told() -> None:
    script, series = started()
    series.apply(script.answer(1.0, "x", statistics=statistics(cost="0.001")))
    series.apply(script.answer(2.0, "x", statistics=statistics(cost="0.002")))
    assert series.costs == [(1.0, 0.001), (2.0, 0.003)]
    assert (series.cost, series.provenance) == (Decimal("0.003"), CostProvenance.MEASURED)
    series.apply(script.answer(3.0, "x", statistics=statistics(cost="0", provenance=CostProvenance.UNKNOWN)))
    assert series.provenance is CostProvenance.UNKNOWN


def test_a_very_long_run_keeps_its_tokens_in_few_bins() -> None:
    script, series = started()
    for second in range(0, 20_000, 10):
        series.apply(script.text(float(second), "word"))
    assert len(series.content) <= MAX_BINS
    assert sum(series.content) == 2000
