"""What requests used, hour by hour: sums that are kept, so that a year is read as quickly as a day.

Who writes requests marks their hours in `stale_hours`, in the same transaction; who asks for sums does not use what is
kept of a marked hour. So the sums are exact, whatever was written twice, late, or by another process.
"""

import math
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from engine.history_answers import HOUR, keep_answers
from engine.statistics import CostProvenance, RequestStatistic

FEW = 24
"""Hours that are added up when they are asked for; more are added up once and kept."""
AT_ONCE = 200
"""Hours added up in one transaction, so that nobody waits long for the database."""

VERSION = 3
"""Of the database, from which on there are sums."""

_PROVENANCES = {one.value: one for one in CostProvenance}

MARK_HOURS = "INSERT OR IGNORE INTO stale_hours (hour) VALUES (?)"
MARK_ALL_HOURS = "INSERT OR IGNORE INTO stale_hours SELECT DISTINCT CAST(ts / 3600 AS INTEGER) FROM requests"


Sum = tuple[int, str, str, str, str, int, int, int, int, int, str, str, float]
"""A row of `hours_of_use`."""


class HourOfUse(NamedTuple):
    """What the requests of one agent to one model used within an hour; answers from the cache are not among them."""

    hour: datetime
    """Its beginning; aware, UTC."""
    flow: str
    """Empty: its runs were deleted before it was added up."""
    agent: str
    profile: str
    model: str
    requests: int
    in_tokens: int
    cached_in_tokens: int
    out_tokens: int
    reasoning_out_tokens: int
    cost: Decimal
    provenance: CostProvenance
    """The weakest of all."""
    seconds: float
    """Sum over the requests."""


def is_far_behind(connection: sqlite3.Connection, version: int = VERSION) -> bool:
    """Whether so many hours are to be added up that it is worth keeping them; so it is before the first time."""
    if connection.execute("PRAGMA user_version").fetchone()[0] < version:
        return True
    return bool(connection.execute("SELECT count(*) FROM stale_hours").fetchone()[0] > FEW)


def add_up(connection: sqlite3.Connection) -> None:
    """Add up and keep the hours that have changed; commits in between."""
    while hours := connection.execute("SELECT hour FROM stale_hours ORDER BY hour LIMIT ?", (AT_ONCE,)).fetchall():
        for (hour,) in hours:
            connection.execute("DELETE FROM hours_of_use WHERE hour = ?", (hour,))
            connection.executemany(
                "INSERT INTO hours_of_use VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", _summed(connection, hour)
            )
            keep_answers(connection, hour)
        connection.executemany("DELETE FROM stale_hours WHERE hour = ?", hours)
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")


def _summed(connection: sqlite3.Connection, hour: int) -> list[Sum]:
    sums: dict[tuple[str, str, str, str], RequestStatistic] = {}
    for *key, requests, tokens_in, cached, tokens_out, reasoning, cost, provenance, seconds in connection.execute(
        """SELECT ifnull(runs.flow, ''), agent, profile, model, requests.requests, requests.in_tokens,
            requests.cached_in_tokens, requests.out_tokens, requests.reasoning_out_tokens, requests.cost,
            requests.provenance, requests.seconds
        FROM requests LEFT JOIN runs ON runs.id = run_id
        WHERE ts >= ? AND ts < ? AND requests.requests > 0 ORDER BY 1, 2, 3, 4, run_id, seq""",
        (hour * HOUR, (hour + 1) * HOUR),
    ):
        used = sums.setdefault(tuple(key), RequestStatistic())
        used.requests += requests
        used.in_tokens += tokens_in
        used.cached_in_tokens += cached
        used.out_tokens += tokens_out
        used.reasoning_out_tokens += reasoning
        used.cost += Decimal(cost)
        used.provenances.add(_PROVENANCES[provenance])
        used.request_seconds += seconds
    return [
        (
            hour,
            *key,
            used.requests,
            used.in_tokens,
            used.cached_in_tokens,
            used.out_tokens,
            used.reasoning_out_tokens,
            str(used.cost),
            used.cost_provenance.value,
            used.request_seconds,
        )
        for key, used in sums.items()
    ]


def stale_hours(connection: sqlite3.Connection, since: int, until: int) -> list[int]:
    """The hours (numbers since the epoch) within a time whose kept sums do not hold."""
    found = connection.execute("SELECT hour FROM stale_hours WHERE hour >= ? AND hour < ?", (since, until)).fetchall()
    return [hour for (hour,) in found]


def read_sums(connection: sqlite3.Connection, since: int, until: int, stale: Iterable[int]) -> list[Sum]:
    """The sums of hours (numbers since the epoch) from `since` on, before `until`; stale ones are added up anew."""
    found: list[Sum] = connection.execute(
        "SELECT * FROM hours_of_use WHERE hour >= ? AND hour < ? AND hour NOT IN (SELECT hour FROM stale_hours)",
        (since, until),
    ).fetchall()
    for hour in stale:
        found += _summed(connection, hour)
    return found


def read_usage(connection: sqlite3.Connection, since: float, until: float) -> list[HourOfUse] | None:
    """The hours that begin within a time (seconds since the epoch), oldest first; None: `add_up` is to come first."""
    if is_far_behind(connection):
        return None
    within = (math.ceil(since / HOUR), math.ceil(until / HOUR))
    found = read_sums(connection, *within, stale_hours(connection, *within))
    found.sort()
    hours = {row[0]: datetime.fromtimestamp(row[0] * HOUR, UTC) for row in found}
    return [HourOfUse(hours[row[0]], *row[1:10], Decimal(row[10]), _PROVENANCES[row[11]], row[12]) for row in found]
