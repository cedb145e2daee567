"""The command `workbench` without a window: results on stdout, progress and messages on stderr (docs/cli.md).

Exit status: 0 done, 1 the work failed, 2 wrong usage or invalid input, 3 no model server reachable, 130 interrupted.
"""

import asyncio
import logging
import os
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import typer

from engine.cli_arguments import hoist
from engine.cli_batch import batch
from engine.cli_cache import cache_app
from engine.cli_compare import compare
from engine.cli_export import export
from engine.cli_input import as_problem, by_place, flow_file, open_flow, pair, played_tape, read_inputs, usage
from engine.cli_models import models_app
from engine.cli_options import Json, Options, Texts, finish, print_json, print_problems, problem_json
from engine.cli_profiles import profiles_app
from engine.cli_prompts import prompts_app
from engine.cli_run import Again, RunOptions, run_flow
from engine.cli_runs import runs_app
from engine.cli_stats import stats
from engine.cli_text import DONE, FAILED, INTERRUPTED, INVALID, NO_SERVER, Terminal, TerminalLog
from engine.cli_trust import show_trust
from engine.errors import (
    BatchError,
    ConnectFailed,
    DatasetInvalid,
    EngineError,
    FlowError,
    LocalModelError,
    PluginError,
    Problem,
    ProfileError,
    RunNotFound,
)
from engine.flow.flow_check import check_loaded
from engine.flow_access import known_plugins
from engine.folders import data_folders
from engine.number_text import counted
from engine.plugins import Plugins
from engine.profile import Category, ModelProfile, Provider
from engine.profile_keys import ENCODINGS

app = typer.Typer(
    name="workbench",
    help="Run agent flows, look at profiles and recorded runs, serve the local model. Without a command: the window.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(profiles_app, name="profiles")
app.add_typer(models_app, name="models")
app.add_typer(runs_app, name="runs")
app.add_typer(cache_app, name="cache")
app.add_typer(prompts_app, name="prompts")
app.command("export")(export)

app.command("batch")(batch)
app.command("compare")(compare)
app.command("stats")(stats)


def _print_version(wanted: bool) -> None:
    if wanted:
        Terminal().result(f"Flow Workbench {version('flow-workbench')}")
        raise typer.Exit


@app.callback()
def common(
    context: typer.Context,
    data_dir: Annotated[Path | None, typer.Option(help="Folder for everything the program writes.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Refuse connections that leave this machine.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing on stderr but errors.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""
    terminal = Terminal(quiet=quiet)
    logging.getLogger("engine").handlers = [TerminalLog(terminal)]
    context.obj = Options(data_folders(data_dir), offline, terminal)


# -- flows ------------------------------------------------------------------------------------------------------------


@app.command()
def run(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(help="A flow file, or the name of a sample.")],
    inputs: Annotated[Texts, typer.Option("-i", metavar="KEY=VALUE", help="An input; KEY=@FILE reads it.")] = None,
    inputs_file: Annotated[Path | None, typer.Option("--inputs", help="A JSON object with inputs.")] = None,
    mapping: Annotated[list[str] | None, typer.Option("--map", metavar="M=PROFILE", help="Map a category.")] = None,
    profile: Annotated[str | None, typer.Option(help="One profile for all agents.")] = None,
    stream: Annotated[bool | None, typer.Option(help="Show the words as they arrive (default: on a terminal).")] = None,
    allow_tool: Annotated[Texts, typer.Option(metavar="NAME", help="Let a tool with side effects run.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Take no answer from the cache, keep none.")] = False,
    as_json: Json = False,
    events: Annotated[bool, typer.Option("--events", help="Print one JSON event per line as it happens.")] = False,
    from_agent: Annotated[str | None, typer.Option("--from", help="Begin at this agent of a recorded run.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="The recorded run of --from.")] = None,
    visit: Annotated[int | None, typer.Option("--pass", min=1, help="Which pass through it; none: the last.")] = None,
    branch: Annotated[str | None, typer.Option("--branch", help="Only the context of this branch, 2/5.")] = None,
    use_thinking: Annotated[
        bool, typer.Option("--use-thinking", help="Take what the agent of --from thought as its answer.")
    ] = False,
    trust_once: Annotated[bool, typer.Option("--trust", help="Trust all the flow can do, for this run.")] = False,
    tape: Annotated[Path | None, typer.Option(metavar="FILE", help="Record the bytes of all calls.")] = None,
    replay: Annotated[Path | None, typer.Option(metavar="FILE", help="Play a tape; nobody is called.")] = None,
    speed: Annotated[str | None, typer.Option(metavar="N|max", help="Of the replay; 1: as it was.")] = None,
) -> None:
    """Run a flow."""
    options: Options = context.obj
    if as_json and events:
        usage("--json and --events exclude each other.")
    if (from_agent is None) != (run_id is None) or (from_agent is None and (visit is not None or branch is not None)):
        usage("--from AGENT and --run ID belong together; --pass and --branch go with them.")
    if tape is not None and (replay is not None or from_agent is not None):
        usage("--tape records a run from its beginning: --replay and --from exclude it.")
    if replay is not None and (inputs or inputs_file or mapping or profile or no_cache or from_agent or allow_tool):
        usage("--replay has inputs, profiles and cache on its tape: no other option about them goes with it.")
    if use_thinking and (from_agent is None or visit is not None or inputs or inputs_file):
        usage("--use-thinking goes with --from AGENT, --run ID and --branch only: it takes the last thinking there.")
    loaded = open_flow(flow, tolerant=True)
    chosen = RunOptions(
        values=read_inputs(
            inputs or [], inputs_file, {item.key for item in loaded.spec.inputs if item.type in ("file", "image")}
        ),
        mapping=dict(pair(text, "--map", "M=PROFILE") for text in mapping or []),
        profile=profile,
        stream=sys.stdout.isatty() if stream is None else stream,
        use_cache=not no_cache,
        output="json" if as_json else "events" if events else "text",
        allowed_tools=allow_tool or [],
        file=flow_file(flow),
        trust=trust_once,
        tape=tape,
        replay=played_tape(replay, speed),
        again=Again(
            origin="from", run_id=run_id, agent=from_agent, visit=visit, branch=branch, use_thinking=use_thinking
        )
        if from_agent is not None and run_id is not None
        else None,
    )
    finish(run_flow(options.engine(), loaded, chosen, options.terminal))


@app.command()
def trust(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(help="A flow file.")],
    show: Annotated[bool, typer.Option("--show", help="Only show what it can do and whether it is trusted.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take trust back.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a flow from elsewhere can do, and trust it."""
    options: Options = context.obj
    if show + revoke + yes > 1:
        usage("--show, --revoke and --yes exclude each other.")
    task: Literal["show", "revoke", "trust"] = "show" if show else "revoke" if revoke else "trust"
    raise typer.Exit(show_trust(options, flow, task, ask=not yes, as_json=as_json))


@app.command()
def validate(
    context: typer.Context,
    flows: Annotated[list[str], typer.Argument(help="Flow files, or names of samples.")],
    as_json: Json = False,
) -> None:
    """Print every problem of flows, with file, place and severity."""
    options: Options = context.obj
    store = options.profiles()
    problems: list[Problem] = []
    for name in flows:
        try:
            loaded = open_flow(name, tolerant=True)
        except EngineError as error:
            problems.append(as_problem(error, name))
            continue
        try:
            plugins = known_plugins(loaded.spec, flow_file(name))
        except PluginError as error:
            problems.append(as_problem(error, name))
            plugins = Plugins()
        problems += by_place(check_loaded(loaded, profiles=store, plugins=plugins, file=name))
    print_problems(problems, options.terminal, as_json=as_json)


@app.command()
def tokens(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A text file, or - for stdin.")] = "-",
    profile: Annotated[str | None, typer.Option(help="Count as this profile's model does.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Count with this vocabulary, for instance o200k_base.")] = None,
    as_json: Json = False,
) -> None:
    """Count the tokens of a text, and say whether the count is exact or estimated."""
    options: Options = context.obj
    if profile and encoding:
        usage("--profile and --encoding exclude each other.")
    if encoding and encoding not in ENCODINGS:
        usage(f'--encoding: found "{encoding}", expected one of {", ".join(ENCODINGS)}.')
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        usage(f"{file}: {error}")

    async def count() -> int:
        async with options.engine() as engine:
            chosen = (
                ModelProfile(name=encoding, category=encoding, provider=Provider.OPENAI_CHAT, encoding=encoding)
                if encoding
                else engine.resolve(profile or Category.MEDIUM)
            )
            counted = await engine.count_tokens(chosen, text)
        if as_json:
            print_json({"tokens": counted.tokens, "approximate": counted.approximate})
        else:
            options.terminal.result(f"{'~' if counted.approximate else ''}{counted.tokens}")
            options.terminal.note("estimated" if counted.approximate else "exact")
        return DONE

    finish(count())


def status_of(error: EngineError) -> int:
    """The exit status that tells this error apart."""
    if isinstance(error, ConnectFailed | LocalModelError):
        return NO_SERVER
    wrong = FlowError | ProfileError | RunNotFound | DatasetInvalid | BatchError
    return INVALID if isinstance(error, wrong) else FAILED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    front, rest = hoist(sys.argv[1:] if arguments is None else arguments)
    given = front + rest
    try:
        status = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read the results has seen enough, like `head`. What is left must not be written at the exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return status


def _run(given: Sequence[str]) -> int:
    try:
        # Outside standalone mode `typer.Exit` comes back as the value of the call.
        status = app(given, prog_name="workbench", standalone_mode=False)
    except (KeyboardInterrupt, asyncio.CancelledError, typer.Abort):
        return INTERRUPTED
    except typer.TyperException as error:
        context: typer.Context | None = getattr(error, "ctx", None)
        message = error.format_message()
        _report(given, "WrongUsage", message, f"See: {context.command_path if context else 'workbench'} --help")
        return INVALID
    except EngineError as error:
        _report(given, type(error).__name__, str(error), error.hint, error.problems)
        return status_of(error)
    return status if isinstance(status, int) else DONE


def _counted(problems: Sequence[Problem]) -> str:
    """How many there are of each severity: `3 errors, 1 warning`."""
    counts = Counter(problem.severity for problem in problems)
    return ", ".join(counted(count, severity) for severity, count in sorted(counts.items()))


def _report(arguments: Sequence[str], name: str, message: str, hint: str, problems: Sequence[Problem] = ()) -> None:
    """Tell on stderr why a command did nothing; with `--json` also as its document."""
    terminal = Terminal()
    placed = all(problem.file or problem.line for problem in problems)
    if not (problems and placed):
        terminal.error(f"error: {message}")
    elif len(problems) > 1:
        terminal.error(f"error: {_counted(problems)}:")
    if len(problems) > 1 or placed:
        for problem in problems:
            terminal.error(f"  {problem}" if len(problems) > 1 else str(problem))
    if hint:
        terminal.error(f"  {hint}")
    if "--json" in arguments:
        found = [problem_json(problem) for problem in problems]
        print_json({"error": {"type": name, "message": message, "hint": hint, "problems": found}})
