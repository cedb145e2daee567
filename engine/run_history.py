"""Records runs in SQLite while they happen, and gives them back as they looked.

Recording costs the loop an append: one thread turns events into rows and writes them in batches. A run and its finished
steps are committed at once, text at least every second, the end of a run so that it survives a power cut. A disk that
fails never ends a run: what is not saved stays in memory and is tried again.
"""

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from datetime import time as time_of_day
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from engine.errors import RunNotFound, StorageError
from engine.events import AgentFinished, AnyEvent, BranchFailed, CompletionFinished, RunFinished, Statistics, read_event
from engine.history_rows import FINISH_RUN, STATEMENTS, HistoryRows, Row, RunBegun, finish_run, merge_chunks
from engine.process_identity import is_alive, own_identity
from engine.sqlite_schema import HISTORY, open_for_reading, open_for_writing, storage_error
from engine.statistics import CostProvenance, RequestStatistic

logger = logging.getLogger(__name__)

T = TypeVar("T")

FLUSH_SECONDS = 1.0
"""Text is written at least this often."""
RETRY_SECONDS = 5.0
"""After a failure the disk is tried again this often, and whenever somebody waits for it."""
BATCH_ROWS = 500

COMMITTED_AT_ONCE = frozenset({AgentFinished, BranchFailed, CompletionFinished, RunFinished})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A recorded run in a list."""

    id: str
    flow: str
    started: datetime
    """Aware, UTC."""
    status: str
    """running, finished, failed, stopped, budget, or crashed: its process died."""
    seconds: float | None
    """Wall time; None while it runs."""
    requests: int
    in_tokens: int
    cached_in_tokens: int
    out_tokens: int
    reasoning_out_tokens: int
    cost: Decimal
    provenance: CostProvenance


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """All of a recorded run."""

    row: RunRow
    events: list[AnyEvent]
    """In order; the chunks of an attempt are one."""
    flow_text: str
    """The flow as it was run."""
    inputs: dict[str, list[object]]
    profiles: dict[str, str]
    """Agent → profile."""
    unreadable: int = 0
    """Events of another version, left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal:
    """A sum of costs."""

    cost: Decimal
    provenance: CostProvenance
    """The weakest of all; `unknown`: the sum is a lower bound."""


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
        self._queue: deque[RunBegun | AnyEvent | _Waiter] = deque()
        # A lock is the cheapest bell: the writer waits for it, who brings work (only the loop's thread) releases it.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._sleeping = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[StorageError], None]] = []
        self._error: StorageError | None = None
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
    ) -> bool:
        """Record that a run begins and wait until that is saved, or has failed (the result says which)."""
        self._queue.append(
            RunBegun(run_id=run_id, flow=flow_name, flow_text=flow_text, inputs=inputs, profiles=profiles)
        )
        return await self.flush()

    def record(self, event: AnyEvent) -> None:
        """Take note of an event of a run that has begun; costs a microsecond."""
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
        return await self._read(lambda connection: _read_rows(connection, limit), [])

    async def run(self, run_id: str) -> RecordedRun:
        """One run. Raises RunNotFound or StorageError."""
        found = await self._read(lambda connection: _read_run(connection, run_id), None)
        if found is None:
            raise RunNotFound(
                f"There is no recorded run {run_id}.", hint="`workbench runs list` shows the recorded runs."
            )
        return found

    async def today_cost(self, now: datetime | None = None) -> CostTotal:
        """What the requests of this day cost, in local time. Raises StorageError."""
        day = (now or datetime.now(UTC)).astimezone().date()
        midnight = datetime.combine(day, time_of_day()).astimezone().timestamp()
        nothing = CostTotal(cost=Decimal(0), provenance=CostProvenance.FREE)
        return await self._read(lambda connection: _read_cost(connection, midnight), nothing)

    def _ring(self) -> None:
        if self._bell.locked():
            self._bell.release()

    async def _read(self, query: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        if self._thread is not None:
            await self.flush()

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
                self._rows.begin(item) if isinstance(item, RunBegun) else self._rows.add(item)
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
            if self._connection is None:
                self._connection = open_for_writing(self._path, HISTORY)
                _mark_crashed(self._connection)
            while self._unsaved:
                _write(self._connection, self._unsaved[:BATCH_ROWS])
                del self._unsaved[:BATCH_ROWS]
        except Exception as error:  # whatever it is, the runs go on
            self._next_try = time.monotonic() + RETRY_SECONDS
            self._disconnect()
            self._fail(error if isinstance(error, StorageError) else storage_error(self._path, error))
            return False
        self._error = None
        return True

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


def _write(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """One transaction; with the end of a run it is on the disk when this returns."""
    durable = any(statement == FINISH_RUN for statement, _ in rows)
    if durable:
        connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement, group in groupby(sorted(rows, key=itemgetter(0)), key=itemgetter(0)):
            connection.executemany(STATEMENTS[statement], [values for _, values in group])
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    if durable:
        connection.execute("PRAGMA synchronous = NORMAL")


class _Moment(msgspec.Struct):
    """The one field needed of a last event."""

    time: float


def _mark_crashed(connection: sqlite3.Connection) -> None:
    """Runs whose process died are crashed, with what their finished requests used."""
    running = connection.execute("SELECT id, started, pid, process_mark FROM runs WHERE status = 'running'").fetchall()
    for run_id, started, pid, mark in running:
        if is_alive(pid, mark):
            continue
        last = connection.execute(
            "SELECT event FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1", (run_id,)
        ).fetchone()
        end = started
        with contextlib.suppress(msgspec.MsgspecError):
            end = msgspec.json.decode(last[0], type=_Moment).time if last else started
        used = Statistics.of_run(_used(connection, run_id))
        statement, values = finish_run(run_id, "crashed", max(0.0, end - started), used)
        connection.execute(STATEMENTS[statement], values)


def _used(connection: sqlite3.Connection, run_id: str) -> RequestStatistic:
    """The sum over the finished requests of a run."""
    used = RequestStatistic()
    for requests, tokens_in, cached, tokens_out, reasoning, cost, provenance in connection.execute(
        "SELECT requests, in_tokens, cached_in_tokens, out_tokens, reasoning_out_tokens, cost, provenance"
        " FROM requests WHERE run_id = ?",
        (run_id,),
    ):
        if requests:
            used.provenances.add(CostProvenance(provenance))
        used.requests += requests
        used.in_tokens += tokens_in
        used.cached_in_tokens += cached
        used.out_tokens += tokens_out
        used.reasoning_out_tokens += reasoning
        used.cost += Decimal(cost)
    return used


class _Stored(NamedTuple):
    """A row of the table `runs`."""

    id: str
    flow: str
    started: float
    status: str
    seconds: float | None
    requests: int
    in_tokens: int
    cached_in_tokens: int
    out_tokens: int
    reasoning_out_tokens: int
    cost: str
    provenance: str
    pid: int
    process_mark: str


_SELECT_RUNS = f"SELECT {', '.join(_Stored._fields)} FROM runs"  # noqa: S608 - constant names


def _read_rows(connection: sqlite3.Connection, limit: int) -> list[RunRow]:
    found = connection.execute(f"{_SELECT_RUNS} ORDER BY started DESC, id LIMIT ?", (limit,)).fetchall()
    return [_row(connection, _Stored(*values)) for values in found]


def _row(connection: sqlite3.Connection, stored: _Stored) -> RunRow:
    """The row to show; of a run without an end, what its finished requests used."""
    status, used = stored.status, _used(connection, stored.id) if stored.status == "running" else None
    if status == "running" and not is_alive(stored.pid, stored.process_mark):
        status = "crashed"
    return RunRow(
        id=stored.id,
        flow=stored.flow,
        started=datetime.fromtimestamp(stored.started, UTC),
        status=status,
        seconds=stored.seconds,
        requests=used.requests if used else stored.requests,
        in_tokens=used.in_tokens if used else stored.in_tokens,
        cached_in_tokens=used.cached_in_tokens if used else stored.cached_in_tokens,
        out_tokens=used.out_tokens if used else stored.out_tokens,
        reasoning_out_tokens=used.reasoning_out_tokens if used else stored.reasoning_out_tokens,
        cost=used.cost if used else Decimal(stored.cost),
        provenance=used.cost_provenance if used else CostProvenance(stored.provenance),
    )


def _read_run(connection: sqlite3.Connection, run_id: str) -> RecordedRun | None:
    found = connection.execute(f"{_SELECT_RUNS} WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        return None
    texts = connection.execute("SELECT flow_text, inputs, profiles FROM run_inputs WHERE run_id = ?", (run_id,))
    flow_text, inputs, profiles = texts.fetchone() or ("", "{}", "{}")
    events: list[AnyEvent] = []
    unreadable = 0
    for (text,) in connection.execute("SELECT event FROM events WHERE run_id = ? ORDER BY seq", (run_id,)):
        try:
            events.append(read_event(text))
        except msgspec.MsgspecError:
            unreadable += 1
    return RecordedRun(
        row=_row(connection, _Stored(*found)),
        events=merge_chunks(events),
        flow_text=flow_text,
        inputs=msgspec.json.decode(inputs, type=dict[str, list[object]]),
        profiles=msgspec.json.decode(profiles, type=dict[str, str]),
        unreadable=unreadable,
    )


def _read_cost(connection: sqlite3.Connection, since: float) -> CostTotal:
    """Exact sum of the requests that ended since then (seconds since the epoch)."""
    total = RequestStatistic()
    for cost, provenance in connection.execute(
        "SELECT cost, provenance FROM requests WHERE ts >= ? AND requests > 0", (since,)
    ):
        total.cost += Decimal(cost)
        total.provenances.add(CostProvenance(provenance))
    return CostTotal(cost=total.cost, provenance=total.cost_provenance)
