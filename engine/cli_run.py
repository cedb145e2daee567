"""`workbench run`: a flow on the command line, as text, as one JSON document, or as events."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from engine.cli_input import PlayedTape, runnable
from engine.cli_text import DONE, FAILED, NO_SERVER, Terminal, with_hint
from engine.completion import Phase
from engine.engine import Engine
from engine.events import (
    REPLAY,
    AgentStarted,
    AnyEvent,
    BranchFailed,
    ChunkReceived,
    CompletionFinished,
    PhaseChanged,
    PromptShortened,
    Retrying,
    RunFinished,
    RunResult,
    RunStarted,
    Statistics,
    StopProved,
    ToolCalled,
    Warned,
    reached_no_server,
)
from engine.flow.context import Context, text_of
from engine.flow.flow import Flow
from engine.flow.flow_file import LoadedFlow, flow_text
from engine.flow.flow_inputs import inputs_context
from engine.flow.restart import Restart
from engine.flow.tools import allow_named
from engine.number_text import cost_text, counted
from engine.recorded_calls import calls
from engine.recorded_runs import resume_point, start_point
from engine.run import Run
from engine.run_history import COMMITTED_AT_ONCE, RecordedRun, RunRow
from engine.statistics import per_second_text
from engine.stop_proof import stop_text
from engine.thinking_answer import audit_warning, audited, thinking_point

BOLD, DIM = "1", "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the options of the command said."""

    values: Mapping[str, object]
    mapping: Mapping[str, str]
    profile: str | None
    stream: bool
    use_cache: bool
    output: str
    """`text`, `json` or `events`."""
    allowed_tools: Collection[str] = ()
    """Tools with side effects that may run."""
    file: Path | None = None
    """The flow's; None for a sample."""
    trust: bool = False
    """For this run."""
    fresh: bool = False
    """Ask anew for everything; the answers are kept."""
    again: "Again | None" = None
    """The recorded run to go on from."""
    tape: Path | None = None
    """Where the calls are recorded."""
    replay: PlayedTape | None = None
    """The tape that answers instead of servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """How a recorded run is used."""

    origin: Literal["resume", "from", "repeat"]
    run_id: str
    agent: str = ""
    visit: int | None = None
    branch: str | None = None
    use_thinking: bool = False
    """Whether the thinking of the agent is taken as its answer."""


async def run_flow(engine: Engine, loaded: LoadedFlow, options: RunOptions, terminal: Terminal) -> int:
    """Run a flow and print it; the exit status. An interruption stops the run, whose end is printed all the same."""
    async with engine:
        if (played := options.replay) is not None:
            terminal.note(f"Replay of {played.tape.path.name}: nothing is called.")
            async with await engine.replaying(played.tape, speed=played.speed) as player:
                return await _run(player, loaded, options, terminal)
        return await _run(engine, loaded, options, terminal)


async def _run(engine: Engine, loaded: LoadedFlow, options: RunOptions, terminal: Terminal) -> int:
    profiles = engine.profiles.with_map(options.mapping)
    if options.profile:
        profiles = profiles.with_profile(options.profile)
    problems = runnable(loaded, profiles, options.file)
    for problem in problems:
        terminal.note(str(problem))
    here = options.file is None
    flow = engine.access.build(loaded.spec, options.file, made_here=here, once=options.trust, origin=loaded.origin)
    context, restart = await _beginning(engine, loaded, flow, options)
    writer: _Writer = {"json": _Json, "events": _Events}.get(options.output, _Text)(terminal, options)
    writer.warnings = [str(problem) for problem in problems]
    allow = allow_named(options.allowed_tools)
    text = flow_text(loaded.spec)
    starting = (
        engine.replay(flow, flow_text=text)
        if options.replay is not None
        else engine.run(
            flow,
            context,
            profiles=profiles,
            flow_text=text,
            allow_tool=allow,
            use_cache=options.use_cache,
            skip_cache=options.fresh,
            restart=restart,
            tape=options.tape,
        )
    )
    async with starting as run:
        try:
            await _follow(run, writer, engine)
        except asyncio.CancelledError:
            run.stop()
            await _follow(run, writer, engine)
            raise
    return writer.status()


async def _follow(run: Run, writer: "_Writer", engine: Engine) -> None:
    """Print the events. Who reads lines may act on them: what has an end is on the disk before it is told."""
    history = engine.history if isinstance(writer, _Events) else None
    async for event in run:
        if history is not None and type(event) in COMMITTED_AT_ONCE:
            await history.flush()
        writer.apply(event)


async def _beginning(
    engine: Engine, loaded: LoadedFlow, flow: Flow, options: RunOptions
) -> tuple[Context, Restart | None]:
    """The context a run begins with, and where it goes on when it goes on from a recorded one."""
    again = options.again
    if options.replay is not None:
        return Context({}), None  # the inputs are on the tape
    if again is None:
        return inputs_context(loaded.spec, options.values), None
    if again.origin == "repeat":
        return Context((await engine.recorded.run(again.run_id)).inputs), None
    reached = await engine.recorded.reached(again.run_id)
    context = Context(reached.run.inputs)
    if again.origin == "resume":
        return context, resume_point(reached, flow)
    if again.use_thinking:
        found = audited(reached.run.events, again.agent, again.branch)
        return context, thinking_point(reached, flow, found.step, found.branch, found.attempt)
    edits = {key: value if isinstance(value, list) else [value] for key, value in options.values.items()}
    return context, start_point(reached, flow, again.agent, visit=again.visit, branch=again.branch, edits=edits)


def show_recorded(recorded: RecordedRun, terminal: Terminal) -> None:
    """Print the answers, trace and statistics of a recorded run."""
    finished = next((event for event in recorded.events if isinstance(event, RunFinished)), None)
    terminal.result(f"{recorded.row.flow}: {status_text(recorded.row)}")
    numbers = {id(call.finished): call.number for call in calls(recorded.events)}
    for event in recorded.events:
        if isinstance(event, CompletionFinished):
            number = numbers.get(id(event))
            terminal.result(f"\n{_place(event)}{f' (request {number})' if number else ''}")
            terminal.result(event.content)
        elif isinstance(event, BranchFailed):
            terminal.result(f"\n{_place(event)}: {event.error.message}")
    if finished is not None:
        terminal.result("")
        for line in summary_lines(finished):
            terminal.result(line)


def status_text(row: RunRow) -> str:
    """How a recorded run ended, and whether anybody was called at all."""
    return f"{row.status} (replay)" if row.origin == REPLAY else row.status


class _Writer:
    """Base of the three forms of output."""

    def __init__(self, terminal: Terminal, options: RunOptions) -> None:
        self.terminal = terminal
        self.options = options
        self.finished: RunFinished | None = None
        self.warnings: list[str] = []
        self._kept = 0
        self._failed_inside: set[tuple[str, str]] = set()

    def is_kept(self, event: AnyEvent) -> bool:
        """Whether an event is one of the recorded run this one goes on from."""
        if isinstance(event, RunStarted):
            self._kept = event.kept + 1
        self._kept -= self._kept > 0
        return self._kept > 0 and not isinstance(event, RunStarted)

    def is_told(self, event: BranchFailed) -> bool:
        """Whether a node failed because of an agent inside of it, which was told already."""
        for position, sign in enumerate(event.agent):
            if sign == "/":
                self._failed_inside.add((event.agent[:position], event.error.message))
        return (event.agent, event.error.message) in self._failed_inside

    def apply(self, event: AnyEvent) -> None:
        """Take in one event."""
        if isinstance(event, Warned | PromptShortened):
            self.warnings.append(event.message)
        if warning := audit_warning(event):
            self.warnings.append(warning)
        if isinstance(event, RunFinished):
            self.finished = event

    def status(self) -> int:
        """The exit status."""
        finished = self.finished
        if finished is not None and finished.status == "finished":
            return DONE
        return NO_SERVER if finished is not None and reached_no_server(finished) else FAILED


class _Events(_Writer):
    """One JSON event per line."""

    def apply(self, event: AnyEvent) -> None:
        """Print the event."""
        super().apply(event)
        # These fields are there for whoever reads the lines, also where they are empty.
        head = {"type": event.__struct_config__.tag, "time": event.time, "run_id": event.run_id}
        head |= {"agent": event.agent, "branch": event.branch}
        self.terminal.document(_JSON.encode(head | msgspec.to_builtins(event, enc_hook=str)).decode())


class _Json(_Writer):
    """Exactly one document, at the end."""

    def apply(self, event: AnyEvent) -> None:
        """Keep what the document needs, tell progress."""
        super().apply(event)
        if self.is_kept(event) or (isinstance(event, BranchFailed) and self.is_told(event)):
            return
        note = progress_line(event)
        if note:
            self.terminal.note(note)
        if warning := audit_warning(event):
            self.terminal.note(f"warning: {warning}")
        if isinstance(event, RunFinished):
            self.terminal.document(run_json(event, self.warnings))


@dataclass(slots=True)
class _Words:
    """What one branch has said that is not on the terminal yet."""

    label: str
    pieces: list[tuple[bool, str]]
    """Whether it is thinking, and the text."""
    figures: str = ""
    """Set when the branch was answered."""


class _Text(_Writer):
    """The words as they arrive, then trace and statistics; or only the outputs."""

    def __init__(self, terminal: Terminal, options: RunOptions) -> None:
        super().__init__(terminal, options)
        self._shown: tuple[int, str] | None = None
        """(step, branch) whose words go straight to the terminal; those of other branches wait their turn."""
        self._waiting: dict[tuple[int, str], _Words] = {}
        self._thinking = False

    def apply(self, event: AnyEvent) -> None:
        """Show the event."""
        super().apply(event)
        if isinstance(event, BranchFailed):
            self._fail(event)
        elif not self.options.stream:
            note = progress_line(event)
            if note:
                self.terminal.note(note)
        elif isinstance(event, ChunkReceived):
            self._words(event).pieces += [(True, event.reasoning), (False, event.content)]
            self._advance()
        elif isinstance(event, CompletionFinished):
            streamed = (event.step, event.branch) in self._waiting
            words = self._words(event)
            if not streamed:
                words.pieces = [(True, event.reasoning), (False, event.content)]
            words.figures = _figures(event)
            self._advance()
        elif (self._shown is None or isinstance(event, StopProved)) and (note := progress_line(event)):
            self.terminal.note(note)
        if not self.is_kept(event) and (warning := audit_warning(event)):
            self.terminal.note(f"warning: {warning}")
        if isinstance(event, RunFinished):
            self._finish(event)

    def _words(self, event: AnyEvent) -> _Words:
        key = (event.step, event.branch)
        return self._waiting.setdefault(key, _Words(_place(event), []))

    def _advance(self) -> None:
        """Print what the branch in front has; when it is done, go on with the next that waits."""
        while self._waiting:
            if self._shown is None:
                self._shown = next(iter(self._waiting))
                self.terminal.result(f"▸ {self._waiting[self._shown].label}", style=BOLD)
            words = self._waiting.get(self._shown)
            if words is None:
                return
            self._write(words.pieces)
            words.pieces = []
            if not words.figures:
                return
            self.terminal.result(f"\n{words.figures}\n", style=DIM)
            self._leave()

    def _fail(self, event: BranchFailed) -> None:
        key = (event.step, event.branch)
        if self._shown == key:
            self.terminal.result("")
            self._leave()
        else:
            self._waiting.pop(key, None)
        if not self.is_told(event):
            self.terminal.error(f"✗ {_place(event)}: {with_hint(event.error.message, event.error.hint)}")
        self._advance()

    def _leave(self) -> None:
        if self._shown is not None:
            self._waiting.pop(self._shown, None)
        self._shown = None
        self._thinking = False

    def _write(self, pieces: list[tuple[bool, str]]) -> None:
        for thinking, text in pieces:
            if not text:
                continue
            if self._thinking and not thinking:
                self.terminal.result("")
            self._thinking = thinking
            self.terminal.result(text, end="", style=DIM if thinking else "")

    def _finish(self, event: RunFinished) -> None:
        if not self.options.stream or event.status != "finished":
            for key, values in event.outputs.items():
                head = f"{key}:\n" if len(event.outputs) > 1 else ""
                self.terminal.result(head + "\n".join(map(text_of, values)))
        for line in summary_lines(event):
            self.terminal.note(line)


def progress_line(event: AnyEvent) -> str:
    """A plain line about an event, empty when it is not worth one."""
    match event:
        case AgentStarted(splits=splits) if splits > 1:
            return f"{event.agent}: {splits} branches"
        case PhaseChanged(phase=Phase.LOADING_MODEL):
            return "loading the model"
        case Retrying():
            tries = f"attempt {event.attempt} of {event.attempts} in {event.delay:.1f} s"
            if event.profile:
                tries = f"asking {event.profile} instead"
            return f"{_place(event)}: {event.reason.removesuffix('.')}; {tries}"
        case CompletionFinished():
            return f"{_place(event)}: {_figures(event)}"
        case ToolCalled():
            return f"{_place(event)}: {_call(event)}"
        case BranchFailed():
            return f"{_place(event)}: failed: {event.error.message}"
        case StopProved():
            return f"{_place(event)}: stopped; {stop_text(event)}"
        case Warned() | PromptShortened():
            return f"warning: {event.message}"
        case _:
            return ""


def _call(event: ToolCalled) -> str:
    line = " ".join(f"🔧 {event.name}({event.arguments}) → {event.output}".split())
    return line if len(line) <= 120 else f"{line[:119]}…"


def summary_lines(event: RunFinished) -> list[str]:
    """Trace of each result, then the statistics line."""
    lines = [f"trace       {result.trace_unfolded or result.trace}" for result in event.results]
    figures = event.statistics
    tps = _tps(figures)
    cached = f" (+{figures.cached_prompts} from the cache)" if figures.cached_prompts else ""
    lines.append(
        f"statistics  {event.status}: {_requests(figures)}{cached}, {figures.in_tokens} tokens in"
        f" (+{figures.cached_in_tokens} cached), {figures.out_tokens} out (+{figures.reasoning_out_tokens} reasoning),"
        f" {figures.effective_seconds:.1f} s, {tps['out_tps']} tok/s,"
        f" {_cost(figures)}"
    )
    if (before := event.before) is not None:
        lines.append(f"before      {_requests(before)}, {before.in_tokens} tokens in, {_cost(before)}")
    if event.reason:
        lines.append(f"reason      {event.reason}")
    return lines


_JSON = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def run_json(event: RunFinished, warnings: list[str]) -> str:
    """The document of `run --json` (docs/cli.md)."""
    figures = event.statistics
    document = {
        "run_id": event.run_id,
        "status": event.status,
        "outputs": event.outputs,
        "results": [_result_json(result) for result in event.results],
        "statistics": {
            "requests": figures.requests,
            "cached_prompts": figures.cached_prompts,
            "in_tokens": figures.in_tokens,
            "cached_in_tokens": figures.cached_in_tokens,
            "out_tokens": figures.out_tokens,
            "reasoning_out_tokens": figures.reasoning_out_tokens,
            "request_seconds": round(figures.seconds, 3),
            "effective_seconds": round(figures.effective_seconds, 3),
            **{key: float(text) for key, text in _tps(figures).items()},
            "cost": figures.cost,
            "cost_provenance": figures.provenance,
        },
        "agents": [
            {
                "name": name,
                "requests": agent.requests,
                "in_tokens": agent.in_tokens,
                "out_tokens": agent.out_tokens,
                "seconds": round(agent.seconds, 3),
                "cost": agent.cost,
            }
            for name, agent in event.agents.items()
        ],
        "warnings": warnings,
    }
    return msgspec.json.format(_JSON.encode(document), indent=2).decode()


def _result_json(result: RunResult) -> dict[str, object]:
    error = None
    if result.error is not None:
        error = {"type": result.error.type, "agent": result.error_agent, "message": result.error.message}
    return {"trace": result.trace, "context": result.context, "error": error}


def _tps(figures: Statistics) -> dict[str, str]:
    milliseconds = round(figures.effective_seconds * 1000)
    out = figures.out_tokens + figures.reasoning_out_tokens
    return {
        "tps": per_second_text(figures.in_tokens + out, milliseconds),
        "out_tps": per_second_text(out, milliseconds),
    }


def _place(event: AnyEvent) -> str:
    return f"{event.agent} {event.branch}".rstrip()


def _requests(figures: Statistics) -> str:
    return counted(figures.requests, "request")


def _cost(figures: Statistics) -> str:
    return cost_text(figures.cost, figures.provenance, unknown="cost unknown")


def _figures(event: CompletionFinished) -> str:
    figures = event.statistics
    sign = "~" if figures.estimated else ""
    if figures.cached_prompts:
        return f"from the cache, {sign}{figures.out_tokens} tokens"
    reasoning = f" (+{figures.reasoning_out_tokens} reasoning)" if figures.reasoning_out_tokens else ""
    return (
        f"{figures.seconds:.1f} s, {sign}{figures.in_tokens + figures.cached_in_tokens} → {sign}{figures.out_tokens}"
        f"{reasoning} tokens, {_cost(figures)}"
    )
