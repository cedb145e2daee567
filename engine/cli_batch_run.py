"""Runs the command `workbench batch` and prints how it goes."""

import asyncio
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import typer

from engine.batch import Batch
from engine.batch_output import check_output, result_json, write_results
from engine.batch_store import BatchStore
from engine.batch_values import BatchJob, BatchOptions, BatchProgress, RowResult
from engine.cli_input import runnable
from engine.cli_options import Options, print_json
from engine.cli_progress import ProgressLine, duration_text
from engine.cli_text import DONE, FAILED, NO_SERVER, Terminal
from engine.dataset import Dataset, DatasetCheck, look_through
from engine.engine import Engine
from engine.errors import BatchError, StorageError
from engine.flow.agent import Agent
from engine.flow.flow import Flow, Limits
from engine.flow.flow_file import LoadedFlow, flow_text, read_flow
from engine.flow.flow_spec import AgentType
from engine.flow.subflow_files import origin_path
from engine.guards import Spending
from engine.number_text import cost_text, counted, money_text

FAILURES_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommand:
    """What the options of the command said."""

    flow: LoadedFlow | None
    """None: that of the batch that goes on."""
    file: Path | None
    """The flow's; None for a sample."""
    trust: bool
    """For this batch."""
    dataset: Path | None
    delimiter: str
    values: dict[str, object]
    mapping: dict[str, str]
    profile: str | None
    resume: str
    out: Path | None
    exact: bool
    as_json: bool
    options: BatchOptions


async def run_batch(options: Options, command: BatchCommand) -> int:
    """Run or go on with a batch and print it; the exit status. What an interruption leaves is written, too."""
    if command.out is not None:
        check_output(command.out)
    async with BatchStore(options.folders.batches) as store, options.engine() as engine:
        return await _Runner(engine, store, command, options.terminal).run()


class _Runner:
    """One call of the command."""

    def __init__(self, engine: Engine, store: BatchStore, command: BatchCommand, terminal: Terminal) -> None:
        self._engine = engine
        self._store = store
        self._command = command
        self._terminal = terminal
        self._progress = ProgressLine(terminal)
        self._failures: list[RowResult] = []
        self._warnings: list[str] = []

    async def run(self) -> int:
        """Prepare, tell the limits, run, write; the exit status."""
        command, loaded = await self._completed()
        dataset = Dataset(command.dataset or Path(), delimiter=command.delimiter)
        flow = self._flow(loaded, command)
        check = await look_through(dataset, loaded.spec, command.values)
        job = BatchJob(
            flow=loaded.spec.name,
            flow_text=flow_text(loaded.spec),
            flow_file=loaded.origin,
            dataset=str(dataset.path.absolute()),
            dataset_digest=check.digest,
            delimiter=dataset.delimiter,
            inputs=command.values,
            mapping=command.mapping,
            profile=command.profile or "",
        )
        make = Batch.begin if not command.resume else partial(Batch.resume, command.resume)
        batch = await make(
            self._engine,
            self._store,
            job,
            flow=flow,
            spec=loaded.spec,
            dataset=dataset,
            rows=check.rows,
            options=command.options,
        )
        self._announce(batch, dataset, check, flow)
        if batch.acted and not command.options.repeat_effects:
            self._ask_to_repeat(batch)
        try:
            progress = await batch.run(self._tell)
        except BaseException:  # also an interruption: what is committed is there to be used
            self._progress.clear()
            await asyncio.shield(self._write(batch))
            self._terminal.note(_resume_line(batch))
            raise
        return await self._ended(batch, progress)

    async def _completed(self) -> tuple[BatchCommand, LoadedFlow]:
        """The command with what the batch that goes on has recorded, where nothing else was said."""
        command = self._command
        if not command.resume:
            if command.flow is None or command.dataset is None:
                raise BatchError("A new batch needs a flow and --dataset FILE.", hint="See: workbench batch --help")
            return command, command.flow
        job = (await self._store.batch(command.resume)).job
        loaded = command.flow or read_flow(job.flow_text, name=job.flow, origin=job.flow_file)
        command = replace(
            command,
            file=origin_path(loaded.origin),
            dataset=command.dataset or Path(job.dataset),
            delimiter=command.delimiter or job.delimiter,
            values=command.values or job.inputs,
            mapping=command.mapping or job.mapping,
            profile=command.profile or job.profile,
        )
        return command, loaded

    def _flow(self, loaded: LoadedFlow, command: BatchCommand) -> Flow:
        profiles = self._engine.profiles.with_map(command.mapping)
        if command.profile:
            profiles = profiles.with_profile(command.profile)
        for problem in runnable(loaded, profiles, command.file):
            self._warn(str(problem))
        here = command.file is None
        access = self._engine.access
        return access.build(loaded.spec, command.file, made_here=here, once=command.trust, origin=loaded.origin)

    def _announce(self, batch: Batch, dataset: Dataset, check: DatasetCheck, flow: Flow) -> None:
        """Tell what is about to happen, within which limits, before the first request."""
        note = self._terminal.note
        progress = batch.progress()
        of = (
            f"{progress.left} of {counted(check.rows, 'row')}"
            if progress.left < check.rows
            else counted(check.rows, "row")
        )
        note(f"batch {batch.id}: {batch.job.flow} over {of} of {dataset.path.name}")
        for warning in check.warnings:
            self._warn(f"warning: {warning}")
        for fault in check.faults[:FAILURES_SHOWN]:
            self._warn(f"{fault.file}:{fault.line}: {fault.message}")
        faulty = max(0, check.faulty - progress.invalid)
        if faulty:
            note(f"{counted(faulty, 'faulty row')} {'is' if faulty == 1 else 'are'} not run")
        runs = max(0, progress.left - faulty)
        if (most := self._command.options.max_rows) is not None:
            runs = min(runs, most)
        asking = sum(map(_asks, flow.agents))
        note(
            f"about {counted(runs * asking, 'request')}: {counted(runs, 'run')} of {counted(asking, 'agent')} that"
            f" {'asks' if asking == 1 else 'ask'} a model (loops and lists ask more)"
        )
        settings, options = self._engine.settings, self._command.options
        note(f"limits of a run: {limits_text(flow.limits, settings.run_budget)}")
        note(f"limits of a day: {spending_text(settings.day_budget)}")
        cost = "any cost" if options.max_cost is None else money_text(options.max_cost)
        note(f"limits of the batch: {cost}, {counted(options.concurrency, 'row')} at a time")

    def _ask_to_repeat(self, batch: Batch) -> None:
        rows = ", ".join(map(str, batch.acted[:10])) + (", …" if len(batch.acted) > 10 else "")
        self._terminal.note(f"rows {rows}: tools with side effects have already run there, but there is no result")
        if sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm("Run them again?", err=True):
            batch.repeat_effects()
        else:
            self._terminal.note("they are left; --repeat-effects runs them again")

    def _tell(self, progress: BatchProgress, result: RowResult | None) -> None:
        if result is not None:
            if result.error is not None and len(self._failures) < FAILURES_SHOWN:
                self._failures.append(result)
                self._progress.clear()
                self._terminal.note(f"row {result.row} (line {result.line}): {result.status}: {result.error.message}")
            if self._command.out is None and not self._command.as_json:
                self._progress.clear()
                self._terminal.document(result_json(result).decode())
        if progress.status == "running":
            self._progress.show(lambda: progress_text(progress))

    async def _write(self, batch: Batch) -> None:
        out = self._command.out
        if out is not None:
            count = await asyncio.to_thread(write_results, self._store, batch.id, out, exact=self._command.exact)
            self._terminal.note(f"{counted(count, 'result')} {'is' if count == 1 else 'are'} in {out}")

    async def _ended(self, batch: Batch, progress: BatchProgress) -> int:
        self._progress.clear()
        unwritten: StorageError | None = None
        try:
            await self._write(batch)
        except StorageError as error:
            unwritten = error
        self._terminal.note(_summary(progress))
        if progress.reason:
            self._terminal.note(progress.reason)
        if progress.left:
            self._terminal.note(_resume_line(batch))
        if self._command.as_json:
            self._print_json(progress)
        if unwritten is not None:
            raise unwritten
        if progress.status == "finished":
            return DONE
        return NO_SERVER if batch.reached_nobody else FAILED

    def _print_json(self, progress: BatchProgress) -> None:
        used = progress.statistics
        failures = [
            {"row": one.row, "line": one.line, "status": one.status, "error": one.error and one.error.message}
            for one in self._failures
        ]
        document = {
            "batch_id": progress.batch_id,
            "status": progress.status,
            "reason": progress.reason,
            "rows": {
                "total": progress.total,
                "finished": progress.finished,
                "failed": progress.failed,
                "invalid": progress.invalid,
                "left": progress.left,
            },
            "out": None if self._command.out is None else str(self._command.out),
            "seconds": round(progress.seconds, 3),
            "statistics": {
                "requests": used.requests,
                "cached_prompts": used.cached_prompts,
                "in_tokens": used.in_tokens,
                "cached_in_tokens": used.cached_in_tokens,
                "out_tokens": used.out_tokens,
                "reasoning_out_tokens": used.reasoning_out_tokens,
                "cost": float(used.cost),
                "cost_provenance": used.provenance.value,
            },
            "failures": failures,
            "warnings": self._warnings,
        }
        print_json(document)

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
        self._terminal.note(text)


def progress_text(progress: BatchProgress) -> str:
    """How far a batch is, in one line: `120/500 rows, 2 failed, 3.1 rows/s, 2 min left, 12,300 tokens, $0.38`."""
    done = progress.total - progress.left
    failed = f", {progress.failed} failed" if progress.failed else ""
    left = "" if progress.seconds_left is None else f", {duration_text(progress.seconds_left)} left"
    rate = f"{progress.rate:.1f} rows/s" if progress.rate >= 1 else f"{progress.rate * 60:.1f} rows/min"
    return f"{done}/{progress.total} rows{failed}, {rate}{left}, {_used(progress)}"


def limits_text(limits: Limits, budget: Spending) -> str:
    """The limits of a run: `200 steps, 100 tool calls, any time, $1.00, any tokens, any requests`."""
    costs = [cost for cost in (limits.max_cost, budget.cost) if cost is not None]
    seconds = "any time" if limits.max_seconds is None else f"{limits.max_seconds:g} s"
    spending = spending_text(replace(budget, cost=min(costs, default=None)))
    return f"{counted(limits.max_steps, 'step')}, {counted(limits.max_tool_calls, 'tool call')}, {seconds}, {spending}"


def spending_text(budget: Spending) -> str:
    """A budget: `$1.00, any tokens, 500 requests`."""
    cost = "any cost" if budget.cost is None else money_text(budget.cost)
    tokens = "any tokens" if budget.tokens is None else counted(budget.tokens, "token")
    requests = "any requests" if budget.requests is None else counted(budget.requests, "request")
    return f"{cost}, {tokens}, {requests}"


def _summary(progress: BatchProgress) -> str:
    return (
        f"{progress.status}: {progress.finished} finished, {progress.failed} failed, {progress.invalid} faulty,"
        f" {progress.left} left, {duration_text(progress.seconds)}, {_used(progress)}"
    )


def _used(progress: BatchProgress) -> str:
    used = progress.statistics
    tokens = used.in_tokens + used.cached_in_tokens + used.out_tokens + used.reasoning_out_tokens
    return f"{'~' if used.estimated else ''}{tokens:,} tokens, {cost_text(used.cost, used.provenance)}"


def _resume_line(batch: Batch) -> str:
    return f"go on with: workbench batch --resume {batch.id}"


def _asks(agent: Agent) -> bool:
    return agent.type is not AgentType.PROCESSING_ONLY
