"""Batches and the results of their rows in SQLite: each row is committed once, before the next one begins."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from engine.batch_values import BatchJob, BatchRecord, RowResult
from engine.errors import BatchError
from engine.process_identity import is_alive, own_identity
from engine.sqlite_schema import open_for_reading, storage_error
from engine.sqlite_store import SqliteStore, json_text

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE batches (
            id TEXT PRIMARY KEY,
            started REAL NOT NULL,           -- seconds since the epoch
            status TEXT NOT NULL,            -- running, finished, failed, stopped, budget
            reason TEXT NOT NULL DEFAULT '',
            rows INTEGER NOT NULL,           -- of the dataset, faulty ones included
            job TEXT NOT NULL,               -- JSON: what was to be done
            pid INTEGER NOT NULL,            -- the process that works on it, with the mark of its start
            process_mark TEXT NOT NULL
        )""",
        "CREATE INDEX batches_by_start ON batches (started)",
        """CREATE TABLE batch_rows (
            batch_id TEXT NOT NULL,
            row INTEGER NOT NULL,            -- from 1
            status TEXT NOT NULL,            -- finished, failed, budget, invalid; acting: no result, but tools acted
            digest TEXT NOT NULL,            -- of the values of the row
            result TEXT NOT NULL,            -- JSON
            PRIMARY KEY (batch_id, row)
        )""",
    ),
)
"""The database of batches."""

PAGE = 200
"""Results read at once."""


class BatchStore(SqliteStore):
    """The database of batches, created with the first one. `close` it, or use it in an `async with`.

    Everything raises StorageError.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, MIGRATIONS)
        self._running: set[str] = set()
        """Batches this program works on, whatever the database could be told about that."""

    async def begin(self, batch_id: str, job: BatchJob, rows: int) -> None:
        """Record a new batch before its first request."""
        values = (batch_id, time.time(), rows, json_text(job), *own_identity())
        columns = "id, started, status, rows, job, pid, process_mark"
        statement = f"INSERT INTO batches ({columns}) VALUES (?, ?, 'running', ?, ?, ?, ?)"  # noqa: S608 - constant
        await self._write([(statement, values)])
        self._running.add(batch_id)

    async def claim(self, batch_id: str) -> None:
        """Go on with a batch; raises BatchError when another process works on it."""

        def claim(connection: sqlite3.Connection) -> None:
            query = "SELECT status, pid, process_mark FROM batches WHERE id = ?"
            status, pid, mark = connection.execute(query, (batch_id,)).fetchone()
            elsewhere = (pid, mark) != own_identity() and is_alive(pid, mark)
            if batch_id in self._running or (status == "running" and elsewhere):
                raise BatchError(
                    f"The batch {batch_id} is running, in the process {pid}.", hint="Wait for it, or stop it first."
                )
            change = "UPDATE batches SET status = 'running', reason = '', pid = ?, process_mark = ? WHERE id = ?"
            connection.execute(change, (*own_identity(), batch_id))

        await self._in_thread(lambda: self._transaction(claim))
        self._running.add(batch_id)

    async def finish(self, batch_id: str, status: str, reason: str) -> None:
        """Record how a batch ended, or why it rests."""
        self._running.discard(batch_id)
        await self._write([("UPDATE batches SET status = ?, reason = ? WHERE id = ?", (status, reason, batch_id))])

    async def commit(self, batch_id: str, result: RowResult) -> None:
        """Save the result of a row, so that it survives a power cut; what comes together is saved together."""
        statement = "INSERT OR REPLACE INTO batch_rows (batch_id, row, status, digest, result) VALUES (?, ?, ?, ?, ?)"
        await self._commit((statement, (batch_id, result.row, result.status, result.digest, json_text(result))))

    async def batch(self, batch_id: str) -> BatchRecord:
        """One batch; raises BatchError when there is none."""
        nothing: list[BatchRecord] = []
        found = await self._read(lambda connection: _records(connection, "WHERE id = ?", batch_id), nothing)
        if not found:
            raise BatchError(f"There is no batch {batch_id}.", hint="`workbench batch --list` shows the batches.")
        return found[0]

    async def batches(self, limit: int = 20) -> list[BatchRecord]:
        """The newest batches, newest first."""
        return await self._read(lambda connection: _records(connection, "ORDER BY started DESC LIMIT ?", limit), [])

    async def statuses(self, batch_id: str) -> dict[int, str]:
        """The status of each row that has one."""
        query = "SELECT row, status FROM batch_rows WHERE batch_id = ?"
        return await self._read(lambda connection: dict(connection.execute(query, (batch_id,)).fetchall()), {})

    async def results(self, batch_id: str, after: int = 0, limit: int = PAGE) -> list[RowResult]:
        """Results in the order of the rows, those behind row `after`."""
        query = "SELECT result FROM batch_rows WHERE batch_id = ? AND row > ? ORDER BY row LIMIT ?"

        def read(connection: sqlite3.Connection) -> list[RowResult]:
            return [_result(text) for (text,) in connection.execute(query, (batch_id, after, limit))]

        return await self._read(read, [])

    def each_result(self, batch_id: str) -> Iterator[RowResult]:
        """All results in the order of the rows, read page by page; for a thread."""
        connection = open_for_reading(self._path)
        if connection is None:
            return
        with contextlib.closing(connection):
            try:
                query = "SELECT result FROM batch_rows WHERE batch_id = ? ORDER BY row"
                for (text,) in connection.execute(query, (batch_id,)):
                    yield _result(text)
            except sqlite3.Error as error:
                raise storage_error(self._path, error) from error


def _records(connection: sqlite3.Connection, which: str, value: object) -> list[BatchRecord]:
    counts = "SELECT status, count(*) FROM batch_rows WHERE batch_id = ? AND status <> 'acting' GROUP BY status"
    query = f"SELECT id, started, status, reason, rows, job, pid, process_mark FROM batches {which}"  # noqa: S608 - constant
    return [
        BatchRecord(
            id=batch_id,
            started=datetime.fromtimestamp(started, UTC),
            status="crashed" if status == "running" and not is_alive(pid, mark) else status,
            reason=reason,
            rows=rows,
            job=msgspec.json.decode(job, type=BatchJob),
            done=dict(connection.execute(counts, (batch_id,)).fetchall()),
        )
        for batch_id, started, status, reason, rows, job, pid, mark in connection.execute(query, (value,)).fetchall()
    ]


def _result(text: str) -> RowResult:
    return msgspec.json.decode(text, type=RowResult)
