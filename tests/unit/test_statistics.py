"""Totals of a run: what is added, what money is called, what throughput is shown."""

from decimal import Decimal

from engine.statistics import CompletionStatistics, CostProvenance, RequestStatistic, per_second_text


def done(**values: object) -> CompletionStatistics:
    return CompletionStatistics(**{"provenance": CostProvenance.MEASURED, **values})  # type: ignore[arg-type]


def test_the_worked_example() -> None:
    total = RequestStatistic()
    total.add(done(in_tokens=100, out_tokens=20, duration=1.0, cost=Decimal("0.01")))
    total.add(
        done(
            in_tokens=50, out_tokens=10, reasoning_out_tokens=5, cached_in_tokens=7, duration=0.5, cost=Decimal("0.005")
        )
    )
    assert (total.requests, total.in_tokens, total.cached_in_tokens) == (2, 150, 7)
    assert (total.out_tokens, total.reasoning_out_tokens, total.cost) == (30, 5, Decimal("0.015"))
    assert (total.tps(total.request_seconds), total.out_tps(total.request_seconds)) == ("123.33", "23.33")
    total.effective_seconds = 3.0
    assert total.tps() == "61.67"


def test_a_cache_hit_is_a_cached_prompt_only() -> None:
    total = RequestStatistic()
    total.add(done(in_tokens=9, out_tokens=9, cached=True, requests=0))
    assert (total.requests, total.cached_prompts, total.in_tokens, total.out_tokens) == (0, 1, 0, 0)
    assert total.cost_provenance is CostProvenance.FREE


def test_the_weakest_provenance_counts() -> None:
    total = RequestStatistic()
    for provenance, expected in (
        (CostProvenance.FREE, CostProvenance.FREE),
        (CostProvenance.MEASURED, CostProvenance.MEASURED),
        (CostProvenance.ESTIMATED, CostProvenance.ESTIMATED),
        (CostProvenance.MEASURED, CostProvenance.ESTIMATED),
        (CostProvenance.UNKNOWN, CostProvenance.UNKNOWN),
    ):
        total.add(done(provenance=provenance))
        assert total.cost_provenance is expected


def test_joined_walks_sum_everything() -> None:
    one, two = RequestStatistic(effective_seconds=1.5), RequestStatistic(effective_seconds=2)
    one.add(done(in_tokens=1, cost=Decimal("0.1")))
    two.add(done(in_tokens=2, cost=Decimal("0.2"), provenance=CostProvenance.UNKNOWN))
    one.join(two)
    assert (one.requests, one.in_tokens, one.cost, one.effective_seconds) == (2, 3, Decimal("0.3"), 3.5)
    assert one.cost_provenance is CostProvenance.UNKNOWN


def test_throughput_text() -> None:
    assert per_second_text(1, 8000) == "0.12"  # 0.125, half to even
    assert per_second_text(3, 8000) == "0.38"  # 0.375
    assert per_second_text(100, 1000) == "100"
    assert per_second_text(5, 2000) == "2.5"
    assert per_second_text(5, 0) == "0"


def test_speed_counts_from_the_first_token() -> None:
    assert done(out_tokens=10, reasoning_out_tokens=5, duration=2.0, first_token=0.5).tokens_per_second == 10
    assert done(out_tokens=10, duration=0.0).tokens_per_second == 0
