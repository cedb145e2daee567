"""The wire tape: the exact bytes of each call with their times, without keys, to be played again through the client."""

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from engine.atomic_file import read_limited, write_atomically
from engine.clients.addresses import AddressRule
from engine.clients.failures import Place
from engine.clients.transport import Reply, Transport
from engine.clients.transport_faults import timeout
from engine.clients.watchdog import Watch
from engine.errors import ConnectFailed, RequestError, StorageError

SIZE_LIMIT = 1_000_000_000
KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "date")
"""Of an answer; all others, and all headers of requests, stay off the tape."""


class Piece(msgspec.Struct, frozen=True):
    """Bytes as they arrived."""

    seconds: float
    """Since the request was sent."""
    data: bytes
    """Base64 in the file."""


class TapedCall(msgspec.Struct):
    """One request and its answer; a request that had no answer is not on the tape."""

    method: str
    path: str
    """Without host and query."""
    request: str
    """SHA-256 of the body that was sent."""
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    pieces: list[Piece]


class WireTape:
    """What the calls of a transport brought: give it to `Transport.tape`, then `save`."""

    def __init__(self) -> None:
        self.calls: list[TapedCall] = []

    def begin(
        self, method: str, url: str, body: bytes, place: Place, status: int, headers: Mapping[str, str], sent: float
    ) -> Callable[[bytes], None]:
        """Note an answer; the function takes its bytes. `sent` is monotonic seconds."""
        kept = {name: place.clean(headers[name]) for name in KEPT_HEADERS if name in headers}
        call = TapedCall(method, urlsplit(url).path, _hash(body), status, kept, [])
        self.calls.append(call)

        def arrived(data: bytes) -> None:
            clean = place.clean(data.decode("latin-1")).encode("latin-1")
            call.pieces.append(Piece(time.monotonic() - sent, clean))

        return arrived

    def save(self, path: Path) -> None:
        """Write the tape, one call a line; raises StorageError."""
        write_atomically(path, b"".join(msgspec.json.encode(call) + b"\n" for call in self.calls))

    @classmethod
    def load(cls, path: Path) -> "WireTape":
        """Read a tape; raises StorageError that names the line."""
        tape = cls()
        for number, line in enumerate(read_limited(path, SIZE_LIMIT).splitlines(), start=1):
            try:
                tape.calls.append(msgspec.json.decode(line, type=TapedCall))
            except (msgspec.MsgspecError, ValueError) as error:
                raise StorageError(
                    f"{path.name}, line {number}: this is no call of a wire tape: {error}.",
                    hint="Record it again.",
                    facts={"path": str(path)},
                ) from error
        return tape


class ReplayTransport(Transport):
    """Answers from a tape instead of a server: the same request gets the same bytes, each recorded call once."""

    def __init__(self, tape: WireTape, *, speed: float = 0.0) -> None:
        """Take the tape; `speed` 1 = as it was, 10 = ten times as fast, 0 = all at once."""
        super().__init__(offline=True)
        self._speed = speed
        self._calls: dict[tuple[str, str, str], deque[TapedCall]] = {}
        for call in tape.calls:
            self._calls.setdefault((call.method, call.path, call.request), deque()).append(call)

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
        calls = self._calls.get((method, urlsplit(url).path, _hash(body)))
        if not calls:
            error: RequestError = ConnectFailed(
                f"The tape has no further call {method} {urlsplit(url).path} with this request.",
                hint="Record it again: flow, inputs or profile have changed.",
                facts=place.facts(),
            )
            error.retryable = False
            raise error
        return _ReplayedReply(calls.popleft(), self._speed, watch, place)


class _ReplayedReply(Reply):
    """An answer from the tape."""

    def __init__(self, call: TapedCall, speed: float, watch: Watch, place: Place) -> None:
        self.status = call.status
        self.headers = call.headers
        self.watch = watch
        self.tap = None
        self._place = place
        self._pieces = deque(call.pieces)
        self._speed = speed
        self._begun = time.monotonic()
        self._over = asyncio.Event()
        watch.interrupt = self._over.set

    async def read(self) -> bytes:
        self.watch.wait()
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        due = self._begun + piece.seconds / self._speed - time.monotonic() if self._speed else 0.0
        if due > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), due)
        if self.watch.expired:
            raise timeout(self.watch.expired, self._place)
        self.watch.waited()
        return piece.data

    @property
    def finished(self) -> bool:
        return not self._pieces

    def close(self) -> None:
        self.watch.stop()
        self._over.set()


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
