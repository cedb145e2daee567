"""A scripted model server on 127.0.0.1, in a thread of its own.

It controls status, headers, bytes, pieces, delays, resets and stalls.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

EVENT_STREAM = {"Content-Type": "text/event-stream"}
JSON = {"Content-Type": "application/json"}
HTTP_OWN = ("host", "content-length", "connection")

T = TypeVar("T")

Piece = bytes | float
"""Bytes to write at once, or seconds to wait."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What to send back. `framing` says how the body ends, `end` what happens then."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: EVENT_STREAM)
    pieces: Sequence[Piece] = ()
    framing: Literal["close", "chunked", "length"] = "close"
    end: Literal["clean", "cut", "reset", "stall"] = "clean"
    raw: bytes | None = None
    """Instead of all that: these bytes, then the connection is closed."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def own_headers(self) -> dict[str, str]:
        """The headers without those that HTTP itself needs."""
        return {name: value for name, value in self.headers.items() if name not in HTTP_OWN}


Script = Answer | Callable[[Received], Answer]


class FakeServer:
    """Gives the answers in order to the POSTs it gets, the last one again and again; a GET or /api/show gets 404.

    `get` answers GETs otherwise. Each request is read to its end before it is answered.
    """

    def __init__(self, *script: Script, get: Script | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.script = list(script)
        self.requests: list[Received] = []
        self.gets: list[Received] = []
        self.hung_up = threading.Event()
        """Set when a client closed the connection while its answer was being sent."""
        self._get = get
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake server", daemon=True)
        self.open_connections = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.connections = 0
        """How many were made so far."""

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls, limit=1 << 24)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        for _ in range(20):  # a connection that is just being accepted would lose its socket, unclosed
            if not (accepting := self._accepting()):
                break
            await asyncio.wait(accepting, timeout=0.1)
        self._server.close()
        tasks = [*self._serving, *self._accepting()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:  # also of a connection whose task was cancelled before it began
            writer.close()
        for _ in range(3):  # transports close in the turns after
            await asyncio.sleep(0)

    def _accepting(self) -> list[asyncio.Task[Any]]:
        own = {*self._serving, asyncio.current_task()}
        return [task for task in asyncio.all_tasks() if task not in own]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._task(self._connection(reader, writer))

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self._loop.create_task(work)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return task

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        try:
            start: bytes | None = b""
            while start is not None and (request := await _received(start, reader)) is not None:
                start = await self._answer(self._choose(request), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            self.hung_up.set()
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            self.open_connections -= 1
            writer.close()

    def _choose(self, request: Received) -> Answer:
        if request.method != "POST" or request.path == "/api/show":
            self.gets.append(request)
            script = self._get or Answer(status=404, headers=JSON, pieces=[b"{}"])
        else:
            script = self.script[min(len(self.requests), len(self.script) - 1)]
            self.requests.append(request)
        return script(request) if callable(script) else script

    async def _answer(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """Send an answer; the byte read ahead of the next request, None when the connection is over."""
        if answer.raw is not None:
            writer.write(answer.raw)
            await writer.drain()
            return None
        headers = dict(answer.headers)
        if answer.framing == "chunked":
            headers["Transfer-Encoding"] = "chunked"
        elif answer.framing == "length":
            headers["Content-Length"] = str(sum(len(piece) for piece in answer.pieces if isinstance(piece, bytes)))
        else:
            headers["Connection"] = "close"
        lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        sending = self._task(self._pieces(answer, writer))
        ahead = self._task(reader.read(1))  # nothing is due before the end of the answer
        try:
            await asyncio.wait((sending, ahead), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.hung_up.set()
                return None
            return await ahead if sending.result() else None
        finally:
            for future in (sending, ahead):
                future.cancel()
            await asyncio.gather(sending, ahead, return_exceptions=True)

    async def _pieces(self, answer: Answer, writer: asyncio.StreamWriter) -> bool:
        await writer.drain()
        for piece in answer.pieces:
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            elif piece:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if answer.framing == "chunked" else piece)
                await writer.drain()
                await asyncio.sleep(0)
        if answer.end == "stall":
            await asyncio.Event().wait()
        if answer.end == "reset":
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        if answer.framing == "chunked" and answer.end == "clean":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return answer.framing != "close" and answer.end == "clean"


async def _received(start: bytes, reader: asyncio.StreamReader) -> Received | None:
    try:
        head = start + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, path, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method=method, path=path, headers=headers, body=body)


def event(data: object) -> bytes:
    """One server-sent event; texts as they are, all else as JSON."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


def delta(content: str | None = None, *, finish: str | None = None, **members: object) -> bytes:
    """One event of chat completions."""
    members = members if content is None else {"content": content, **members}
    choice = {"index": 0, "delta": members, "finish_reason": finish}
    return event({"id": "c1", "object": "chat.completion.chunk", "model": "test-model", "choices": [choice]})


DONE = event("[DONE]")


def chat(*texts: str, finish: str = "stop", usage: tuple[int, int] | None = (7, 3)) -> Answer:
    """A complete streamed answer."""
    pieces = [delta(text) for text in texts] + [delta(finish=finish)]
    if usage:
        numbers = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
        pieces.append(event({"model": "test-model", "choices": [], "usage": numbers}))
    return Answer(pieces=[*pieces, DONE], framing="chunked")


def json_answer(body: object, status: int = 200, **headers: str) -> Answer:
    """An answer that is one JSON document."""
    return Answer(status=status, headers=JSON | headers, pieces=[json.dumps(body).encode()], framing="length")


def failure(status: int, message: str = "no", *, headers: Mapping[str, str] | None = None, **members: object) -> Answer:
    """An answer with an error object."""
    return json_answer({"error": {"message": message, **members}}, status, **(headers or {}))
