"""`workbench compare`: a prompt or a flow over several profiles, side by side."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from engine.cli_batch import dataset_file, money
from engine.cli_input import flow_file, open_flow, read_inputs, runnable, usage
from engine.cli_options import Json, Options, Texts, finish, print_json
from engine.cli_progress import ProgressLine, duration_text
from engine.cli_text import DONE, FAILED, NO_SERVER
from engine.comparison import Comparison, check
from engine.comparison_export import (
    SUMMARY_HEADS,
    ComparisonExport,
    cell_json,
    check_output,
    profile_json,
    summary_row,
)
from engine.comparison_rows import dataset_rows, prompt_flow, typed_rows
from engine.comparison_store import ComparisonStore
from engine.comparison_values import (
    CONCURRENCY,
    CellResult,
    CompareJob,
    CompareOptions,
    CompareProgress,
    ComparisonRecord,
    GraderColumn,
)
from engine.dataset import Dataset, look_through
from engine.engine import Engine
from engine.flow.flow import Flow
from engine.flow.flow_file import LoadedFlow, flow_text, read_flow
from engine.flow.subflow_files import origin_path
from engine.flow.tools import allow_named
from engine.number_text import cost_text, counted

SHOWN_CELLS = 16
"""Answers of a comparison this small are printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareCommand:
    """What the options of the command said."""

    flow: LoadedFlow | None
    """None: that of the comparison that goes on."""
    file: Path | None
    """The flow's; None for a prompt or a sample."""
    prompt: bool
    profiles: tuple[str, ...]
    category: str
    dataset: Path | None
    values: dict[str, object]
    repeats: int
    graders: tuple[GraderColumn, ...]
    resume: str
    out: Path | None
    exact: bool
    trust: bool
    as_json: bool
    options: CompareOptions


def compare(
    context: typer.Context,
    flow: Annotated[str | None, typer.Argument(help="A flow file, or the name of a sample.")] = None,
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="Compare this prompt; @FILE reads it.")] = "",
    system: Annotated[str, typer.Option(metavar="TEXT", help="System prompt beside --prompt.")] = "",
    profiles: Annotated[str, typer.Option(metavar="A,B,…", help="Two to eight profiles.")] = "",
    category: Annotated[str, typer.Option(help="Only agents of this category ask the compared profiles.")] = "",
    dataset: Annotated[
        str | None, typer.Option(metavar="FILE", help="Rows: a .csv or .jsonl file, or the name of a sample.")
    ] = None,
    inputs: Annotated[Texts, typer.Option("-i", metavar="KEY=VALUE", help="An input of all rows.")] = None,
    inputs_file: Annotated[Path | None, typer.Option("--inputs", help="A JSON object with inputs of all rows.")] = None,
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="How often each profile is asked.")] = 1,
    grade: Annotated[Texts, typer.Option(metavar="KEY", help="An output of the flow is a grade.")] = None,
    expect: Annotated[
        Texts, typer.Option(metavar="COLUMN[:HOW]", help="What is expected; HOW: contains, equal or pattern.")
    ] = None,
    judge: Annotated[
        Texts, typer.Option(metavar="KIND[:QUESTION]", help="A model judges; KIND: binary, rating or vote.")
    ] = None,
    judge_profile: Annotated[str, typer.Option(help="Who judges (default: category M).")] = "",
    resume: Annotated[str, typer.Option(metavar="ID", help="Go on with this comparison.")] = "",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Ask cells again that failed.")] = False,
    concurrency: Annotated[
        int, typer.Option(min=1, max=1000, help="Cells at a time on each server elsewhere.")
    ] = CONCURRENCY,
    max_cost: Annotated[str | None, typer.Option(metavar="MONEY", help="Begin no cell once it has cost this.")] = None,
    allow_tool: Annotated[Texts, typer.Option(metavar="NAME", help="Let a tool with side effects run.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Ask anew, and keep nothing.")] = False,
    trust_once: Annotated[bool, typer.Option("--trust", help="Trust all the flow can do, for this time.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where results go: .csv, .jsonl, .md or .html.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="CSV for programs: no guard against formulas.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the comparisons.")] = False,
    as_json: Json = False,
) -> None:
    """Ask several profiles the same and show what differs: answers, quality, cost, speed."""
    options: Options = context.obj
    if listed:
        finish(list_comparisons(options, 20, as_json=as_json))
    if not resume and bool(flow) == bool(prompt):
        usage("Give a FLOW or --prompt TEXT; --resume ID goes on with a comparison, --list lists them.")
    loaded = _loaded(flow, _text(prompt), _text(system))
    files = {item.key for item in loaded.spec.inputs if item.type in ("file", "image")} if loaded else set()
    command = CompareCommand(
        flow=loaded,
        file=None if flow is None else flow_file(flow),
        prompt=bool(prompt),
        profiles=tuple(name.strip() for name in profiles.split(",") if name.strip()),
        category=category,
        dataset=None if dataset is None else dataset_file(dataset, options.folders),
        values=read_inputs(inputs or [], inputs_file, files),
        repeats=repeat,
        graders=_graders(grade or [], expect or [], judge or [], judge_profile),
        resume=resume,
        out=out,
        exact=exact,
        trust=trust_once,
        as_json=as_json,
        options=CompareOptions(
            concurrency=concurrency,
            max_cost=money(max_cost),
            retry_failed=retry_failed,
            use_cache=not no_cache,
            allow_tool=allow_named(allow_tool or []),
        ),
    )
    finish(run_comparison(options, command))


def _text(given: str) -> str:
    """A text, or that of the file behind `@`."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        usage(f"{given[1:]}: {error}")


def _loaded(flow: str | None, prompt: str, system: str) -> LoadedFlow | None:
    if prompt:
        return LoadedFlow(spec=prompt_flow(prompt, system))
    return None if flow is None else open_flow(flow, tolerant=True)


def _graders(keys: list[str], columns: list[str], judges: list[str], profile: str) -> tuple[GraderColumn, ...]:
    found = [GraderColumn(name=key, kind="key", key=key) for key in keys]
    for text in columns:
        column, _, how = text.partition(":")
        if how not in ("", "contains", "equal", "pattern"):
            usage(f'--expect: found "{how}", expected contains, equal or pattern.')
        match = cast("Literal['equal', 'contains', 'pattern']", how or "contains")
        found.append(GraderColumn(name=f"{column} {match}", kind="expected", key=column, match=match))
    for text in judges:
        kind, _, question = text.partition(":")
        if kind not in ("binary", "rating", "vote"):
            usage(f'--judge: found "{kind}", expected binary, rating or vote.')
        names = [grader.name for grader in found]
        name = next(name for number in range(1, len(names) + 2) if (name := f"{kind} {number}") not in names)
        name = kind if kind not in names else name
        kinds = cast("Literal['binary', 'rating', 'vote']", kind)
        found.append(GraderColumn(name=name, kind=kinds, question=question.strip(), profile=profile))
    return tuple(found)


async def list_comparisons(options: Options, limit: int, *, as_json: bool) -> int:
    """Print the newest comparisons."""
    async with ComparisonStore(options.folders.comparisons) as store:
        records = await store.comparisons(limit)
    if as_json:
        print_json([_record_json(record) for record in records])
        return DONE
    table: list[tuple[str, ...]] = [("COMPARISON", "STARTED", "TITLE", "PROFILES", "STATUS", "CELLS", "DONE")]
    for record in records:
        started = record.started.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        names = ", ".join(record.job.profiles)
        cells = str(record.cells)
        table.append((record.id, started, record.job.title, names, record.status, cells, str(record.done)))
    options.terminal.table(table)
    return DONE


def _record_json(record: ComparisonRecord) -> dict[str, object]:
    return {
        "comparison_id": record.id,
        "started": record.started.isoformat(),
        "title": record.job.title,
        "profiles": list(record.job.profiles),
        "status": record.status,
        "reason": record.reason,
        "rows": record.rows,
        "repeats": record.job.repeats,
        "cells": record.cells,
        "done": record.done,
    }


async def run_comparison(options: Options, command: CompareCommand) -> int:
    """Run or go on with a comparison and print it; the exit status. What an interruption leaves is written, too."""
    if command.out is not None:
        check_output(command.out)
    async with ComparisonStore(options.folders.comparisons) as store, options.engine() as engine:
        return await _Runner(engine, store, command, options).run()


class _Runner:
    """One call of the command."""

    def __init__(self, engine: Engine, store: ComparisonStore, command: CompareCommand, options: Options) -> None:
        self._engine = engine
        self._store = store
        self._command = command
        self._terminal = options.terminal
        self._progress = ProgressLine(options.terminal)

    async def run(self) -> int:
        """Prepare, tell, run, write; the exit status."""
        comparison = await (self._resumed() if self._command.resume else self._begun())
        progress = comparison.progress()
        job = comparison.job
        self._terminal.note(
            f"comparison {comparison.id}: {job.title}: {counted(comparison.total - progress.done, 'cell')} to ask,"
            f" {counted(len(job.profiles), 'profile')}"
        )
        try:
            progress = await comparison.run(self._tell)
        except BaseException:  # also an interruption: what is committed is there to be used
            self._progress.clear()
            await asyncio.shield(self._write(comparison))
            self._terminal.note(f"go on with: workbench compare --resume {comparison.id}")
            raise
        self._progress.clear()
        await self._write(comparison)
        return await self._ended(comparison, progress)

    async def _begun(self) -> Comparison:
        command, loaded = self._command, self._command.flow
        assert loaded is not None  # noqa: S101 - the command has seen to it
        job = CompareJob(
            title=loaded.spec.name,
            flow_text=flow_text(loaded.spec),
            flow_file=loaded.origin,
            prompt=command.prompt,
            profiles=command.profiles,
            category=command.category,
            repeats=command.repeats,
            graders=command.graders,
            dataset="" if command.dataset is None else str(command.dataset.absolute()),
            inputs=command.values if command.dataset is not None else {},
        )
        check(job, self._engine)
        flow = self._flow(loaded)
        if command.dataset is None:
            rows = typed_rows([command.values])
        else:
            dataset = Dataset(command.dataset)
            looked = await look_through(dataset, loaded.spec, command.values)
            columns = {grader.key for grader in command.graders if grader.kind == "expected"}
            for column in columns - set(looked.columns):
                usage(f'--expect: found no column "{column}" in {dataset.path}; it has {", ".join(looked.columns)}.')
            for warning in looked.warnings:
                if not any(f'"{column}"' in warning for column in columns):
                    self._terminal.note(f"warning: {warning}")
            rows = dataset_rows(dataset, loaded.spec, command.values)
        return await Comparison.begin(self._engine, self._store, job, rows, flow=flow, options=command.options)

    async def _resumed(self) -> Comparison:
        record = await self._store.comparison(self._command.resume)
        job = record.job
        loaded = read_flow(job.flow_text, name=job.title, origin=job.flow_file)
        flow = self._flow(loaded)
        return await Comparison.resume(record.id, self._engine, self._store, flow=flow, options=self._command.options)

    def _flow(self, loaded: LoadedFlow) -> Flow:
        command = self._command
        file = command.file or origin_path(loaded.origin)
        for problem in runnable(loaded, self._engine.profiles, file):
            self._terminal.note(str(problem))
        access = self._engine.access
        return access.build(loaded.spec, file, made_here=file is None, once=command.trust, origin=loaded.origin)

    def _tell(self, progress: CompareProgress, result: CellResult | None) -> None:
        if result is not None and result.error is not None:
            self._progress.clear()
            self._terminal.note(f"row {result.row}, {result.profile}: {result.status.value}: {result.error.message}")
        if progress.status == "running":
            self._progress.show(lambda: _progress_text(progress))

    async def _write(self, comparison: Comparison) -> None:
        out = self._command.out
        if out is None:
            return
        export = await self._export(comparison)
        count = await asyncio.to_thread(lambda: export.write(out, exact=self._command.exact))
        self._terminal.note(f"{counted(count, 'cell')} {'is' if count == 1 else 'are'} in {out}")

    async def _export(self, comparison: Comparison) -> ComparisonExport:
        return await ComparisonExport.of(self._store, comparison.id, secrets=self._engine.profiles.secrets())

    async def _ended(self, comparison: Comparison, progress: CompareProgress) -> int:
        figures = await asyncio.to_thread((await self._export(comparison)).figures)
        cells = self._store.each_result(comparison.id)
        if self._command.as_json:
            print_json(
                {
                    "comparison_id": comparison.id,
                    "status": progress.status,
                    "reason": progress.reason,
                    "profiles": [profile_json(one) for one in figures],
                    "cells": [cell_json(result) for result in cells],
                }
            )
        else:
            if comparison.total <= SHOWN_CELLS and self._command.out is None:
                for result in cells:
                    self._terminal.result(_cell_text(result))
            self._terminal.table([SUMMARY_HEADS, *map(summary_row, figures)])
        self._terminal.note(_summary(progress))
        if progress.reason:
            self._terminal.note(progress.reason)
        if progress.done < progress.total:
            self._terminal.note(f"go on with: workbench compare --resume {comparison.id}")
        if progress.status == "finished":
            return DONE
        return NO_SERVER if comparison.reached_nobody else FAILED


def _progress_text(progress: CompareProgress) -> str:
    left = "" if progress.seconds_left is None else f", {duration_text(progress.seconds_left)} left"
    failed = f", {progress.failed} failed" if progress.failed else ""
    return f"{progress.done}/{progress.total} cells{failed}{left}, {_used(progress)}"


def _summary(progress: CompareProgress) -> str:
    took = duration_text(progress.seconds)
    judging = ""
    if progress.grading.requests:
        judging = f", judging {cost_text(progress.grading.cost, progress.grading.provenance)}"
    done = f"{progress.done}/{progress.total} cells, {progress.failed} failed"
    return f"{progress.status}: {done}, {took}, {_used(progress)}{judging}"


def _used(progress: CompareProgress) -> str:
    used = progress.statistics
    tokens = used.in_tokens + used.cached_in_tokens + used.out_tokens + used.reasoning_out_tokens
    return f"{'~' if used.estimated else ''}{tokens:,} tokens, {cost_text(used.cost, used.provenance)}"


def _cell_text(result: CellResult) -> str:
    again = f", repeat {result.repeat}" if result.repeat > 1 else ""
    shown = result.content or (result.error.message if result.error else "(no answer)")
    return f"--- row {result.row}, {result.profile}{again} ({result.status.value.replace('_', ' ')})\n{shown}\n"
