"""Checkpoints and requests as rows: every text, turn and answer is stored once per run, however many share it."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from engine.checkpoints import Checkpoint, Position, Reached, Snapshot, Stage, TraceEntry
from engine.completion import Completion
from engine.conversation import Conversation, Turn
from engine.events import ErrorInfo, Grade
from engine.history_text import json_text

SMALL = 64
"""Characters of JSON that are stored where they are used: a row of their own would be larger."""
LONG = 256
"""Characters of a text of a request from which on it is stored once per run: each request repeats those before it."""
LARGE = 16_384
"""Characters of any other text from which on it is: inputs, values, turns, answers and results tell it again."""
MARK = "\x01"
"""Before the number of the blob that holds such a text; before a text that itself begins like that."""
_MARK_JSON = "\\u0001"
REMEMBERED = 4096
"""Shared objects a run is known to have stored already; more would keep a large run in memory."""


class _Context(msgspec.Struct, omit_defaults=True):
    """A snapshot as it is stored; numbers are those of blobs."""

    values: dict[str, int | list[object]]
    turns: list[int] | None = None
    last: int = 0
    trace: tuple[int, list[TraceEntry]] = (0, [])
    """The blob of the trace up to here, and the entries after it."""
    branch: str = ""
    split: tuple[int, int] = (1, 1)
    steps: int = 0
    attempts: int = 0
    answered: bool = False
    skip_next: str = "NO_SKIP"
    skip_cache: bool = False
    streaming: bool = True
    error: ErrorInfo | None = None
    tools: tuple[str, ...] = ()
    grades: int = 0
    as_text: list[str] = []
    """Keys with values JSON does not know: they are kept as text."""


class _Record(msgspec.Struct, omit_defaults=True):
    """A checkpoint as it is stored."""

    contexts: list[_Context] = []
    positions: tuple[Position, ...] = ()
    index: int = 0
    sources: tuple[int, ...] = ()
    to: str | None = None
    to_step: int = 0
    count: int = 1
    skip: str = "NO_SKIP"
    stage: Stage = Stage.SPLIT
    takes: tuple[tuple[int, int], ...] = ()


class ContextRows:
    """Turns the checkpoints of one run into rows: first those of blobs, then the checkpoint itself."""

    def __init__(self, run_id: str, add_blob: Callable[[tuple[str, int, str]], None]) -> None:
        self._run_id = run_id
        self._add_blob = add_blob
        self._blobs = 0
        self._known: dict[int, tuple[int, object]] = {}
        """Id of a shared object → number of its blob; the object itself is kept so that its id stays its own."""
        self._texts: dict[bytes, int] = {}
        """Hash of a long text → number of its blob."""

    def forget(self) -> None:
        """Store everything again: the blobs so far are lost."""
        self._known.clear()
        self._texts.clear()

    def body(self, body: dict[str, object]) -> dict[str, object]:
        """The body of a request with the numbers of blobs in the place of its long texts."""
        return {name: self._short(value, LONG) for name, value in body.items()}

    def shortened(self, text: str) -> str:
        """JSON with the numbers of blobs in the place of its large texts."""
        if len(text) < LARGE and _MARK_JSON not in text:
            return text
        return json_text(self._short(msgspec.json.decode(text), LARGE))

    def _short(self, value: object, least: int) -> object:
        if isinstance(value, str):
            if len(value) < least:
                return f"{MARK}{value}" if value.startswith(MARK) else value
            return f"{MARK}{self._number(value)}"
        if isinstance(value, Mapping):
            return {name: self._short(item, least) for name, item in value.items()}
        return [self._short(item, least) for item in value] if isinstance(value, list | tuple) else value

    def _number(self, text: str) -> int:
        """The number of the blob that holds a text: known by its hash, so that the text itself is not held."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        number = self._texts.get(digest)
        if number is None:
            if len(self._texts) >= REMEMBERED:
                self._texts.clear()
            number = self._texts[digest] = self._add(json_text(text))
        return number

    def data(self, checkpoint: Checkpoint) -> str:
        """The checkpoint as JSON."""
        record = _Record(
            contexts=[self._context(snapshot) for snapshot in checkpoint.contexts],
            positions=checkpoint.positions,
            index=checkpoint.index,
            sources=checkpoint.sources,
            to=checkpoint.to,
            to_step=checkpoint.to_step,
            count=checkpoint.count,
            skip=checkpoint.skip,
            stage=checkpoint.stage,
            takes=checkpoint.takes,
        )
        return json_text(record)

    def _context(self, snapshot: Snapshot) -> _Context:
        as_text: list[str] = []
        values: dict[str, int | list[object]] = {}
        for key, value in snapshot.values.items():
            values[key] = self._value(value, key, as_text)
        conversation = snapshot.conversation
        return _Context(
            values=values,
            turns=None if conversation is None else [self._shared(turn, json_text) for turn in conversation.turns],
            last=0 if snapshot.last is None else self._shared(snapshot.last, json_text),
            trace=self._trace(snapshot),
            branch=snapshot.branch,
            split=(snapshot.split_index, snapshot.split_count),
            steps=snapshot.steps,
            attempts=snapshot.attempts,
            answered=snapshot.answered,
            skip_next=snapshot.skip_next,
            skip_cache=snapshot.skip_cache,
            streaming=snapshot.streaming,
            error=snapshot.error,
            tools=snapshot.tools,
            grades=self._shared(snapshot.grades, json_text) if snapshot.grades else 0,
            as_text=as_text,
        )

    def _value(self, value: list[object], key: str, as_text: list[str]) -> int | list[object]:
        known = self._known.get(id(value))
        if known is not None:
            return known[0]
        odd: list[str] = []

        def note(item: object) -> str:
            odd.append(type(item).__name__)
            return str(item)

        text = json_text(value, note)
        if odd:
            as_text.append(key)
        if len(text) <= SMALL:
            return value if not odd else msgspec.json.decode(text, type=list[object])
        return self._shared(value, lambda _: text)

    def _trace(self, snapshot: Snapshot) -> tuple[int, list[TraceEntry]]:
        earlier, entries = snapshot.trace.since(self._known)
        base = self._known[id(earlier)][0] if earlier is not None else 0
        if not entries:
            return base, []
        return self._shared(snapshot.trace, lambda _: json_text((base, entries))), []

    def _shared(self, item: object, text: Callable[[Any], str]) -> int:
        known = self._known.get(id(item))
        if known is not None:
            return known[0]
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        number = self._add(self.shortened(text(item)))
        self._known[id(item)] = (number, item)
        return number

    def _add(self, data: str) -> int:
        self._blobs += 1
        self._add_blob((self._run_id, self._blobs, data))
        return self._blobs


class EntriesTrace:
    """A trace that was read back: its entries."""

    def __init__(self, entries: Sequence[TraceEntry]) -> None:
        self.entries = tuple(entries)

    def since(self, known: object) -> tuple[object | None, list[TraceEntry]]:
        """All of it: it shares nothing."""
        return None, list(self.entries)


class ContextReader:
    """Reads the checkpoints of a run; contexts that shared values share them again."""

    def __init__(self, connection: sqlite3.Connection, run_id: str) -> None:
        self._connection = connection
        self._run_id = run_id
        self._read: dict[int, object] = {}
        self._values_of: dict[int, Mapping[str, list[object]]] = {}
        self.as_text: set[str] = set()
        """Keys whose values were kept as text only."""

    def checkpoints(self) -> list[tuple[int, Checkpoint]]:
        """All checkpoints with their numbers, in order; those of another version are left out."""
        found: list[tuple[int, Checkpoint]] = []
        for number, reached, step, agent, data in self._connection.execute(
            "SELECT number, reached, step, agent, data FROM contexts WHERE run_id = ? ORDER BY number", (self._run_id,)
        ):
            record = msgspec.json.decode(data, type=_Record)
            checkpoint = Checkpoint(
                run_id=self._run_id,
                reached=Reached(reached),
                step=step,
                agent=agent,
                contexts=tuple(map(self._snapshot, record.contexts)),
                positions=record.positions,
                index=record.index,
                sources=record.sources,
                to=record.to,
                to_step=record.to_step,
                count=record.count,
                skip=record.skip,
                stage=record.stage,
                takes=record.takes,
            )
            if checkpoint.reached is Reached.LEFT:
                self._values_of[number] = checkpoint.contexts[0].values
            found.append((number, checkpoint))
        return found

    def values(self, number: int) -> dict[str, list[object]]:
        """The values of the (first) context of one checkpoint; the same object as in the checkpoint, if it was read."""
        if (known := self._values_of.get(number)) is not None:
            return dict(known) if not isinstance(known, dict) else known
        row = self._connection.execute(
            "SELECT data FROM contexts WHERE run_id = ? AND number = ?", (self._run_id, number)
        ).fetchone()
        if row is None:
            return {}
        return self._values(msgspec.json.decode(row[0], type=_Record).contexts[0])

    def body(self, body: dict[str, object]) -> dict[str, object]:
        """The body of a request as `ContextRows.body` had it."""
        return {name: self._whole(value) for name, value in body.items()}

    def whole(self, text: str) -> str:
        """JSON as it was before `ContextRows.shortened`; raises MsgspecError when a text is missing."""
        return text if _MARK_JSON not in text else json_text(self._whole(msgspec.json.decode(text)))

    def _whole(self, value: object) -> object:
        if isinstance(value, str) and value.startswith(MARK):
            text = value.removeprefix(MARK)
            if text.startswith(MARK):
                return text
            return self._blob(int(text), str) if text.isdecimal() else value
        if isinstance(value, dict):
            return {name: self._whole(item) for name, item in value.items()}
        return [self._whole(item) for item in value] if isinstance(value, list) else value

    def _snapshot(self, stored: _Context) -> Snapshot:
        self.as_text.update(stored.as_text)
        turns = None
        if stored.turns is not None:
            turns = Conversation(tuple(self._blob(number, Turn) for number in stored.turns))
        base, entries = stored.trace
        return Snapshot(
            values=self._values(stored),
            conversation=turns,
            last=self._blob(stored.last, Completion) if stored.last else None,
            trace=EntriesTrace([*self._entries(base), *entries]),
            branch=stored.branch,
            split_index=stored.split[0],
            split_count=stored.split[1],
            steps=stored.steps,
            attempts=stored.attempts,
            answered=stored.answered,
            skip_next=stored.skip_next,
            skip_cache=stored.skip_cache,
            streaming=stored.streaming,
            error=stored.error,
            tools=stored.tools,
            grades=self._blob(stored.grades, dict[str, Grade]) if stored.grades else {},
        )

    def _values(self, stored: _Context) -> dict[str, list[object]]:
        return {
            key: self._blob(value, list[object]) if isinstance(value, int) else value
            for key, value in stored.values.items()
        }

    def _entries(self, number: int) -> list[TraceEntry]:
        parts: list[list[TraceEntry]] = []
        while number:
            number, entries = self._blob(number, tuple[int, list[TraceEntry]])
            parts.append(entries)
        return [entry for part in reversed(parts) for entry in part]

    def _blob(self, number: int, kind: Any) -> Any:
        found = self._read.get(number)
        if found is None:
            row = self._connection.execute(
                "SELECT data FROM blobs WHERE run_id = ? AND id = ?", (self._run_id, number)
            ).fetchone()
            if row is None:
                raise msgspec.ValidationError(f"text {number} of the run {self._run_id} is missing")
            data = row[0] if kind is str else self.whole(row[0])
            found = self._read[number] = msgspec.json.decode(data, type=kind)
        return found
