"""What the charts of the dashboard draw, worked out of what the engine found; no widgets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal

from PySide6.QtCore import QCoreApplication, QDate, QLocale

from engine.dashboard_queries import Dashboard, Share
from engine.history_answers import Answers, Spread, lower_edge
from engine.statistics import CostProvenance
from workbench.text_format import cost_text, seconds_text, tokens_text

translate = QCoreApplication.translate

MOST_DAYS = 400
"""Days that get a bar each; of a longer time the newest."""


@dataclass(frozen=True, slots=True)
class Series:
    """One colour of a chart."""

    name: str
    color: str
    """Token of the theme."""
    values: list[float]
    hatched: bool = False
    texts: list[str] = field(default_factory=list)
    """What each value is in words."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Stacked bars, one a day."""

    days: list[date]
    series: list[Series]
    bounds: list[bool] = field(default_factory=list)
    """Days whose bar is only a lower bound."""
    limit: float | None = None
    limit_text: str = ""


def profile_colors(profiles: Sequence[str]) -> dict[str, str]:
    """Each profile with its colour."""
    return {name: f"series.{place % 8 + 1}" for place, name in enumerate(sorted(profiles))}


def shown_days(found: Dashboard, first: date | None, last: date) -> list[date]:
    """All days from the first on, with or without requests; without a first one from the oldest request on."""
    days = found.days
    begin = first or (days[0] if days else last)
    begin = max(begin, last - timedelta(days=MOST_DAYS - 1))
    return [begin + timedelta(days=number) for number in range((last - begin).days + 1)]


def day_text(day: date) -> str:
    """A day for an axis: `30 Nov`."""
    return QLocale().toString(QDate(day.year, day.month, day.day), "d MMM")


def figure_text(value: float) -> str:
    """A measured figure: two digits that count, whole numbers from ten on."""
    return f"{value:.2g}" if value < 9.95 else f"{value:,.0f}"


def cost_bars(found: Dashboard, days: list[date], limit: Decimal | None) -> Bars:
    """Cost per day, stacked by profile; profiles that cost nothing known are left out."""
    colors = profile_colors(found.profiles)
    series = []
    for name, total in found.by_profile.items():
        if not total.used.cost:
            continue
        shares = [found.shares.get((day, name), Share()) for day in days]
        texts = [share_cost(share) for share in shares]
        series.append(Series(name, colors.get(name, "series.8"), [float(one.used.cost) for one in shares], texts=texts))
    unsure = {day for (day, _), share in found.shares.items() if share.used.cost_provenance is CostProvenance.UNKNOWN}
    text = translate("Dashboard", "limit %1 a day")
    if limit is not None:
        text = text.replace("%1", cost_text(limit, CostProvenance.MEASURED))
    return Bars(days, series, [day in unsure for day in days], None if limit is None else float(limit), text)


def token_bars(found: Dashboard, days: list[date]) -> Bars:
    """Thousands of tokens per day: kept by the server, read, thought, answered."""
    by_day = found.by_day
    used = [by_day.get(day, Share()).used for day in days]
    kinds: tuple[tuple[str, str, list[int]], ...] = (
        (translate("Dashboard", "cached"), "series.8", [one.cached_in_tokens for one in used]),
        (translate("Dashboard", "in"), "series.5", [one.in_tokens for one in used]),
        (translate("Dashboard", "thinking"), "series.4", [one.reasoning_out_tokens for one in used]),
        (translate("Dashboard", "out"), "series.1", [one.out_tokens for one in used]),
    )
    return Bars(
        days,
        [
            Series(
                name,
                color,
                [count / 1000 for count in counts],
                hatched=color == "series.4",
                texts=[tokens_text(count) for count in counts],
            )
            for name, color, counts in kinds
            if any(counts)
        ],
    )


def error_bars(found: Dashboard, days: list[date], limit: int) -> Bars:
    """Percent of requests that failed, per day; `limit` in percent, 0 for none."""
    by_day = found.by_day
    answers = [by_day.get(day, Share()).answers for day in days]
    values = [100 * (one.error_share or 0.0) for one in answers]
    failed = translate("Dashboard", "%1 of %2 failed")
    texts = [failed.replace("%1", f"{a.failed:,}").replace("%2", f"{a.answered + a.failed:,}") for a in answers]
    series = [Series(translate("Dashboard", "failed"), "series.6", values, texts=texts)] if any(values) else []
    text = translate("Dashboard", "alarm above %1 %").replace("%1", str(limit))
    return Bars(days, series, limit=float(limit) if limit else None, limit_text=text)


def slow_bars(found: Dashboard, days: list[date], limit: int) -> Bars:
    """Seconds that 95 of 100 answers stayed below, per day; `limit` in seconds, 0 for none."""
    by_day = found.by_day
    slow = [by_day.get(day, Share()).answers.seconds.quantile(0.95) for day in days]
    texts = ["" if one is None else f"~{seconds_text(one)}" for one in slow]
    values = [one or 0.0 for one in slow]
    series = [Series("p95", "series.5", values, texts=texts)] if any(values) else []
    text = translate("Dashboard", "alarm above %1 s").replace("%1", str(limit))
    return Bars(days, series, limit=float(limit) if limit else None, limit_text=text)


@dataclass(frozen=True, slots=True)
class Steps:
    """How a figure is spread, one outline a profile, over buckets that all have in common."""

    edges: list[float]
    """One more than there are counts."""
    series: list[Series]
    medians: list[float | None]
    """Of each of the series."""


def spread_steps(found: Dashboard, of: Callable[[Answers], Spread]) -> Steps:
    """The spread of a figure by profile."""
    colors = profile_colors(found.profiles)
    spreads = {name: of(share.answers) for name, share in found.by_profile.items() if of(share.answers).packed}
    if not spreads:
        return Steps([], [], [])
    counts = {name: spread.counts for name, spread in spreads.items()}
    filled = [number for values in counts.values() for number, count in enumerate(values) if count]
    first, last = min(filled), max(filled)
    least = next(iter(spreads.values())).least
    edges = [lower_edge(number, least) for number in range(first, last + 2)]
    series = [
        Series(name, colors.get(name, "series.8"), [float(count) for count in values[first : last + 1]])
        for name, values in counts.items()
    ]
    return Steps(edges, series, [spread.quantile(0.5) for spread in spreads.values()])


def share_cost(share: Share) -> str:
    """What was paid; empty when nothing was asked."""
    return cost_text(share.used.cost, share.used.cost_provenance) if share.used.provenances else ""
