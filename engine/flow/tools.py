"""Tools: what a model may call, what then runs, and what the model is told of it (docs/tools.md)."""

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from types import MappingProxyType

from engine.conversation import Role, ToolCall, ToolChoice, ToolDefinition, ToolUse, Turn
from engine.daemon_thread import call_in_thread, forget
from engine.flow import json_schema
from engine.profile import ModelProfile, Provider
from engine.redaction import SECRETS

log = logging.getLogger(__name__)

LONGEST_OUTPUT = 10_000
"""Characters of a result the model is given."""
PATIENCE = 1.0
"""Seconds a tool has to end after it was cancelled; then it is left to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that runs here: the function gets the arguments by name, plain or async; its result becomes text."""

    definition: ToolDefinition
    function: Callable[..., object]
    timeout: float = 300.0
    """Seconds for one call."""
    side_effects: bool = False
    """Whether it writes, sends or pays for something; such a tool only runs when it was allowed."""

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return self.definition.name


AllowTool = Callable[[Tool, ToolCall], Awaitable[bool] | bool]
"""Asked before a tool with side effects runs."""
outside_text: ContextVar[bool] = ContextVar("outside_text", default=False)
"""Whether the conversation that makes a call holds what a tool brought from outside: a text that may tell the model
what to do. Then an AllowTool asks anew, whatever was allowed before."""


def refuse(_tool: Tool, _call: ToolCall) -> bool:
    """Allow no tool that has side effects."""
    return False


def allow_named(names: Iterable[str]) -> AllowTool:
    """Allow the tools of these names."""
    allowed = frozenset(names)
    return lambda tool, _: tool.name in allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The tools of one step: what the model is told, and those of them that run here, by name."""

    choice: ToolChoice
    tools: Mapping[str, Tool] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, tools: Iterable[Tool | ToolDefinition], use: ToolUse = ToolUse.AUTO, forced: str = "") -> "Offer":
        """Offer tools, and definitions whose calls the handler runs."""
        given = tuple(tools)
        return cls(
            choice=ToolChoice(
                tools=tuple(tool.definition if isinstance(tool, Tool) else tool for tool in given),
                use=use,
                forced=forced,
            ),
            tools=MappingProxyType({tool.name: tool for tool in given if isinstance(tool, Tool)}),
        )

    @property
    def is_demanded(self) -> bool:
        """Whether the model must call one."""
        return bool(self.choice.forced) or self.choice.use is ToolUse.REQUIRED

    def choosing(self, use: ToolUse) -> "Offer":
        """The same tools with another choice."""
        choice = self.choice.choosing(use)
        return self if choice is self.choice else replace(self, choice=choice)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of running a tool."""

    output: str
    failed: bool = False


def holds_outside_text(turns: Sequence[Turn], tools: Mapping[str, Tool]) -> bool:
    """Whether a result stands among the turns that does not come from a tool which only computes."""
    names = {call.id: call.name for turn in turns for call in turn.tool_calls}
    results = (tools.get(names.get(turn.tool_call_id, "")) for turn in turns if turn.role is Role.TOOL)
    return any(tool is None or tool.side_effects for tool in results)


def can_call_tools(profile: ModelProfile) -> bool:
    """Whether the profile's model is offered tools: natively, or described in the prompt."""
    options = profile.options
    if options.function_call_type == "struct_parse":
        return True
    return (
        options.supports_tools
        and options.function_call_type == "function_call"
        and profile.provider != Provider.OPENAI_TEXT
    )


async def run_tool(tool: Tool, call: ToolCall, allow: AllowTool) -> Outcome:
    """Check the arguments, run the tool within its time; whatever goes wrong becomes a text the model can use."""
    arguments = read_arguments(tool, call)
    if isinstance(arguments, str):
        return Outcome(arguments, failed=True)
    try:
        if tool.side_effects and not await _settled(allow(tool, call)):
            return Outcome(f"Error: {tool.name} was not allowed.", failed=True)
        return Outcome(output_text(await _within(tool, arguments)))
    except TimeoutError:
        return Outcome(f"Error: {tool.name} took longer than {tool.timeout:g} seconds.", failed=True)
    except Exception as exc:
        log.info("the tool %s failed", tool.name, exc_info=exc)
        reason = SECRETS.hide(f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__)
        return Outcome(shortened(f"Error: {tool.name} failed: {reason}"), failed=True)


def read_arguments(tool: Tool, call: ToolCall) -> dict[str, object] | str:
    """The arguments of a call, or what is wrong with them."""
    try:
        arguments = json.loads(call.arguments) if call.arguments.strip() else {}
    except (ValueError, RecursionError) as exc:
        return f"Error: Arguments are not valid JSON: {exc}"
    if not isinstance(arguments, dict):
        return "Error: Arguments are not valid JSON: expected an object"
    faults = list(islice(json_schema.faults(arguments, tool.definition.parameters), 5))
    return f"Error: Arguments do not fit the tool {tool.name}: {'; '.join(faults)}" if faults else arguments


def output_text(value: object) -> str:
    """A result as the model gets it: texts as they are, anything else as JSON, long ones cut."""
    if isinstance(value, str):
        return shortened(value)
    return shortened(json.dumps(value, ensure_ascii=False, default=str))


def shortened(text: str) -> str:
    """A text of at most LONGEST_OUTPUT characters and a note about the rest."""
    if len(text) <= LONGEST_OUTPUT:
        return text
    return f"{text[:LONGEST_OUTPUT]}... [truncated, {len(text)} characters total]"


async def _settled(value: Awaitable[bool] | bool) -> bool:
    return await value if inspect.isawaitable(value) else value


async def _within(tool: Tool, arguments: Mapping[str, object]) -> object:
    """Run within the tool's time. What does not end, though cancelled, is left to itself."""
    task = asyncio.ensure_future(_run(tool.function, arguments))
    try:
        done, _ = await asyncio.wait({task}, timeout=tool.timeout)
        if done:
            return _result(task)
        raise TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=PATIENCE)
            task.add_done_callback(lambda late: late.cancelled() or late.exception())


def _result(task: asyncio.Future[object]) -> object:
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()


async def _run(function: Callable[..., object], arguments: Mapping[str, object]) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    done = call_in_thread(partial(function, **arguments), f"tool {getattr(function, '__name__', '')}")
    try:
        result = await done
    except asyncio.CancelledError:
        if done.done() and not done.cancelled() and done.exception() is None:
            forget(done.result())
        raise
    return await result if inspect.isawaitable(result) else result
