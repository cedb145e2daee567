"""P3: answers in one piece, 64 requests in flight, beside openai-python and plain httpx."""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

from client_peers import missing, ours, server
from table import Table

IN_FLIGHT = 64
REQUESTS = 2_000
SLOW_REQUESTS = 300
SERIAL_REQUESTS = 400
REPEATS = 3
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


async def median(send: Send, requests: int, in_flight: int) -> tuple[float, float]:
    runs = [await rate(send, requests, in_flight) for _ in range(REPEATS)]
    return statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)


async def compare(url: str) -> int:
    table = Table("Answers in one piece, from the conversation to the finished completion")
    ask, close = ours(url)

    async def send() -> None:
        assert await ask("whole") == 1

    await rate(send, 100, IN_FLIGHT)
    our_rate, our_cpu = await median(send, REQUESTS, IN_FLIGHT)
    _, alone = await median(send, SERIAL_REQUESTS, 1)
    ratio = our_cpu / alone
    table.row(
        f"P3 CPU a request, {IN_FLIGHT} in flight",
        f"{our_cpu:.0f} us",
        f"ours, 1: {alone:.0f} us",
        ratio,
        "<= 1.5x",
        ratio <= 1.5,
    )
    await close()
    absent = missing("openai", "httpx")
    if "openai" not in absent:
        import openai

        client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, timeout=None)

        async def with_openai() -> object:
            return (await client.chat.completions.create(model="whole", messages=MESSAGES)).choices

        await rate(with_openai, 20, IN_FLIGHT)
        theirs, _ = await median(with_openai, SLOW_REQUESTS, IN_FLIGHT)
        what = f"P3 requests/s, {IN_FLIGHT} in flight"
        table.row(what, f"{our_rate:,.0f}", f"openai {theirs:,.0f}", our_rate / theirs, ">= 4x", our_rate >= 4 * theirs)
        await client.close()
    if "httpx" not in absent:
        import httpx

        plain = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))

        async def with_httpx() -> object:
            body = {"model": "whole", "messages": MESSAGES}
            return (await plain.post(f"{url}/v1/chat/completions", json=body)).json()["choices"]

        theirs, _ = await median(with_httpx, SLOW_REQUESTS, IN_FLIGHT)
        what = f"P3 requests/s, {IN_FLIGHT} in flight"
        table.row(what, f"{our_rate:,.0f}", f"httpx {theirs:,.0f}", our_rate / theirs, "", None)
        await plain.aclose()
    return table.finish()


if __name__ == "__main__":
    with server() as address:
        sys.exit(asyncio.run(compare(address)))
