"""The wire tape: the exact bytes of each call with their times, without keys, written line by line as they arrive.

One JSON object a line, told apart by `type`; what a process that dies leaves is readable up to its last line
(docs/wire-tape.md). `tape_file.py` reads tapes, `tape_replay.py` answers from them.
"""

import asyncio
import json
import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from engine.clients.failures import Place
from engine.clients.tape_lines import (
    FAILURES,
    VERSION,
    CallAnswered,
    CallEnded,
    CallFailed,
    CallPiece,
    CallSent,
    Line,
    TapeStart,
    as_text,
)
from engine.errors import RequestError, StorageError
from engine.redaction import HIDDEN, SECRETS

log = logging.getLogger(__name__)

KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "date")
"""Of an answer; all others, and all headers of requests, stay off the tape."""
MOST_KNOWN = 100
"""Small answers of one host that are remembered."""
LARGEST_KNOWN = 4_000_000
"""Bytes."""
BUFFER = 1 << 16
FLUSH_SECONDS = 0.2
"""After which a line is with the system, at the latest."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A small answer that outlives its request, such as a list of models."""

    method: str
    path: str
    body: bytes
    status: int
    headers: dict[str, str]
    answer: bytes


class KnownAnswers:
    """Those of a transport, by host: a tape that begins later still needs what is not asked again."""

    def __init__(self) -> None:
        self._hosts: dict[str, OrderedDict[tuple[str, str, bytes], KnownAnswer]] = {}

    def keep(self, url: str, known: KnownAnswer) -> None:
        """Remember an answer instead of an older one to the same request."""
        if len(known.answer) + len(known.body) > LARGEST_KNOWN:
            return
        kept = self._hosts.setdefault(urlsplit(url).netloc, OrderedDict())
        key = (known.method, known.path, known.body)
        kept.pop(key, None)
        kept[key] = known
        if len(kept) > MOST_KNOWN:
            kept.popitem(last=False)

    def of(self, url: str) -> list[KnownAnswer]:
        """Those of a host."""
        return list(self._hosts.get(urlsplit(url).netloc, {}).values())


class KeyRemover:
    """Takes keys out of bytes that arrive in pieces, also those that lie on a border."""

    def __init__(self, place: Place) -> None:
        found = {*place.secrets, *SECRETS.values}
        # Inside of JSON some characters of a key have another form.
        found |= {json.dumps(secret)[1:-1] for secret in found}
        self._secrets = tuple(secret.encode() for secret in sorted(found, key=len, reverse=True))
        self._beginnings = frozenset(secret[:size] for secret in self._secrets for size in range(1, len(secret)))
        firsts = re.escape(bytes({secret[0] for secret in self._secrets}))
        self._firsts = re.compile(b"[" + firsts + b"]") if firsts else None
        self._tail = max(map(len, self._secrets), default=1) - 1
        self._held = b""

    def clean(self, data: bytes, *, last: bool = False) -> bytes:
        """The bytes without keys; an end that may be the beginning of a key waits for the next bytes."""
        data, self._held = self._held + data, b""
        for secret in self._secrets:
            data = data.replace(secret, HIDDEN.encode())
        if not last and self._firsts is not None:
            for first in self._firsts.finditer(data, max(0, len(data) - self._tail)):
                if data[first.start() :] in self._beginnings:
                    data, self._held = data[: first.start()], data[first.start() :]
                    break
        return data


class WireTape:
    """Records calls in a file: those of an engine (`Engine(tape=…)`) or of one run (`Engine.run(tape=…)`).

    Writing costs microseconds a piece and no memory. A disk that fails ends the tape, not the calls: see `error`.
    """

    def __init__(self, path: Path, start: TapeStart | None = None) -> None:
        """Begin the file, which only its owner may read, on a running loop; raises StorageError."""
        self.path = path
        self.error: StorageError | None = None
        """Why the tape ends early; None when it does not."""
        self.began = time.time()
        """Seconds since the epoch."""
        self._timer: asyncio.TimerHandle | None = None
        self._calls = 0
        self._seen: set[tuple[str, str, str, int]] = set()
        """Requests that are on the tape, by host."""
        self._begun = time.monotonic()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
            self._file = os.fdopen(descriptor, "wb", BUFFER)
        except OSError as error:
            raise self._fault(error) from error
        self.write(start or TapeStart(version=VERSION, recorded=now_text()))

    def write(self, line: Line) -> None:
        """Add a line; a moment later it is not lost when the process dies."""
        if self._file.closed:
            return
        try:
            self._file.write(msgspec.json.encode(line, enc_hook=str) + b"\n")
        except OSError as error:
            self._fail(error)
            return
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        self._timer = None
        try:
            if not self._file.closed:
                self._file.flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = self._fault(error)
        log.warning("%s", self.error)
        self.close()

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._file.close()
        except OSError as error:
            self.error = self.error or self._fault(error)

    def call(self, method: str, url: str, body: bytes, place: Place, *, known: bool = False) -> "CallTape":
        """A request is sent; the result takes what comes of it."""
        parts = urlsplit(url)
        self._seen.add((parts.netloc, method, parts.path, hash(body)))
        self._calls += 1
        path = place.clean(parts.path)
        return CallTape(self, self._calls, method, path, body, place, time.monotonic() - self._begun, known)

    def remember(self, url: str, answers: list[KnownAnswer], place: Place) -> None:
        """Take what a host told before the tape began, once."""
        host = urlsplit(url).netloc
        for known in answers:
            if (host, known.method, known.path, hash(known.body)) not in self._seen:
                told = self.call(known.method, f"http://{host}{known.path}", known.body, place, known=True)
                told.answered(known.status, known.headers)
                told.arrived(known.answer)
                told.arrived(b"")

    def _fault(self, error: OSError) -> StorageError:
        return StorageError(
            f"The wire tape {self.path.name} cannot be written: {error.strerror or error}.",
            hint=f"Check the free space and the permissions of the folder {self.path.parent}.",
            facts={"path": str(self.path)},
        )


class CallTape:
    """One call on a tape."""

    def __init__(
        self,
        tape: WireTape,
        number: int,
        method: str,
        path: str,
        body: bytes,
        place: Place,
        seconds: float,
        known: bool,
    ) -> None:
        self._tape = tape
        self._call = number
        self._place = place
        self._remover = KeyRemover(place)
        self._sent = time.monotonic()
        self._over = False
        text, data = as_text(KeyRemover(place).clean(body, last=True))
        tape.write(CallSent(call=number, method=method, path=path, seconds=seconds, body=text, data=data, known=known))

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of the answer is there."""
        kept = {name: self._place.clean(headers[name]) for name in KEPT_HEADERS if name in headers}
        self._tape.write(CallAnswered(call=self._call, status=status, headers=kept, seconds=self._seconds()))

    def arrived(self, data: bytes) -> None:
        """Bytes have arrived; none: the answer is over."""
        if self._over:
            return
        self._over = not data
        text, raw = as_text(self._remover.clean(data, last=not data))
        if text or raw:
            self._tape.write(CallPiece(call=self._call, seconds=self._seconds(), text=text, data=raw))
        if not data:
            self._tape.write(CallEnded(call=self._call, seconds=self._seconds()))

    def failed(self, error: RequestError) -> None:
        """The call is over without an answer, or in the middle of it."""
        if self._over:
            return
        self._over = True
        text, raw = as_text(self._remover.clean(b"", last=True))
        if text or raw:
            self._tape.write(CallPiece(call=self._call, seconds=self._seconds(), text=text, data=raw))
        self._tape.write(
            CallFailed(
                call=self._call,
                seconds=self._seconds(),
                error=next((name for name, kind in FAILURES.items() if isinstance(error, kind)), "ConnectFailed"),
                message=self._place.clean(error.message),
                hint=error.hint,
                facts=error.facts,
                retryable=error.retryable,
            )
        )

    def _seconds(self) -> float:
        return time.monotonic() - self._sent


def now_text() -> str:
    """The present time as tapes show it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


current_tape: ContextVar[WireTape | None] = ContextVar("current_tape", default=None)
"""The tape of the run that is going on here."""
