"""P3: answers in one piece, 64 requests in flight, beside openai-python and plain httpx."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from client_peers import Close, Measure, best_of, missing, ours, server
from table import Table

IN_FLIGHT = 64
REQUESTS = 2_000
SLOW_REQUESTS = 300
SERIAL_REQUESTS = 400
REPEATS = 5
MESSAGES = [{"role": "user", "content": "hi"}]

Send = Callable[[], Awaitable[object]]


async def rate(send: Send, requests: int, in_flight: int) -> tuple[float, float]:
    """(requests a second, CPU microseconds a request)."""
    left = iter(range(requests))

    async def worker(left: Iterator[int]) -> None:
        for _ in left:
            await send()

    start, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker(left) for _ in range(in_flight)))
    return requests / (time.perf_counter() - start), (time.process_time() - cpu) / requests * 1e6


def our_client(url: str) -> tuple[Send, Close]:
    ask, close = ours(url)

    async def send() -> None:
        assert await ask("whole") == 1

    return send, close


def openai_client(url: str) -> tuple[Send, Close]:
    import openai

    client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, timeout=None)

    async def send() -> object:
        return (await client.chat.completions.create(model="whole", messages=MESSAGES)).choices

    return send, client.close


def httpx_client(url: str) -> tuple[Send, Close]:
    import httpx

    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))

    async def send() -> object:
        body = {"model": "whole", "messages": MESSAGES}
        return (await client.post(f"{url}/v1/chat/completions", json=body)).json()["choices"]

    return send, client.aclose


async def compare(url: str) -> int:
    table = Table("Answers in one piece, from the conversation to the finished completion")
    absent = missing("openai", "httpx")
    send, close = our_client(url)
    closing = [close]
    contestants: dict[str, Measure] = {
        "ours": partial(rate, send, REQUESTS, IN_FLIGHT),
        "alone": partial(rate, send, SERIAL_REQUESTS, 1),
    }
    for name, make in {"openai": openai_client, "httpx": httpx_client}.items():
        if name not in absent:
            other, close = make(url)
            closing.append(close)
            contestants[name] = partial(rate, other, SLOW_REQUESTS, IN_FLIGHT)
            await rate(other, 20, IN_FLIGHT)
    await rate(send, 100, IN_FLIGHT)
    found = await best_of(contestants, REPEATS)
    (our_rate, our_cpu), (_, alone) = found["ours"], found["alone"]
    what, ratio = f"P3 CPU a request, {IN_FLIGHT} in flight", our_cpu / alone
    table.row(what, f"{our_cpu:.0f} us", f"ours, 1: {alone:.0f} us", ratio, "<= 1.5x", ratio <= 1.5)
    for name, (theirs, their_cpu) in list(found.items())[2:]:
        target = (">= 4x", our_rate >= 4 * theirs) if name == "openai" else ("", None)
        what = f"P3 requests/s, {IN_FLIGHT} in flight"
        table.row(what, f"{our_rate:,.0f}", f"{name} {theirs:,.0f}", our_rate / theirs, *target)
        what = f"P3 CPU a request, {IN_FLIGHT} in flight"
        table.row(what, f"{our_cpu:.0f} us", f"{name} {their_cpu:.0f} us", our_cpu / their_cpu, "", None)
    for close in closing:
        await close()
    return table.finish()


if __name__ == "__main__":
    with server() as address:
        sys.exit(asyncio.run(compare(address)))
