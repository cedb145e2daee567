"""Accounting beyond the vectors: nonsense from servers, provenance, estimates."""

from collections.abc import Mapping
from decimal import Decimal

import pytest

from engine.clients.usage import account
from engine.statistics import CompletionStatistics, CostProvenance, Prices

PRICES = Prices(input=Decimal("0.000002"), output=Decimal("0.000008"))


def used(
    usage: Mapping[str, object] | None = None,
    *,
    timings: Mapping[str, object] | None = None,
    prices: Prices = PRICES,
    content: str = "four words are here",
    reasoning: str = "",
) -> CompletionStatistics:
    return account(
        usage,
        timings,
        prompt=None,
        content=content,
        reasoning=reasoning,
        prices=prices,
        count=lambda text: len(text.split()),
    )


@pytest.mark.parametrize("nonsense", [-4, "12", float("nan"), float("inf"), 10**21, 10**400, None, True, [], {}])
def test_nonsense_counts_as_not_reported(nonsense: object) -> None:
    without = used({"prompt_tokens": 10})
    assert used({"prompt_tokens": 10, "completion_tokens": nonsense, "cost": nonsense}) == without
    assert used({"prompt_tokens": nonsense, "completion_tokens": 9}) == used(None)
    details = {
        "prompt_tokens": 10,
        "prompt_tokens_details": nonsense,
        "completion_tokens_details": {"reasoning_tokens": nonsense},
    }
    assert used(details) == without


def test_more_cached_than_sent_is_cut() -> None:
    done = used({"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 99}})
    assert (done.in_tokens, done.cached_in_tokens) == (0, 10)


@pytest.mark.parametrize(
    ("prices", "reported", "provenance"),
    [
        (PRICES, True, CostProvenance.MEASURED),
        (PRICES, False, CostProvenance.ESTIMATED),
        (Prices(input=Decimal(0), output=Decimal(0)), True, CostProvenance.FREE),
        (Prices(input=Decimal(0), output=Decimal(0)), False, CostProvenance.FREE),
        (Prices(input=Decimal(0)), True, CostProvenance.UNKNOWN),
        (Prices(), False, CostProvenance.UNKNOWN),
    ],
)
def test_provenance(prices: Prices, reported: bool, provenance: CostProvenance) -> None:
    done = used({"prompt_tokens": 10, "completion_tokens": 4} if reported else None, prices=prices)
    assert done.provenance is provenance
    assert done.estimated is not reported


def test_a_reported_cost_is_measured_even_without_prices() -> None:
    done = used({"prompt_tokens": 10, "completion_tokens": 4, "cost": 0.25}, prices=Prices())
    assert (done.cost, done.provenance) == (Decimal("0.25"), CostProvenance.MEASURED)


def test_money_is_exact() -> None:
    done = used(
        {"prompt_tokens": 3, "completion_tokens": 1}, prices=Prices(input=Decimal("0.1"), output=Decimal("0.2"))
    )
    assert done.cost == Decimal("0.5")


def test_timings_that_are_nonsense() -> None:
    assert used(None, timings={"prompt_n": -1, "cache_n": "x", "predicted_n": 10**30}) == used(None)
