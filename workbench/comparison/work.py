"""Begins, goes on with and stops comparisons, and shows on a board what comes of them."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine import Engine, EngineError, LoadedFlow, flow_text, read_flow
from engine.comparison import Comparison
from engine.comparison_export import ComparisonExport
from engine.comparison_rows import dataset_rows, prompt_flow, typed_rows
from engine.comparison_store import ComparisonStore
from engine.comparison_values import (
    Cell,
    CellResult,
    CompareJob,
    CompareOptions,
    CompareProgress,
    ComparisonRecord,
    Mark,
)
from engine.dataset import Dataset, check_dataset
from engine.errors import FlowInvalid
from engine.flow.flow import Flow
from engine.flow.flow_check import check_loaded
from engine.flow.subflow_files import origin_path
from engine.flow_access import known_plugins
from workbench.comparison.board import Answer, Board
from workbench.comparison.setup_form import Setup
from workbench.flow_source import read_source
from workbench.tasks import Tasks

TAKEN_AT_ONCE = 500
"""Answers that are taken in before the window has its turn."""

logger = logging.getLogger(__name__)


class ComparisonWork(QObject):
    """One comparison at a time."""

    changed = Signal()
    """It runs, or rests, or is another one."""
    progressed = Signal(object)
    """A CompareProgress."""
    failed = Signal(object)
    """An EngineError."""
    begun = Signal()
    """A new comparison is recorded, and runs."""

    def __init__(self, engine: Engine, database: Path, board: Board, tasks: Tasks, parent: QObject) -> None:
        super().__init__(parent)
        self._engine = engine
        self._store = ComparisonStore(database)
        self._board = board
        self._tasks = tasks
        self._comparison: Comparison | None = None
        """That which runs."""
        self._running: asyncio.Task[object] | None = None
        self.record: ComparisonRecord | None = None
        """That on show."""

    @property
    def is_running(self) -> bool:
        """Whether cells are being asked."""
        return self._running is not None

    # -- what is on show ----------------------------------------------------------------------------------------------

    async def records(self) -> list[ComparisonRecord]:
        """The newest comparisons."""
        return await self._store.comparisons(50)

    async def show(self, comparison_id: str) -> None:
        """Show a comparison as it stands. Raises ComparisonError and StorageError."""
        record = await self._store.comparison(comparison_id)
        rows, marks = await self._store.rows(comparison_id), await self._store.marks(comparison_id)
        answers = await asyncio.to_thread(lambda: list(map(Answer.of, self._store.each_result(comparison_id))))
        self.record = record
        self._board.show(record.id, record.job, rows)
        for start in range(0, len(answers), TAKEN_AT_ONCE):
            self._board.take_answers(answers[start : start + TAKEN_AT_ONCE])
            await asyncio.sleep(0)
        self._board.all_taken()
        self._board.set_marks(marks)
        self.changed.emit()

    async def whole(self, cell: Cell) -> CellResult | None:
        """A cell with the whole of its texts."""
        record = self.record
        return None if record is None else await self._store.result(record.id, cell)

    def mark(self, cell: Cell, mark: Mark) -> None:
        """Keep what a person thinks of an answer."""
        if self.record is not None:
            self._board.set_mark(cell, mark)
            self._tasks.start(self._store.mark(self.record.id, cell, mark))

    async def delete(self) -> None:
        """Delete the comparison on show; its recorded runs stay."""
        if self.record is not None and not self.is_running:
            await self._store.delete(self.record.id)
            self.record = None
            self._board.show("", CompareJob(title="", flow_text="", profiles=()), ())
            self.changed.emit()

    async def export(self, path: Path, secrets: Collection[str]) -> int:
        """Write the comparison on show to a file; how many cells. Raises StorageError."""
        if self.record is None:
            return 0
        export = await ComparisonExport.of(self._store, self.record.id, secrets=secrets)
        return await asyncio.to_thread(export.write, path)

    # -- running ------------------------------------------------------------------------------------------------------

    async def begin(self, setup: Setup) -> None:
        """Record a new comparison and run it; raises what keeps it from beginning."""
        loaded = await asyncio.to_thread(_loaded, setup)
        flow = await asyncio.to_thread(self._flow, loaded)
        job = CompareJob(
            title=loaded.spec.name,
            flow_text=flow_text(loaded.spec),
            flow_file=loaded.origin,
            prompt=not setup.flow,
            profiles=setup.profiles,
            category=setup.category,
            repeats=setup.repeats,
            graders=setup.graders,
            dataset="" if setup.dataset is None else str(setup.dataset.absolute()),
        )
        rows = typed_rows(setup.rows)
        if setup.dataset is not None:
            dataset = Dataset(setup.dataset)
            await asyncio.to_thread(check_dataset, dataset, loaded.spec, {})
            rows = dataset_rows(dataset, loaded.spec, {})
        comparison = await Comparison.begin(self._engine, self._store, job, rows, flow=flow)
        await self.show(comparison.id)
        self._start(comparison)
        self.begun.emit()

    async def resume(self, *, again: frozenset[Cell] = frozenset(), retry_failed: bool = False) -> None:
        """Ask for what has no answer yet; raises what keeps it from going on."""
        record = self.record
        if record is None or self.is_running:
            return
        loaded = read_flow(record.job.flow_text, name=record.job.title, origin=record.job.flow_file)
        flow = await asyncio.to_thread(self._flow, loaded)
        options = CompareOptions(again=again, retry_failed=retry_failed)
        comparison = await Comparison.resume(record.id, self._engine, self._store, flow=flow, options=options)
        self._start(comparison)

    def _flow(self, loaded: LoadedFlow) -> Flow:
        """For a thread."""
        file = origin_path(loaded.origin)
        plugins = known_plugins(loaded.spec, file)
        name = str(file) if file else loaded.spec.name
        problems = check_loaded(loaded, profiles=self._engine.profiles, plugins=plugins, file=name)
        if any(problem.severity == "error" for problem in problems):
            raise FlowInvalid.of(problems)
        return self._engine.access.build(loaded.spec, file, made_here=file is None, origin=loaded.origin)

    def _start(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._engine.try_again()  # a person asks: perhaps key or address are right by now
        self._running = asyncio.get_running_loop().create_task(self._run(comparison))
        self.changed.emit()

    async def _run(self, comparison: Comparison) -> None:
        try:
            progress = await comparison.run(self._tell, self._board.take_event)
            self.progressed.emit(progress)
        except EngineError as error:
            self.failed.emit(error)
        finally:
            self._comparison = self._running = None
            self._board.end_live()
            if self.record is not None:
                self.record = replace(self.record, done=len(self._board.answers))
            self.changed.emit()

    def _tell(self, progress: CompareProgress, result: CellResult | None) -> None:
        if result is not None:
            self._board.take_result(result)
        self.progressed.emit(progress)

    def stop(self) -> None:
        """End all that runs; what has come stays."""
        if self._comparison is not None:
            self._comparison.stop()

    async def close(self) -> None:
        """Stop, wait for the end, and close the database."""
        self.stop()
        if self._running is not None:
            await asyncio.wait([self._running], timeout=2.0)
        await self._store.close()


def _loaded(setup: Setup) -> LoadedFlow:
    """For a thread."""
    if setup.flow:
        return read_source(setup.flow)
    return LoadedFlow(spec=prompt_flow(setup.prompt, setup.system))
