"""Answers from a wire tape instead of a server: the same request gets the same bytes, and no socket is opened."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from engine.clients.addresses import AddressRule
from engine.clients.failures import Place
from engine.clients.tape_file import RecordedTape, TapedCall
from engine.clients.tape_lines import FAILURES, CallAnswered, CallFailed, CallPiece, request_digest
from engine.clients.transport import Reply, Transport
from engine.clients.transport_faults import timeout
from engine.clients.watchdog import Watch
from engine.clients.wire_tape import KeyRemover
from engine.errors import AnswerIncomplete, ConnectFailed, NotOnTape, RequestError

AT_ONCE = 0.0
"""The speed that leaves all waiting out."""
COMPARED = 50
"""Calls on the tape that a request is compared with to say what differs."""
SHOWN = 40
"""Characters shown from the place where two texts differ."""


class ReplayClock:
    """Time as it passes in a replay: faster, or only where somebody waits."""

    def __init__(self, speed: float) -> None:
        """Begin; `speed` 1 = as it was, 10 = ten times as fast, 0 = nobody waits."""
        self.speed = speed
        self._skipped = 0.0

    def now(self) -> float:
        """Seconds, monotonic."""
        return time.monotonic() * (self.speed or 1.0) + self._skipped

    async def sleep(self, seconds: float) -> None:
        """Let so many seconds of the recorded time pass."""
        if self.speed:
            await asyncio.sleep(seconds / self.speed)
        else:
            self._skipped += seconds
            await asyncio.sleep(0)


class ReplayTransport(Transport):
    """Gives each recorded call once, in the order of the tape; what is remembered from before, as often as asked."""

    def __init__(self, tape: RecordedTape | Path, *, speed: float = AT_ONCE) -> None:
        """Take the tape; `speed` as for ReplayClock. Raises StorageError for a path without a tape."""
        super().__init__(offline=True)
        self.recorded = tape if isinstance(tape, RecordedTape) else RecordedTape(tape)
        self.clock = ReplayClock(speed)
        self._calls: dict[tuple[str, str, bytes], deque[TapedCall]] = {}
        for call in self.recorded.calls:
            self._calls.setdefault((call.method, call.path, call.digest), deque()).append(call)

    async def load(self) -> None:
        """Import nothing: nothing is sent."""

    async def _open(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        place: Place,
        watch: Watch,
        rule: AddressRule,
    ) -> Reply:
        watch.set_connected()
        path = place.clean(urlsplit(url).path)
        sent = KeyRemover(place).clean(body, last=True)
        calls = self._calls.get((method, path, request_digest(sent)))
        if not calls:
            raise self._missing(method, path, sent, place)
        # A GET asks for what is so; whoever remembered the answer then may ask again now.
        call = calls[0] if len(calls) == 1 and (method == "GET" or calls[0].known) else calls.popleft()
        return await _ReplayedReply(self.recorded, call, self.clock.speed, watch, place).head()

    def _missing(self, method: str, path: str, body: bytes, place: Place) -> RequestError:
        left = [call for calls in self._calls.values() for call in calls if (call.method, call.path) == (method, path)]
        if any(call.digest == request_digest(body) for call in self.recorded.calls):
            what = "it has been given as often as it was recorded"
        elif left:
            bodies = (self.recorded.body(call) for call in sorted(left, key=lambda one: one.number)[:COMPARED])
            what = first_difference(max(bodies, key=lambda other: _same_bytes(other, body)), body)
        else:
            what = f"it has no further {method} {path} at all"
        return NotOnTape(
            f"The tape {self.recorded.path.name} has no answer to this {method} {path}: {what}.",
            hint="Flow, inputs, profile or program have changed since. Record the run again.",
            facts=place.facts(differs=what),
        )


class _ReplayedReply(Reply):
    """An answer from the tape."""

    def __init__(self, tape: RecordedTape, call: TapedCall, speed: float, watch: Watch, place: Place) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.watch = watch
        self.tape = None
        self.received = 0
        self._place = place
        self._lines = tape.answer(call)
        self._speed = speed
        self._begun = time.monotonic()
        self._over = asyncio.Event()
        self._finished = False
        watch.interrupt = self._over.set

    async def head(self) -> Reply:
        """Wait for status and headers; raises the RequestError that was recorded instead."""
        first = next(self._lines, None)
        if first is None:
            raise self._broken()
        await self._wait(first.seconds)
        if isinstance(first, CallFailed):
            raise _failure(first)
        if not isinstance(first, CallAnswered):
            raise self._broken()
        self.status, self.headers = first.status, first.headers
        return self

    async def read(self) -> bytes:
        self.watch.wait()
        line = None if self._finished else next(self._lines, None)
        if self._finished:
            return b""
        if line is None:
            raise self._broken()
        await self._wait(line.seconds)
        self.watch.waited()
        if isinstance(line, CallFailed):
            raise _failure(line)
        if isinstance(line, CallPiece):
            data = line.text.encode() or line.data
            self.received += len(data)
            return data
        self._finished = True
        return b""

    async def _wait(self, seconds: float) -> None:
        due = self._begun + seconds / self._speed - time.monotonic() if self._speed else 0.0
        if due > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), due)
        else:
            await asyncio.sleep(0)
        if self.watch.expired:
            raise timeout(self.watch.expired, self._place)

    def _broken(self) -> RequestError:
        error = AnswerIncomplete(
            "The tape ends in the middle of this answer.",
            hint="The run was stopped there while it was recorded, or the program died. Record it again.",
            facts=self._place.facts(),
        )
        error.retryable = False
        return error

    @property
    def finished(self) -> bool:
        return True  # there is no connection that could be used again

    def close(self) -> None:
        self.watch.stop()
        self._over.set()
        self._lines.close()


def _failure(line: CallFailed) -> RequestError:
    error = FAILURES.get(line.error, ConnectFailed)(line.message, hint=line.hint, facts=line.facts)
    error.retryable = line.retryable
    return error


def _same_bytes(first: bytes, second: bytes) -> int:
    """How many bytes at the beginning are the same."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return low


def first_difference(taped: bytes, asked: bytes) -> str:
    """Where two bodies differ first, as a place in their JSON, with what is there on either side."""
    try:
        found = _different(msgspec.json.decode(taped), msgspec.json.decode(asked), "$")
    except (msgspec.MsgspecError, RecursionError):
        found = None
    if found is None:
        at = _same_bytes(taped, asked)
        first, second = (part[at : at + SHOWN].decode("utf-8", "replace") for part in (taped, asked))
        return f'at byte {at} it has "{first}", and asked was "{second}"'
    place, first, second = found
    return f"at {place} it has {first}, and asked was {second}"


def _different(taped: object, asked: object, place: str) -> tuple[str, str, str] | None:
    """Place and both sides of the first difference in the order of what was asked; None: there is none."""
    if isinstance(taped, dict) and isinstance(asked, dict):
        for name in [*asked, *(name for name in taped if name not in asked)]:
            where = f"{place}.{name}"
            if name not in taped or name not in asked:
                have, want = ("nothing" if name not in side else _shown(side[name]) for side in (taped, asked))
                return where, have, want
            if found := _different(taped[name], asked[name], where):
                return found
        return None
    if isinstance(taped, list) and isinstance(asked, list):
        for index, (one, other) in enumerate(zip(taped, asked, strict=False)):
            if found := _different(one, other, f"{place}[{index}]"):
                return found
        if len(taped) != len(asked):
            return place, f"{len(taped)} entries", str(len(asked))
        return None
    if taped == asked and type(taped) is type(asked):
        return None
    if isinstance(taped, str) and isinstance(asked, str):
        at = _same_bytes(taped.encode("utf-32-le"), asked.encode("utf-32-le")) // 4
        return f"{place}, character {at + 1}", _shown(taped[at:]), _shown(asked[at:])
    return place, _shown(taped), _shown(asked)


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else msgspec.json.encode(value).decode()
    cut = text if len(text) <= SHOWN else text[:SHOWN] + "…"
    return '"" (it ends there)' if cut == '""' else cut
