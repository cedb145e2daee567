"""Runs are recorded while they happen, survive kills and failing disks, and come back as they looked."""

import asyncio
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from engine import run_history
from engine.errors import StorageError
from engine.events import AgentFinished, AnyEvent, ChunkReceived, CompletionFinished, RunFinished
from engine.history_rows import merge_chunks
from engine.history_schema import HISTORY
from engine.run_history import CostTotal, RunHistory
from engine.sqlite_schema import open_for_writing
from engine.statistics import CostProvenance
from tests.helpers.history_events import CALL_COST, call_statistics, run_events, step_events

START = 1_800_000_000.0
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.sqlite"


@pytest.fixture
async def history(path: Path) -> AsyncIterator[RunHistory]:
    history = RunHistory(path)
    yield history
    await history.close()


async def begin(history: RunHistory, run_id: str = "run 1") -> bool:
    return await history.begin(run_id, "Sample", '{"name": "Sample"}', {"topic": ["the sea"]}, {"agent 1": "chat"})


async def record(history: RunHistory, run_id: str = "run 1", steps: int = 2, time: float = START) -> list[AnyEvent]:
    assert await begin(history, run_id)
    events = list(run_events(run_id, steps, time))
    for event in events:
        history.record(event)
    return events


def query(path: Path, question: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


async def reach(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


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


class FailingDisk:
    """Fails the k-th database call and, when asked, all later ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.fail_at = 0
        self.fail_after = False
        monkeypatch.setattr(run_history, "open_for_writing", self.open)

    def call(self) -> None:
        self.calls += 1
        if self.calls == self.fail_at or (self.fail_after and self.calls > self.fail_at):
            raise sqlite3.OperationalError("disk I/O error")

    def open(self, path: Path, migrations: object) -> "FailingConnection":
        self.call()
        return FailingConnection(open_for_writing(path, HISTORY), self)


class FailingConnection:
    def __init__(self, connection: sqlite3.Connection, disk: FailingDisk) -> None:
        self.connection = connection
        self.disk = disk

    def execute(self, *arguments: str) -> sqlite3.Cursor:
        self.disk.call()
        return self.connection.execute(*arguments)

    def executemany(self, statement: str, rows: list[tuple[object, ...]]) -> sqlite3.Cursor:
        self.disk.call()
        return self.connection.executemany(statement, rows)

    def close(self) -> None:
        self.connection.close()


async def run_on_failing_disk(path: Path, monkeypatch: pytest.MonkeyPatch, call: int, lasting: bool) -> bool:
    """Record a run while the k-th call fails; whether there were that many calls."""
    disk = FailingDisk(monkeypatch)
    disk.fail_at, disk.fail_after = call, lasting
    history = RunHistory(path)
    told: list[StorageError] = []
    history.on_error(told.append)
    await begin(history)
    events = list(run_events("run 1", 2))
    for event in events[:-1]:
        history.record(event)
        await history.flush()
    assert isinstance(events[-1], RunFinished)
    history.record(events[-1])
    await history.flush()
    await asyncio.sleep(0)
    failed = disk.calls >= call
    if failed:
        (error,) = told
        assert str(path.parent) in error.hint
        assert "disk I/O error" in str(error)
        assert history.error is not None or not lasting
    disk.fail_at, disk.fail_after = 0, False
    assert await history.flush()
    assert history.error is None
    assert (await history.run("run 1")).events == merge_chunks(events)
    (row,) = await history.runs()
    assert (row.status, row.requests, row.cost) == ("finished", 2, CALL_COST * 2)
    assert query(path, "SELECT count(*) FROM requests") == [(2,)]
    assert await history.close()
    return failed


@pytest.mark.parametrize("lasting", [False, True])
async def test_a_failing_disk_ends_nothing_and_a_retry_saves_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    call = 1
    with monkeypatch.context() as patch:
        while await run_on_failing_disk(tmp_path / str(call) / "history.sqlite", patch, call, lasting):
            patch.undo()
            call += 1
    assert call > 40


async def test_a_full_disk_keeps_results_until_there_is_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = 40

    def small(path: Path, migrations: object) -> sqlite3.Connection:
        connection = open_for_writing(path, HISTORY)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(run_history, "open_for_writing", small)
    history = RunHistory(path)
    told: list[StorageError] = []
    history.on_error(told.append)
    events = await record(history, steps=400)
    assert not await history.flush()
    await asyncio.sleep(0)
    assert [str(error) for error in told] == ["The database history.sqlite cannot be used: database or disk is full."]
    pages = 1_000_000
    assert await history.flush()
    assert (await history.run("run 1")).events == merge_chunks(events)
    await history.close()


async def test_saving_goes_on_by_itself_when_the_disk_is_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_history, "RETRY_SECONDS", 0.01)
    path.parent.mkdir(parents=True)
    path.mkdir()
    history = RunHistory(path)
    assert not await begin(history)
    path.rmdir()
    await reach(lambda: history.error is None)
    assert [row.id for row in await history.runs()] == ["run 1"]
    await history.close()


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


RECORDS = """
import asyncio, sys
from pathlib import Path
from engine.run_history import RunHistory
from tests.helpers.history_events import run_events

async def main():
    history = RunHistory(Path(sys.argv[1]))
    await history.begin(sys.argv[2], "Sample", "{}", {}, {})
    print("begun", flush=True)
    for number, event in enumerate(run_events(sys.argv[2], steps=20)):
        history.record(event)
        if await history.flush():
            print(number, flush=True)
    print("end", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def kill_while_writing(path: Path, run_id: str, chance: random.Random) -> int:
    """Kill a process that records, after a random number of its messages; how many events it said were saved."""
    lines = chance.randrange(0, 180)
    command = [sys.executable, "-c", RECORDS, str(path), run_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line.strip())
            if len(said) > lines or said[-1] == "end":
                process.send_signal(signal.SIGKILL)
    return sum(line.isdigit() for line in said)


async def check_killed(path: Path, run_id: str, acknowledged: int) -> None:
    history = RunHistory(path)
    await begin(history, f"after {run_id}")
    recorded = await history.run(run_id)
    whole = list(run_events(run_id, steps=20))
    assert recorded.row.status == ("finished" if acknowledged == len(whole) else recorded.row.status)
    assert recorded.row.status in ("crashed", "finished")
    merged = merge_chunks(whole)
    assert [event for event in recorded.events if not isinstance(event, ChunkReceived)] == [
        event for event in merged if not isinstance(event, ChunkReceived)
    ][: sum(not isinstance(event, ChunkReceived) for event in recorded.events)]
    text = "".join(event.content for event in recorded.events if isinstance(event, ChunkReceived))
    assert text == "".join(event.content for event in whole if isinstance(event, ChunkReceived))[: len(text)]
    stored = query(path, f"SELECT count(*) FROM events WHERE run_id = '{run_id}'")[0][0]
    assert isinstance(stored, int)
    assert stored >= acknowledged
    finished = sum(isinstance(event, CompletionFinished) for event in recorded.events)
    assert recorded.row.requests == finished
    assert recorded.row.cost == CALL_COST * finished
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    await history.close()


async def test_killed_processes_lose_nothing_they_said_was_saved(path: Path) -> None:
    chance = random.Random(28)
    for number in range(4):
        acknowledged = await asyncio.to_thread(kill_while_writing, path, f"killed {number}", chance)
        await check_killed(path, f"killed {number}", acknowledged)


@pytest.mark.soak
async def test_two_hundred_killed_processes_lose_nothing(path: Path) -> None:
    chance = random.Random(2028)
    for number in range(200):
        acknowledged = await asyncio.to_thread(kill_while_writing, path, f"killed {number}", chance)
        await check_killed(path, f"killed {number}", acknowledged)


async def truncate_and_open(history: RunHistory, path: Path, folder: Path, cuts: int) -> None:
    """Cut database and log of a recording that was never closed; what is left is a prefix of its commits."""
    chance = random.Random(30)
    await begin(history)
    whole = list(run_events("run 1", steps=20))
    for event in whole[:-1]:
        history.record(event)
        await history.flush()
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size
    kept = set()
    for number in range(cuts):
        copy = folder / f"cut {number}" / path.name
        copy.parent.mkdir(parents=True)
        shutil.copy(path, copy)
        copy.with_name(log.name).write_bytes(log.read_bytes()[: chance.randrange(size)])
        opened = RunHistory(copy)
        rows = await opened.runs()
        if rows:
            events = [event for event in (await opened.run("run 1")).events if not isinstance(event, ChunkReceived)]
            expected = [event for event in whole if not isinstance(event, ChunkReceived)]
            assert events == expected[: len(events)]
            kept.add(len(events))
        assert await begin(opened, "run 2")
        assert await opened.close()
        assert query(copy, "PRAGMA integrity_check") == [("ok",)]
    assert len(kept) > 1, "the cuts should show different prefixes"


async def test_a_truncated_log_holds_a_prefix(history: RunHistory, path: Path, tmp_path: Path) -> None:
    await truncate_and_open(history, path, tmp_path / "cuts", 12)


@pytest.mark.soak
async def test_two_hundred_truncated_logs_hold_prefixes(history: RunHistory, path: Path, tmp_path: Path) -> None:
    await truncate_and_open(history, path, tmp_path / "cuts", 200)


async def test_a_truncated_database_is_set_aside_and_the_run_goes_on(history: RunHistory, path: Path) -> None:
    await record(history, steps=50)
    await history.close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    told: list[StorageError] = []
    history.on_error(told.append)
    assert await begin(history, "run 2")
    whole = list(run_events("run 2"))
    for event in whole:
        history.record(event)
    assert await history.flush()
    assert (await history.run("run 2")).events == merge_chunks(whole)
    (error,) = told
    (aside,) = path.parent.glob("history damaged *.sqlite")
    assert (error.facts["moved to"], "runs salvage" in error.hint) == (str(aside), True)


async def test_a_database_damaged_while_it_is_open_is_set_aside_with_the_runs_under_way_kept(
    history: RunHistory, path: Path
) -> None:
    assert await begin(history)
    events = list(run_events("run 1"))
    for event in events[:5]:
        history.record(event)
    assert await history.flush()
    for file in (path, path.with_name(path.name + "-wal")):
        with file.open("r+b") as data:
            data.write(b"\xff" * file.stat().st_size)
    assert await history.runs() == []
    for event in events[5:]:
        history.record(event)
    assert await history.flush()
    (row,) = await history.runs()
    assert (row.id, row.status) == ("run 1", "finished")
    assert list(path.parent.glob("history damaged *.sqlite"))


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
