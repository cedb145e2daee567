"""Asks several profiles the same, side by side: scheduled by server, each cell committed once, resumable."""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

import msgspec

from engine.batch import DISK_PAUSE
from engine.batch_values import sum_of
from engine.comparison_cells import CellWatch
from engine.comparison_grading import asked, asks_model, grade_by_model, grades_at_once, judge_of
from engine.comparison_lanes import Lane, server_of
from engine.comparison_store import ComparisonStore
from engine.comparison_values import (
    LEAST_PROFILES,
    MOST_CELLS,
    MOST_PROFILES,
    Cell,
    CellResult,
    CellStatus,
    CompareJob,
    CompareOptions,
    CompareProgress,
    CompareRow,
    GraderColumn,
)
from engine.engine import Engine
from engine.errors import ComparisonError, EngineError, FlowInvalid, StorageError, first_of
from engine.events import (
    AnyEvent,
    ErrorInfo,
    GradeOutcome,
    RunFinished,
    Statistics,
    day_limit,
    reached_no_server,
)
from engine.flow.context import Context
from engine.flow.flow import Flow
from engine.flow.flow_inputs import inputs_context
from engine.flow.results import outputs_of
from engine.profile import ProfileRef
from engine.profile_store import ProfileStore

log = logging.getLogger(__name__)

UNREACHED = 3
"""Cells that may find a server dead, one after the other, until the comparison stops asking it."""

Tell = Callable[[CompareProgress, CellResult | None], None]
"""Called with the progress for each committed cell and its result, and with None when something else changed."""
Watch = Callable[[Cell, AnyEvent], None]
"""Called with each event of the run of a cell."""

_WITHOUT_ANSWER = frozenset([CellStatus.FAILED, CellStatus.BUDGET, CellStatus.INVALID])


class Comparison:
    """One prompt or flow over several profiles. `begin` or `resume` one, then `run` it once."""

    def __init__(
        self,
        engine: Engine,
        store: ComparisonStore,
        job: CompareJob,
        *,
        comparison_id: str,
        flow: Flow,
        rows: int,
        options: CompareOptions | None = None,
    ) -> None:
        self.id = comparison_id
        self.job = job
        self._engine = engine
        self._store = store
        self._flow = flow
        self._rows = rows
        self._options = options or CompareOptions()
        self._done: set[Cell] = set()
        self._failed = self._running = self._begun = self._ended = 0
        self._used, self._grading = Statistics(), Statistics()
        self._lanes: dict[str, Lane] = {}
        self._open = 0
        """Pieces of work not yet done, also those under way."""
        self._changed = asyncio.Condition()
        self._ungraded: dict[Cell, CellResult] = {}
        """Answers that graders still have to judge."""
        self._row: CompareRow | None = None
        self._over: tuple[str, str] | None = None
        self._nobody = ""
        self._answered = False
        self._fault = ""
        self._began = time.monotonic()
        self._task: asyncio.Task[object] | None = None
        self._stopped = False
        self._tell: Tell = _tell_nobody
        self._watch: Watch | None = None

    @classmethod
    async def begin(
        cls,
        engine: Engine,
        store: ComparisonStore,
        job: CompareJob,
        rows: Iterable[CompareRow],
        *,
        flow: Flow,
        options: CompareOptions | None = None,
    ) -> "Comparison":
        """Record a new comparison; raises ComparisonError for one without sense, ProfileError, StorageError."""
        check(job, engine)
        comparison_id = secrets.token_hex(4)
        count = await store.begin(comparison_id, job, rows)
        comparison = cls(engine, store, job, comparison_id=comparison_id, flow=flow, rows=count, options=options)
        if not count or comparison.total > MOST_CELLS:
            await store.finish(comparison_id, "failed", "")
            await store.delete(comparison_id)
            if not count:
                raise ComparisonError("There are no rows to compare.", hint="Give at least one.")
            raise ComparisonError(f"Found {comparison.total:,} cells, expected at most {MOST_CELLS:,}.")
        return comparison

    @classmethod
    async def resume(
        cls,
        comparison_id: str,
        engine: Engine,
        store: ComparisonStore,
        *,
        flow: Flow,
        options: CompareOptions | None = None,
    ) -> "Comparison":
        """Go on with a comparison: what was answered is not asked again, what was judged not judged again.

        Raises ComparisonError for an unknown or running one, ProfileError, StorageError.
        """
        record = await store.comparison(comparison_id)
        check(record.job, engine)
        await store.claim(comparison_id)
        comparison = cls(
            engine, store, record.job, comparison_id=comparison_id, flow=flow, rows=record.rows, options=options
        )
        await asyncio.to_thread(comparison._remember)
        return comparison

    def _remember(self) -> None:
        """Take over what was committed before."""
        names = {grader.name for grader in self.job.graders if asks_model(grader)}
        for result in self._store.each_result(self.id):
            failed = result.status in (CellStatus.FAILED, CellStatus.BUDGET)
            if result.cell in self._options.again or (self._options.retry_failed and failed):
                self._used = sum_of(self._used, result.statistics)
                continue
            self._count(result)
            for grade in result.grades:
                self._grading = sum_of(self._grading, grade.statistics)
            # A judge that did not answer is asked again.
            grades = [grade for grade in result.grades if grade.outcome is not GradeOutcome.UNANSWERED]
            if _can_be_judged(result) and names - {grade.grader for grade in grades}:
                kept = [grade for grade in result.grades if grade in grades or grade.grader not in names]
                self._ungraded[result.cell] = msgspec.structs.replace(result, grades=tuple(kept))

    @property
    def total(self) -> int:
        """How many cells there are."""
        return self._rows * len(self.job.profiles) * self.job.repeats

    @property
    def reached_nobody(self) -> bool:
        """Whether cells were asked, and none found a model server."""
        return bool(self._nobody) and not self._answered

    async def run(self, tell: Tell | None = None, watch: Watch | None = None) -> CompareProgress:
        """Ask for the cells that have no result; how it ended. What was committed stays, whatever happens.

        Raises CancelledError (the comparison is then recorded as stopped) and StorageError for a disk that stays full.
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
        """End all running cells at once; `run` returns, and they are asked anew when the comparison goes on."""
        if self._task is not None and not self._stopped:
            self._stopped = True
            self._task.cancel()

    def progress(self, status: str = "running", reason: str = "") -> CompareProgress:
        """How far the comparison is."""
        seconds = time.monotonic() - self._began
        done = len(self._done)
        rate = self._ended / seconds if seconds > 0 else 0.0
        return CompareProgress(
            comparison_id=self.id,
            total=self.total,
            done=done,
            failed=self._failed,
            running=self._running,
            seconds=seconds,
            seconds_left=(self.total - done) / rate if rate else None,
            statistics=self._used,
            grading=self._grading,
            fault=self._fault,
            status=status,
            reason=reason,
        )

    # -- what is to be done -------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Give each server its work: on this machine profile by profile, elsewhere row by row."""
        for profile in self.job.profiles:
            lane = self._lane(profile)
            cells = (
                Cell(row, profile, repeat)
                for row in range(1, self._rows + 1)
                for repeat in range(1, self.job.repeats + 1)
            )
            lane.asks.extend(cell for cell in cells if cell not in self._done)
        for lane in self._lanes.values():
            if lane.workers > 1:
                order = {profile: index for index, profile in enumerate(self.job.profiles)}
                lane.asks = deque(sorted(lane.asks, key=lambda cell: (cell.row, cell.repeat, order[cell.profile])))
            self._open += len(lane.asks)
        for cell, result in self._ungraded.items():
            self._add_grades(cell, result)

    def _lane(self, profile: ProfileRef) -> Lane:
        server, is_local = server_of(self._engine.resolve(profile))
        if server not in self._lanes:
            self._lanes[server] = Lane(server, 1 if is_local else self._options.concurrency)
        return self._lanes[server]

    def _add_grades(self, cell: Cell, result: CellResult) -> bool:
        """Let what is missing be judged; whether anything is."""
        given = {grade.grader for grade in result.grades}
        missing = [grader for grader in self.job.graders if asks_model(grader) and grader.name not in given]
        for grader in missing:
            self._lane(judge_of(grader)).grades.append((cell, grader))
            self._open += 1
        return bool(missing)

    async def _work_through(self) -> tuple[str, str]:
        for grader in self.job.graders:  # a server may have nothing to do but to judge
            if asks_model(grader):
                self._lane(judge_of(grader))
        self._plan()
        try:
            async with asyncio.TaskGroup() as group:
                for lane in self._lanes.values():
                    for _ in range(lane.workers):
                        group.create_task(self._work(lane))
        except BaseExceptionGroup as errors:
            raise first_of(errors) from None
        if self._over is not None:
            return self._over
        if self._nobody:
            return "failed", self._nobody
        return "failed" if self._failed else "finished", ""

    async def _work(self, lane: Lane) -> None:
        while (work := await self._next(lane)) is not None:
            cell, grader = work
            self._running += 1
            try:
                if grader is None:
                    await self._ask(lane, cell)
                else:
                    await self._judge(cell, grader)
            finally:
                self._running -= 1
                async with self._changed:
                    self._open -= 1
                    self._changed.notify_all()

    async def _next(self, lane: Lane) -> tuple[Cell, GraderColumn | None] | None:
        """The next piece of work; None when the comparison is over. Answers elsewhere may bring something to judge."""
        async with self._changed:
            while True:
                if self._is_over():
                    return None
                work = lane.take()
                if work is not None or not self._open:
                    return work
                await self._changed.wait()

    def _is_over(self) -> bool:
        most = self._options.max_cost
        spent = self._used.cost + self._grading.cost
        if self._over is None and most is not None and spent >= max(most, _LEAST):
            self._over = "budget", f"The comparison has cost {spent} of the {most} it may cost."
        return self._over is not None

    # -- one cell -----------------------------------------------------------------------------------------------------

    async def _ask(self, lane: Lane, cell: Cell) -> None:
        row = await self._read_row(cell.row)
        try:
            context = self._context(row)
        except ValueError as fault:
            error = ErrorInfo(type="INPUT", name="DatasetInvalid", message=str(fault))
            await self._commit(
                CellResult(
                    row=cell.row, profile=cell.profile, repeat=cell.repeat, status=CellStatus.INVALID, error=error
                )
            )
            return
        seen = CellWatch()
        may_be_kept = cell.repeat == 1 and cell not in self._options.again
        async with self._engine.run(
            self._flow,
            context,
            profiles=self._profiles(cell.profile),
            flow_text=self.job.flow_text,
            allow_tool=self._options.allow_tool,
            use_cache=self._options.use_cache,
            skip_cache=not may_be_kept,
        ) as run:
            async for event in run:
                seen.take(event)
                if self._watch is not None:
                    self._watch(cell, event)
        finished = run.finished
        if finished is None or finished.status == "stopped":
            return
        if reason := day_limit(finished):
            # The cell is as good as not asked: another day it will be.
            self._over = self._over or ("budget", reason)
            return
        if reached_no_server(finished) and not finished.statistics.requests:
            self._count_unreached(lane, finished)
            return
        lane.unreached, self._answered = 0, True
        await self._answer(cell, row, seen.result(cell, run.id, finished, self._flow), outputs_of(finished, self._flow))

    async def _answer(
        self, cell: Cell, row: CompareRow, result: CellResult, outputs: Mapping[str, list[object]]
    ) -> None:
        """Commit an answer before anything judges it, and let that be done."""
        judged = _can_be_judged(result)
        if judged:
            grades = grades_at_once(self.job.graders, result.content, outputs, row)
            result = msgspec.structs.replace(result, grades=grades)
        await self._commit(result)
        if judged and self._add_grades(cell, result):
            self._ungraded[cell] = result

    async def _judge(self, cell: Cell, grader: GraderColumn) -> None:
        row = await self._read_row(cell.row)
        question = asked(self.job, self._flow, row, self._context(row))
        grade = await grade_by_model(self._engine, grader, question, self._ungraded[cell])
        self._grading = sum_of(self._grading, grade.statistics)
        # Another grader may have been quicker meanwhile.
        result = self._ungraded[cell]
        result = msgspec.structs.replace(result, grades=(*result.grades, grade))
        self._ungraded[cell] = result
        if {one.grader for one in result.grades}.issuperset(one.name for one in self.job.graders):
            del self._ungraded[cell]
        await self._commit(result, again=True)

    async def _read_row(self, number: int) -> CompareRow:
        if self._row is None or self._row.row != number:
            self._row = (await self._store.rows(self.id, number - 1, 1))[0]
        return self._row

    def _context(self, row: CompareRow) -> Context:
        """What a run of this row begins with; raises ValueError for a faulty row."""
        if row.fault:
            raise ValueError(row.fault)
        keys = {item.key for item in self._flow.inputs}
        values = {**self.job.inputs, **{key: value for key, value in row.values.items() if key in keys}}
        try:
            return inputs_context(self._flow, values)
        except FlowInvalid as error:
            raise ValueError("; ".join(problem.message.rstrip(".") for problem in error.problems)) from error

    def _profiles(self, profile: str) -> ProfileStore:
        store = self._engine.profiles
        return store.with_map({self.job.category: profile}) if self.job.category else store.with_profile(profile)

    def _count_unreached(self, lane: Lane, finished: RunFinished) -> None:
        """Take note of a cell that found no server; it is asked when the comparison goes on."""
        error = next(result.error for result in finished.results if result.error is not None)
        lane.unreached += 1
        self._nobody = f"{lane.server} was not reached, its cells are left: {error.message}"
        if lane.unreached >= UNREACHED * lane.workers:
            self._open -= lane.waiting
            lane.asks.clear()
            lane.grades.clear()

    async def _commit(self, result: CellResult, *, again: bool = False) -> None:
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
                    log.warning("%s The comparison waits. %s", error, error.hint)
                    self._fault = str(error)
                    self._tell(self.progress(), None)
            await asyncio.sleep(DISK_PAUSE)
        self._fault = ""
        if not again:
            self._ended += 1
            self._count(result)
        self._tell(self.progress(), result)

    def _count(self, result: CellResult) -> None:
        self._done.add(result.cell)
        self._failed += result.status in _WITHOUT_ANSWER
        self._used = sum_of(self._used, result.statistics)

    async def _finish(self, status: str, reason: str) -> None:
        try:
            await self._store.finish(self.id, status, reason)
        except StorageError as error:  # its cells are committed; from now on it counts as crashed
            log.warning("The end of the comparison %s is not recorded: %s", self.id, error)


_LEAST = Decimal("1e-30")
"""A limit of 0 still lets free models answer."""


def check(job: CompareJob, engine: Engine) -> None:
    """Raise ComparisonError for a job without sense, and ProfileError for profiles that are not there."""
    count = len(job.profiles)
    if not LEAST_PROFILES <= count <= MOST_PROFILES:
        raise ComparisonError(f"Found {count} profiles, expected {LEAST_PROFILES} to {MOST_PROFILES}.")
    if twice := [name for name in job.profiles if job.profiles.count(name) > 1]:
        raise ComparisonError(f'Found the profile "{twice[0]}" twice.', hint="Repeats ask the same profile again.")
    if job.repeats < 1:
        raise ComparisonError(f"Found {job.repeats} repeats, expected at least 1.")
    names = [grader.name for grader in job.graders]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ComparisonError(f'Found two graders with the name "{twice[0]}".', hint="Give each its own.")
    for name in job.profiles:
        engine.resolve(name)
    for grader in job.graders:
        if asks_model(grader):
            engine.resolve(judge_of(grader))


def _can_be_judged(result: CellResult) -> bool:
    return result.status in (CellStatus.ANSWERED, CellStatus.CUT_OFF)


def _tell_nobody(_progress: CompareProgress, _result: CellResult | None) -> None:
    pass
