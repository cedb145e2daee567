"""Questions to the database of recorded runs."""

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

import msgspec

from engine.checkpoints import Checkpoint
from engine.context_rows import ContextReader
from engine.events import AgentFinished, AnyEvent, RequestFormed, RunStarted, Statistics, read_event
from engine.history_rows import STATEMENTS, finish_run, merge_chunks, with_body
from engine.process_identity import is_alive
from engine.request_records import COLUMNS, RequestRecord, read_record
from engine.statistics import CostProvenance, RequestStatistic


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
    origin: str = ""
    """How it came from another run: `resume`, `from`, `repeat` or `replay`; empty: it did not."""
    parent: str = ""
    """That run."""
    edited: bool = False
    """Whether a recorded context was edited before it was used."""


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
    flow_origin: str = ""
    """The path of its file, `sample:NAME`, or empty when it had none or an earlier version recorded the run."""
    unreadable: int = 0
    """Events of another version, left out."""

    @property
    def earlier(self) -> Statistics | None:
        """What the runs it goes on from used."""
        started = next((event for event in self.events if isinstance(event, RunStarted)), None)
        return started.before if started is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedRun:
    """How far a recorded run came."""

    run: RecordedRun
    checkpoints: list[Checkpoint]
    as_text: frozenset[str]
    """Keys with values that were no plain data: only their text is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal:
    """A sum of costs."""

    cost: Decimal
    provenance: CostProvenance
    """The weakest of all; `unknown`: the sum is a lower bound."""


class _Moment(msgspec.Struct):
    """The one field needed of a last event."""

    time: float


def mark_crashed(connection: sqlite3.Connection) -> None:
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
    return _summed(connection.execute(f"{_SELECT_USED} WHERE run_id = ?", (run_id,)))


def used_since(connection: sqlite3.Connection, since: float) -> RequestStatistic:
    """Exact sum of the requests that ended since then (seconds since the epoch), without answers from the cache."""
    return _summed(connection.execute(f"{_SELECT_USED} WHERE ts >= ? AND requests > 0", (since,)))


_SELECT_USED = (
    "SELECT requests, in_tokens, cached_in_tokens, out_tokens, reasoning_out_tokens, cost, provenance FROM requests"
)


def _summed(rows: Iterable[tuple[int, int, int, int, int, str, str]]) -> RequestStatistic:
    used = RequestStatistic()
    for requests, tokens_in, cached, tokens_out, reasoning, cost, provenance in rows:
        if not requests:  # from the cache: its tokens were counted when they were paid
            continue
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
    origin: str = ""
    parent: str = ""
    edited: int = 0


_FIRST_VERSION = 14
"""Columns of a database that this program has only read so far."""


def _select_runs(connection: sqlite3.Connection) -> str:
    names = _Stored._fields if _is_current(connection) else _Stored._fields[:_FIRST_VERSION]
    return f"SELECT {', '.join(names)} FROM runs"  # noqa: S608 - constant names


def _is_current(connection: sqlite3.Connection) -> bool:
    return _version(connection) > 1


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def read_reached(connection: sqlite3.Connection, run_id: str) -> ReachedRun | None:
    """How far a run came, None when there is none of this id."""
    if not _is_current(connection):
        run = read_run(connection, run_id)
        return None if run is None else ReachedRun(run=run, checkpoints=[], as_text=frozenset())
    reader = ContextReader(connection, run_id)
    checkpoints = [checkpoint for _, checkpoint in reader.checkpoints()]
    run = read_run(connection, run_id, reader)
    return None if run is None else ReachedRun(run=run, checkpoints=checkpoints, as_text=frozenset(reader.as_text))


def read_rows(connection: sqlite3.Connection, limit: int) -> list[RunRow]:
    """The newest runs, newest first."""
    found = connection.execute(f"{_select_runs(connection)} ORDER BY started DESC, id LIMIT ?", (limit,)).fetchall()
    return [_row(connection, _Stored(*values)) for values in found]


def rows_of_runs(connection: sqlite3.Connection, where: str, values: Sequence[object], limit: int) -> list[RunRow]:
    """The newest runs for which a condition of SQL holds, newest first."""
    question = f"{_select_runs(connection)} WHERE {where} ORDER BY started DESC, id LIMIT ?"
    found = connection.execute(question, (*values, limit)).fetchall()
    return [_row(connection, _Stored(*row)) for row in found]


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
        origin=stored.origin,
        parent=stored.parent,
        edited=bool(stored.edited),
    )


def read_run(connection: sqlite3.Connection, run_id: str, reader: ContextReader | None = None) -> RecordedRun | None:
    """All of a run, None when there is none of this id."""
    found = connection.execute(f"{_select_runs(connection)} WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        return None
    origin = "flow_origin" if _version(connection) > 3 else "''"
    question = f"SELECT flow_text, inputs, profiles, {origin} FROM run_inputs WHERE run_id = ?"  # noqa: S608 - constant
    flow_text, inputs, profiles, origin = connection.execute(question, (run_id,)).fetchone() or ("", "{}", "{}", "")
    events: list[AnyEvent] = []
    unreadable = 0
    columns = "event, context" if _is_current(connection) else "event, NULL"
    question = f"SELECT {columns} FROM events WHERE run_id = ? ORDER BY seq"  # noqa: S608 - constant names
    if reader is None:
        reader = ContextReader(connection, run_id)
    for text, number in connection.execute(question, (run_id,)):
        try:
            event = read_event(text)
            if isinstance(event, RequestFormed):
                event = with_body(event, reader.body(event.request.body))
            elif (whole := reader.whole(text)) is not text:
                event = read_event(whole)
            if number is not None and isinstance(event, AgentFinished):
                event = msgspec.structs.replace(event, values=reader.values(number))
            events.append(event)
        except msgspec.MsgspecError:
            unreadable += 1
    return RecordedRun(
        row=_row(connection, _Stored(*found)),
        events=merge_chunks(events),
        flow_text=flow_text,
        inputs=msgspec.json.decode(reader.whole(inputs), type=dict[str, list[object]]),
        profiles=msgspec.json.decode(profiles, type=dict[str, str]),
        flow_origin=origin,
        unreadable=unreadable,
    )


def read_frozen(connection: sqlite3.Connection, flow: str) -> dict[str, str]:
    """Agent → its kept answers as JSON."""
    if not _is_current(connection):
        return {}
    return dict(connection.execute("SELECT agent, data FROM frozen WHERE flow = ?", (flow,)).fetchall())


DETAILED = 6
"""The version of the database from which on each request has a whole record."""


def read_requests(connection: sqlite3.Connection, since: float, until: float) -> list[RequestRecord]:
    """The requests that ended within a time (seconds since the epoch), oldest first, those of deleted runs too."""
    places = {"ended": "ts"}
    if _version(connection) < DETAILED:
        places |= {"started": "0", "waited": "0", "error": "''"}
    columns = ", ".join(places.get(name, name) for name in COLUMNS)
    details = "details" if _version(connection) >= DETAILED else "'{}'"
    question = f"SELECT {columns}, {details} FROM requests WHERE ts >= ? AND ts < ? ORDER BY ts, run_id, seq"  # noqa: S608
    found: list[RequestRecord] = []
    for *values, text in connection.execute(question, (since, until)):
        with contextlib.suppress(msgspec.MsgspecError):  # of another version
            found.append(read_record(dict(zip(COLUMNS, values, strict=True)), text))
    return found
