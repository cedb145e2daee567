"""One record for each model request of a run, put together from its events; no text of a prompt or answer in it."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import msgspec

from engine.completion import Phase
from engine.csv_text import Cell, CsvWriter, Sink
from engine.errors import Attempted
from engine.events import (
    AnyEvent,
    CompletionFinished,
    PhaseChanged,
    PromptReady,
    PromptShortened,
    RequestFailed,
    RequestFormed,
)
from engine.statistics import CostProvenance

HASH_DIGITS = 16
"""Hexadecimal digits of a SHA-256 that tell prompts apart."""


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a request that is over. Times are seconds; 0 and empty texts: unknown or none."""

    run_id: str
    number: int = 0
    """Within its run, from 1, in the order in which they began; 0: an earlier version recorded it."""
    agent: str
    """Its prompt, with `prompt_hash` for the very text."""
    step: int = 0
    branch: str = ""
    attempt: int = 0
    """Within the branch: asked again by its handler, or after calls of tools."""
    profile: str
    provider: str = ""
    host: str = ""
    model: str
    stream: bool = False
    started: float = 0.0
    """Since the epoch, as is `ended`."""
    ended: float
    waited: float = 0.0
    """In a queue, for a cool-down, before repeats."""
    first_token: float | None = None
    """From sending to the first text."""
    seconds: float
    """Of the attempt that was answered; of a request that failed all of its time."""
    prompt_hash: str = ""
    prompt_tokens: int = 0
    """Of a prompt that had to be shortened: its tokens before, as counted here."""
    sent_tokens: int = 0
    """And after."""
    dropped_turns: int = 0
    requests: int
    """0: the answer came from the cache, or none came."""
    in_tokens: int
    cached_in_tokens: int
    out_tokens: int
    reasoning_out_tokens: int
    estimated: bool = False
    """Whether a count was estimated here."""
    cost: Decimal
    provenance: CostProvenance
    tokens_per_second: float = 0.0
    finish_reason: str = ""
    error: str = ""
    """The class of the failure (docs/recovery.md), `cancelled`, or the name of an error of our own."""
    cached: bool = False
    tools: tuple[str, ...] = ()
    """Names of the tools the model called."""
    skipped_events: int = 0
    """Of the stream: malformed, and passed over."""
    bytes_sent: int = 0
    bytes_received: int = 0
    memory: int = 0
    """Bytes the process had in use at the end."""
    attempts: tuple[Attempted, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Open:
    """A request that is not over."""

    number: int
    started: float
    prompt_hash: str
    host: str = ""
    stream: bool = False
    waited: float = 0.0
    queued: float | None = None
    """Since when it waits in a queue."""
    cut: PromptShortened | None = None


@dataclass(slots=True)
class RequestRecords:
    """Folds the events of one run."""

    count: int = 0
    _open: dict[tuple[int, str, int], _Open] = field(default_factory=dict)

    def add(self, event: AnyEvent) -> RequestRecord | None:
        """Take the next event; the record of a request that ends with it."""
        if isinstance(event, PromptReady):
            self.count += 1
            digest = hashlib.sha256(msgspec.json.encode(event.turns)).hexdigest()[:HASH_DIGITS]
            key = event.step, event.branch, event.attempt
            self._open[key] = _Open(number=self.count, started=event.time, prompt_hash=digest)
        elif isinstance(event, PhaseChanged | RequestFormed | PromptShortened):
            self._note(event)
        elif isinstance(event, CompletionFinished | RequestFailed):
            known = self._open.pop((event.step, event.branch, event.attempt), None)
            return _record(event, known or _Open(number=0, started=0.0, prompt_hash=""))
        return None

    def _note(self, event: PhaseChanged | RequestFormed | PromptShortened) -> None:
        known = self._open.get((event.step, event.branch, event.attempt))
        if known is None:
            return
        if isinstance(event, RequestFormed):
            known.stream = bool(event.request.body.get("stream"))
            known.host = urlsplit(event.request.url).netloc.rpartition("@")[2]
        elif isinstance(event, PromptShortened):
            known.cut = event
        elif event.phase is Phase.QUEUED:
            known.queued = event.time
        elif known.queued is not None:
            known.waited += max(0.0, event.time - known.queued)
            known.queued = None


def _record(event: CompletionFinished | RequestFailed, known: _Open) -> RequestRecord:
    used, cut = event.statistics, known.cut
    finished = event if isinstance(event, CompletionFinished) else None
    attempts = () if used.cached_prompts else event.attempts
    out = used.out_tokens + used.reasoning_out_tokens
    span = used.seconds - (used.first_token or 0.0)
    return RequestRecord(
        run_id=event.run_id,
        number=known.number,
        agent=event.agent,
        step=event.step,
        branch=event.branch,
        attempt=event.attempt,
        profile=event.profile,
        provider=event.provider,
        host=attempts[-1].host if attempts else known.host,
        model=event.model,
        stream=known.stream,
        started=known.started,
        ended=event.time,
        waited=known.waited + sum(one.waited for one in attempts),
        first_token=used.first_token,
        seconds=used.seconds if finished or not known.started else max(0.0, event.time - known.started),
        prompt_hash=known.prompt_hash,
        prompt_tokens=cut.before if cut else 0,
        sent_tokens=cut.after if cut else 0,
        dropped_turns=len(cut.dropped) if cut else 0,
        requests=used.requests,
        in_tokens=used.in_tokens,
        cached_in_tokens=used.cached_in_tokens,
        out_tokens=used.out_tokens,
        reasoning_out_tokens=used.reasoning_out_tokens,
        estimated=used.estimated,
        cost=used.cost,
        provenance=used.provenance,
        tokens_per_second=round(out / span, 2) if used.requests and span > 0 else 0.0,
        finish_reason=finished.finish_reason.value if finished else "",
        error=event.error,
        cached=bool(used.cached_prompts),
        tools=tuple(call.name for call in finished.tool_calls) if finished else (),
        skipped_events=finished.skipped_chunks if finished else 0,
        bytes_sent=sum(one.sent for one in attempts),
        bytes_received=sum(one.received for one in attempts),
        memory=event.memory,
        attempts=attempts,
    )


COLUMNS = (
    "run_id",
    "ended",
    "agent",
    "profile",
    "model",
    "requests",
    "in_tokens",
    "cached_in_tokens",
    "out_tokens",
    "reasoning_out_tokens",
    "cost",
    "provenance",
    "seconds",
    "first_token",
    "finish_reason",
    "started",
    "waited",
    "error",
)
"""Fields that have columns of their own in the database; the others are one JSON object."""


def record_row(record: RequestRecord) -> dict[str, str | int | float | None]:
    """The values of COLUMNS, and `details`."""
    values = msgspec.to_builtins(record, enc_hook=str)
    row = {name: values.pop(name) for name in COLUMNS}
    return row | {"details": msgspec.json.encode(values).decode()}


def read_record(row: Mapping[str, object], details: str) -> RequestRecord:
    """The record of a row, of an earlier version too; raises msgspec.ValidationError for one of a later version."""
    return msgspec.convert({**msgspec.json.decode(details), **row}, RequestRecord, strict=False)


def write_csv(records: Iterable[RequestRecord], sink: Sink, *, exact: bool = False) -> None:
    """A table with a head line, as engine.csv_text writes it; lists as text with semicolons between."""
    writer = CsvWriter(sink, exact=exact)
    names = RequestRecord.__struct_fields__
    writer.row(names)
    for record in records:
        writer.row([_cell(getattr(record, name)) for name in names])


def _cell(value: Any) -> Cell:
    if isinstance(value, tuple):
        return "; ".join(map(str, value))
    return "" if value is None else value if isinstance(value, str | int | float | Decimal) else str(value)
