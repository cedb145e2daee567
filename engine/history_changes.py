"""Deletes recorded runs, and brings back what can be read of a damaged database."""

import contextlib
import sqlite3
from pathlib import Path

from engine.errors import StorageError
from engine.history_schema import HISTORY
from engine.history_usage import MARK_ALL_HOURS
from engine.process_identity import is_alive
from engine.sqlite_schema import open_for_writing, storage_error

_OF_A_RUN = ("run_inputs", "events", "contexts", "blobs")
_TABLES = ("runs", "run_inputs", "blobs", "contexts", "events", "requests", "frozen")


def delete_run(connection: sqlite3.Connection, run_id: str) -> bool:
    """Delete a run; whether there was one. Its requests stay: they were paid. Raises StorageError while it runs."""
    found = connection.execute("SELECT status, pid, process_mark FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        return False
    if found[0] == "running" and is_alive(found[1], found[2]):
        raise StorageError(f"The run {run_id} is still running.", hint="Stop it first.")
    _delete(connection, run_id)
    return True


def delete_older(connection: sqlite3.Connection, before: float) -> int:
    """Delete the runs that began before then (seconds since the epoch) and have ended; how many."""
    found = connection.execute("SELECT id FROM runs WHERE started < ? AND status != 'running'", (before,)).fetchall()
    for (run_id,) in found:
        _delete(connection, run_id)
    return len(found)


def keep_frozen(connection: sqlite3.Connection, flow: str, agent: str, data: str) -> None:
    """Keep the answers of an agent, in the place of earlier ones."""
    connection.execute("INSERT OR REPLACE INTO frozen (flow, agent, data) VALUES (?, ?, ?)", (flow, agent, data))


def thaw(connection: sqlite3.Connection, flow: str, agent: str) -> None:
    """Forget the kept answers of an agent."""
    connection.execute("DELETE FROM frozen WHERE flow = ? AND agent = ?", (flow, agent))


def _delete(connection: sqlite3.Connection, run_id: str) -> None:
    connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
    for table in _OF_A_RUN:
        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608 - constant names


def salvage(damaged: Path, target: Path) -> dict[str, int]:
    """Copy every readable row of a database into another that has none with its key; how many of each table.

    The damaged file is only read. Raises StorageError.
    """
    if not damaged.is_file():
        raise StorageError(f"There is no file {damaged}.", facts={"path": str(damaged)})
    copied: dict[str, int] = {}
    with contextlib.closing(open_for_writing(target, HISTORY)) as connection:
        try:
            source = sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise storage_error(damaged, error) from error
        with contextlib.closing(source):
            source.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.execute("BEGIN IMMEDIATE")
            for table in _TABLES:
                copied[table] = _copy(source, connection, table)
            connection.execute(MARK_ALL_HOURS)
            connection.execute("COMMIT")
    return copied


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> int:
    """Copy what can be read of one table: from its beginning, then from its end, up to the damage."""
    known = [row[1] for row in target.execute(f"PRAGMA table_info({table})")]
    keys = [row[1] for row in target.execute(f"PRAGMA table_info({table})") if row[5]]
    try:
        names = [row[1] for row in source.execute(f"PRAGMA table_info({table})") if row[1] in known]
    except sqlite3.Error:
        return 0
    if not names:
        return 0
    before = target.total_changes
    columns, marks = ", ".join(names), ", ".join("?" * len(names))
    insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 - names of our own tables
    for direction in ("ASC", "DESC"):
        order = ", ".join(f"{key} {direction}" for key in keys)
        try:
            for row in source.execute(f"SELECT {columns} FROM {table} ORDER BY {order}"):  # noqa: S608 - as above
                with contextlib.suppress(sqlite3.IntegrityError):
                    target.execute(insert, row)
        except sqlite3.Error:
            continue  # up to here; the rest may be readable from the other end
        break
    return target.total_changes - before
