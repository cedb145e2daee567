"""What the client benchmarks share: the server process, our client, the floor, and the peers if they are installed."""

import asyncio
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.clients.recovery import Requests
from engine.clients.transport import Transport
from engine.conversation import Conversation
from engine.profile import ModelProfile, ProfileOptions, Provider

Ask = Callable[[str], Awaitable[int]]
"""Asks the model of that name; the number of chunks with text."""
Close = Callable[[], Awaitable[None]]
Measure = Callable[[], Awaitable[tuple[float, float]]]
"""One run: how many a second, and CPU microseconds of each."""


@contextmanager
def server() -> Iterator[str]:
    """The address of a server that runs while the block does."""
    command = [sys.executable, str(Path(__file__).with_name("stream_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


async def best_of(contestants: Mapping[str, Measure], repeats: int) -> dict[str, tuple[float, float]]:
    """The highest rate and the lowest CPU time of each; they take turns, so that a busy machine slows all alike."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, measure in contestants.items():
            runs[name].append(await measure())
    return {name: (max(run[0] for run in own), min(run[1] for run in own)) for name, own in runs.items()}


def missing(*modules: str) -> list[str]:
    """Those of the peers' modules that are not installed, told to the person."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    for name in absent:
        print(f"{name} is not installed and left out; install the extra bench to compare with it")
    return absent


def ours(url: str) -> tuple[Ask, Close]:
    """The product's client, from the conversation to the finished completion."""
    transport = Transport()
    requests = Requests(transport)
    conversation = Conversation.create("", "hi")
    options = ProfileOptions(max_concurrent=0)

    async def ask(model: str) -> int:
        profile = ModelProfile(
            name="bench", category="M", provider=Provider.OPENAI_CHAT, model=model, url=url, options=options
        )
        chunks = 0
        request = ChatRequest.create(profile, conversation)
        async with requests.stream(client_for(profile), request, count=len) as stream:
            async for chunk in stream:
                if chunk.content:
                    chunks += 1
        assert stream.completion.statistics.in_tokens == 10
        return chunks

    return ask, transport.aclose


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Event(msgspec.Struct):
    choices: list[_Choice]


_decode = msgspec.json.Decoder(_Event).decode


class _Raw(asyncio.Protocol):
    """As little as can be done: split at line feeds, HTTP's own lines fall through, decode, append."""

    def __init__(self, request: bytes, done: "asyncio.Future[int]") -> None:
        self.request, self.done, self.rest, self.texts = request, done, b"", [""]

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line[:6] == b"data: ":
                if line[6:12] == b"[DONE]":
                    self.transport.close()
                    self.done.set_result(len(self.texts) - 1)
                    return
                text = _decode(line[6:]).choices[0].delta.content
                if text:
                    self.texts.append(text)


def floor(url: str) -> tuple[Ask, Close]:
    """A raw socket without HTTP, errors, limits or phases."""
    port = urlsplit(url).port

    async def ask(model: str) -> int:
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        await loop.create_connection(lambda: _Raw(head + body, done), "127.0.0.1", port)
        return await done

    async def close() -> None:
        pass

    return ask, close


def openai_python(url: str) -> tuple[Ask, Close]:
    """The client library of OpenAI."""
    import openai

    client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, timeout=None)

    async def ask(model: str) -> int:
        chunks = 0
        stream = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "hi"}], stream=True
        )
        async for event in stream:
            if event.choices and event.choices[0].delta.content:
                chunks += 1
        return chunks

    return ask, client.close


def httpx_sse(url: str) -> tuple[Ask, Close]:
    """httpx with the event reader httpx-sse, decoded with the standard library."""
    import httpx
    from httpx_sse import aconnect_sse

    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))

    async def ask(model: str) -> int:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}
        chunks = 0
        async with aconnect_sse(client, "POST", f"{url}/v1/chat/completions", json=body) as source:
            async for event in source.aiter_sse():
                if event.data == "[DONE]":
                    break
                choices = json.loads(event.data)["choices"]
                if choices and choices[0]["delta"].get("content"):
                    chunks += 1
        return chunks

    return ask, client.aclose


async def measured(ask: Ask, model: str, streams: int, chunks: int) -> tuple[float, float]:
    """(chunks a second, CPU microseconds a chunk) of that many streams at once."""
    start, cpu = time.perf_counter(), time.process_time()
    counts = await asyncio.gather(*(ask(model) for _ in range(streams)))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert counts == [chunks] * streams, counts
    return streams * chunks / seconds, cpu / (streams * chunks) * 1e6
