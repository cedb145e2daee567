"""Databases of every version open for ever; damaged ones are set aside; several processes share one."""

import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from engine import network_folders, sqlite_schema
from engine.errors import DatabaseDamaged, StorageError
from engine.history_changes import salvage
from engine.history_schema import HISTORY
from engine.network_folders import filesystem
from engine.run_history import RunHistory
from engine.sqlite_schema import open_for_writing, set_aside
from tests.helpers.history_events import run_events

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "history"
FIRST = ("CREATE TABLE a (x INTEGER)", "INSERT INTO a VALUES (1)")
SECOND = ("ALTER TABLE a ADD COLUMN y TEXT DEFAULT 'new'", "CREATE TABLE b (z INTEGER)")


async def record(history: RunHistory, run_id: str, steps: int = 2) -> None:
    await history.begin(run_id, "Sample", "{}", {}, {})
    for event in run_events(run_id, steps):
        history.record(event)
    assert await history.flush()


@pytest.mark.parametrize("version", range(1, len(HISTORY)))
async def test_a_database_of_each_version_opens_for_ever(version: int, tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    shutil.copy(FIXTURES / f"version_{version}.sqlite", path)
    history = RunHistory(path)
    assert [row.id for row in await history.runs()] == ["run 2", "run 1"]  # only read so far: as it was
    await record(history, "new")
    recorded = await history.run("run 2")
    assert (recorded.row.requests, recorded.inputs) == (2, {"topic": ["the sea"]})
    assert recorded.row.cost == Decimal("0.0000000002469135780246913578")
    assert recorded.unreadable == 0
    assert (await history.reached("run 2")).checkpoints == []
    assert {row.id for row in await history.runs()} == {"run 1", "run 2", "new"}
    await history.close()
    backup = tmp_path / f"history version {version} backup.sqlite"
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (2,)


MIGRATES = """
import os, signal, sys
from pathlib import Path
from zoneinfo import ZoneInfo
from engine import sqlite_schema
import sqlite3
steps = int(sys.argv[2])
class Dying(sqlite3.Connection):
    def execute(self, sql, *more):
        global steps
        if sql.startswith(("CREATE", "ALTER", "INSERT", "PRAGMA user_version =", "COMMIT", "BEGIN")):
            if steps == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            steps -= 1
        return super().execute(sql, *more)
connect = sqlite3.connect
sqlite_schema.sqlite3.connect = lambda *a, **k: connect(*a, factory=Dying, **k)
from tests.unit.test_database_files import FIRST, SECOND
sqlite_schema.open_for_writing(Path(sys.argv[1]), [FIRST, SECOND]).close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")
def test_a_migration_killed_at_any_statement_leaves_the_old_or_the_new_version(tmp_path: Path) -> None:
    for steps in range(5):
        path = tmp_path / str(steps) / "a.sqlite"
        open_for_writing(path, [FIRST]).close()
        killed = subprocess.run([sys.executable, "-c", MIGRATES, str(path), str(steps)], cwd=ROOT, check=False)
        assert killed.returncode == -9
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (1,)
            assert connection.execute("SELECT * FROM a").fetchall() == [(1,)]
        with closing(open_for_writing(path, [FIRST, SECOND])) as connection:
            assert connection.execute("SELECT * FROM a").fetchall() == [(1, "new")]


@pytest.mark.parametrize("version", [len(HISTORY) + 1, len(HISTORY) + 100])
async def test_newer_versions_are_read_and_left_as_they_are(version: int, tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    history = RunHistory(path)
    await record(history, "run 1")
    await history.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    later = RunHistory(path)
    assert [row.id for row in await later.runs()] == ["run 1"]
    assert not await later.begin("run 2", "Sample", "{}", {}, {})
    await later.close()
    assert path.read_bytes() == before


async def damaged_starts(tmp_path: Path, count: int, seed: int) -> None:
    """A database whose bytes were flipped, replaced or lost: each start succeeds, and new runs are recorded."""
    chance = random.Random(seed)
    source = tmp_path / "source" / "history.sqlite"
    history = RunHistory(source)
    await record(history, "old", 20)
    await record(history, "new")
    recorded = len((await history.run("new")).events)
    await history.delete("new")
    await history.close()
    whole = source.read_bytes()
    for number in range(count):
        path = tmp_path / str(number) / "history.sqlite"
        path.parent.mkdir()
        data = bytearray(whole)
        kind = chance.choice(["flipped", "random", "cut", "empty", "text"])
        if kind == "flipped":
            for _ in range(chance.randrange(1, 2000)):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif kind == "random":
            data = bytearray(chance.randbytes(chance.randrange(1, len(data))))
        elif kind == "cut":
            del data[chance.randrange(len(data)) :]
        elif kind == "empty":
            data.clear()
        else:
            data = bytearray(b"these are notes, not a database\n" * 50)
        path.write_bytes(data)
        later = RunHistory(path)
        await later.runs()
        await record(later, "new")
        assert "new" in [row.id for row in await later.runs()], kind
        new = await later.run("new")
        # Damage in what nobody has read may still be there; it is noticed when it is read.
        assert (new.row.status, new.unreadable, len(new.events)) == ("finished", 0, recorded), kind
        assert await later.close()


async def test_a_header_of_an_unknown_form_is_damage_too(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    history = RunHistory(path)
    await record(history, "old")
    await history.close()
    data = bytearray(path.read_bytes())
    data[44:48] = (9).to_bytes(
        4
    )  # the format of the schema: SQLite knows 1 to 4, and calls others an operational error
    path.write_bytes(data)
    later = RunHistory(path)
    assert await later.runs() == []
    await record(later, "new")
    assert [row.id for row in await later.runs()] == ["new"]
    assert await later.close()


async def test_every_start_on_a_damaged_database_succeeds(tmp_path: Path) -> None:
    await damaged_starts(tmp_path, 15, 32)


async def test_what_can_be_read_of_a_damaged_database_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    history = RunHistory(path)
    for number in range(30):
        await record(history, f"run {number:02}", 5)
    await history.close()
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 8192] = b"\xff" * 8192
    path.write_bytes(data)
    place = set_aside(path, HISTORY)
    assert place is not None
    assert set_aside(path, HISTORY) is None
    copied = salvage(place, path)
    assert copied["events"] > 100
    assert copied["runs"] > 0
    later = RunHistory(path)
    rows = await later.runs()
    assert rows
    assert (await later.run(rows[0].id)).row.status == "finished"
    assert sum(salvage(place, path).values()) == 0  # again brings nothing twice
    await later.close()


def test_a_foreign_database_is_damage_and_not_migrated(tmp_path: Path) -> None:
    for version in (0, 1):
        path = tmp_path / f"foreign {version}.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE recipes (name TEXT)")
            connection.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(DatabaseDamaged, match="not a database of this program"):
            open_for_writing(path, HISTORY)
        place = set_aside(path, HISTORY)
        assert place is not None
        with closing(sqlite3.connect(place)) as connection:
            assert connection.execute("SELECT count(*) FROM recipes").fetchone() == (0,)


async def test_a_folder_in_the_place_of_the_database_is_told_alike_by_reading_and_writing(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").mkdir()
    history = RunHistory(tmp_path / "history.sqlite")
    assert not await history.begin("run", "Sample", "{}", {}, {})
    assert history.error is not None
    with pytest.raises(StorageError, match="found a folder named") as caught:
        await history.runs()
    assert str(history.error) == str(caught.value)
    await history.close()


def test_network_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = f"/dev/sda1 / ext4 rw 0 0\nserver:/home {str(tmp_path).replace(' ', chr(92) + '040')} nfs4 rw 0 0\n"
    assert filesystem(Path("/"), mounts) == "ext4"
    assert filesystem(tmp_path / "data" / "x", mounts) == "nfs4"
    if sys.platform != "win32":
        monkeypatch.setattr(network_folders, "mounts", lambda: mounts)
        with pytest.raises(StorageError, match=r"network folder \(nfs4\)"):
            open_for_writing(tmp_path / "data" / "history.sqlite", HISTORY)
        assert not (tmp_path / "data").exists()


INSERTS = """
import asyncio, sys
from pathlib import Path
from zoneinfo import ZoneInfo
from engine.run_history import RunHistory
from tests.helpers.history_events import run_events
async def main():
    told = []
    history = RunHistory(Path(sys.argv[1]))
    history.on_error(told.append)
    for number in range(int(sys.argv[3])):
        run_id = f"{sys.argv[2]} {number}"
        await history.begin(run_id, "Sample", "{}", {}, {})
        for event in run_events(run_id, 5):
            history.record(event)
    await history.flush()
    saved = await history.close()
    sys.exit(0 if saved and not told else 1)
asyncio.run(main())
"""


def together(path: Path, processes: int, runs: int) -> None:
    """Processes that start on one data folder at once and record all they have."""
    commands = [[sys.executable, "-c", INSERTS, str(path), str(number), str(runs)] for number in range(processes)]
    running = [subprocess.Popen(command, cwd=ROOT) for command in commands]
    assert [process.wait() for process in running] == [0] * processes
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM requests").fetchone() == (processes * runs * 5,)
        assert connection.execute("SELECT count(*) FROM runs WHERE status = 'finished'").fetchone() == (
            processes * runs,
        )


def test_processes_that_start_at_once_share_the_database(tmp_path: Path) -> None:
    together(tmp_path / "history.sqlite", 4, 5)


async def test_deleting_keeps_what_was_paid(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    await record(history, "run 1")
    await record(history, "run 2")
    await history.delete("run 1")
    assert [row.id for row in await history.runs()] == ["run 2"]
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM requests").fetchone() == (4,)
        assert connection.execute("SELECT count(*) FROM events WHERE run_id = 'run 1'").fetchone() == (0,)
    with pytest.raises(StorageError, match="no recorded run"):
        await history.delete("run 1")
    assert await history.prune(1) == 0
    assert await history.prune(0) == 1
    assert await history.runs() == []
    await history.close()


def test_a_stale_lock_file_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / ".history.sqlite.lock").write_text("left by a process that died")
    open_for_writing(tmp_path / "history.sqlite", HISTORY).close()
    assert sqlite_schema.BUSY_TIMEOUT == 5.0


@pytest.mark.skipif(sys.platform == "win32", reason="sets the time zone as POSIX does")
@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
async def test_a_day_lasts_from_midnight_to_midnight(
    day: str, hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a zone with summer time, the days of its changes have 23 and 25 hours."""
    zone = ZoneInfo("Europe/Berlin")
    midnight = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=zone).timestamp()
    history = RunHistory(tmp_path / "history.sqlite")
    for number, moment in enumerate((-0.6, 0.0, hours * 3600 - 1.6, hours * 3600 - 0.4)):
        await history.begin(f"run {number}", "Sample", "{}", {}, {})
        for event in run_events(f"run {number}", 1, midnight + moment):
            history.record(event)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        last = datetime.fromtimestamp(midnight + hours * 3600 - 1, UTC)
        after = datetime.fromtimestamp(midnight + hours * 3600 + 1, UTC)
        for own in (zone, None):  # given, or that of this machine
            today = (await history.today(last, own)).requests
            tomorrow = (await history.today(after, own)).requests
            assert today - tomorrow == 2, own
            assert tomorrow == 1, own
    finally:
        monkeypatch.undo()
        time.tzset()
    await history.close()
