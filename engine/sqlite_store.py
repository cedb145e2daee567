"""A database of work that is done piece by piece: one thread writes, and what was committed survives a power cut."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from engine.sqlite_schema import open_for_reading, open_for_writing, storage_error

T = TypeVar("T")

Statement = tuple[str, tuple[object, ...]]


class SqliteStore:
    """A database file, created with the first thing written. `close` it, or use it in an `async with`.

    Everything raises StorageError.
    """

    def __init__(self, path: Path, migrations: tuple[tuple[str, ...], ...]) -> None:
        self._path = path
        self._migrations = migrations
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"store {path.stem}")
        self._connection: sqlite3.Connection | None = None  # of that thread only
        self._waiting: list[tuple[Statement, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Save what waits and close the database."""
        if self._writer is not None:
            await asyncio.wait([self._writer])
        await self._in_thread(self._disconnect)
        self._thread.shutdown()

    async def _commit(self, statement: Statement) -> None:
        """Write, so that it survives a power cut; what comes together is saved together."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((statement, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._commit_waiting())
        await done

    async def _commit_waiting(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting, []
            try:
                await self._write([statement for statement, _ in taken])
            except BaseException as error:
                for _, done in taken:
                    if not done.done():
                        done.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                for _, done in taken:
                    if not done.done():
                        done.set_result(None)

    async def _write(self, statements: Sequence[Statement]) -> None:
        def write(connection: sqlite3.Connection) -> None:
            for statement, values in statements:
                connection.execute(statement, values)

        await self._in_thread(lambda: self._transaction(write))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _read(self, query: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """What a query finds; `nothing` while there is no database."""

        def read() -> T:
            connection = open_for_reading(self._path)
            if connection is None:
                return nothing
            with contextlib.closing(connection):
                try:
                    return query(connection)
                except sqlite3.Error as error:
                    raise storage_error(self._path, error) from error

        return await asyncio.to_thread(read)

    # -- the writer's thread ------------------------------------------------------------------------------------------

    def _transaction(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """One transaction, on the disk when this returns."""
        try:
            if self._connection is None:
                self._connection = open_for_writing(self._path, self._migrations)
                self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("BEGIN IMMEDIATE")
            work(self._connection)
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._disconnect()
            if isinstance(error, sqlite3.Error | OSError):
                raise storage_error(self._path, error) from error
            raise

    def _disconnect(self) -> None:
        """Close the database; a transaction under way is undone."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def json_text(value: object) -> str:
    """A value as JSON for a column; half characters (lone surrogates), which no file can hold, become U+FFFD."""
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_cleaned(msgspec.to_builtins(value, enc_hook=str))).decode()


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value
