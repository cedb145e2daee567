"""`workbench runs requests`: one line, or one record, for each model request."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from engine.atomic_file import write_atomically
from engine.cli_input import usage
from engine.cli_options import Options, finish
from engine.cli_text import DONE, Terminal
from engine.number_text import cost_text
from engine.recorded_calls import calls
from engine.request_records import RequestRecord, write_csv
from engine.run_history import RunHistory

FORMS = ("table", "csv", "json")


def runs_requests(
    context: typer.Context,
    run_id: Annotated[str | None, typer.Argument(help="A run; none: all requests of the last days.")] = None,
    days: Annotated[float, typer.Option(min=0, max=36500, help="How many days.")] = 1.0,
    form: Annotated[str, typer.Option("--to", help=f"{', '.join(FORMS)}.")] = "table",
    output: Annotated[Path | None, typer.Option("-o", help="The file; none: stdout.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="CSV for programs: no guard against formulas.")] = False,
) -> None:
    """List model requests with their figures, those of deleted runs too: waits, attempts, tokens, cost, errors."""
    options: Options = context.obj
    if form not in FORMS:
        usage(f'--to: found "{form}", expected one of {", ".join(FORMS)}.')
    if form == "table" and output is not None:
        usage("-o: a table goes to the terminal; --to csv and --to json write a file.")

    async def show() -> int:
        records = await _records(RunHistory(options.folders.history), run_id, days)
        if form == "table":
            _print_table(records, options.terminal)
            return DONE
        data = _csv(records, exact=exact) if form == "csv" else _json(records)
        if output is None:
            options.terminal.document(data.decode().rstrip("\r\n"))
        else:
            write_atomically(output, data)
        return DONE

    finish(show())


async def _records(history: RunHistory, run_id: str | None, days: float) -> list[RequestRecord]:
    if run_id is None:
        return await history.requests(datetime.now(UTC) - timedelta(days=days))
    recorded = await history.run(run_id)
    return [call.record for call in calls(recorded.events) if call.record is not None]


def _csv(records: Sequence[RequestRecord], *, exact: bool) -> bytes:
    sink = io.BytesIO()
    write_csv(records, sink, exact=exact)
    return sink.getvalue()


def _json(records: Sequence[RequestRecord]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(records, enc_hook=str), indent=2) + b"\n"


def _print_table(records: Sequence[RequestRecord], terminal: Terminal) -> None:
    head = ("ENDED", "RUN", "N", "AGENT", "PROFILE", "HOST", "WAIT", "FIRST", "SECONDS", "IN", "OUT", "COST", "END")
    terminal.table([head, *map(_row, records)])


def _row(record: RequestRecord) -> tuple[str, ...]:
    sign = "~" if record.estimated else ""
    return (
        datetime.fromtimestamp(record.ended).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        record.run_id,
        str(record.number or ""),
        f"{record.agent} {record.branch}".rstrip(),
        record.profile,
        record.host,
        f"{record.waited:.1f}",
        "" if record.first_token is None else f"{record.first_token:.2f}",
        f"{record.seconds:.1f}",
        f"{sign}{record.in_tokens + record.cached_in_tokens}",
        f"{sign}{record.out_tokens + record.reasoning_out_tokens}",
        cost_text(record.cost, record.provenance) if record.requests else "",
        record.error or ("CACHED" if record.cached else record.finish_reason),
    )
