"""What charts and budget card of the dashboard are told: lower bounds, limits, alarms, days without requests."""

from datetime import date
from decimal import Decimal

from engine import Spending
from engine.alarms import AlarmLimits
from engine.dashboard_queries import Dashboard, Share
from engine.history_answers import LEAST_SECONDS, Answers, bucket
from engine.statistics import CostProvenance, RequestStatistic
from workbench.dashboard.budget_card import alarms_of, used_of
from workbench.dashboard.chart_data import cost_bars, error_bars, figure_text, shown_days, spread_steps

FIRST, LAST = date(2026, 11, 28), date(2026, 11, 30)
NAMES = ("Money", "Tokens", "Calls")


def share(cost: str, provenance: CostProvenance, *, failed: int = 0, seconds: float = 1.0) -> Share:
    """Twenty answers of a profile on a day."""
    used = RequestStatistic(requests=20, cost=Decimal(cost), provenances={provenance})
    slow = 20 << 32 * bucket(seconds, LEAST_SECONDS)
    return Share(used=used, answers=Answers(answered=20, failed=failed, packed=[slow, 0, slow]))


FOUND = Dashboard(
    shares={
        (FIRST, "a"): share("0.5", CostProvenance.MEASURED),
        (LAST, "a"): share("0.25", CostProvenance.MEASURED, failed=20),
        (LAST, "b"): share("0", CostProvenance.UNKNOWN, seconds=60.0),
    },
    profiles=("a", "b"),
)


def test_days_without_requests_have_their_place() -> None:
    assert shown_days(FOUND, None, LAST) == [FIRST, date(2026, 11, 29), LAST]
    assert shown_days(Dashboard(), None, LAST) == [LAST]
    assert len(shown_days(FOUND, date(2000, 1, 1), LAST)) == 400


def test_a_day_with_an_unknown_cost_is_a_lower_bound_and_no_zero() -> None:
    bars = cost_bars(FOUND, shown_days(FOUND, None, LAST), Decimal(2))
    assert [(one.name, one.values) for one in bars.series] == [("a", [0.5, 0.0, 0.25])]
    assert bars.bounds == [False, False, True]
    assert (bars.limit, bars.limit_text) == (2.0, "limit $2.00 a day")


def test_failures_are_a_share_of_what_was_asked() -> None:
    bars = error_bars(FOUND, [LAST], 20)
    assert [round(value, 1) for value in bars.series[0].values] == [33.3]
    assert bars.series[0].texts == ["20 of 60 failed"]
    assert error_bars(Dashboard(), [LAST], 0).limit is None


def test_spreads_of_profiles_have_their_buckets_in_common() -> None:
    steps = spread_steps(FOUND, lambda answers: answers.first_token)
    assert [sum(one.values) for one in steps.series] == [40.0, 20.0]
    assert all(len(one.values) == len(steps.edges) - 1 for one in steps.series)
    assert [figure_text(value) for value in (0.123, 9.96, 1234.0)] == ["0.12", "10", "1,234"]


def test_only_budgets_that_are_set_are_shown() -> None:
    used = Spending(cost=Decimal("0.5"), tokens=900, requests=3)
    assert used_of(used, Spending(), NAMES) == []
    money, tokens = used_of(used, Spending(cost=Decimal(1), tokens=1000), NAMES, unknown=True)
    assert (money.text, money.percent) == ("≥ $0.50 of $1.00", 50)
    assert (tokens.text, tokens.percent) == ("900 of 1,000", 90)
    (nothing_left,) = used_of(used, Spending(cost=Decimal(0)), NAMES)
    assert nothing_left.percent == 100


def test_alarms_name_the_profile_and_what_is_over_its_limit() -> None:
    told = alarms_of(FOUND, AlarmLimits(error_percent=20, slow_seconds=30))
    assert told[0] == "a: 33 % failed"
    assert told[1].startswith("b: p95 ~")
    assert alarms_of(FOUND, AlarmLimits(error_percent=0, slow_seconds=0)) == []
