"""A model server in a process of its own: what it costs is not the window's time.

As a program it says its port, then answers each POST with EVENTS events a second for SECONDS seconds, fast and evenly:
`flood_server.py EVENTS SECONDS`. With SECONDS 0 it says `HALF` and then nothing until it is left; whenever all have
left, it says how many had come since the last time, and when the last one left (seconds of the monotonic clock).
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
END = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7}}\n\ndata: [DONE]\n\n'
)
HALF = ("Half of ", "it")
"""What it says that then says no more."""


def word(number: int) -> str:
    """What an event says: every ninth ends a line."""
    return f"w{number}{chr(10) if number % 9 == 8 else ' '}"


def whole_text(events: int) -> str:
    """What a whole answer says."""
    return "".join(map(word, range(events)))


def chunk(text: str) -> bytes:
    """One event on the wire."""
    return f'data: {{"choices":[{{"index":0,"delta":{{"content":{json.dumps(text)}}}}}]}}\n\n'.encode()


class Stalling:
    """Answers by halves and tells when all have left."""

    def __init__(self) -> None:
        self._inside = self._came = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say the half and wait for the other side to leave."""
        self._inside += 1
        self._came += 1
        writer.write(HEAD + b"".join(map(chunk, HALF)))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        self._inside -= 1
        if not self._inside:
            print(self._came, time.monotonic(), flush=True)
            self._came = 0


async def serve(rate: int, seconds: float) -> None:
    """Answer until the input ends."""
    count = round(rate * seconds)
    stalling = Stalling()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").lower().split("\r\n")
            await reader.readexactly(int(next(line[15:] for line in lines if line.startswith("content-length:"))))
            if not count:
                await stalling.answer(reader, writer)
                return
            writer.write(HEAD)
            started = time.monotonic()
            for number in range(count):
                ahead = started + number / rate - time.monotonic()
                if ahead > 0:
                    await asyncio.sleep(ahead)
                writer.write(chunk(word(number)))
                if number % 50 == 0:
                    await writer.drain()
            writer.write(END)
            await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=200)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


@contextmanager
def flooding(rate: int, seconds: float) -> Iterator[str]:
    """The server at work; its address."""
    with _process(rate, seconds) as (url, _):
        yield url


@contextmanager
def stalling() -> Iterator[tuple[str, Callable[[], tuple[int, float]]]]:
    """The server that stalls; its address, and what waits until all have left: how many, and when the last one did."""
    with _process(0, 0) as (url, lines):

        def left() -> tuple[int, float]:
            came, moment = lines.readline().split()
            return int(came), float(moment)

        yield url, left


@contextmanager
def _process(rate: int, seconds: float) -> Iterator[tuple[str, IO[str]]]:
    command = [sys.executable, __file__, str(rate), str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.stdout
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
