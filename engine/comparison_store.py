"""Comparisons in SQLite: rows, the results of cells, what people think of them."""

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from engine.comparison_values import Cell, CellResult, CompareJob, CompareRow, ComparisonRecord, Mark
from engine.errors import ComparisonError
from engine.process_identity import is_alive, own_identity
from engine.sqlite_schema import open_for_reading, storage_error
from engine.sqlite_store import SqliteStore, json_text

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE comparisons (
            id TEXT PRIMARY KEY,
            started REAL NOT NULL,           -- seconds since the epoch
            status TEXT NOT NULL,            -- running, finished, failed, stopped, budget
            reason TEXT NOT NULL DEFAULT '',
            rows INTEGER NOT NULL,
            job TEXT NOT NULL,               -- JSON: what was to be done
            pid INTEGER NOT NULL,            -- the process that works on it, with the mark of its start
            process_mark TEXT NOT NULL
        )""",
        "CREATE INDEX comparisons_by_start ON comparisons (started)",
        """CREATE TABLE comparison_rows (
            comparison_id TEXT NOT NULL,
            row INTEGER NOT NULL,            -- from 1
            content TEXT NOT NULL,           -- JSON
            PRIMARY KEY (comparison_id, row)
        ) WITHOUT ROWID""",
        """CREATE TABLE cells (
            comparison_id TEXT NOT NULL,
            row INTEGER NOT NULL,
            profile TEXT NOT NULL,
            repeat INTEGER NOT NULL,         -- from 1
            result TEXT NOT NULL,            -- JSON
            PRIMARY KEY (comparison_id, row, profile, repeat)
        )""",
        """CREATE TABLE marks (
            comparison_id TEXT NOT NULL,
            row INTEGER NOT NULL,
            profile TEXT NOT NULL,
            repeat INTEGER NOT NULL,
            mark TEXT NOT NULL,              -- JSON
            PRIMARY KEY (comparison_id, row, profile, repeat)
        )""",
    ),
)
"""The database of comparisons."""


class ComparisonStore(SqliteStore):
    """The database of comparisons, created with the first one. `close` it, or use it in an `async with`.

    Everything raises StorageError.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, MIGRATIONS)
        self._running: set[str] = set()
        """Comparisons this program works on, whatever the database could be told about that."""

    async def begin(self, comparison_id: str, job: CompareJob, rows: Iterable[CompareRow]) -> int:
        """Record a new comparison with all its rows before its first request; how many rows it has."""

        def write(connection: sqlite3.Connection) -> int:
            columns = "id, started, status, rows, job, pid, process_mark"
            connection.execute(
                f"INSERT INTO comparisons ({columns}) VALUES (?, ?, 'running', 0, ?, ?, ?)",  # noqa: S608 - constant
                (comparison_id, time.time(), json_text(job), *own_identity()),
            )
            statement = "INSERT INTO comparison_rows (comparison_id, row, content) VALUES (?, ?, ?)"
            count = connection.executemany(
                statement, ((comparison_id, row.row, json_text(row)) for row in rows)
            ).rowcount
            connection.execute("UPDATE comparisons SET rows = ? WHERE id = ?", (count, comparison_id))
            return count

        count: list[int] = []
        await self._in_thread(lambda: self._transaction(lambda connection: count.append(write(connection))))
        self._running.add(comparison_id)
        return count[0]

    async def claim(self, comparison_id: str) -> None:
        """Go on with a comparison; raises ComparisonError when another process works on it."""

        def claim(connection: sqlite3.Connection) -> None:
            query = "SELECT status, pid, process_mark FROM comparisons WHERE id = ?"
            status, pid, mark = connection.execute(query, (comparison_id,)).fetchone()
            elsewhere = (pid, mark) != own_identity() and is_alive(pid, mark)
            if comparison_id in self._running or (status == "running" and elsewhere):
                raise ComparisonError(
                    f"The comparison {comparison_id} is running, in the process {pid}.",
                    hint="Wait for it, or stop it first.",
                )
            change = "UPDATE comparisons SET status = 'running', reason = '', pid = ?, process_mark = ? WHERE id = ?"
            connection.execute(change, (*own_identity(), comparison_id))

        await self._in_thread(lambda: self._transaction(claim))
        self._running.add(comparison_id)

    async def finish(self, comparison_id: str, status: str, reason: str) -> None:
        """Record how a comparison ended, or why it rests."""
        self._running.discard(comparison_id)
        change = "UPDATE comparisons SET status = ?, reason = ? WHERE id = ?"
        await self._write([(change, (status, reason, comparison_id))])

    async def delete(self, comparison_id: str) -> None:
        """Remove a comparison; its recorded runs stay. Raises ComparisonError for one that is running here."""
        if comparison_id in self._running:
            raise ComparisonError(f"The comparison {comparison_id} is running.", hint="Stop it first.")
        tables = ("marks", "cells", "comparison_rows")
        statements = [(f"DELETE FROM {table} WHERE comparison_id = ?", (comparison_id,)) for table in tables]  # noqa: S608 - constant
        await self._write([*statements, ("DELETE FROM comparisons WHERE id = ?", (comparison_id,))])

    async def commit(self, comparison_id: str, result: CellResult) -> None:
        """Save the result of a cell, so that it survives a power cut."""
        statement = "INSERT OR REPLACE INTO cells (comparison_id, row, profile, repeat, result) VALUES (?, ?, ?, ?, ?)"
        await self._commit((statement, (comparison_id, *result.cell, json_text(result))))

    async def mark(self, comparison_id: str, cell: Cell, mark: Mark) -> None:
        """Save what a person thinks of a cell; an empty mark is none."""
        if mark.is_empty:
            change = "DELETE FROM marks WHERE comparison_id = ? AND row = ? AND profile = ? AND repeat = ?"
            await self._commit((change, (comparison_id, *cell)))
            return
        statement = "INSERT OR REPLACE INTO marks (comparison_id, row, profile, repeat, mark) VALUES (?, ?, ?, ?, ?)"
        await self._commit((statement, (comparison_id, *cell, json_text(mark))))

    # -- reading ------------------------------------------------------------------------------------------------------

    async def comparison(self, comparison_id: str) -> ComparisonRecord:
        """One comparison; raises ComparisonError when there is none."""
        nothing: list[ComparisonRecord] = []
        found = await self._read(lambda connection: _records(connection, "WHERE id = ?", comparison_id), nothing)
        if not found:
            raise ComparisonError(
                f"There is no comparison {comparison_id}.", hint="`workbench compare --list` shows the comparisons."
            )
        return found[0]

    async def comparisons(self, limit: int = 20) -> list[ComparisonRecord]:
        """The newest comparisons, newest first."""
        return await self._read(lambda connection: _records(connection, "ORDER BY started DESC LIMIT ?", limit), [])

    async def rows(self, comparison_id: str, after: int = 0, limit: int = -1) -> list[CompareRow]:
        """Rows in their order, those behind row `after`; all unless there is a limit."""
        query = "SELECT content FROM comparison_rows WHERE comparison_id = ? AND row > ? ORDER BY row LIMIT ?"

        def read(connection: sqlite3.Connection) -> list[CompareRow]:
            found = connection.execute(query, (comparison_id, after, limit))
            return [msgspec.json.decode(text, type=CompareRow) for (text,) in found]

        return await self._read(read, [])

    async def marks(self, comparison_id: str) -> dict[Cell, Mark]:
        """All that people said."""
        query = "SELECT row, profile, repeat, mark FROM marks WHERE comparison_id = ?"

        def read(connection: sqlite3.Connection) -> dict[Cell, Mark]:
            found = connection.execute(query, (comparison_id,))
            return {Cell(*cell): msgspec.json.decode(text, type=Mark) for *cell, text in found}

        return await self._read(read, {})

    async def result(self, comparison_id: str, cell: Cell) -> CellResult | None:
        """The result of one cell."""
        query = "SELECT result FROM cells WHERE comparison_id = ? AND row = ? AND profile = ? AND repeat = ?"

        def read(connection: sqlite3.Connection) -> CellResult | None:
            found = connection.execute(query, (comparison_id, *cell)).fetchone()
            return None if found is None else msgspec.json.decode(found[0], type=CellResult)

        return await self._read(read, None)

    def each_result(self, comparison_id: str) -> Iterator[CellResult]:
        """All results by row, then profile, then repeat, read as they are wanted; for a thread."""
        connection = open_for_reading(self._path)
        if connection is None:
            return
        with contextlib.closing(connection):
            try:
                query = "SELECT result FROM cells WHERE comparison_id = ? ORDER BY row, profile, repeat"
                for (text,) in connection.execute(query, (comparison_id,)):
                    yield msgspec.json.decode(text, type=CellResult)
            except sqlite3.Error as error:
                raise storage_error(self._path, error) from error


def _records(connection: sqlite3.Connection, which: str, value: object) -> list[ComparisonRecord]:
    counting = "(SELECT count(*) FROM cells WHERE comparison_id = id)"
    columns = f"id, started, status, reason, rows, job, pid, process_mark, {counting}"
    query = f"SELECT {columns} FROM comparisons {which}"  # noqa: S608 - constant
    return [
        ComparisonRecord(
            id=comparison_id,
            started=datetime.fromtimestamp(started, UTC),
            status="crashed" if status == "running" and not is_alive(pid, mark) else status,
            reason=reason,
            rows=rows,
            job=msgspec.json.decode(job, type=CompareJob),
            done=done,
        )
        for comparison_id, started, status, reason, rows, job, pid, mark, done in connection.execute(query, (value,))
    ]
