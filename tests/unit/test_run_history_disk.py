"""Recorded runs survive failing disks, kills, and logs and databases that were cut off."""

import asyncio
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine import run_history
from engine.errors import StorageError
from engine.events import ChunkReceived, CompletionFinished, RunFinished
from engine.history_rows import merge_chunks
from engine.history_schema import HISTORY
from engine.run_history import RunHistory
from engine.sqlite_schema import open_for_writing
from tests.helpers.history_events import CALL_COST, run_events
from tests.helpers.recording import begin, open_history, query, reach, record

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.sqlite"


@pytest.fixture
async def history(path: Path) -> AsyncIterator[RunHistory]:
    async with open_history(path) as history:
        yield history


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
