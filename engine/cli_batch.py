"""`workbench batch`: a flow over the rows of a dataset."""

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import typer

from engine import bundled
from engine.atomic_file import write_atomically
from engine.batch_store import BatchStore
from engine.batch_values import CONCURRENCY, BatchOptions, BatchRecord
from engine.cli_batch_run import BatchCommand, run_batch
from engine.cli_input import flow_file, open_flow, pair, read_inputs, usage
from engine.cli_options import Json, Options, Texts, finish, print_json
from engine.cli_text import DONE
from engine.csv_text import DELIMITERS
from engine.flow.tools import allow_named
from engine.folders import Folders


def batch(
    context: typer.Context,
    flow: Annotated[str | None, typer.Argument(help="A flow file, or the name of a sample.")] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="FILE", help="Rows: a .csv or .jsonl file, or the name of a sample.")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="comma, semicolon or tab (default: as the first line says).")] = "",
    concurrency: Annotated[int, typer.Option(min=1, max=1000, help="Rows at a time.")] = CONCURRENCY,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where results go: .csv or .jsonl.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="CSV for programs: no guard against formulas.")] = False,
    resume: Annotated[str, typer.Option(metavar="ID", help="Go on with this batch.")] = "",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run rows again that failed.")] = False,
    repeat_effects: Annotated[
        bool, typer.Option("--repeat-effects", help="Run rows again although their tools have acted.")
    ] = False,
    inputs: Annotated[Texts, typer.Option("-i", metavar="KEY=VALUE", help="An input of all rows.")] = None,
    inputs_file: Annotated[Path | None, typer.Option("--inputs", help="A JSON object with inputs of all rows.")] = None,
    mapping: Annotated[Texts, typer.Option("--map", metavar="M=PROFILE", help="Map a category.")] = None,
    profile: Annotated[str | None, typer.Option(help="One profile for all agents.")] = None,
    allow_tool: Annotated[Texts, typer.Option(metavar="NAME", help="Let a tool with side effects run.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Ask anew, and keep nothing.")] = False,
    trust_once: Annotated[bool, typer.Option("--trust", help="Trust all the flow can do, for this batch.")] = False,
    max_cost: Annotated[str | None, typer.Option(metavar="MONEY", help="Begin no row once it has cost this.")] = None,
    max_rows: Annotated[int | None, typer.Option(min=1, help="Run so many rows, then rest.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the batches.")] = False,
    as_json: Json = False,
) -> None:
    """Run a flow once for each row of a dataset."""
    options: Options = context.obj
    if listed:
        finish(list_batches(options, 20, as_json=as_json))
    if not resume and (flow is None or dataset is None):
        usage("A new batch needs FLOW and --dataset FILE; --resume ID goes on with one, --list lists them.")
    loaded = None if flow is None else open_flow(flow, tolerant=True)
    files = {item.key for item in loaded.spec.inputs if item.type in ("file", "image")} if loaded else set()
    command = BatchCommand(
        flow=loaded,
        file=None if flow is None else flow_file(flow),
        trust=trust_once,
        dataset=None if dataset is None else dataset_file(dataset, options.folders),
        delimiter=_delimiter(delimiter),
        values=read_inputs(inputs or [], inputs_file, files),
        mapping=dict(pair(text, "--map", "M=PROFILE") for text in mapping or []),
        profile=profile,
        resume=resume,
        out=out,
        exact=exact,
        as_json=as_json,
        options=BatchOptions(
            concurrency=concurrency,
            max_rows=max_rows,
            max_cost=money(max_cost),
            retry_failed=retry_failed,
            repeat_effects=repeat_effects,
            use_cache=not no_cache,
            allow_tool=allow_named(allow_tool or []),
        ),
    )
    finish(run_batch(options, command))


def dataset_file(name: str, folders: Folders) -> Path:
    """The file of a dataset; a sample becomes a file in the data folder, so that its batch can go on later."""
    path = Path(name)
    if path.exists() or name not in bundled.names("resources", "datasets", suffix=".csv"):
        return path
    path = folders.datasets / f"{name}.csv"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, bundled.read_bytes("resources", "datasets", f"{name}.csv"))
    return path


def _delimiter(given: str) -> str:
    names = {name: sign for sign, name in DELIMITERS.items()}
    sign = names.get(given, given)
    if sign and sign not in DELIMITERS:
        usage(f'--delimiter: found "{given}", expected one of {", ".join(names)}.')
    return sign


def money(given: str | None) -> Decimal | None:
    """The amount behind --max-cost."""
    if given is None:
        return None
    try:
        amount = Decimal(given)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        usage(f'--max-cost: found "{given}", expected an amount, 0.50 for instance.')
    return amount


async def list_batches(options: Options, limit: int, *, as_json: bool) -> int:
    """Print the newest batches."""
    async with BatchStore(options.folders.batches) as store:
        records = await store.batches(limit)
    if as_json:
        print_json([_record_json(record) for record in records])
        return DONE
    table: list[tuple[str, ...]] = [
        ("BATCH", "STARTED", "FLOW", "DATASET", "STATUS", "ROWS", "FINISHED", "FAILED", "INVALID", "LEFT")
    ]
    for record in records:
        counts = _counts(record)
        started = record.started.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        name = Path(record.job.dataset).name
        table.append((record.id, started, record.job.flow, name, record.status, *map(str, counts.values())))
    options.terminal.table(table)
    return DONE


def _counts(record: BatchRecord) -> dict[str, int]:
    finished, invalid = record.done.get("finished", 0), record.done.get("invalid", 0)
    done = sum(record.done.values())
    return {
        "total": record.rows,
        "finished": finished,
        "failed": done - finished - invalid,
        "invalid": invalid,
        "left": record.rows - done,
    }


def _record_json(record: BatchRecord) -> dict[str, object]:
    return {
        "batch_id": record.id,
        "started": record.started.isoformat(),
        "flow": record.job.flow,
        "dataset": record.job.dataset,
        "status": record.status,
        "reason": record.reason,
        "rows": _counts(record),
    }
