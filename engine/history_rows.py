"""Turns what a run tells into rows of the history database: events as JSON, chunks folded, requests by the number."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from engine.events import (
    AnyEvent,
    ChunkReceived,
    CompletionFinished,
    Event,
    RunFinished,
    Statistics,
    event_json,
)

Value = str | int | float | None
Row = tuple[int, tuple[Value, ...]]
"""Number of a statement, and its parameters."""

INSERT_RUN, INSERT_INPUTS, INSERT_EVENT, INSERT_REQUEST, FINISH_RUN = range(5)

# A batch whose commit failed half-way is written again, so every statement may be repeated.
STATEMENTS = (
    "INSERT OR REPLACE INTO runs (id, flow, started, status, pid, process_mark) VALUES (?, ?, ?, 'running', ?, ?)",
    "INSERT OR REPLACE INTO run_inputs (run_id, flow_text, inputs, profiles) VALUES (?, ?, ?, ?)",
    "INSERT OR REPLACE INTO events (run_id, seq, event) VALUES (?, ?, ?)",
    """INSERT OR REPLACE INTO requests (run_id, seq, ts, agent, profile, model, requests, in_tokens, cached_in_tokens,
        out_tokens, reasoning_out_tokens, cost, provenance, seconds, first_token, finish_reason)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
    """UPDATE runs SET status = ?, seconds = ?, requests = ?, in_tokens = ?, cached_in_tokens = ?, out_tokens = ?,
        reasoning_out_tokens = ?, cost = ?, provenance = ? WHERE id = ?""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegun:
    """What is known of a run before its first request."""

    run_id: str
    flow: str
    flow_text: str
    inputs: Mapping[str, Sequence[object]]
    profiles: Mapping[str, str]
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
    started: float
    seq: int = 0
    texts: dict[tuple[int, str, int], _Text] = field(default_factory=dict)
    """Keys: step, branch, attempt."""


class HistoryRows:
    """Collects the rows of all runs under way, in the order of their events."""

    def __init__(self, pid: int, process_mark: str) -> None:
        self._process = (pid, process_mark)
        self._runs: dict[str, _OpenRun] = {}
        self._rows: list[Row] = []

    @property
    def holds_text(self) -> bool:
        """Whether there are chunks that are not rows yet."""
        return any(run.texts for run in self._runs.values())

    def begin(self, begun: RunBegun) -> None:
        """A run begins; events of runs that did not, or have finished, are ignored."""
        self._runs[begun.run_id] = _OpenRun(begun.started)
        run = (begun.run_id, clean(begun.flow), begun.started, *self._process)
        inputs = (begun.run_id, clean(begun.flow_text), _json(begun.inputs), _json(begun.profiles))
        self._rows += ((INSERT_RUN, run), (INSERT_INPUTS, inputs))

    def add(self, event: AnyEvent) -> None:
        """Take in one event. Text waits for the next other event of its branch, or for `fold`."""
        run = self._runs.get(event.run_id)
        if run is None:
            return
        if isinstance(event, ChunkReceived):
            key = (event.step, event.branch, event.attempt)
            text = run.texts.get(key)
            if text is None:
                text = run.texts[key] = _Text(event)
            text.content.append(event.content)
            text.reasoning.append(event.reasoning)
            return
        if run.texts:
            whole_run = isinstance(event, RunFinished)
            self._fold(run, [key for key in run.texts if whole_run or key[:2] == (event.step, event.branch)])
        if isinstance(event, CompletionFinished):
            self._rows.append((INSERT_REQUEST, _request(event, run.seq)))
        self._append(run, event)
        if isinstance(event, RunFinished):
            seconds = event.statistics.effective_seconds or max(0.0, event.time - run.started)
            self._rows.append(finish_run(event.run_id, event.status, seconds, event.statistics))
            del self._runs[event.run_id]

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
        self._rows.append((INSERT_EVENT, (event.run_id, run.seq, _json(event))))
        run.seq += 1


def _request(event: CompletionFinished, seq: int) -> tuple[Value, ...]:
    used = event.statistics
    return (
        event.run_id,
        seq,
        event.time,
        clean(event.agent),
        clean(event.profile),
        clean(event.model),
        *_figures(used),
        used.seconds,
        used.first_token,
        event.finish_reason.value,
    )


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
        used.provenance.value,
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


def clean(text: str) -> str:
    """The text with half characters (lone surrogates) replaced by U+FFFD; halves that belong together are joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _json(value: object) -> str:
    """JSON of an event or of plain values, whatever a context may hold."""
    try:
        data = event_json(value) if isinstance(value, Event) else msgspec.json.encode(value, enc_hook=str)
    except (UnicodeEncodeError, TypeError):
        data = msgspec.json.encode(_plain(msgspec.to_builtins(value, enc_hook=str, str_keys=True)))
    return data.decode()


def _plain(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
