"""`workbench runs`: recorded runs."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from engine.atomic_file import write_atomically
from engine.cli_input import open_flow, usage
from engine.cli_options import Json, Options, finish, print_json
from engine.cli_requests import runs_requests
from engine.cli_run import Again, RunOptions, run_flow, show_recorded, status_text
from engine.cli_text import DONE
from engine.comparison_text import comparison_json, comparison_lines
from engine.flow.subflow_files import origin_path
from engine.formed_request import FORMS, FormedRequest, request_text
from engine.history_changes import salvage
from engine.number_text import cost_text
from engine.profile_store import ProfileStore
from engine.recorded_calls import calls
from engine.recorded_runs import recorded_flow
from engine.run_comparison import compare_runs
from engine.run_export import FORMATS, export_run
from engine.run_history import RecordedRun, RunHistory

Names = list[str] | None
TrustOnce = Annotated[bool, typer.Option("--trust", help="Trust all the flow can do, for this run.")]

runs_app = typer.Typer(help="Recorded runs.", no_args_is_help=True)
runs_app.command("requests")(runs_requests)


@runs_app.command("list")
def runs_list(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List recorded runs."""
    options: Options = context.obj

    async def show() -> int:
        rows = await RunHistory(options.folders.history).runs(limit)
        if as_json:
            print_json([_plain(row) for row in rows])
            return DONE
        table = [("RUN", "STARTED", "FLOW", "STATUS", "SECONDS", "TOKENS IN", "OUT", "COST")]
        for row in rows:
            started = row.started.astimezone().strftime("%Y-%m-%d %H:%M:%S")
            seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
            cost = cost_text(row.cost, row.provenance)
            table.append(
                (row.id, started, row.flow, status_text(row), seconds, str(row.in_tokens), str(row.out_tokens), cost)
            )
        options.terminal.table(table)
        return DONE

    finish(show())


@runs_app.command("show")
def runs_show(
    context: typer.Context,
    run_id: str,
    request: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only this request, with --as.")] = None,
    form: Annotated[str | None, typer.Option("--as", help=f"What to write it as: {', '.join(FORMS)}.")] = None,
    as_json: Json = False,
) -> None:
    """Show what a recorded run answered, its trace and statistics; or one of its requests, to be sent again."""
    options: Options = context.obj
    if form is not None and form not in FORMS:
        usage(f'--as: found "{form}", expected one of {", ".join(FORMS)}.')
    if (request is None) != (form is None):
        usage("--request N and --as FORM go together: the number of the request, and what to write it as.")
    if form is not None and as_json:
        usage("--json: a request is written as --as says; leave one of them out.")

    async def show() -> int:
        recorded = await RunHistory(options.folders.history).run(run_id)
        if request is not None and form is not None:
            options.terminal.document(request_text(_formed(recorded, request), form).rstrip("\n"))
        elif as_json:
            records = [call.record for call in calls(recorded.events) if call.record is not None]
            document = msgspec.to_builtins(recorded, str_keys=True, enc_hook=str)
            print_json(document | {"requests": _plain(records)})
        else:
            show_recorded(recorded, options.terminal)
        return DONE

    finish(show())


def _formed(recorded: RecordedRun, number: int) -> FormedRequest:
    """The request of this number; says what there is when there is none."""
    found = calls(recorded.events)
    if number > len(found):
        usage(f"--request: found {number}, expected 1 to {len(found)}: run {recorded.row.id} has no more requests.")
    call = found[number - 1]
    if call.request is None:
        usage(
            f"--request: request {number} ({call.place}) is not recorded as it went out: nothing was sent, or an "
            "earlier version of the program recorded the run."
        )
    return call.request


@runs_app.command("resume")
def runs_resume(
    context: typer.Context,
    run_id: str,
    flow: Annotated[str | None, typer.Option(help="A changed flow; none: as it was run.")] = None,
    profile: Annotated[str | None, typer.Option(help="One profile for all agents.")] = None,
    allow_tool: Annotated[Names, typer.Option(metavar="NAME", help="Let a tool with side effects run.")] = None,
    trust_once: TrustOnce = False,
    as_json: Json = False,
) -> None:
    """Go on with a run that failed, was stopped or crashed; what was answered is not asked again."""
    _again(context, Again(origin="resume", run_id=run_id), flow, profile, allow_tool, as_json, trust=trust_once)


@runs_app.command("repeat")
def runs_repeat(
    context: typer.Context,
    run_id: str,
    flow: Annotated[str | None, typer.Option(help="A changed flow; none: as it was run.")] = None,
    profile: Annotated[str | None, typer.Option(help="One profile for all agents.")] = None,
    allow_tool: Annotated[Names, typer.Option(metavar="NAME", help="Let a tool with side effects run.")] = None,
    trust_once: TrustOnce = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask anew also for what the cache has.")] = False,
    as_json: Json = False,
) -> None:
    """Run the same flow with the same inputs again; the cache answers what has not changed."""
    _again(
        context,
        Again(origin="repeat", run_id=run_id),
        flow,
        profile,
        allow_tool,
        as_json,
        trust=trust_once,
        fresh=fresh,
    )


def _again(
    context: typer.Context,
    again: Again,
    flow: str | None,
    profile: str | None,
    tools: Names,
    as_json: bool,
    *,
    trust: bool,
    fresh: bool = False,
) -> None:
    options: Options = context.obj

    async def work() -> int:
        engine = options.engine()
        run = await engine.recorded.run(again.run_id)
        loaded = recorded_flow(run) if flow is None else open_flow(flow, tolerant=True)
        chosen = RunOptions(
            values={},
            mapping={},
            profile=profile,
            stream=sys.stdout.isatty(),
            output="json" if as_json else "text",
            allowed_tools=tools or [],
            file=origin_path(loaded.origin),
            use_cache=True,
            trust=trust,
            fresh=fresh,
            again=again,
        )
        return await run_flow(engine, loaded, chosen, options.terminal)

    finish(work())


@runs_app.command("export")
def runs_export(
    context: typer.Context,
    run_id: str,
    form: Annotated[str, typer.Option("--to", help=f"{', '.join(FORMATS)}.")] = "html",
    output: Annotated[Path | None, typer.Option("-o", help="The file; none: stdout.")] = None,
) -> None:
    """Write a recorded run as a report: JSON, Markdown or one HTML page."""
    options: Options = context.obj
    if form not in FORMATS:
        usage(f'--to: found "{form}", expected one of {", ".join(FORMATS)}.')

    async def write() -> int:
        recorded = await RunHistory(options.folders.history).run(run_id)
        secrets = ProfileStore(options.folders.profiles).secrets()
        text = export_run(recorded, form, secrets=secrets)
        if output is None:
            options.terminal.document(text)
        else:
            write_atomically(output, text.encode("utf-8", "replace"))
        return DONE

    finish(write())


@runs_app.command("compare")
def runs_compare(context: typer.Context, first: str, second: str, as_json: Json = False) -> None:
    """Show what differs between two recorded runs: prompts, keys, answers, tokens, cost and time."""
    options: Options = context.obj

    async def show() -> int:
        history = RunHistory(options.folders.history)
        compared = compare_runs(await history.run(first), await history.run(second))
        if as_json:
            print_json(comparison_json(compared))
        else:
            for line in comparison_lines(compared):
                options.terminal.result(line)
        return DONE

    finish(show())


@runs_app.command("delete")
def runs_delete(context: typer.Context, run_ids: list[str]) -> None:
    """Delete recorded runs; what they cost stays in the sums of their days."""
    options: Options = context.obj

    async def delete() -> int:
        history = RunHistory(options.folders.history)
        for run_id in run_ids:
            await history.delete(run_id)
        return DONE

    finish(delete())


@runs_app.command("prune")
def runs_prune(
    context: typer.Context, older_than: Annotated[float, typer.Option(min=0, metavar="DAYS", help="Their age.")]
) -> None:
    """Delete the recorded runs that are older than so many days."""
    options: Options = context.obj

    async def prune() -> int:
        count = await RunHistory(options.folders.history).prune(older_than)
        options.terminal.result(f"{count} deleted")
        return DONE

    finish(prune())


@runs_app.command("salvage")
def runs_salvage(context: typer.Context, file: Path) -> None:
    """Bring back what can be read of a damaged database; the file itself is not changed."""
    options: Options = context.obj
    copied = salvage(file, options.folders.history)
    options.terminal.result(", ".join(f"{count} {table}" for table, count in copied.items() if count) or "nothing")


def _plain(value: object) -> object:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=str)
