"""Turns what a run tells into rows of the history database: events as JSON, chunks folded, requests by the number."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from engine.checkpoints import Checkpoint, Reached
from engine.context_rows import ContextRows
from engine.events import (
    REPLAY,
    AgentFinished,
    AnyEvent,
    ChunkReceived,
    Event,
    RequestFormed,
    RunFinished,
    RunStarted,
    Statistics,
)
from engine.history_text import clean, json_text
from engine.request_records import RequestRecord, RequestRecords, record_row

Value = str | int | float | None
Row = tuple[int, tuple[Value, ...]]
"""Number of a statement, and its parameters."""

INSERT_RUN, INSERT_INPUTS, INSERT_BLOB, INSERT_CONTEXT, INSERT_EVENT, INSERT_REQUEST, FINISH_RUN, CHANGE_RUN = range(8)

TIME_OF_REQUEST = 2
"""Place of the time among the parameters of INSERT_REQUEST."""

# A batch whose commit failed half-way is written again, so every statement may be repeated.
STATEMENTS = (
    "INSERT OR REPLACE INTO runs (id, flow, started, status, pid, process_mark) VALUES (?, ?, ?, 'running', ?, ?)",
    "INSERT OR REPLACE INTO run_inputs (run_id, flow_text, inputs, profiles, flow_origin) VALUES (?, ?, ?, ?, ?)",
    "INSERT OR REPLACE INTO blobs (run_id, id, data) VALUES (?, ?, ?)",
    "INSERT OR REPLACE INTO contexts (run_id, number, reached, step, agent, data) VALUES (?, ?, ?, ?, ?, ?)",
    "INSERT OR REPLACE INTO events (run_id, seq, event, context) VALUES (?, ?, ?, ?)",
    """INSERT OR REPLACE INTO requests (run_id, seq, ts, agent, profile, model, requests, in_tokens, cached_in_tokens,
        out_tokens, reasoning_out_tokens, cost, provenance, seconds, first_token, finish_reason,
        started, waited, error, details)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
    """UPDATE runs SET status = ?, seconds = ?, requests = ?, in_tokens = ?, cached_in_tokens = ?, out_tokens = ?,
        reasoning_out_tokens = ?, cost = ?, provenance = ? WHERE id = ?""",
    "UPDATE runs SET origin = ?, parent = ?, edited = ? WHERE id = ?",
)


_NOTHING = Statistics()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegun:
    """What is known of a run before its first request."""

    run_id: str
    flow: str
    flow_text: str
    inputs: Mapping[str, Sequence[object]]
    profiles: Mapping[str, str]
    flow_origin: str = ""
    started: float = field(default_factory=time.time)
    """Seconds since the epoch."""


@dataclass(slots=True)
class _Text:
    """The chunks of one attempt that are not rows yet."""

    first: ChunkReceived
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)

    def event(self) -> ChunkReceived:
        content, reasoning = "".join(self.content), "".join(self.reasoning)
        return msgspec.structs.replace(self.first, content=content, reasoning=reasoning)


@dataclass(slots=True)
class _OpenRun:
    begun: RunBegun
    contexts: ContextRows
    requests: RequestRecords = field(default_factory=RequestRecords)
    seq: int = 0
    number: int = 0
    """Of the last checkpoint."""
    kept: int = 0
    """Events to come that are those of an earlier run: their requests are counted there."""
    replay: bool = False
    """Nobody is asked: its requests are not counted, and it costs nothing."""
    leaving: dict[int, tuple[object, int]] = field(default_factory=dict)
    """Id of the values of a context that leaves a step → those values, and the checkpoint that holds them."""
    texts: dict[tuple[int, str, int], _Text] = field(default_factory=dict)
    """Keys: step, branch, attempt."""


class HistoryRows:
    """Collects the rows of all runs under way, in the order of their events."""

    def __init__(self, pid: int, process_mark: str) -> None:
        self._process = (pid, process_mark)
        self._runs: dict[str, _OpenRun] = {}
        self._ended: list[_OpenRun] = []
        """Runs whose end may not be saved yet."""
        self._rows: list[Row] = []

    @property
    def holds_text(self) -> bool:
        """Whether there are chunks that are not rows yet."""
        return any(run.texts for run in self._runs.values())

    def begin(self, begun: RunBegun) -> None:
        """A run begins; events of runs that did not, or have finished, are ignored."""
        if begun.run_id not in self._runs:
            self._runs[begun.run_id] = _OpenRun(begun, ContextRows(begun.run_id, self._add_blob))
        self._begin(self._runs[begun.run_id])

    def _begin(self, run: _OpenRun) -> None:
        begun = run.begun
        row = (begun.run_id, clean(begun.flow), begun.started, *self._process)
        inputs = run.contexts.shortened(json_text(begun.inputs))
        texts = (clean(begun.flow_text), inputs, json_text(begun.profiles), clean(begun.flow_origin))
        self._rows += ((INSERT_RUN, row), (INSERT_INPUTS, (begun.run_id, *texts)))

    def again(self) -> list[Row]:
        """The first rows of the runs under way, for a new database in the place of one that was lost."""
        rows, self._rows = self._rows, []
        for run in [*self._runs.values(), *self._ended]:
            run.contexts.forget()
            self._begin(run)
        first, self._rows = self._rows, rows
        return first

    def saved(self) -> None:
        """Everything taken so far is saved."""
        self._ended.clear()

    def _add_blob(self, values: tuple[str, int, str]) -> None:
        self._rows.append((INSERT_BLOB, values))

    def reach(self, checkpoint: Checkpoint) -> None:
        """Take in what a run has reached."""
        run = self._runs.get(checkpoint.run_id)
        if run is None:
            return
        data = run.contexts.data(checkpoint)
        run.number += 1
        name = clean(checkpoint.agent)
        row = (checkpoint.run_id, run.number, checkpoint.reached.value, checkpoint.step, name, data)
        self._rows.append((INSERT_CONTEXT, row))
        if checkpoint.reached is Reached.LEFT:
            values = checkpoint.contexts[0].values
            run.leaving[id(values)] = values, run.number

    def add(self, event: AnyEvent) -> None:
        """Take in one event. Text waits for the next other event of its branch, or for `fold`."""
        run = self._runs.get(event.run_id)
        if run is None:
            return
        if isinstance(event, ChunkReceived):
            self._add_text(run, event)
            return
        if run.texts:
            whole_run = isinstance(event, RunFinished)
            self._fold(run, [key for key in run.texts if whole_run or key[:2] == (event.step, event.branch)])
        record = run.requests.add(event)
        if record is not None and not run.kept and not run.replay:
            self._rows.append((INSERT_REQUEST, _request(record, run.seq)))
        self._append(run, event)
        run.kept -= run.kept > 0
        if isinstance(event, RunStarted) and event.origin:
            run.kept, run.replay = event.kept, event.origin == REPLAY
            self._rows.append((CHANGE_RUN, (event.origin, event.parent, int(event.edited), event.run_id)))
        if isinstance(event, RunFinished):
            seconds = event.statistics.effective_seconds or max(0.0, event.time - run.begun.started)
            used = event.statistics
            if run.replay:
                used = msgspec.structs.replace(used, requests=0, cost=_NOTHING.cost, provenance=_NOTHING.provenance)
            self._rows.append(finish_run(event.run_id, event.status, seconds, used))
            self._ended.append(self._runs.pop(event.run_id))

    def _add_text(self, run: _OpenRun, event: ChunkReceived) -> None:
        key = (event.step, event.branch, event.attempt)
        text = run.texts.get(key)
        if text is None:
            text = run.texts[key] = _Text(event)
        text.content.append(event.content)
        text.reasoning.append(event.reasoning)
        run.kept -= run.kept > 0

    def fold(self) -> None:
        """Turn all waiting text into rows."""
        for run in self._runs.values():
            self._fold(run, list(run.texts))

    def take(self) -> list[Row]:
        """The rows since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def _fold(self, run: _OpenRun, keys: Sequence[tuple[int, str, int]]) -> None:
        for key in keys:
            self._append(run, run.texts.pop(key).event())

    def _append(self, run: _OpenRun, event: Event) -> None:
        number = None
        if isinstance(event, AgentFinished) and (known := run.leaving.pop(id(event.values), None)) is not None:
            number = known[1]
            event = msgspec.structs.replace(event, values={})
        elif isinstance(event, RequestFormed):
            event = with_body(event, run.contexts.body(event.request.body))
        text = json_text(event)
        if not isinstance(event, RequestFormed):
            text = run.contexts.shortened(text)
        self._rows.append((INSERT_EVENT, (event.run_id, run.seq, text, number)))
        run.seq += 1


def _request(record: RequestRecord, seq: int) -> tuple[Value, ...]:
    row = record_row(record)
    run_id, *rest = (clean(value) if isinstance(value, str) else value for value in row.values())
    return run_id, seq, *rest


def with_body(event: RequestFormed, body: dict[str, object]) -> RequestFormed:
    """The event with another body."""
    return msgspec.structs.replace(event, request=msgspec.structs.replace(event.request, body=body))


def finish_run(run_id: str, status: str, seconds: float, used: Statistics) -> Row:
    """The row that ends a run."""
    return FINISH_RUN, (status, seconds, *_figures(used), run_id)


def _figures(used: Statistics) -> tuple[Value, ...]:
    return (
        used.requests,
        used.in_tokens,
        used.cached_in_tokens,
        used.out_tokens,
        used.reasoning_out_tokens,
        str(used.cost),
        str(used.provenance),
    )


def merge_chunks(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """One chunk per attempt, at the place of its first: how often text was saved is nobody's concern."""
    merged: list[AnyEvent] = []
    texts: dict[tuple[int, str, int], tuple[int, _Text]] = {}
    for event in events:
        if not isinstance(event, ChunkReceived):
            merged.append(event)
            continue
        key = (event.step, event.branch, event.attempt)
        if key not in texts:
            texts[key] = len(merged), _Text(event)
            merged.append(event)
        texts[key][1].content.append(event.content)
        texts[key][1].reasoning.append(event.reasoning)
    for place, text in texts.values():
        merged[place] = text.event()
    return merged
