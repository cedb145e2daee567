"""Runs are recorded while they happen, and come back as they looked."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from engine import run_history
from engine.errors import StorageError
from engine.events import AgentFinished, ChunkReceived, CompletionFinished, RunFinished
from engine.history_rows import merge_chunks
from engine.history_schema import HISTORY
from engine.run_history import CostTotal, RunHistory
from engine.sqlite_schema import open_for_writing
from engine.statistics import CostProvenance
from tests.helpers.history_events import CALL_COST, call_statistics, run_events, step_events
from tests.helpers.recording import START, begin, open_history, query, reach, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.sqlite"


@pytest.fixture
async def history(path: Path) -> AsyncIterator[RunHistory]:
    async with open_history(path) as history:
        yield history


async def test_a_run_comes_back_as_it_looked(history: RunHistory) -> None:
    events = await record(history)
    end = events[-1]
    assert isinstance(end, RunFinished)
    history.record(end)
    assert await history.flush()
    (row,) = await history.runs()
    assert (row.id, row.flow, row.status, row.seconds) == ("run 1", "Sample", "finished", 2.0)
    assert (row.requests, row.in_tokens, row.cached_in_tokens) == (2, 20, 4)
    assert (row.out_tokens, row.reasoning_out_tokens) == (10, 6)
    assert row.cost == Decimal("0.0000000002469135780246913578")
    assert row.provenance is CostProvenance.MEASURED
    assert row.started.tzinfo is UTC
    assert abs((datetime.now(UTC) - row.started).total_seconds()) < 3600
    recorded = await history.run("run 1")
    assert recorded.row == row
    assert recorded.events == merge_chunks(events)
    assert recorded.flow_text == '{"name": "Sample"}'
    assert recorded.inputs == {"topic": ["the sea"]}
    assert recorded.profiles == {"agent 1": "chat"}
    assert recorded.unreadable == 0


async def test_chunks_come_back_as_one_per_attempt(history: RunHistory) -> None:
    await record(history, steps=1)
    chunks = [event for event in (await history.run("run 1")).events if isinstance(event, ChunkReceived)]
    assert [(chunk.reasoning, chunk.content) for chunk in chunks] == [("hm well", "word0 word1 word2 ")]


async def test_nothing_is_created_before_the_first_run(history: RunHistory, path: Path) -> None:
    assert await history.runs() == []
    assert await history.today_cost() == CostTotal(cost=Decimal(0), provenance=CostProvenance.FREE)
    assert not path.parent.exists()
    with pytest.raises(StorageError, match="no recorded run 17") as caught:
        await history.run("17")
    assert "workbench runs list" in caught.value.hint


async def test_a_run_is_in_the_database_before_its_first_request(history: RunHistory, path: Path) -> None:
    assert await begin(history)
    assert query(path, "SELECT id, status FROM runs") == [("run 1", "running")]
    (row,) = await history.runs()
    assert (row.status, row.seconds, row.requests) == ("running", None, 0)


async def test_finished_steps_are_committed_at_once_and_text_each_second(history: RunHistory, path: Path) -> None:
    await begin(history)
    *first, last = step_events("run 1", 1, START)
    assert isinstance(last, AgentFinished)
    for event in first[:4]:
        history.record(event)
    await reach(lambda: "hm well" in str(query(path, "SELECT event FROM events")))
    history.record(last)
    await reach(lambda: "agent_finished" in str(query(path, "SELECT event FROM events")))


async def test_a_running_run_shows_what_its_finished_requests_used(history: RunHistory) -> None:
    await begin(history)
    for event in step_events("run 1", 1, START):
        history.record(event)
    (row,) = await history.runs()
    assert (row.status, row.requests, row.in_tokens, row.cost) == ("running", 1, 10, CALL_COST)
    assert row.provenance is CostProvenance.MEASURED


async def test_runs_are_listed_newest_first_up_to_a_limit(history: RunHistory) -> None:
    for number in range(5):
        await record(history, f"run {number}", steps=1)
    assert [row.id for row in await history.runs(3)] == ["run 4", "run 3", "run 2"]


async def test_runs_mix_without_harm(history: RunHistory) -> None:
    ids = ["a", "b", "c"]
    for run_id in ids:
        await begin(history, run_id)
    sent = {run_id: list(run_events(run_id)) for run_id in ids}
    for events in zip(*sent.values(), strict=True):
        for event in events:
            history.record(event)
    for run_id in ids:
        assert (await history.run(run_id)).events == merge_chunks(sent[run_id])


async def test_more_than_one_batch_is_saved(history: RunHistory) -> None:
    events = await record(history, steps=400)
    assert (await history.run("run 1")).events == merge_chunks(events)


async def test_the_cost_of_today_is_that_of_the_local_day(history: RunHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = datetime.fromtimestamp(START, UTC).astimezone().replace(hour=12)
    midnight = noon.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    await record(history, "yesterday", steps=1, time=midnight - 1)
    await record(history, "today", steps=2, time=midnight)
    assert await history.today_cost(noon) == CostTotal(cost=CALL_COST * 2, provenance=CostProvenance.MEASURED)
    event = next(event for event in run_events("third", 1, noon.timestamp()) if isinstance(event, CompletionFinished))
    unknown = msgspec.structs.replace(call_statistics(), cost=Decimal(0), provenance=CostProvenance.UNKNOWN)
    cached = msgspec.structs.replace(unknown, requests=0, cached_prompts=1)
    await begin(history, "third")
    history.record(msgspec.structs.replace(event, statistics=cached))
    assert (await history.today_cost(noon)).provenance is CostProvenance.MEASURED
    history.record(msgspec.structs.replace(event, statistics=unknown))
    assert await history.today_cost(noon) == CostTotal(cost=CALL_COST * 2, provenance=CostProvenance.UNKNOWN)


async def test_the_end_of_a_run_is_committed_to_the_disk(history: RunHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []

    def traced(path: Path, migrations: object) -> sqlite3.Connection:
        connection = open_for_writing(path, HISTORY)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(run_history, "open_for_writing", traced)
    await record(history, steps=1)
    await history.flush()
    end = statements.index("PRAGMA synchronous = FULL")
    assert statements[end + 1] == "BEGIN IMMEDIATE"
    assert any(statement.startswith("UPDATE runs SET status = 'finished'") for statement in statements[end:])
    assert statements[-1] == "PRAGMA synchronous = NORMAL"
    assert statements.count("PRAGMA synchronous = FULL") == 1


async def test_answers_of_the_cache_are_no_tokens_of_a_crashed_run(history: RunHistory, path: Path) -> None:
    await begin(history)
    for event in step_events("run 1", 1, datetime.now(UTC).timestamp()):
        history.record(event)
    await history.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET process_mark = 'an earlier process'")
        connection.execute("UPDATE requests SET requests = 0, cost = '0', provenance = 'free'")
    (row,) = await history.runs()
    assert (row.status, row.requests, row.in_tokens, row.out_tokens) == ("crashed", 0, 0, 0)


async def test_another_process_that_died_leaves_crashed_runs(history: RunHistory, path: Path) -> None:
    await begin(history)
    for event in step_events("run 1", 1, datetime.now(UTC).timestamp() + 10):
        history.record(event)
    await history.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET process_mark = 'an earlier process'")
    (row,) = await history.runs()  # nobody has written yet
    assert (row.status, row.requests, row.cost, row.seconds) == ("crashed", 1, CALL_COST, None)
    await record(history, "run 2")
    crashed = await history.run("run 1")
    assert (crashed.row.status, crashed.row.requests, crashed.row.cost) == ("crashed", 1, CALL_COST)
    assert crashed.row.seconds is not None
    assert 10 <= crashed.row.seconds < 60
    assert query(path, "SELECT id, status FROM runs ORDER BY id") == [("run 1", "crashed"), ("run 2", "finished")]


async def test_events_of_a_later_version_are_left_out_and_counted(history: RunHistory, path: Path) -> None:
    events = await record(history, steps=1)
    await history.flush()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            """INSERT INTO events (run_id, seq, event) VALUES ('run 1', 1000, '{"type": "dreamt", "time": 1}')"""
        )
    recorded = await history.run("run 1")
    assert recorded.unreadable == 1
    assert recorded.events == merge_chunks(events)


async def test_close_saves_and_a_new_history_goes_on(history: RunHistory, path: Path) -> None:
    await record(history)
    assert await history.close()
    assert not path.with_name("history.sqlite-wal").exists()  # the log is folded in
    assert not any(thread.name == "run history" for thread in threading.enumerate())
    await record(history, "run 2")
    assert len(await history.runs()) == 2


async def test_a_database_of_a_newer_program_is_only_read(history: RunHistory, path: Path) -> None:
    await record(history)
    await history.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(HISTORY) + 1}")
    before = path.read_bytes()
    told: list[StorageError] = []
    history.on_error(told.append)
    assert not await begin(history, "run 2")
    await asyncio.sleep(0)
    assert "can only read it" in str(told[0])
    assert [row.id for row in await history.runs()] == ["run 1"]
    assert not await history.close()
    assert path.read_bytes() == before


async def test_odd_events_are_reported_and_the_rest_is_recorded(history: RunHistory) -> None:
    told: list[StorageError] = []
    history.on_error(told.append)
    await begin(history)
    loop: list[object] = []
    loop.append(loop)
    events = list(run_events("run 1"))
    history.record(AgentFinished(time=START, run_id="run 1", values={"endless": loop}))
    for event in events:
        history.record(event)
    assert (await history.run("run 1")).events == merge_chunks(events)
    assert len(told) == 1
    assert str(told[0]).startswith("An event of run run 1 cannot be recorded (AgentFinished: ")
