"""Runs a flow once for each row of a dataset: a few workers, each row committed once, resumable (docs/batch.md)."""

import asyncio
import inspect
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from engine.batch_store import BatchStore
from engine.batch_values import BatchJob, BatchOptions, BatchProgress, RowError, RowResult, sum_of
from engine.conversation import ToolCall
from engine.dataset import Dataset, Row, RowInputs, RowReader
from engine.engine import Engine
from engine.errors import BatchError, DatasetInvalid, EngineError, StorageError, first_of
from engine.events import AnyEvent, RunFinished, Statistics, day_limit, reached_no_server
from engine.flow.flow import Flow
from engine.flow.flow_spec import FlowSpec
from engine.flow.results import outputs_of
from engine.flow.tools import AllowTool, Tool

log = logging.getLogger(__name__)

UNREACHED = 3
"""Rows of each worker that may find no server, one after the other, until a batch stops asking."""
DISK_PAUSE = 1.0

_WAITING, _DONE, _ACTED = range(3)
"""What is known of a row; one that has acted is run again only if somebody says so."""


Tell = Callable[[BatchProgress, RowResult | None], None]
"""Called with the progress for each committed row and its result, and with None when something else changed."""


class Batch:
    """One flow over the rows of one dataset. `begin` or `resume` one, then `run` it once."""

    def __init__(
        self,
        engine: Engine,
        store: BatchStore,
        job: BatchJob,
        *,
        batch_id: str,
        flow: Flow,
        spec: FlowSpec,
        dataset: Dataset,
        rows: int,
        options: BatchOptions | None = None,
    ) -> None:
        self.id = batch_id
        self.job = job
        self._engine = engine
        self._store = store
        self._flow = flow
        self._inputs = RowInputs(dataset, spec, job.inputs)
        self._reader = RowReader(dataset)
        self._total = rows
        self._options = options or BatchOptions()
        profiles = engine.profiles.with_map(job.mapping)
        self._profiles = profiles.with_profile(job.profile) if job.profile else profiles
        self._known = bytearray(rows + 1)
        self._known[0] = _DONE  # there is no such row
        self._committed: dict[str, int] = {"finished": 0, "failed": 0, "invalid": 0}
        self._again: set[int] = set()
        """Rows with a result that are to be run again."""
        self._used = Statistics()
        self._running = self._begun = self._ended = 0
        self._unreached = self._in_a_row = 0
        self._nobody = ""
        """How many rows found no server, and why."""
        self._answered = False
        self._began = time.monotonic()
        self._task: asyncio.Task[object] | None = None
        self._stopped = False
        self._over: tuple[str, str] | None = None
        """Status and reason once no further row begins."""
        self._fault = ""
        self._tell: Tell = _tell_nobody
        self._watch: Callable[[int, AnyEvent], None] | None = None

    @classmethod
    async def begin(
        cls,
        engine: Engine,
        store: BatchStore,
        job: BatchJob,
        *,
        flow: Flow,
        spec: FlowSpec,
        dataset: Dataset,
        rows: int,
        options: BatchOptions | None = None,
    ) -> "Batch":
        """Record a new batch over `rows` rows, as `check_dataset` counts them; raises StorageError."""
        batch_id = secrets.token_hex(4)
        batch = cls(
            engine, store, job, batch_id=batch_id, flow=flow, spec=spec, dataset=dataset, rows=rows, options=options
        )
        await store.begin(batch_id, job, rows)
        return batch

    @classmethod
    async def resume(
        cls,
        batch_id: str,
        engine: Engine,
        store: BatchStore,
        job: BatchJob,
        *,
        flow: Flow,
        spec: FlowSpec,
        dataset: Dataset,
        rows: int,
        options: BatchOptions | None = None,
    ) -> "Batch":
        """Go on with a batch: rows with a committed result are not run again.

        Raises BatchError for an unknown or running batch and for one that did something else; StorageError.
        """
        record = await store.batch(batch_id)
        if different := record.job.differences(job):
            raise BatchError(
                f"The batch {batch_id} cannot go on: {'; '.join(different)}.",
                hint="Go on with the same flow, dataset and options, or begin a new batch.",
            )
        await store.claim(batch_id)
        batch = cls(
            engine, store, job, batch_id=batch_id, flow=flow, spec=spec, dataset=dataset, rows=rows, options=options
        )
        await asyncio.to_thread(batch._remember)
        return batch

    def _remember(self) -> None:
        """Take over what was committed before."""
        for result in self._store.each_result(self.id):
            if result.status == "acting":
                self._known[result.row] = _ACTED
                continue
            again = self._options.retry_failed and result.status in ("failed", "budget")
            self._known[result.row] = (_ACTED if result.effects else _WAITING) if again else _DONE
            self._count(result)
            if again:
                self._again.add(result.row)

    @property
    def acted(self) -> list[int]:
        """Rows to run that would be repeated although their tools have acted."""
        return [row for row, known in enumerate(self._known) if known == _ACTED]

    def repeat_effects(self) -> None:
        """Repeat those rows, too."""
        self._options = replace(self._options, repeat_effects=True)

    @property
    def reached_nobody(self) -> bool:
        """Whether rows were run, and none found a model server."""
        return self._unreached > 0 and not self._answered

    async def run(
        self, tell: Tell | None = None, watch: Callable[[int, AnyEvent], None] | None = None
    ) -> BatchProgress:
        """Run the rows that have no result; how it ended. What was committed stays, whatever happens.

        Args:
            tell: called as the batch goes on.
            watch: called with the number of the row for each event of its run.

        Raises CancelledError (the batch is then recorded as stopped), StorageError for a disk that stays full, and
        DatasetInvalid for a dataset that changed meanwhile or is gone.
        """
        self._tell, self._watch = tell or _tell_nobody, watch
        self._began = time.monotonic()
        self._task = asyncio.current_task()
        status, reason = "stopped", ""
        try:
            status, reason = await self._work_through()
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            if self._task is not None:
                self._task.uncancel()
        except EngineError as error:
            status, reason = "failed", str(error)
            raise
        finally:
            self._task = None
            await asyncio.shield(self._finish(status, reason))
        progress = self.progress(status, reason)
        self._tell(progress, None)
        return progress

    def stop(self) -> None:
        """End all running rows at once; `run` returns, and they are run anew when the batch goes on."""
        if self._task is not None and not self._stopped:
            self._stopped = True
            self._task.cancel()

    def progress(self, status: str = "running", reason: str = "") -> BatchProgress:
        """How far the batch is."""
        seconds = time.monotonic() - self._began
        rate = self._ended / seconds if seconds > 0 else 0.0
        left = self._total + 1 - self._known.count(_DONE)
        acted = 0 if self._options.repeat_effects else self._known.count(_ACTED)
        return BatchProgress(
            batch_id=self.id,
            total=self._total,
            finished=self._committed["finished"],
            failed=self._committed["failed"],
            invalid=self._committed["invalid"],
            left=left,
            acted=acted,
            running=self._running,
            seconds=seconds,
            rate=rate,
            seconds_left=(left - acted) / rate if rate else None,
            statistics=self._used,
            fault=self._fault,
            status=status,
            reason=reason,
        )

    async def _work_through(self) -> tuple[str, str]:
        try:
            with self._reader:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self._options.concurrency, self._total)):
                        group.create_task(self._work())
        except BaseExceptionGroup as errors:
            # One is enough to tell; the disk, for instance, fails for all workers.
            raise first_of(errors) from None
        if self._over is not None:
            status, reason = self._over
            return status, reason or self._nobody
        if self._nobody:
            return "failed", self._nobody
        progress = self.progress()
        if progress.acted:
            rows = "row was" if progress.acted == 1 else "rows were"
            return "stopped", f"{progress.acted} {rows} left: tools with side effects have already run there."
        return "failed" if progress.failed or progress.invalid else "finished", ""

    async def _work(self) -> None:
        while (row := await self._next()) is not None:
            self._running += 1
            try:
                await self._run_row(row)
            finally:
                self._running -= 1

    async def _next(self) -> Row | None:
        """The next row to run; None when there is none or the batch is over."""
        while (row := await self._reader.take()) is not None:
            if row.index > self._total:
                raise DatasetInvalid(f"{self.job.dataset}: found more than {self._total} rows; the file has changed.")
            known = self._known[row.index]
            if known == _DONE or (known == _ACTED and not self._options.repeat_effects):
                continue
            if self._is_over():
                return None
            self._begun += 1
            return row
        return None

    def _is_over(self) -> bool:
        options = self._options
        if self._over is None and options.max_rows is not None and self._begun >= options.max_rows:
            self._over = "budget", f"{self._begun} rows were to be run this time."
        if self._over is None and options.max_cost is not None and self._used.cost >= max(options.max_cost, _LEAST):
            self._over = "budget", f"The batch has cost {self._used.cost} of the {options.max_cost} it may cost."
        return self._over is not None

    async def _run_row(self, row: Row) -> None:
        try:
            context = await asyncio.to_thread(self._inputs.context, row)
        except ValueError as fault:
            error = RowError(type="INPUT", message=str(fault), name=DatasetInvalid.__name__)
            await self._commit(_result(row, status="invalid", error=error))
            return
        effects: list[str] = []
        async with self._engine.run(
            self._flow,
            context,
            profiles=self._profiles,
            flow_text=self.job.flow_text,
            allow_tool=self._recording(row, effects),
            use_cache=self._options.use_cache,
        ) as run:
            async for event in run:
                if self._watch is not None:
                    self._watch(row.index, event)
        finished = run.finished
        if finished is None or finished.status == "stopped":
            return
        if reason := day_limit(finished):
            # The row is as good as not run: another day it will be.
            self._over = self._over or ("budget", reason)
            return
        if reached_no_server(finished) and not (finished.statistics.requests or finished.statistics.cached_prompts):
            self._count_unreached(finished)
            return
        self._in_a_row, self._answered = 0, True
        await self._commit(self._outcome(row, run.id, finished, effects))

    def _recording(self, row: Row, effects: list[str]) -> AllowTool:
        """Ask as the options say, and save that a row acts before a tool with side effects runs."""

        async def allow(tool: Tool, call: ToolCall) -> bool:
            allowed = self._options.allow_tool(tool, call)
            if not (await allowed if inspect.isawaitable(allowed) else allowed):
                return False
            if tool.name not in effects:
                await self._store.commit(self.id, _result(row, status="acting", effects=(*effects, tool.name)))
                self._known[row.index] = _ACTED
                effects.append(tool.name)
            return True

        return allow

    def _count_unreached(self, finished: RunFinished) -> None:
        """Take note of a row that found no server; nothing came of it, so it is run when the batch goes on."""
        self._unreached += 1
        self._in_a_row += 1
        error = next(result.error for result in finished.results if result.error is not None)
        rows = "1 row" if self._unreached == 1 else f"{self._unreached} rows"
        self._nobody = f"{rows} found no model server and are left: {error.message}"
        if self._in_a_row >= UNREACHED * min(self._options.concurrency, self._total):
            self._over = self._over or ("failed", "")

    def _outcome(self, row: Row, run_id: str, finished: RunFinished, effects: list[str]) -> RowResult:
        failed = next((result for result in finished.results if result.error is not None), None)
        error = None
        if failed is not None and failed.error is not None:
            cause = failed.error
            error = RowError(type=cause.type, message=cause.message, agent=failed.error_agent, name=cause.name)
        elif finished.status != "finished":
            error = RowError(type="GENERAL", message=finished.reason)
        return _result(
            row,
            status=finished.status,
            run_id=run_id,
            outputs=outputs_of(finished, self._flow),
            error=error,
            statistics=finished.statistics,
            effects=tuple(effects),
        )

    async def _commit(self, result: RowResult) -> None:
        """Save a result; a disk that takes nothing is waited for."""
        until = time.monotonic() + self._options.disk_patience
        while True:
            try:
                await self._store.commit(self.id, result)
                break
            except StorageError as error:
                if time.monotonic() >= until:
                    raise
                if not self._fault:
                    log.warning("%s The batch waits. %s", error, error.hint)
                    self._fault = str(error)
                    self._tell(self.progress(), None)
            await asyncio.sleep(DISK_PAUSE)
        self._fault = ""
        if result.row in self._again:
            self._again.discard(result.row)
            self._committed["failed"] -= 1
        self._known[result.row] = _DONE
        self._ended += 1
        self._count(result)
        self._tell(self.progress(), result)

    def _count(self, result: RowResult) -> None:
        self._committed[result.status if result.status in self._committed else "failed"] += 1
        self._used = sum_of(self._used, result.statistics)

    async def _finish(self, status: str, reason: str) -> None:
        try:
            await self._store.finish(self.id, status, reason)
        except StorageError as error:  # its rows are committed; from now on it counts as crashed
            log.warning("The end of the batch %s is not recorded: %s", self.id, error)


_LEAST = Decimal("1e-30")
"""A limit of 0 still lets free models answer."""


def _tell_nobody(_progress: BatchProgress, _result: RowResult | None) -> None:
    pass


def _result(
    row: Row,
    *,
    status: str,
    run_id: str = "",
    outputs: dict[str, list[object]] | None = None,
    error: RowError | None = None,
    statistics: Statistics | None = None,
    effects: tuple[str, ...] = (),
) -> RowResult:
    return RowResult(
        row=row.index,
        line=row.line,
        status=status,
        digest=row.digest,
        run_id=run_id,
        values=dict(row.values),
        outputs=outputs or {},
        error=error,
        statistics=statistics or Statistics(),
        effects=effects,
    )
