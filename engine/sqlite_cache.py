"""The cache in a database of its own: bounded in size and age, shared by all programs on the data folder.

All its work is done by one thread, in order. What befalls the file never ends a run: then nothing is found and nothing
stored. A damaged or foreign file is moved aside and a new one begun.
"""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import msgspec

from engine.cache import DEFAULT_MAX_AGE, DEFAULT_MAX_BYTES, ENTRY_OVERHEAD, CachedAnswer, CacheEntry, CacheInfo
from engine.errors import DatabaseDamaged, StorageError
from engine.sqlite_schema import CACHE, open_for_writing, storage_error
from engine.statistics import CostProvenance, weakest

logger = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_SECONDS = 5.0
"""After a failure the disk is left alone for so long."""
BUSY_MILLISECONDS = 1000
"""How long another program's write is waited for: an answer that is not kept costs less than one that comes late."""
STOPPED_MESSAGE = "answers are not kept until it can be used"


class SqliteCache:
    """Answers in a SQLite file; `close` it. Nothing is opened before the first use."""

    def __init__(
        self, path: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, max_age: float | None = DEFAULT_MAX_AGE
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        """Of the answers; the file may be a little larger. Takes effect with the next answer that is stored."""
        self.max_age = max_age
        """Seconds; None = answers do not grow old."""
        self._thread: ThreadPoolExecutor | None = None
        self._error: StorageError | None = None
        # Of the thread only:
        self._connection: sqlite3.Connection | None = None
        self._next_try = 0.0

    @property
    def error(self) -> StorageError | None:
        """Why the last use failed; None when all is well."""
        return self._error

    async def get(self, key: str) -> CacheEntry | None:
        """The answer to this request, counted as a hit."""
        found = await self._call(lambda connection: self._find(connection, key), None)
        if found is not None:
            self._start(lambda connection: _count_hit(connection, key), None)
        return found

    async def put(self, key: str, entry: CacheEntry) -> None:
        """Keep an answer, instead of an older one; one that is larger than the whole cache is not kept."""
        await self._call(lambda connection: self._store(connection, key, entry), None)

    async def entries(self, limit: int = 100) -> list[CachedAnswer]:
        """What is kept, newest first. Raises StorageError."""
        return await self._call(lambda connection: self._list(connection, limit), [], told=True)

    async def keys(self, beginning: str) -> list[str]:
        """The keys that begin so. Raises StorageError."""
        statement = "SELECT key FROM answers WHERE substr(key, 1, ?) = ?"
        return await self._call(
            lambda db: [key for (key,) in db.execute(statement, (len(beginning), beginning))], [], told=True
        )

    async def delete(self, key: str) -> bool:
        """Forget one answer; whether there was one. Raises StorageError."""
        statement = "DELETE FROM answers WHERE key = ?"
        return await self._call(lambda db: db.execute(statement, (key,)).rowcount > 0, False, told=True)

    async def clear(self) -> int:
        """Forget all and give the space back; how many there were. Raises StorageError."""
        return await self._call(_clear, 0, told=True)

    async def info(self) -> CacheInfo:
        """How much it holds. Raises StorageError."""
        nothing = CacheInfo(entries=0, stored_bytes=0, disk_bytes=0, hits=0, saved=Decimal(0))
        return await self._call(self._measure, nothing, told=True)

    async def close(self) -> None:
        """Finish what was begun and close the file; it opens again by itself when used."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.submit(self._disconnect)
            await asyncio.to_thread(thread.shutdown)

    async def _call(self, work: Callable[[sqlite3.Connection], T], nothing: T, *, told: bool = False) -> T:
        result = await asyncio.wrap_future(self._start(work, nothing, now=told))
        if told and self._error is not None:
            raise self._error
        return result

    def _start(self, work: Callable[[sqlite3.Connection], T], nothing: T, *, now: bool = False) -> "Future[T]":
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="answer cache")
        return self._thread.submit(self._guarded, work, nothing, now)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[sqlite3.Connection], T], nothing: T, now: bool) -> T:
        """Do the work, again with a new file when this one is damaged; never raises."""
        if self._error is not None and not now and time.monotonic() < self._next_try:
            return nothing
        for last in (False, True):
            try:
                connection = self._connect()
                result = work(connection)
            except Exception as error:  # whatever it is, the runs go on
                self._disconnect()
                if not last and _damaged(error) and self._move_aside():
                    continue
                self._fail(error)
                return nothing
            else:
                self._error = None
                return result
        return nothing

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = open_for_writing(self.path, CACHE)
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.execute("PRAGMA journal_size_limit = 4194304")
            self._connection.execute("SELECT bytes FROM totals").fetchone()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _fail(self, error: Exception) -> None:
        first = self._error is None
        self._error = error if isinstance(error, StorageError) else storage_error(self.path, error)
        self._next_try = time.monotonic() + RETRY_SECONDS
        if first:
            logger.warning("The cache cannot be used, %s: %s %s", STOPPED_MESSAGE, self._error, self._error.hint)

    def _move_aside(self) -> bool:
        """Keep a damaged file under another name; false when not even that can be done."""
        name = f"{self.path.name}.damaged-{datetime.now().astimezone():%Y-%m-%d-%H%M%S}"
        try:
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            self.path.replace(self.path.with_name(name))
        except OSError:
            return False
        logger.warning("The cache %s was damaged; it was moved aside as %s and a new one begun.", self.path.name, name)
        return True

    def _find(self, connection: sqlite3.Connection, key: str) -> CacheEntry | None:
        found = connection.execute("SELECT created, entry FROM answers WHERE key = ?", (key,)).fetchone()
        if found is None or (self.max_age is not None and found[0] < time.time() - self.max_age):
            return None
        try:
            return msgspec.json.decode(found[1], type=CacheEntry)
        except msgspec.MsgspecError:
            connection.execute("DELETE FROM answers WHERE key = ?", (key,))
            return None

    def _store(self, connection: sqlite3.Connection, key: str, entry: CacheEntry) -> None:
        data = msgspec.json.encode(entry)
        size = len(data) + ENTRY_OVERHEAD
        with _transaction(connection):
            if size > self.max_bytes:  # the older answer is no longer the right one
                connection.execute("DELETE FROM answers WHERE key = ?", (key,))
            else:
                connection.execute(
                    _PUT, (key, entry.created, time.time(), size, str(entry.cost), entry.provenance, data)
                )
            self._shrink(connection)

    def _shrink(self, connection: sqlite3.Connection) -> None:
        """Drop what is too old, then what was not used for longest, until the rest fits."""
        if self.max_age is not None:
            connection.execute("DELETE FROM answers WHERE created < ?", (time.time() - self.max_age,))
        surplus = connection.execute("SELECT bytes FROM totals").fetchone()[0] - self.max_bytes
        if surplus <= 0:
            return
        dropped: list[tuple[int]] = []
        for number, size in connection.execute("SELECT number, size FROM answers ORDER BY used, number"):
            dropped.append((number,))
            surplus -= size
            if surplus <= 0:
                break
        connection.executemany("DELETE FROM answers WHERE number = ?", dropped)

    def _list(self, connection: sqlite3.Connection, limit: int) -> list[CachedAnswer]:
        rows = connection.execute(
            "SELECT key, hits, used, entry FROM answers WHERE created >= ? ORDER BY created DESC, number DESC LIMIT ?",
            (0 if self.max_age is None else time.time() - self.max_age, limit),
        )
        found: list[CachedAnswer] = []
        for key, hits, used, data in rows:
            with contextlib.suppress(msgspec.MsgspecError):
                entry = msgspec.json.decode(data, type=CacheEntry)
                found.append(CachedAnswer(key=key, entry=entry, hits=hits, used=used))
        return found

    def _measure(self, connection: sqlite3.Connection) -> CacheInfo:
        entries, size = connection.execute("SELECT entries, bytes FROM totals").fetchone()
        given = connection.execute("SELECT hits, cost, provenance FROM answers WHERE hits > 0").fetchall()
        files = [self.path.with_name(self.path.name + suffix) for suffix in ("", "-wal", "-shm")]
        return CacheInfo(
            entries=entries,
            stored_bytes=size,
            disk_bytes=sum(file.stat().st_size for file in files if file.exists()),
            hits=sum(hits for hits, _, _ in given),
            saved=sum((hits * Decimal(cost) for hits, cost, _ in given), Decimal(0)),
            provenance=weakest({CostProvenance(provenance) for _, _, provenance in given}),
        )


# A refreshed answer keeps its hits: they count requests, not answers.
_PUT = """INSERT INTO answers (key, created, used, size, cost, provenance, entry)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET created = excluded.created, used = excluded.used, size = excluded.size,
        cost = excluded.cost, provenance = excluded.provenance, entry = excluded.entry"""


def _count_hit(connection: sqlite3.Connection, key: str) -> None:
    connection.execute("UPDATE answers SET hits = hits + 1, used = ? WHERE key = ?", (time.time(), key))


def _clear(connection: sqlite3.Connection) -> int:
    count = connection.execute("DELETE FROM answers").rowcount
    with contextlib.suppress(sqlite3.OperationalError):  # another program reads: the space is given back later
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return count


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _damaged(error: Exception) -> bool:
    """Whether the file itself is at fault: no database, a broken one, or one with other tables."""
    if isinstance(error, DatabaseDamaged):
        return True
    cause = error.__cause__ if isinstance(error, StorageError) else error
    if not isinstance(cause, sqlite3.Error):
        return False
    primary = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if primary == sqlite3.SQLITE_ERROR:
        return any(words in str(cause) for words in ("no such", "has no column", "already exists"))
    return primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
