"""Walks that are recorded in memory, cut off anywhere, and gone on with."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from engine.checkpoints import Checkpoint
from engine.completion import Completer
from engine.events import AnyEvent
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.flow.frozen import Frozen
from engine.flow.restart import Restart
from engine.history_queries import ReachedRun, read_reached
from engine.history_rows import STATEMENTS, HistoryRows, RunBegun
from engine.history_schema import HISTORY

Told = AnyEvent | Checkpoint


class RecordedWalk:
    """A walk and everything it told, in order."""

    def __init__(
        self,
        flow: Flow,
        completer: Completer,
        values: dict[str, object] | None = None,
        *,
        restart: Restart | None = None,
        limits: Limits | None = None,
        run_id: str = "run",
        frozen: Sequence[Frozen] = (),
    ) -> None:
        self.told: list[Told] = []
        self.completer = completer
        self.walk = Walk(
            flow,
            Context(values or {}),
            completer,
            run_id=run_id,
            emit=self.told.append,
            keep=self.told.append,
            restart=restart,
            limits=limits,
            frozen=frozen,
        )
        self.contexts: list[Context] = []

    async def to_end(self) -> "RecordedWalk":
        self.contexts = await self.walk.run()
        return self

    @property
    def events(self) -> list[AnyEvent]:
        return [told for told in self.told if not isinstance(told, Checkpoint)]


def stored(told: Sequence[Told], run_id: str = "run", flow: str = "test") -> ReachedRun:
    """What a database gives back of a run that told this and died."""
    rows = HistoryRows(0, "gone")
    rows.begin(RunBegun(run_id=run_id, flow=flow, flow_text="", inputs={}, profiles={}))
    for one in told:
        if isinstance(one, Checkpoint):
            rows.reach(one)
        else:
            rows.add(one)
    rows.fold()
    with closing(sqlite3.connect(":memory:")) as connection:
        for migration in HISTORY:
            for statement in migration:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(HISTORY)}")
        for number, values in rows.take():
            connection.execute(STATEMENTS[number], values)
        reached = read_reached(connection, run_id)
    assert reached is not None
    return reached
