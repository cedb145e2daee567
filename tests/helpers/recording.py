"""Records runs, and looks into their database."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

from engine.events import AnyEvent
from engine.run_history import RunHistory
from tests.helpers.history_events import run_events

START = 1_800_000_000.0


async def begin(history: RunHistory, run_id: str = "run 1") -> bool:
    return await history.begin(run_id, "Sample", '{"name": "Sample"}', {"topic": ["the sea"]}, {"agent 1": "chat"})


async def record(history: RunHistory, run_id: str = "run 1", steps: int = 2, time: float = START) -> list[AnyEvent]:
    assert await begin(history, run_id)
    events = list(run_events(run_id, steps, time))
    for event in events:
        history.record(event)
    return events


def query(path: Path, question: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


async def reach(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def open_history(path: Path) -> AsyncIterator[RunHistory]:
    history = RunHistory(path)
    yield history
    await history.close()
