"""P4: WorkbenchLoop against plain asyncio, with qasync beside it. Each loop is measured in processes of its own.

Usage: python benchmarks/event_loop.py [--quick]
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from table import Table

ROUNDS = 2  # alternating; the best of each loop counts, which is what other work on the machine disturbs least
LOOPS = ("asyncio", "workbench", "qasync")
MESSAGE = b"x" * 64
IDLE_CONNECTIONS = 450  # both ends are in this process: 900 descriptors

Figures = dict[str, float]


async def call_soon(count: int) -> float:
    """Seconds until as many callbacks, queued at once, have run."""
    loop = asyncio.get_running_loop()
    done, left = loop.create_future(), count

    def callback() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    start = time.perf_counter()
    for _ in range(count):
        loop.call_soon(callback)
    await done
    return time.perf_counter() - start


async def sleep_zero(count: int) -> float:
    """Seconds for as many sleep(0) one after the other."""
    start = time.perf_counter()
    for _ in range(count):
        await asyncio.sleep(0)
    return time.perf_counter() - start


class Echo(asyncio.Protocol):
    open_connections = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        Echo.open_connections += 1

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        Echo.open_connections -= 1


@asynccontextmanager
async def echo_server() -> AsyncIterator[int]:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0, backlog=1000)
    yield server.sockets[0].getsockname()[1]
    server.close()
    while Echo.open_connections:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def round_trips(port: int, count: int) -> tuple[float, float]:
    """Round trips a second on one connection, and the CPU microseconds of one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        writer.write(MESSAGE)
        await reader.readexactly(len(MESSAGE))
    rate, cpu_us = count / (time.perf_counter() - start), (time.process_time() - cpu) / count * 1e6
    writer.close()
    return rate, cpu_us


async def timeouts(count: int) -> tuple[float, float]:
    """CPU microseconds of a timeout entered and left, and the MiB of memory kept afterwards."""
    memory, cpu = resident_mib(), time.process_time()
    for _ in range(count):
        async with asyncio.timeout(600):
            await asyncio.sleep(0)
    return (time.process_time() - cpu) / count * 1e6, resident_mib() - memory


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def measure(scale: int, repeats: int) -> Figures:
    await call_soon(1000)
    await sleep_zero(1000)
    async with asyncio.timeout(600):
        await asyncio.sleep(0)
    figures: Figures = {}
    figures["call_soon_s"] = min([await call_soon(100_000 // scale) for _ in range(repeats)])
    figures["sleep_zero_s"] = min([await sleep_zero(20_000 // scale) for _ in range(repeats)])
    async with echo_server() as port:
        figures["echo_per_s"] = max([(await round_trips(port, 5000 // scale))[0] for _ in range(repeats)])
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(IDLE_CONNECTIONS)]
        figures["idle_echo_cpu_us"] = min([(await round_trips(port, 1000 // scale))[1] for _ in range(repeats)])
        for _, writer in idle:
            writer.close()
    figures["timeout_us"], figures["kept_mib"] = await timeouts(100_000 // scale)  # last: they slow qasync down
    return figures


def run_one(name: str, scale: int) -> Figures:
    """Measure in this process; the best of some repeats, but qasync only once, which is slow and decides nothing."""
    repeats = 1 if name == "qasync" else 3
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))
    if name == "asyncio":
        return asyncio.run(measure(scale, repeats))
    from PySide6.QtWidgets import QApplication

    app = QApplication([])
    if name == "workbench":
        from workbench.event_loop import WorkbenchLoop as Loop
    else:
        from qasync import QEventLoop as Loop
    with asyncio.Runner(loop_factory=lambda: Loop(app)) as runner:
        return runner.run(measure(scale, repeats))


def run_all(scale: int, rounds: int) -> dict[str, Figures]:
    """Measure every loop in new processes; the best figures of each."""
    best: dict[str, Figures] = {}
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(root)}
    for number in range(rounds):
        for name in LOOPS:
            if name == "qasync" and number:
                continue
            command = [sys.executable, __file__, "--one", name, "--scale", str(scale)]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=300)
            for what, value in json.loads(done.stdout).items():
                better = max if what.endswith("_per_s") else min
                figures = best.setdefault(name, {})
                figures[what] = better(figures.get(what, value), value)
    return best


def report(best: dict[str, Figures], scale: int) -> int:
    table = Table("P4: event loop, peer: asyncio (qasync)")

    def row(
        what: str,
        key: str,
        show: Callable[[float], str],
        target: str = "",
        is_met: Callable[[float], bool] | None = None,
    ) -> None:
        ours, peer, qasync = (best[name][key] for name in ("workbench", "asyncio", "qasync"))
        ratio = ours / peer
        table.row(what, show(ours), f"{show(peer)} ({show(qasync)})", ratio, target, is_met(ratio) if is_met else None)

    row(f"{100_000 // scale:,} call_soon at once", "call_soon_s", "{:.3f} s".format, "<= 2x", lambda x: x <= 2)
    row(f"{20_000 // scale:,} sleep(0)", "sleep_zero_s", "{:.3f} s".format, "<= 2x", lambda x: x <= 2)
    row("echo round trips, 1 connection", "echo_per_s", "{:,.0f}/s".format, ">= 0.7x", lambda x: x >= 0.7)
    row("echo, CPU, 900 idle sockets", "idle_echo_cpu_us", "{:.1f} us".format, "<= 2x", lambda x: x <= 2)
    row(f"{100_000 // scale:,} timeouts, CPU each", "timeout_us", "{:.1f} us".format)
    kept, peer, qasync = (max(0.0, best[name]["kept_mib"]) for name in ("workbench", "asyncio", "qasync"))
    what = f"{100_000 // scale:,} timeouts, memory kept"
    table.row(what, f"{kept:.1f} MiB", f"{peer:.1f} MiB ({qasync:.1f} MiB)", None, "0 MiB", kept < 0.5)
    return table.finish()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the counts, one round")
    parser.add_argument("--one", choices=LOOPS, help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(options.one, options.scale)))
        return 0
    scale, rounds = (5, 1) if options.quick else (1, ROUNDS)
    return report(run_all(scale, rounds), scale)


if __name__ == "__main__":
    sys.exit(main())
