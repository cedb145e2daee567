"""Databases are created, migrated once, and never written by an older program."""

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import StorageError
from engine.history_schema import HISTORY
from engine.sqlite_schema import open_for_reading, open_for_writing

FIRST = ("CREATE TABLE a (x INTEGER)", "INSERT INTO a VALUES (1)")
SECOND = ("ALTER TABLE a ADD COLUMN y TEXT DEFAULT 'new'", "INSERT INTO a VALUES (2, 'two')")


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_new_database_is_private_and_uses_a_log(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "history.sqlite"
    with closing(open_for_writing(path, HISTORY)) as connection:
        assert pragma(connection, "journal_mode") == "wal"
        assert pragma(connection, "synchronous") == 1  # NORMAL
        assert pragma(connection, "busy_timeout") == 5000
        assert pragma(connection, "user_version") == len(HISTORY)
        connection.execute("INSERT INTO events (run_id, seq, event) VALUES ('r', 0, '{}')")
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_migrations_run_in_order_and_once(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    open_for_writing(path, [FIRST]).close()
    for _ in range(2):
        with closing(open_for_writing(path, [FIRST, SECOND])) as connection:
            assert connection.execute("SELECT x, y FROM a").fetchall() == [(1, "new"), (2, "two")]
            assert pragma(connection, "user_version") == 2


def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    open_for_writing(path, [FIRST]).close()
    with pytest.raises(StorageError, match=r"a\.sqlite cannot be used"):
        open_for_writing(path, [FIRST, (*SECOND, "SELECT * FROM missing")])
    with closing(open_for_writing(path, [FIRST])) as connection:
        assert connection.execute("SELECT * FROM a").fetchall() == [(1,)]
        assert pragma(connection, "user_version") == 1


def test_a_newer_version_is_read_but_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    open_for_writing(path, [FIRST, SECOND]).close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="version 2; this program knows versions up to 1"):
        open_for_writing(path, [FIRST])
    assert path.read_bytes() == before
    reader = open_for_reading(path)
    assert reader is not None
    with closing(reader):
        assert reader.execute("SELECT x FROM a").fetchall() == [(1,), (2,)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("DELETE FROM a")


def test_reading_creates_nothing(tmp_path: Path) -> None:
    assert open_for_reading(tmp_path / "none.sqlite") is None
    (tmp_path / "empty.sqlite").touch()
    assert open_for_reading(tmp_path / "empty.sqlite") is None
    assert [file.name for file in tmp_path.iterdir()] == ["empty.sqlite"]


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be looked at" * 100, b"\0" * 5000])
def test_foreign_files_are_an_error_that_names_them(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(content)
    for opener in (lambda: open_for_writing(path, HISTORY), lambda: open_for_reading(path)):
        with pytest.raises(StorageError) as caught:
            opener()
        assert caught.value.facts["path"] == str(path)
        assert str(tmp_path) in caught.value.hint


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()
    with pytest.raises(StorageError):
        open_for_writing(tmp_path / "folder" / "history.sqlite", HISTORY)


def test_many_may_create_it_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    failed: list[BaseException] = []

    def create() -> None:
        try:
            open_for_writing(path, [FIRST, SECOND]).close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with closing(open_for_writing(path, [FIRST, SECOND])) as connection:
        assert connection.execute("SELECT count(*) FROM a").fetchone() == (2,)


def test_texts_of_any_size_lie_apart_from_the_keys(tmp_path: Path) -> None:
    """In a table WITHOUT ROWID a search reads each row it meets whole: beside values of 50 MB a run took minutes."""
    with closing(open_for_writing(tmp_path / "history.sqlite", HISTORY)) as connection:
        whole = {
            name for _, name, kind, _, apart, _ in connection.execute("PRAGMA table_list") if kind == "table" and apart
        }
    assert whole & {"events", "blobs", "contexts", "run_inputs"} == set()
    assert "runs" in whole


def test_the_grouped_questions_of_a_dashboard_read_only_an_index(tmp_path: Path) -> None:
    with closing(open_for_writing(tmp_path / "history.sqlite", HISTORY)) as connection:
        sums = "count(*), sum(in_tokens), sum(out_tokens), sum(CAST(cost AS REAL)), avg(seconds)"
        for question in (
            f"SELECT model, {sums} FROM requests GROUP BY model",
            f"SELECT model, {sums} FROM requests WHERE ts >= 5 GROUP BY model",
            f"SELECT {sums} FROM requests WHERE model = 'm' AND ts >= 5",
            "SELECT cost, provenance FROM requests WHERE ts >= 5 AND requests > 0",
        ):
            (plan,) = {row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}") if "requests" in row[3]}
            assert "USING COVERING INDEX" in plan
