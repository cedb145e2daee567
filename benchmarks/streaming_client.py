"""P1, P2: CPU and throughput of streams, beside a raw socket, openai-python and httpx with httpx-sse."""

import asyncio
import statistics
import sys

from client_peers import Ask, floor, httpx_sse, measured, missing, openai_python, ours, server
from table import Table

FLAT_OUT = ((1, 20_000), (8, 20_000), (64, 5_000))
"""(streams, chunks each)"""
SLOW = 50
"""How many times fewer chunks the slow peers get."""
REPEATS = 3
PACED = (64, 200, 100)
"""Streams, chunks each, chunks a second in each."""


async def best(ask: Ask, streams: int, chunks: int, rate: int = 0, repeats: int = REPEATS) -> tuple[float, float]:
    """Medians of (chunks a second, CPU microseconds a chunk)."""
    runs = [await measured(ask, f"stream-{chunks}-{rate}", streams, chunks) for _ in range(repeats)]
    return statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)


async def compare(url: str) -> int:
    table = Table("Streaming client: our time includes HTTP, limits, phases and the finished completion")
    absent = missing("openai", "httpx_sse")
    clients = {"floor": floor(url), "ours": ours(url)}
    if "openai" not in absent:
        clients["openai"] = openai_python(url)
    if "httpx_sse" not in absent:
        clients["httpx-sse"] = httpx_sse(url)
    ask = {name: client[0] for name, client in clients.items()}
    for name in ask:
        await measured(ask[name], "stream-200-0", 1, 200)
    for streams, chunks in FLAT_OUT:
        our_rate, our_cpu = await best(ask["ours"], streams, chunks)
        _, cpu = await best(ask["floor"], streams, chunks)
        what = f"P1 {streams} streams flat out"
        table.row(
            f"{what}: CPU a chunk",
            f"{our_cpu:.2f} us",
            f"floor {cpu:.2f} us",
            our_cpu / cpu,
            "<= 2.5x",
            our_cpu <= 2.5 * cpu,
        )
        if "openai" in ask:
            rate, _ = await best(ask["openai"], streams, chunks // SLOW, repeats=2)
            ratio = our_rate / rate
            table.row(f"{what}: chunks/s", f"{our_rate:,.0f}", f"openai {rate:,.0f}", ratio, ">= 40x", ratio >= 40)
        if "httpx-sse" in ask:
            rate, _ = await best(ask["httpx-sse"], streams, chunks // SLOW, repeats=2)
            table.row(f"{what}: chunks/s", f"{our_rate:,.0f}", f"httpx-sse {rate:,.0f}", our_rate / rate, "", None)
    streams, chunks, rate = PACED
    _, our_cpu = await best(ask["ours"], streams, chunks, rate, repeats=3)
    _, cpu = await best(ask["floor"], streams, chunks, rate, repeats=3)
    what = f"P2 {streams} streams x {rate} chunks/s: CPU a chunk"
    table.row(what, f"{our_cpu:.1f} us", f"floor {cpu:.1f} us", our_cpu / cpu, "<= 2.5x", our_cpu <= 2.5 * cpu)
    if "openai" in ask:
        _, cpu = await best(ask["openai"], streams, chunks, rate, repeats=1)
        table.row(what, f"{our_cpu:.1f} us", f"openai {cpu:.1f} us", our_cpu / cpu, "", None)
    for _, close in clients.values():
        await close()
    return table.finish()


if __name__ == "__main__":
    with server() as address:
        sys.exit(asyncio.run(compare(address)))
