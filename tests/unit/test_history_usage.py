"""What requests used, hour by hour: exact, whatever is written again, late, deleted or salvaged."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from engine.history_changes import salvage
from engine.history_usage import AT_ONCE, FEW
from engine.run_history import RunHistory
from engine.statistics import CostProvenance
from tests.helpers.history_events import CALL_COST, run_events, step_events

START = datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
FIXTURES = Path(__file__).parent.parent / "fixtures" / "history"


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[RunHistory]:
    history = RunHistory(tmp_path / "history.sqlite")
    yield history
    await history.close()


async def record(history: RunHistory, run_id: str, time: datetime, steps: int = 2) -> None:
    await history.begin(run_id, "Sample", "{}", {}, {})
    for event in run_events(run_id, steps, time.timestamp()):
        history.record(event)
    assert await history.flush()


async def requests(history: RunHistory, since: datetime = START, hours: int = 24) -> list[tuple[datetime, str, int]]:
    used = await history.usage(since, since + timedelta(hours=hours))
    return [(one.hour, one.agent, one.requests) for one in used]


async def test_requests_are_added_up_by_hour_and_agent(history: RunHistory) -> None:
    await record(history, "run 1", START)
    await record(history, "run 2", START + timedelta(minutes=59))
    await record(history, "run 3", START + timedelta(hours=2), 1)
    late = START + timedelta(hours=2)
    assert await requests(history) == [(START, "agent 1", 2), (START, "agent 2", 2), (late, "agent 1", 1)]
    first = (await history.usage(START, late))[0]
    assert (first.flow, first.cost, first.provenance) == ("Sample", 2 * CALL_COST, CostProvenance.MEASURED)
    assert (first.in_tokens, first.out_tokens, first.seconds) == (20, 10, 1.0)


async def test_hours_that_go_on_are_added_up_again(history: RunHistory) -> None:
    await record(history, "run 1", START, 1)
    assert await requests(history) == [(START, "agent 1", 1)]
    await record(history, "run 2", START + timedelta(minutes=5), 1)
    assert await requests(history) == [(START, "agent 1", 2)]
    await record(history, "run 2", START + timedelta(minutes=5), 1)  # written again, as after a commit that failed
    assert await requests(history) == [(START, "agent 1", 2)]


async def test_what_was_paid_stays_when_runs_are_deleted(history: RunHistory) -> None:
    await record(history, "run 1", START, 1)
    assert await requests(history) == [(START, "agent 1", 1)]
    await history.delete("run 1")
    assert await requests(history) == [(START, "agent 1", 1)]
    await record(history, "run 2", START, 1)  # the hour is added up again
    assert sum(one.requests for one in await history.usage(START, START + timedelta(hours=1))) == 2


@pytest.mark.parametrize("hours", [FEW, FEW + 1, AT_ONCE + 1])
async def test_many_hours_are_added_up_once(hours: int, history: RunHistory, tmp_path: Path) -> None:
    await history.begin("run", "Sample", "{}", {}, {})
    for hour in range(hours):
        for event in step_events("run", hour, (START + timedelta(hours=hour)).timestamp()):
            history.record(event)
    expected = [(START + timedelta(hours=hour), f"agent {hour}", 1) for hour in range(hours)]
    assert await requests(history, hours=hours) == expected
    assert await requests(history, hours=hours) == expected
    assert await requests(history, START + timedelta(minutes=1), 2) == expected[1:3]
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as connection:
        stale = connection.execute("SELECT count(*) FROM stale_hours").fetchone()
    assert stale == (hours if hours <= FEW else 0,)


async def test_nothing_recorded_is_nothing_used(history: RunHistory, tmp_path: Path) -> None:
    assert await history.usage(START) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [1, 2])
async def test_what_older_versions_recorded_is_added_up(version: int, tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    shutil.copy(FIXTURES / f"version_{version}.sqlite", path)
    history = RunHistory(path)
    used = await history.usage(datetime.fromtimestamp(0, UTC), datetime(2100, 1, 1, tzinfo=UTC))
    with closing(sqlite3.connect(path)) as connection:
        costs = connection.execute("SELECT cost FROM requests WHERE requests > 0").fetchall()
    assert sum(one.requests for one in used) == len(costs) > 0
    assert sum(one.cost for one in used) == sum(Decimal(cost) for (cost,) in costs)


async def test_what_is_salvaged_is_added_up(history: RunHistory, tmp_path: Path) -> None:
    await record(history, "run 1", START, 1)
    assert await history.close()
    target = tmp_path / "new.sqlite"
    salvage(tmp_path / "history.sqlite", target)
    assert await requests(RunHistory(target)) == [(START, "agent 1", 1)]
