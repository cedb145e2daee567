"""P11: what a node of a flow costs beside a plain asyncio task per node and LangGraph; what 10,000 branches weigh."""

import asyncio
import gc
import subprocess
import sys
import time
from pathlib import Path

from flow_peers import Go, floor_chain, floor_fan, has_langgraph, langgraph_chain, langgraph_fan, our_chain, our_fan
from table import Table

from engine.flow.agent import AgentType

OVER_FLOOR = 25 / 3.85
"""The target of 25 microseconds a node was set where the floor took 3.3 to 4.4; the ratio holds on any machine."""
GROWTH = 1.3
MEMORY = 40
SHAPES = (("chain", 100), ("fan-out with merge", 1_000), ("fan-out with merge", 10_000))


async def cost(go: Go, size: int, repeats: int) -> float:
    """CPU microseconds a node: the best of some runs, as others only make it longer."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        began = time.process_time()
        await go()
        best = min(best, time.process_time() - began)
    return best / size * 1e6


def ours(kind: AgentType, shape: str, size: int) -> Go:
    return our_chain(kind, size) if shape == "chain" else our_fan(kind, size)


async def compare(table: Table) -> None:
    by_size: dict[int, float] = {}
    for shape, size in SHAPES:
        chain = shape == "chain"
        floor = await cost(floor_chain(size) if chain else floor_fan(size), size, 9)
        by_size[size] = mine = await cost(ours(AgentType.PROCESSING_ONLY, shape, size), size, 9)
        held = mine <= OVER_FLOOR * floor
        beside = f"floor {floor:.1f}"
        target = f"<= {OVER_FLOOR:.1f}x floor"
        table.row(f"{shape}, {size:,} no-op agents", f"{mine:.1f} us/node", beside, mine / floor, target, held)
        if has_langgraph():
            # 10,000 take it minutes; what a node costs it is known from 1,000.
            few = min(size, 1_000)
            peer = await cost(langgraph_chain(few) if chain else langgraph_fan(few), few, 2)
            table.row(f"  LangGraph ({few:,})", f"{mine:.1f} us/node", f"LangGraph {peer:.0f}", mine / peer, "", None)
        asking = await cost(ours(AgentType.COMPLETION, shape, size), size, 5)
        table.row("  agents that ask an instant model", f"{asking:.1f} us/node", beside, asking / floor, "", None)
    large, small = by_size[10_000], by_size[1_000]
    what = "a node of 10,000 beside one of 1,000"
    held = large <= GROWTH * small
    table.row(what, f"{large:.1f} us", f"{small:.1f} us", large / small, f"<= {GROWTH}x", held)


def weigh(table: Table) -> None:
    """Peak memory of a run, in a process of its own."""
    for kind, what in ((AgentType.PROCESSING_ONLY, "no-op branches"), (AgentType.COMPLETION, "branches that ask")):
        command = [sys.executable, __file__, "--weigh", kind.value]
        used = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        table.row(f"memory of 10,000 {what}", f"{used:.1f} MiB", "", None, f"<= {MEMORY} MiB", used <= MEMORY)


def peak() -> float:
    """MiB this process has used at most; not `ru_maxrss`, which starts with the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not tell the peak memory of a process")


async def weigh_one(kind: AgentType) -> None:
    await our_fan(kind, 10)()
    before = peak()
    await our_fan(kind, 10_000)()
    print(peak() - before)


def main() -> int:
    if sys.argv[1:2] == ["--weigh"]:
        asyncio.run(weigh_one(AgentType(sys.argv[2])))
        return 0
    table = Table("Flow executor: our time includes events that are read, contexts, traces")
    asyncio.run(compare(table))
    weigh(table)
    if not has_langgraph():
        print("LangGraph is not installed (extra `bench`), so there is nothing to compare with but the floor")
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
