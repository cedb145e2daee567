"""How requests ended and how quickly, hour by hour: kept beside the sums of `history_usage`, as exact as those.

Times and speeds are counted in buckets, each 21 % wider than the one before. The counts of one hour lie side by side in
one whole number, 32 bits each, so that hours are added up by adding numbers.
"""

import math
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

HOUR = 3600
"""Seconds."""
BUCKETS = 64
PER_DECADE = 12
_BITS = 32
_MASK = (1 << _BITS) - 1
LEAST_SECONDS = 0.005
LEAST_SPEED = 0.1
"""Tokens per second. What is less counts as this."""

CANCELLED = "cancelled"
"""The error of a request that was stopped."""

_FIELDS = "hour, flow, agent, profile, answered, failed, cut_off, reused, reused_tokens, first_token, speed, seconds"
Row = tuple[int, str, str, str, int, int, int, int, int, bytes, bytes, bytes]
"""A row of `hours_of_answers`."""


def bucket(value: float, least: float) -> int:
    """The number of the bucket a value falls into; beyond the last it is the last."""
    return 0 if value <= least else min(BUCKETS - 1, int(math.log10(value / least) * PER_DECADE))


def lower_edge(number: int, least: float) -> float:
    """Where a bucket begins."""
    return float(least * 10 ** (number / PER_DECADE))


@dataclass(frozen=True, slots=True)
class Spread:
    """How values are spread over buckets."""

    least: float
    packed: int = 0
    """The counts, that of the first bucket in the lowest 32 bits."""

    @property
    def counts(self) -> list[int]:
        """By bucket."""
        return [self.packed >> (_BITS * number) & _MASK for number in range(BUCKETS)]

    def quantile(self, share: float) -> float | None:
        """The value that a share (0 to 1) of all stays below, to about 10 %; None without values."""
        counts = self.counts
        wanted = share * sum(counts)
        passed = 0
        for number, count in enumerate(counts):
            if count and passed + count >= wanted:
                part = (wanted - passed) / count
                return lower_edge(number, self.least) * float(10 ** (part / PER_DECADE))
            passed += count
        return None


@dataclass(slots=True)
class Answers:
    """How requests ended; counts that can be added up."""

    answered: int = 0
    """By a model, those that were cut off too."""
    failed: int = 0
    """Without those a person stopped."""
    cut_off: int = 0
    """At the limit of tokens."""
    reused: int = 0
    """Answers from the cache or of a frozen agent."""
    reused_tokens: int = 0
    """In and out, of those."""
    packed: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Counts of first token, speed and seconds."""

    def add(self, row: Row) -> None:
        """Add an hour."""
        self.answered += row[4]
        self.failed += row[5]
        self.cut_off += row[6]
        self.reused += row[7]
        self.reused_tokens += row[8]
        for number, counts in enumerate(row[9:]):
            self.packed[number] += int.from_bytes(counts, "little")

    def join(self, other: "Answers") -> None:
        """Add other answers."""
        self.answered += other.answered
        self.failed += other.failed
        self.cut_off += other.cut_off
        self.reused += other.reused
        self.reused_tokens += other.reused_tokens
        self.packed = [mine + others for mine, others in zip(self.packed, other.packed, strict=True)]

    @property
    def first_token(self) -> Spread:
        """Seconds from sending to the first text."""
        return Spread(LEAST_SECONDS, self.packed[0])

    @property
    def speed(self) -> Spread:
        """Tokens of answer and thinking per second after the first."""
        return Spread(LEAST_SPEED, self.packed[1])

    @property
    def seconds(self) -> Spread:
        """Of whole answers."""
        return Spread(LEAST_SECONDS, self.packed[2])

    @property
    def error_share(self) -> float | None:
        """Failed of all that were asked, 0 to 1; None when nobody was."""
        asked = self.answered + self.failed
        return self.failed / asked if asked else None


def summed_answers(connection: sqlite3.Connection, hour: int) -> list[Row]:
    """The answers of an hour, from its requests."""
    sums: dict[tuple[str, str, str], Answers] = {}
    question = """SELECT ifnull(runs.flow, ''), agent, profile, requests.requests, requests.error, finish_reason,
            requests.in_tokens + requests.cached_in_tokens, requests.out_tokens + requests.reasoning_out_tokens,
            requests.seconds, first_token, json_extract(details, '$.cached')
        FROM requests LEFT JOIN runs ON runs.id = run_id WHERE ts >= ? AND ts < ?"""
    for flow, agent, profile, *figures in connection.execute(question, (hour * HOUR, (hour + 1) * HOUR)):
        _count(sums.setdefault((flow, agent, profile), Answers()), *figures)
    return [_row(hour, key, one) for key, one in sums.items()]


def _row(hour: int, key: tuple[str, str, str], one: Answers) -> Row:
    first, speed, seconds = (packed.to_bytes(-(-packed.bit_length() // 8), "little") for packed in one.packed)
    counts = (one.answered, one.failed, one.cut_off, one.reused, one.reused_tokens)
    return (hour, *key, *counts, first, speed, seconds)


def _count(
    sums: Answers,
    requests: int,
    error: str,
    reason: str,
    tokens_in: int,
    tokens_out: int,
    seconds: float,
    first: float | None,
    cached: int | None,
) -> None:
    if error:
        sums.failed += error != CANCELLED
    elif cached or not requests:
        sums.reused += 1
        sums.reused_tokens += tokens_in + tokens_out
    else:
        sums.answered += 1
        sums.cut_off += reason == "TOKEN_LIMIT_REACHED"
        sums.packed[2] += 1 << _BITS * bucket(seconds, LEAST_SECONDS)
        if first is not None:
            sums.packed[0] += 1 << _BITS * bucket(first, LEAST_SECONDS)
        if tokens_out and seconds > (first or 0.0):
            sums.packed[1] += 1 << _BITS * bucket(tokens_out / (seconds - (first or 0.0)), LEAST_SPEED)


def keep_answers(connection: sqlite3.Connection, hour: int) -> None:
    """Add up an hour and keep it, in the place of what was kept of it."""
    connection.execute("DELETE FROM hours_of_answers WHERE hour = ?", (hour,))
    connection.executemany(
        f"INSERT INTO hours_of_answers ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        summed_answers(connection, hour),
    )


def read_answers(connection: sqlite3.Connection, since: int, until: int, stale: Iterable[int]) -> list[Row]:
    """The answers of hours (numbers since the epoch) from `since` on, before `until`; stale ones are added up anew."""
    left_out = "hour NOT IN (SELECT hour FROM stale_hours)"
    question = f"SELECT {_FIELDS} FROM hours_of_answers WHERE hour >= ? AND hour < ? AND {left_out}"  # noqa: S608
    found: list[Row] = connection.execute(question, (since, until)).fetchall()
    for hour in stale:
        found += summed_answers(connection, hour)
    return found
