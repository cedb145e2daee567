"""P12: 1,000 branches whose answers take 50 ms, 64 at a time, beside the ideal and LangGraph."""

import asyncio
import sys
import time

from flow_peers import Go, has_langgraph, langgraph_fan, our_fan
from table import Table

from engine.flow.agent import AgentType

BRANCHES = 1_000
AT_ONCE = 64
SECONDS = 0.05
IDEAL = -(-BRANCHES // AT_ONCE) * SECONDS
TARGET = 1.15


async def answer() -> None:
    await asyncio.sleep(SECONDS)


async def wall(go: Go, repeats: int = 3) -> float:
    """Seconds of the best of some runs."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        await go()
        best = min(best, time.perf_counter() - began)
    return best


async def compare(table: Table) -> None:
    ours = await wall(our_fan(AgentType.COMPLETION, BRANCHES, answer, AT_ONCE))
    what = f"{BRANCHES:,} branches x {SECONDS * 1000:.0f} ms, {AT_ONCE} at a time"
    ratio = ours / IDEAL
    table.row(what, f"{ours * 1000:.0f} ms", f"ideal {IDEAL * 1000:.0f} ms", ratio, f"<= {TARGET}x", ratio <= TARGET)
    if has_langgraph():
        peer = await wall(langgraph_fan(BRANCHES, answer, AT_ONCE), 1)
        table.row("  LangGraph", f"{ours * 1000:.0f} ms", f"LangGraph {peer * 1000:.0f} ms", ours / peer, "", None)


def main() -> int:
    table = Table("Branches: a fan-out over a slow model, merged at the end")
    asyncio.run(compare(table))
    if not has_langgraph():
        print("LangGraph is not installed (extra `bench`), so there is nothing to compare with but the ideal")
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
