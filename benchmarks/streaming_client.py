"""P1, P2: CPU and throughput of streams, beside a raw socket, openai-python and httpx with httpx-sse."""

import asyncio
import sys
from functools import partial

from client_peers import Measure, best_of, floor, httpx_sse, measured, missing, openai_python, ours, server
from table import Table

FLAT_OUT = ((1, 20_000), (8, 20_000), (64, 5_000))
"""(streams, chunks each)"""
SLOW = 50
"""How many times fewer chunks the slow peers get."""
REPEATS = 5
PACED = (64, 200, 100)
"""Streams, chunks each, chunks a second in each."""


async def compare(url: str) -> int:
    table = Table("Streaming client: our time includes HTTP, limits, phases and the finished completion")
    absent = missing("openai", "httpx_sse")
    clients = {"ours": ours(url), "floor": floor(url)}
    if "openai" not in absent:
        clients["openai"] = openai_python(url)
    if "httpx_sse" not in absent:
        clients["httpx-sse"] = httpx_sse(url)
    ask = {name: client[0] for name, client in clients.items()}
    for name in ask:
        await measured(ask[name], "stream-200-0", 1, 200)

    def run(name: str, streams: int, chunks: int, rate: int = 0) -> Measure:
        chunks = chunks if name in ("ours", "floor") or rate else chunks // SLOW
        return partial(measured, ask[name], f"stream-{chunks}-{rate}", streams, chunks)

    for streams, chunks in FLAT_OUT:
        found = await best_of({name: run(name, streams, chunks) for name in ask}, REPEATS)
        our_rate, our_cpu = found["ours"]
        what, cpu = f"P1 {streams} streams flat out", found["floor"][1]
        ratio = our_cpu / cpu
        table.row(
            f"{what}: CPU a chunk", f"{our_cpu:.2f} us", f"floor {cpu:.2f} us", ratio, "<= 2.5x", our_cpu <= 2.5 * cpu
        )
        for name in list(ask)[2:]:
            rate = found[name][0]
            target = (">= 40x", our_rate >= 40 * rate) if name == "openai" else ("", None)
            table.row(f"{what}: chunks/s", f"{our_rate:,.0f}", f"{name} {rate:,.0f}", our_rate / rate, *target)
    streams, chunks, paced = PACED
    found = await best_of({name: run(name, streams, chunks, paced) for name in ask if name != "httpx-sse"}, 3)
    our_cpu = found["ours"][1]
    what = f"P2 {streams} streams x {paced} chunks/s: CPU a chunk"
    for name in list(found)[1:]:
        cpu = found[name][1]
        target = ("<= 2.5x", our_cpu <= 2.5 * cpu) if name == "floor" else ("", None)
        table.row(what, f"{our_cpu:.1f} us", f"{name} {cpu:.1f} us", our_cpu / cpu, *target)
    for _, close in clients.values():
        await close()
    return table.finish()


if __name__ == "__main__":
    with server() as address:
        sys.exit(asyncio.run(compare(address)))
