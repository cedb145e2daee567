"""Records runs in SQLite while they happen, and gives them back as they looked.

Recording costs the loop an append: one thread turns events into rows and writes them in batches. A run and its finished
steps are committed at once, text at least every second, the end of a run so that it survives a power cut. A disk that
fails never ends a run: what is not saved stays in memory and is tried again.
"""

import asyncio
import contextlib
import logging
import math
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from datetime import time as time_of_day
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from engine.checkpoints import Checkpoint
from engine.dashboard_queries import Dashboard, Measured, Question, read_dashboard, read_runs_of
from engine.errors import DatabaseDamaged, RunNotFound, StorageError
from engine.events import AgentFinished, AnyEvent, BranchFailed, CompletionFinished, RequestFailed, RunFinished
from engine.history_answers import HOUR
from engine.history_changes import delete_older, delete_run, keep_frozen, thaw
from engine.history_queries import (
    CostTotal,
    ReachedRun,
    RecordedRun,
    RunRow,
    mark_crashed,
    read_frozen,
    read_reached,
    read_requests,
    read_rows,
    read_run,
    used_since,
)
from engine.history_rows import FINISH_RUN, INSERT_REQUEST, STATEMENTS, TIME_OF_REQUEST, HistoryRows, Row, RunBegun
from engine.history_schema import HISTORY
from engine.history_usage import MARK_HOURS, HourOfUse, add_up, read_usage
from engine.process_identity import own_identity
from engine.request_records import RequestRecord
from engine.sqlite_schema import FAULTS, open_for_reading, open_for_writing, set_aside, storage_error
from engine.statistics import RequestStatistic

__all__ = ["CostTotal", "HourOfUse", "ReachedRun", "RecordedRun", "RunHistory", "RunRow"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

FLUSH_SECONDS = 1.0
"""Text is written at least this often."""
RETRY_SECONDS = 5.0
"""After a failure the disk is tried again this often, and whenever somebody waits for it."""
BATCH_ROWS = 500
LOG_PAGES = 4000
"""Of the write-ahead log before it is brought into the database, which waits for the disk: 16 MB."""

COMMITTED_AT_ONCE = frozenset({Checkpoint, AgentFinished, BranchFailed, CompletionFinished, RequestFailed, RunFinished})


@dataclass(frozen=True, slots=True)
class _Waiter:
    """Somebody who wants to know when all before him is saved."""

    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[bool]"

    def tell(self, saved: bool) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self.loop.call_soon_threadsafe(self._settle, saved)

    def _settle(self, saved: bool) -> None:
        if not self.done.done():
            self.done.set_result(saved)


class RunHistory:
    """The database of recorded runs. `close` it; nothing happens before the first run begins."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: deque[RunBegun | AnyEvent | Checkpoint | _Waiter] = deque()
        # A lock is the cheapest bell: the writer waits for it, who brings work (only the loop's thread) releases it.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._sleeping = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[StorageError], None]] = []
        self._error: StorageError | None = None
        self._moved = False
        """The database was set aside by who read it; the writer begins a new one."""
        # Of the writer's thread only:
        self._rows = HistoryRows(*own_identity())
        self._unsaved: list[Row] = []
        self._connection: sqlite3.Connection | None = None
        self._next_flush = 0.0
        self._next_try = 0.0

    @property
    def error(self) -> StorageError | None:
        """Why the last try to save failed; None when all is well."""
        return self._error

    def on_error(self, listener: Callable[[StorageError], None]) -> Callable[[], None]:
        """Call the listener, on the loop's thread, once when saving begins to fail; the result removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def begin(
        self,
        run_id: str,
        flow_name: str,
        flow_text: str,
        inputs: Mapping[str, Sequence[object]],
        profiles: Mapping[str, str],
        origin: str = "",
    ) -> bool:
        """Record that a run begins and wait until that is saved, or has failed (the result says which)."""
        self._queue.append(
            RunBegun(
                run_id=run_id, flow=flow_name, flow_text=flow_text, inputs=inputs, profiles=profiles, flow_origin=origin
            )
        )
        return await self.flush()

    def record(self, event: AnyEvent | Checkpoint) -> None:
        """Take note of an event of a run that has begun, or of what it has reached; costs a microsecond."""
        self._queue.append(event)
        if self._sleeping or type(event) in COMMITTED_AT_ONCE:
            self._ring()

    async def flush(self) -> bool:
        """Wait until everything recorded so far is saved, or has failed (the result says which).

        What could not be saved before is tried again. The end of a run that is saved survives a power cut.
        """
        loop = self._loop = asyncio.get_running_loop()
        waiter = _Waiter(loop, loop.create_future())
        self._queue.append(waiter)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="run history", daemon=True)
            self._thread.start()
        self._ring()
        return await waiter.done

    async def close(self) -> bool:
        """Save what is left and end the thread; whether everything is saved."""
        if self._thread is not None:
            self._closing = True
            self._ring()
            await asyncio.to_thread(self._thread.join)
            self._thread = None
            self._closing = False
        return self._error is None

    async def runs(self, limit: int = 100) -> list[RunRow]:
        """The newest runs, newest first. Raises StorageError."""
        return await self._read(lambda connection: read_rows(connection, limit), [])

    async def run(self, run_id: str) -> RecordedRun:
        """One run. Raises RunNotFound or StorageError."""
        found = await self._read(lambda connection: read_run(connection, run_id), None)
        if found is None:
            raise _no_run(run_id)
        return found

    async def reached(self, run_id: str) -> ReachedRun:
        """How far one run came, to go on from there. Raises RunNotFound or StorageError."""
        found = await self._read(lambda connection: read_reached(connection, run_id), None)
        if found is None:
            raise _no_run(run_id)
        return found

    async def delete(self, run_id: str) -> None:
        """Delete a run; what it cost stays in the sums of its days. Raises RunNotFound or StorageError."""
        if not await self._change(lambda connection: delete_run(connection, run_id)):
            raise _no_run(run_id)

    async def prune(self, days: float) -> int:
        """Delete runs that began more than so many days ago and have ended; how many. Raises StorageError."""
        before = time.time() - days * 86_400
        return await self._change(lambda connection: delete_older(connection, before))

    async def keep_frozen(self, flow: str, agent: str, data: str) -> None:
        """Keep the answers of an agent of a flow (its path, or any name of it) as JSON. Raises StorageError."""
        await self._change(lambda connection: keep_frozen(connection, flow, agent, data))

    async def thaw(self, flow: str, agent: str) -> None:
        """Forget the kept answers of an agent. Raises StorageError."""
        await self._change(lambda connection: thaw(connection, flow, agent))

    async def frozen(self, flow: str) -> dict[str, str]:
        """Agent → its kept answers as JSON. Raises StorageError."""
        return await self._read(lambda connection: read_frozen(connection, flow), {})

    async def today_cost(self, now: datetime | None = None, zone: tzinfo | None = None) -> CostTotal:
        """What the requests of this day cost, from midnight in a time zone; missing: that of this machine.

        Raises StorageError.
        """
        used = await self.today(now, zone)
        return CostTotal(cost=used.cost, provenance=used.cost_provenance)

    async def today(self, now: datetime | None = None, zone: tzinfo | None = None) -> RequestStatistic:
        """What the requests of this day used, from midnight as for `today_cost`. Raises StorageError."""
        day = (now or datetime.now(UTC)).astimezone(zone).date()
        midnight = datetime.combine(day, time_of_day(), zone).astimezone(zone).timestamp()
        return await self._read(lambda connection: used_since(connection, midnight), RequestStatistic())

    async def usage(self, since: datetime, until: datetime | None = None) -> list[HourOfUse]:
        """What was used in the hours that begin within a time, of deleted runs too; missing: up to now.

        Raises StorageError.
        """
        begin, end = since.timestamp(), time.time() if until is None else until.timestamp()

        def read(connection: sqlite3.Connection) -> list[HourOfUse] | None:
            return read_usage(connection, begin, end)

        nothing: list[HourOfUse] | None = []
        return await self._read_sums(read, nothing) or []

    async def dashboard(self, question: Question) -> Dashboard:
        """What was used, how it ended and what runs cost within a time, of deleted runs too. Raises StorageError."""
        nothing: Dashboard | None = Dashboard()
        found = await self._read_sums(lambda connection: read_dashboard(connection, question), nothing)
        return found or Dashboard()

    async def runs_of(self, question: Question, measured: Measured | None = None) -> list[RunRow]:
        """The newest runs that have requests like these, newest first. Raises StorageError."""
        return await self._read(lambda connection: read_runs_of(connection, question, measured), [])

    async def _read_sums(self, query: Callable[[sqlite3.Connection], T | None], nothing: T | None) -> T | None:
        """What a query finds; when it says by None that hours are to be added up first, after that."""
        found = await self._read(query, nothing)
        if found is None:
            await self._change(add_up)
            found = await self._read(query, nothing)
        return found

    async def requests(self, since: datetime, until: datetime | None = None) -> list[RequestRecord]:
        """The requests that ended within a time, oldest first, of deleted runs too; missing: up to now.

        Raises StorageError.
        """
        begin, end = since.timestamp(), math.inf if until is None else until.timestamp()
        return await self._read(lambda connection: read_requests(connection, begin, end), [])

    def _ring(self) -> None:
        if self._bell.locked():
            self._bell.release()

    async def _read(self, query: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        if self._thread is not None:
            await self.flush()

        reading: list[sqlite3.Connection] = []

        def read() -> T:
            connection = open_for_reading(self._path)
            if connection is None:
                return nothing
            reading.append(connection)
            with contextlib.closing(connection):
                try:
                    return query(connection)
                except FAULTS as error:
                    raise storage_error(self._path, error) from error

        self._loop = asyncio.get_running_loop()
        try:
            return await asyncio.to_thread(read)
        except asyncio.CancelledError:
            for connection in reading:
                with contextlib.suppress(sqlite3.ProgrammingError):  # it is closed: the query has ended
                    connection.interrupt()
            raise
        except DatabaseDamaged:
            if not await asyncio.to_thread(self._set_aside):
                raise
            self._moved = True
            return nothing

    async def _change(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Change what is recorded, in one transaction of its own."""
        if self._thread is not None:
            await self.flush()

        def write() -> T:
            connection = open_for_writing(self._path, HISTORY)
            with contextlib.closing(connection):
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    result = change(connection)
                    connection.execute("COMMIT")
                except FAULTS as error:
                    raise storage_error(self._path, error) from error
            return result

        return await asyncio.to_thread(write)

    # -- the writer's thread ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        closing = False
        while not closing:
            # Appending first and looking at the flag second, `record` cannot slip in between these two lines.
            self._sleeping = True
            pause = self._pause()
            self._sleeping = pause is None
            self._bell.acquire(timeout=-1 if pause is None else pause)
            self._sleeping = False
            closing = self._closing
            waiters = self._collect(closing)
            saved = self._save(now=bool(waiters) or closing)
            for waiter in waiters:
                waiter.tell(saved)
        self._disconnect()

    def _pause(self) -> float | None:
        """Seconds until there is something to do by itself; None when there is nothing."""
        if self._queue or self._rows.holds_text:
            return max(0.0, self._next_flush - time.monotonic())
        return RETRY_SECONDS if self._unsaved else None

    def _collect(self, everything: bool) -> list[_Waiter]:
        """Turn what is queued into rows."""
        waiters: list[_Waiter] = []
        while self._queue:
            item = self._queue.popleft()
            if isinstance(item, _Waiter):
                waiters.append(item)
                continue
            try:
                if isinstance(item, RunBegun):
                    self._rows.begin(item)
                elif isinstance(item, Checkpoint):
                    self._rows.reach(item)
                else:
                    self._rows.add(item)
            except Exception as error:  # one odd event must not end the recording
                text = f"An event of run {item.run_id} cannot be recorded ({type(item).__name__}: {error})."
                self._fail(StorageError(text, facts={"path": str(self._path)}))
        if everything or waiters or time.monotonic() >= self._next_flush:
            self._rows.fold()
            self._next_flush = time.monotonic() + FLUSH_SECONDS
        return waiters

    def _save(self, *, now: bool) -> bool:
        """Write what is not saved; after a failure only when it is time, or `now`."""
        self._unsaved += self._rows.take()
        if not self._unsaved:
            return True
        if self._error is not None and not now and time.monotonic() < self._next_try:
            return False
        try:
            if self._moved:
                self._moved = False
                self._disconnect()
                self._unsaved = self._rows.again() + self._unsaved
            try:
                self._write_all()
            except (DatabaseDamaged, *FAULTS) as error:
                self._disconnect()
                if not isinstance(storage_error(self._path, error), DatabaseDamaged) or not self._set_aside():
                    raise
                self._unsaved = self._rows.again() + self._unsaved
                self._write_all()
        except Exception as error:  # whatever it is, the runs go on
            self._next_try = time.monotonic() + RETRY_SECONDS
            self._disconnect()
            self._fail(storage_error(self._path, error))
            return False
        self._rows.saved()
        self._error = None
        return True

    def _write_all(self) -> None:
        if self._connection is None:
            self._connection = open_for_writing(self._path, HISTORY)
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            mark_crashed(self._connection)
        while self._unsaved:
            write(self._connection, self._unsaved[:BATCH_ROWS])
            del self._unsaved[:BATCH_ROWS]

    def _set_aside(self) -> bool:
        """Move a damaged database out of the way and tell so; whether there is room for a new one."""
        place = set_aside(self._path, HISTORY)
        if place is not None and self._loop is not None:
            error = DatabaseDamaged(
                f"The database of recorded runs was damaged. It is now {place.name}, and a new one was begun.",
                hint=f"`workbench runs salvage '{place}'` brings back what can be read of it.",
                facts={"path": str(self._path), "moved to": str(place)},
            )
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                self._loop.call_soon_threadsafe(self._tell, error)
        return place is not None or not self._path.exists()

    def _fail(self, error: StorageError) -> None:
        first, self._error = self._error is None, error
        if first and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                self._loop.call_soon_threadsafe(self._tell, error)

    def _tell(self, error: StorageError) -> None:
        logger.error("%s %s", error, error.hint)
        for listener in list(self._listeners):
            listener(error)

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):  # what was not committed is still in memory
                self._connection.close()
            self._connection = None


def _no_run(run_id: str) -> RunNotFound:
    return RunNotFound(f"There is no recorded run {run_id}.", hint="`workbench runs list` shows the recorded runs.")


def write(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """One transaction; with the end of a run it is on the disk when this returns."""
    durable = any(statement == FINISH_RUN for statement, _ in rows)
    if durable:
        connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement, group in groupby(sorted(rows, key=itemgetter(0)), key=itemgetter(0)):
            values = [values for _, values in group]
            connection.executemany(STATEMENTS[statement], values)
            if statement == INSERT_REQUEST:
                times = (row[TIME_OF_REQUEST] for row in values)
                connection.executemany(MARK_HOURS, {(int(ts // HOUR),) for ts in times if isinstance(ts, float | int)})
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    if durable:
        connection.execute("PRAGMA synchronous = NORMAL")
