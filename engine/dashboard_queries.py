"""What a dashboard shows of recorded runs: use by day and profile, how requests ended, what runs cost."""

import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from enum import StrEnum

from engine.history_answers import HOUR, Answers, read_answers
from engine.history_queries import CostTotal, RunRow, rows_of_runs
from engine.history_usage import Sum, is_far_behind, read_sums, stale_hours
from engine.statistics import CostProvenance, RequestStatistic, weakest

VERSION = 7
"""Of the database, from which on the answers are kept by hour."""
RUNS = 500
"""The newest runs that are given."""

_PROVENANCES = {one.value: one for one in CostProvenance}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked about; an empty name means all."""

    since: datetime
    """Aware; the whole hours from then on count."""
    until: datetime
    """Aware."""
    flow: str = ""
    profile: str = ""
    agent: str = ""
    zone: tzinfo | None = None
    """Whose days; None: that of this machine."""

    @property
    def hours(self) -> tuple[int, int]:
        """The first hour since the epoch, and the one behind the last."""
        return int(self.since.timestamp() // HOUR), int(-(-self.until.timestamp() // HOUR))

    def wants(self, flow: str, agent: str, profile: str) -> bool:
        """Whether it is about these."""
        return self.flow in ("", flow) and self.agent in ("", agent) and self.profile in ("", profile)


class Figure(StrEnum):
    """A figure of a request that has a spread."""

    FIRST_TOKEN = "first_token"  # noqa: S105 - no password
    SPEED = "speed"


@dataclass(frozen=True, slots=True)
class Measured:
    """Requests with a figure from `least` on, below `most`."""

    figure: Figure
    least: float
    most: float


@dataclass(slots=True)
class Share:
    """What one profile did on one day."""

    used: RequestStatistic = field(default_factory=RequestStatistic)
    answers: Answers = field(default_factory=Answers)

    @property
    def tokens(self) -> int:
        """All that were paid."""
        used = self.used
        return used.in_tokens + used.cached_in_tokens + used.out_tokens + used.reasoning_out_tokens

    def use(self, row: Sum) -> None:
        """Add what was used within an hour."""
        used = self.used
        used.requests += row[5]
        used.in_tokens += row[6]
        used.cached_in_tokens += row[7]
        used.out_tokens += row[8]
        used.reasoning_out_tokens += row[9]
        used.cost += Decimal(row[10])
        used.provenances.add(_PROVENANCES[row[11]])
        used.request_seconds += row[12]

    def join(self, other: "Share") -> None:
        """Add another share."""
        self.used.join(other.used)
        self.answers.join(other.answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """The answer to a question."""

    shares: dict[tuple[date, str], Share] = field(default_factory=dict)
    """By day and profile."""
    runs: list[RunRow] = field(default_factory=list)
    """The newest, newest first."""
    flows: tuple[str, ...] = ()
    """What there is within the time, whatever else was asked for."""
    profiles: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()

    @property
    def days(self) -> list[date]:
        """The days with requests, oldest first."""
        return sorted({day for day, _ in self.shares})

    @property
    def by_profile(self) -> dict[str, Share]:
        """The sums of all days."""
        found: dict[str, Share] = {}
        for (_, profile), share in self.shares.items():
            found.setdefault(profile, Share()).join(share)
        return dict(sorted(found.items()))

    @property
    def by_day(self) -> dict[date, Share]:
        """The sums of all profiles, oldest day first."""
        found: dict[date, Share] = {}
        for (day, _), share in sorted(self.shares.items()):
            found.setdefault(day, Share()).join(share)
        return found

    @property
    def total(self) -> Share:
        """The sum of all."""
        total = Share()
        for share in self.shares.values():
            total.join(share)
        return total

    @property
    def saved(self) -> CostTotal:
        """What reused answers would have cost at the average price of a token of their profile within the time."""
        cost, known = Decimal(0), {CostProvenance.FREE}
        for share in self.by_profile.values():
            if not share.answers.reused_tokens:
                continue
            provenance = share.used.cost_provenance if share.tokens else CostProvenance.UNKNOWN
            known.add(provenance if provenance in _CERTAIN else CostProvenance.ESTIMATED)
            cost += share.used.cost * share.answers.reused_tokens / (share.tokens or 1)
        return CostTotal(cost=cost, provenance=weakest(known))


_CERTAIN = (CostProvenance.UNKNOWN, CostProvenance.FREE)


def read_dashboard(connection: sqlite3.Connection, question: Question) -> Dashboard | None:
    """Answer a question; None: hours are to be added up first (`history_usage.add_up`)."""
    if is_far_behind(connection, VERSION):
        return None
    stale = stale_hours(connection, *question.hours)
    shares: dict[tuple[date, str], Share] = {}
    wanted: dict[tuple[str, str, str], bool] = {}
    days: dict[int, date] = {}

    def share(hour: int, names: tuple[str, str, str]) -> Share | None:
        if names not in wanted:
            wanted[names] = question.wants(*names)
        if not wanted[names]:
            return None
        if hour not in days:
            days[hour] = datetime.fromtimestamp(hour * HOUR, UTC).astimezone(question.zone).date()
        key = days[hour], names[2]
        if key not in shares:
            shares[key] = Share()
        return shares[key]

    for row in read_sums(connection, *question.hours, stale):
        if (found := share(row[0], row[1:4])) is not None:
            found.use(row)
    for answers in read_answers(connection, *question.hours, stale):
        if (found := share(answers[0], answers[1:4])) is not None:
            found.answers.add(answers)
    return Dashboard(
        shares=shares,
        runs=read_runs_of(connection, question, None),
        flows=tuple(sorted({flow for flow, _, _ in wanted if flow})),
        agents=tuple(sorted({agent for _, agent, _ in wanted if agent})),
        profiles=tuple(sorted({profile for _, _, profile in wanted if profile})),
    )


def read_runs_of(connection: sqlite3.Connection, question: Question, measured: Measured | None) -> list[RunRow]:
    """The newest runs that began within the time and have requests like these, newest first."""
    where = ["started >= ?", "started < ?"]
    values: list[object] = [question.hours[0] * HOUR, question.until.timestamp()]
    if question.flow:
        where.append("flow = ?")
        values.append(question.flow)
    like = ["run_id = runs.id"]
    for name, value in (("profile", question.profile), ("agent", question.agent)):
        if value:
            like.append(f"{name} = ?")
            values.append(value)
    if measured is not None:
        like += ["requests.requests > 0", f"{_FIGURES[measured.figure]} >= ?", f"{_FIGURES[measured.figure]} < ?"]
        values += [measured.least, measured.most]
    if len(like) > 1:
        where.append(f"EXISTS (SELECT 1 FROM requests WHERE {' AND '.join(like)})")  # noqa: S608 - constant names
    return rows_of_runs(connection, " AND ".join(where), values, RUNS)


_FIGURES = {
    Figure.FIRST_TOKEN: "first_token",
    Figure.SPEED: (
        "(requests.out_tokens + requests.reasoning_out_tokens)"
        " / nullif(max(requests.seconds - ifnull(first_token, 0), 0), 0)"
    ),
}
