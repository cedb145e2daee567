"""The command `workbench` without a window: results on stdout, progress and messages on stderr (docs/cli.md).

Exit status: 0 done, 1 the work failed, 2 wrong usage or invalid input, 3 no model server reachable, 130 interrupted.
"""

import asyncio
import contextlib
import json
import logging
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from engine.cli_input import as_problem, open_flow, pair, read_inputs, usage
from engine.cli_run import RunOptions, run_flow, show_recorded
from engine.cli_text import DONE, FAILED, INTERRUPTED, INVALID, NO_SERVER, Terminal, TerminalLog
from engine.embedded_server import MODEL_HINT, EmbeddedServer, ServerState, ServerStatus
from engine.engine import Engine
from engine.errors import (
    ConnectFailed,
    EngineError,
    FlowError,
    FlowInvalid,
    LocalModelError,
    Problem,
    ProfileError,
    ProfileInvalid,
    RunNotFound,
)
from engine.flow.flow_check import check_loaded
from engine.folders import Folders, data_folders
from engine.number_text import cost_text
from engine.profile import Category, ModelProfile, Provider
from engine.profile_keys import ENCODINGS
from engine.profile_store import ProfileEntry, ProfileStore, check_file
from engine.run_history import RunHistory

app = typer.Typer(
    name="workbench",
    help="Run agent flows, look at profiles and recorded runs, serve the local model. Without a command: the window.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
profiles_app = typer.Typer(help="Profiles and categories; keys are never printed.", no_args_is_help=True)
models_app = typer.Typer(help="The embedded model server.", no_args_is_help=True)
runs_app = typer.Typer(help="Recorded runs.", no_args_is_help=True)
app.add_typer(profiles_app, name="profiles")
app.add_typer(models_app, name="models")
app.add_typer(runs_app, name="runs")


@dataclass(slots=True)
class Options:
    """What the options before the command said."""

    folders: Folders
    offline: bool
    terminal: Terminal

    def engine(self) -> Engine:
        """An engine on the data folder."""
        return Engine.on_folders(self.folders, offline=self.offline)


HOISTED = {"--quiet": 0, "--offline": 0, "--data-dir": 1}
"""Options of every command, with the number of values they take: they may stand anywhere."""

Texts = list[str] | None

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document.")]


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
    as_json: Json = False,
    events: Annotated[bool, typer.Option("--events", help="Print one JSON event per line as it happens.")] = False,
) -> None:
    """Run a flow."""
    options: Options = context.obj
    if as_json and events:
        usage("--json and --events exclude each other.")
    loaded = open_flow(flow)
    chosen = RunOptions(
        values=read_inputs(inputs or [], inputs_file, {item.key for item in loaded.spec.inputs if item.type == "file"}),
        mapping=dict(pair(text, "--map", "M=PROFILE") for text in mapping or []),
        profile=profile,
        stream=sys.stdout.isatty() if stream is None else stream,
        output="json" if as_json else "events" if events else "text",
    )
    _finish(run_flow(options.engine(), loaded, chosen, options.terminal))


@app.command()
def validate(
    context: typer.Context,
    flows: Annotated[list[str], typer.Argument(help="Flow files, or names of samples.")],
    as_json: Json = False,
) -> None:
    """Print every problem of flows, with file, place and severity."""
    options: Options = context.obj
    store = ProfileStore(options.folders.profiles)
    problems: list[Problem] = []
    for name in flows:
        try:
            loaded = open_flow(name, tolerant=True)
        except EngineError as error:
            problems.append(as_problem(error, name))
            continue
        problems += check_loaded(loaded, profiles=store.names(), categories=store.categories(), file=name)
    _print_problems(problems, options.terminal, as_json=as_json)


# -- profiles ---------------------------------------------------------------------------------------------------------


@profiles_app.command("list")
def profiles_list(context: typer.Context, as_json: Json = False) -> None:
    """List the profiles and which category each serves."""
    options: Options = context.obj
    store = ProfileStore(options.folders.profiles)
    entries = store.profiles()
    if as_json:
        _print_json([_profile_json(entry, store) for entry in entries])
        return
    rows = [("PROFILE", "CATEGORIES", "PROVIDER", "MODEL", "STATE")]
    for entry in entries:
        profile = entry.profile
        state = "ready" if entry.usable else "key missing" if profile else "invalid"
        rows.append(
            (
                entry.name,
                " ".join(_served(entry, store)),
                profile.provider if profile else "",
                (profile.model or "(first listed)") if profile else "",
                state,
            )
        )
    options.terminal.table(rows)


@profiles_app.command("show")
def profiles_show(context: typer.Context, name: str, as_json: Json = False) -> None:
    """Show a profile as written; keys are hidden."""
    options: Options = context.obj
    store = ProfileStore(options.folders.profiles)
    entry = store.entry(name)
    if as_json:
        _print_json(_profile_json(entry, store))
    else:
        options.terminal.table([(key, value) for key, value in entry.settings])
    for problem in entry.problems:
        options.terminal.note(str(problem))


@profiles_app.command("validate")
def profiles_validate(
    context: typer.Context,
    paths: Annotated[list[Path] | None, typer.Argument(help="Profile files; none: all known profiles.")] = None,
    as_json: Json = False,
) -> None:
    """Print every problem of profiles, with file, line and key."""
    options: Options = context.obj
    if paths:
        problems = [problem for path in paths for problem in check_file(path).problems]
    else:
        problems = ProfileStore(options.folders.profiles).problems()
    _print_problems(problems, options.terminal, as_json=as_json)


# -- models -----------------------------------------------------------------------------------------------------------


@models_app.command("list")
def models_list(context: typer.Context, as_json: Json = False) -> None:
    """List the model the embedded server would serve."""
    options: Options = context.obj
    file = EmbeddedServer(data_dir=options.folders.root).find_model()
    if file is None:
        raise LocalModelError("No model file is installed.", hint=MODEL_HINT)
    size = file.stat().st_size
    if as_json:
        _print_json([{"name": file.stem, "file": str(file), "bytes": size}])
    else:
        options.terminal.table([("MODEL", "SIZE", "FILE"), (file.stem, f"{size / 1e6:.0f} MB", str(file))])


@models_app.command("serve")
def models_serve(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="A .gguf file; none: the model that is installed.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 0,
) -> None:
    """Serve a model on this machine until interrupted; prints address, key and model name."""
    options: Options = context.obj

    async def serve() -> int:
        ended = asyncio.Event()
        server = EmbeddedServer(data_dir=options.folders.root, model_file=file, port=port)

        def tell(status: ServerStatus) -> None:
            # Again after a restart: the key is a new one each time, the port may be.
            if status.state is ServerState.READY and (endpoint := server.endpoint):
                for name, value in (("url", endpoint.url), ("apiKey", endpoint.api_key), ("modelName", endpoint.model)):
                    options.terminal.result(f"{name}={value}")
                options.terminal.note("Serving. Ctrl+C ends it.")
            elif status.state is ServerState.FAILED:
                ended.set()

        server.on_state(tell)
        try:
            await server.ensure()
            await ended.wait()
            raise server.status.error or LocalModelError("The model server ended.")
        finally:
            await server.stop()

    _finish(serve())


# -- runs and tokens --------------------------------------------------------------------------------------------------


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
            _print_json([_plain(row) for row in rows])
            return DONE
        table = [("RUN", "STARTED", "FLOW", "STATUS", "SECONDS", "TOKENS IN", "OUT", "COST")]
        for row in rows:
            started = row.started.astimezone().strftime("%Y-%m-%d %H:%M:%S")
            seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
            cost = cost_text(row.cost, row.provenance)
            table.append(
                (row.id, started, row.flow, row.status, seconds, str(row.in_tokens), str(row.out_tokens), cost)
            )
        options.terminal.table(table)
        return DONE

    _finish(show())


@runs_app.command("show")
def runs_show(context: typer.Context, run_id: str, as_json: Json = False) -> None:
    """Show what a recorded run answered, its trace and statistics."""
    options: Options = context.obj

    async def show() -> int:
        recorded = await RunHistory(options.folders.history).run(run_id)
        if as_json:
            _print_json(_plain(recorded))
        else:
            show_recorded(recorded, options.terminal)
        return DONE

    _finish(show())


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
            _print_json({"tokens": counted.tokens, "approximate": counted.approximate})
        else:
            options.terminal.result(f"{'~' if counted.approximate else ''}{counted.tokens}")
            options.terminal.note("estimated" if counted.approximate else "exact")
        return DONE

    _finish(count())


# -- help for the commands --------------------------------------------------------------------------------------------


def _print_problems(problems: Sequence[Problem], terminal: Terminal, *, as_json: bool) -> NoReturn:
    """The result of a check; leaves with its status."""
    if as_json:
        _print_json([_problem_json(problem) for problem in problems])
    else:
        for problem in problems:
            terminal.result(str(problem))
        if not problems:
            terminal.note("No problems.")
    raise typer.Exit(INVALID if any(problem.severity == "error" for problem in problems) else DONE)


def _problem_json(problem: Problem) -> dict[str, object]:
    return asdict(problem)


def _served(entry: ProfileEntry, store: ProfileStore) -> list[str]:
    """The categories a profile answers for."""
    return [label for label, name in store.categories().items() if name == entry.name]


def _profile_json(entry: ProfileEntry, store: ProfileStore) -> dict[str, object]:
    return {
        "name": entry.name,
        "bundled": entry.bundled,
        "usable": entry.usable,
        "categories": _served(entry, store),
        "settings": dict(entry.settings),
        "problems": [_problem_json(problem) for problem in entry.problems],
    }


def _plain(value: object) -> object:
    return msgspec.to_builtins(value, str_keys=True)


def _print_json(document: object) -> None:
    print(json.dumps(document, ensure_ascii=False, indent=2))  # noqa: T201


def _finish(work: Coroutine[object, object, int]) -> NoReturn:
    """Run the work of a command and leave with its status."""
    raise typer.Exit(asyncio.run(_interruptible(work)))


async def _interruptible(work: Coroutine[object, object, int]) -> int:
    """End the work at SIGTERM as at Ctrl+C."""
    task = asyncio.current_task()
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel if task else work.close)
    return await work


def status_of(error: EngineError) -> int:
    """The exit status that tells this error apart."""
    if isinstance(error, ConnectFailed | LocalModelError):
        return NO_SERVER
    return INVALID if isinstance(error, FlowError | ProfileError | RunNotFound) else FAILED


def hoist(arguments: Sequence[str]) -> list[str]:
    """Move the options of every command to the front, so that they may stand anywhere."""
    front: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        name = argument.partition("=")[0]
        if name in HOISTED:
            front.append(argument)
            if HOISTED[name] and "=" not in argument:
                front += [value] if (value := next(waiting, None)) is not None else []
        elif argument == "--":
            rest += ["--", *waiting]
        else:
            rest.append(argument)
    return front + rest


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    given = hoist(sys.argv[1:] if arguments is None else arguments)
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
        problems = error.problems if isinstance(error, FlowInvalid | ProfileInvalid) else ()
        _report(given, type(error).__name__, str(error), error.hint, problems)
        return status_of(error)
    return status if isinstance(status, int) else DONE


def _report(arguments: Sequence[str], name: str, message: str, hint: str, problems: Sequence[Problem] = ()) -> None:
    """Tell on stderr why a command did nothing; with `--json` also as its document."""
    terminal = Terminal()
    terminal.error(f"error: {message}")
    if len(problems) > 1:
        for problem in problems:
            terminal.error(f"  {problem}")
    if hint:
        terminal.error(f"  {hint}")
    if "--json" in arguments:
        found = [_problem_json(problem) for problem in problems]
        _print_json({"error": {"type": name, "message": message, "hint": hint, "problems": found}})
