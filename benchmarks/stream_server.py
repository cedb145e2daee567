"""The model server of the client benchmarks, in a process of its own: prints its port, serves until its input ends.

The model name says what to send: `stream-CHUNKS-RATE` (RATE chunks a second, one packet each; 0: as fast as possible).
"""

import asyncio
import json
import os
import re
import sys

WORDS = (" the", " model", " writes", " one", " word", ",", " then", " another", " é", ".\n")
PER_BLOCK = 240
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def framed(data: bytes) -> bytes:
    """One HTTP chunk, as servers send each event."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(delta: dict[str, str], finish: str | None = None, **members: object) -> bytes:
    """A chunk with all the members that services send along."""
    body = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "bench",
        "system_fingerprint": "fp_bench",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        **members,
    }
    return framed(b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n")


USAGE = {"prompt_tokens": 10, "completion_tokens": 100, "total_tokens": 110}
FIRST = event({"role": "assistant", "content": ""})
EVENTS = [event({"content": word}) for word in WORDS]
BLOCK = b"".join(EVENTS[number % len(EVENTS)] for number in range(PER_BLOCK))
LAST = event({}, "stop", usage=USAGE) + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
MESSAGE = {"role": "assistant", "content": "A short answer of a few words, as a classifier gives it."}
WHOLE = json.dumps(
    {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion",
        "created": 1790000000,
        "model": "bench",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop", "logprobs": None}],
        "usage": USAGE,
    }
).encode()
DOCUMENT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(WHOLE), WHOLE)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = re.search(rb"(?i)content-length: *(\d+)", head)
            body = await reader.readexactly(int(size[1]) if size else 0)
            asked = re.search(rb'"stream-(\d+)-(\d+)"', body)
            if asked:
                await stream(writer, int(asked[1]), int(asked[2]))
            else:
                writer.write(DOCUMENT)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def stream(writer: asyncio.StreamWriter, count: int, rate: int) -> None:
    writer.write(HEAD + FIRST)
    if rate:
        loop = asyncio.get_running_loop()
        start = loop.time()
        for number in range(count):
            writer.write(EVENTS[number % len(EVENTS)])
            await asyncio.sleep(max(0.0, start + (number + 1) / rate - loop.time()))
    else:
        for _ in range(count // PER_BLOCK):
            writer.write(BLOCK)
            await writer.drain()
        writer.write(b"".join(EVENTS[number % len(EVENTS)] for number in range(count % PER_BLOCK)))
    writer.write(LAST)
    await writer.drain()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # the clients are gone; what is left of their connections needs no farewell


if __name__ == "__main__":
    asyncio.run(main())
