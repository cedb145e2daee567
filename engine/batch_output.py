"""Writes the results of a batch in the order of its rows, as CSV for spreadsheets or as JSONL (docs/batch.md)."""

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

import msgspec

from engine.atomic_file import written_atomically
from engine.batch_store import BatchStore
from engine.batch_values import RowResult
from engine.csv_text import Cell, CsvWriter, unique_names
from engine.errors import DatasetInvalid
from engine.flow.context import text_of

HEAD = ("row", "status", "error")
TAIL = ("run_id", "requests", "in_tokens", "out_tokens", "cost", "cost_provenance", "seconds")
_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def check_output(path: Path) -> None:
    """Raise DatasetInvalid for a file whose name says no format."""
    if path.suffix.lower() not in (".csv", ".jsonl", ".ndjson"):
        raise DatasetInvalid(f'{path}: found a file that ends with "{path.suffix}", expected .csv or .jsonl.')


def write_results(store: BatchStore, batch_id: str, path: Path, *, exact: bool = False) -> int:
    """Write the committed results, row by row, into a file that is whole or not there; how many. For a thread.

    In CSV, texts that a spreadsheet would run as formulas are guarded unless `exact`. Raises StorageError.
    """
    write = _write_csv if path.suffix.lower() == ".csv" else _write_jsonl
    with written_atomically(path) as file:
        return write(lambda: (one for one in store.each_result(batch_id) if one.status != "acting"), file, exact)


def result_json(result: RowResult) -> bytes:
    """A result as one line of JSON, without the line feed."""
    used = result.statistics
    error = result.error
    document = {
        "row": result.row,
        "line": result.line,
        "status": result.status,
        "run_id": result.run_id,
        "input": result.values,
        "outputs": result.outputs,
        "error": None if error is None else {"type": error.type, "agent": error.agent, "message": error.message},
        "statistics": {
            "requests": used.requests,
            "cached_prompts": used.cached_prompts,
            "in_tokens": used.in_tokens,
            "cached_in_tokens": used.cached_in_tokens,
            "out_tokens": used.out_tokens,
            "reasoning_out_tokens": used.reasoning_out_tokens,
            "cost": used.cost,
            "cost_provenance": used.provenance,
            "seconds": round(used.effective_seconds, 3),
        },
    }
    return _ENCODER.encode(document)


Results = Callable[[], Iterable[RowResult]]


def _write_jsonl(results: Results, file: BinaryIO, _exact: bool) -> int:
    count = 0
    for result in results():
        file.write(result_json(result) + b"\n")
        count += 1
    return count


def _write_csv(results: Results, file: BinaryIO, exact: bool) -> int:
    inputs: dict[str, None] = {}
    outputs: dict[str, None] = {}
    for result in results():
        inputs.update(dict.fromkeys(result.values))
        outputs.update(dict.fromkeys(result.outputs))
    own = (*HEAD, *TAIL)
    input_names = unique_names(list(inputs), own, "input.")
    output_names = unique_names(list(outputs), (*own, *input_names), "output.")
    writer = CsvWriter(file, exact=exact)
    writer.row([*HEAD, *input_names, *output_names, *TAIL])
    count = 0
    for result in results():
        writer.row(_cells(result, list(inputs), list(outputs)))
        count += 1
    return count


def _cells(result: RowResult, inputs: Sequence[str], outputs: Sequence[str]) -> list[Cell]:
    used = result.statistics
    return [
        result.row,
        result.status,
        "" if result.error is None else result.error.message,
        *(_cell(result.values.get(key)) for key in inputs),
        *(_cell(_one(result.outputs.get(key, []))) for key in outputs),
        result.run_id,
        used.requests,
        used.in_tokens + used.cached_in_tokens,
        used.out_tokens + used.reasoning_out_tokens,
        _tidy(used.cost),
        used.provenance.value,
        round(used.effective_seconds, 3),
    ]


def _tidy(amount: Decimal) -> Decimal:
    """The same amount without zeros behind the last digit."""
    whole, point, rest = f"{amount:f}".partition(".")
    return Decimal(f"{whole}{point}{rest.rstrip('0')}".rstrip("."))


def _one(values: Sequence[object]) -> object:
    """One value by itself, several as a list."""
    return values[0] if len(values) == 1 else list(values) if values else None


def _cell(value: object) -> Cell:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value):
        return value
    return text_of(value)
