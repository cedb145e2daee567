"""Rounds of tool calls: runs what an answer asks for, so that the model can go on (docs/tools.md)."""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic, time

from engine.completion import Completion
from engine.conversation import ToolCall, ToolChoice, ToolResult, ToolUse
from engine.errors import BudgetExceeded
from engine.events import ToolCalled, Warned
from engine.flow.agent import Agent
from engine.flow.context import Context
from engine.flow.handlers import Handler
from engine.flow.place import Emit, Place, send
from engine.flow.tools import AllowTool, Offer, Outcome, holds_outside_text, outside_text, run_tool
from engine.redaction import SECRETS

log = logging.getLogger(__name__)

TOOLS_KEY = "_toolCallData"
"""A context key that holds a ToolChoice or an Offer replaces the tools of the next agents."""
AT_ONCE = 5
"""Calls of one answer that run at the same time."""
NO_RESULT = "Error: the call gave no result"


def offer_for(agent: Agent, context: Context) -> Offer | None:
    """The tools of a step: those in the context, the agent's own, or those of an earlier agent; None without any."""
    own = agent.offer(context)
    offer = own or (context.tools.choosing(ToolUse.AUTO) if context.tools is not None else None)
    if given := context.get(TOOLS_KEY):
        choice = given[0]
        if isinstance(choice, Offer):
            offer = choice
        elif isinstance(choice, ToolChoice):
            # What runs is looked up by name in what the agents bring along.
            offer = Offer(choice=choice, tools=offer.tools if offer else {})
        else:
            raise TypeError(f"{TOOLS_KEY} holds a {type(choice).__name__}, expected a ToolChoice")
    return offer if offer is not None and offer.choice.tools else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a run is that is only played again: no tool runs in it."""

    run_id: str
    """The run that was recorded."""
    results: Sequence[tuple[ToolCall, Outcome]] = field(default=())
    """What its tools gave, in order."""


class TapedResults:
    """Gives what tools gave in a recorded run, each result once."""

    def __init__(self, results: Iterable[tuple[ToolCall, Outcome]]) -> None:
        self._results: dict[tuple[str, str], deque[tuple[str, Outcome]]] = {}
        for call, outcome in results:
            self._results.setdefault((call.name, call.arguments), deque()).append((call.id, outcome))

    def take(self, call: ToolCall) -> Outcome:
        """The result of the same call, best of the same id: those that are made up here are others each time."""
        waiting = self._results.get((call.name, call.arguments))
        if not waiting:
            return Outcome(f"Error: The tape has no result of {call.name}({call.arguments}).", failed=True)
        found = next((one for one in waiting if one[0] == call.id), waiting[0])
        waiting.remove(found)
        return found[1]

    def has(self, calls: Iterable[ToolCall]) -> bool:
        """Whether there is a result of each."""
        return all(self._results.get((call.name, call.arguments)) for call in calls)


class ToolRounds:
    """Runs the calls of all branches of one walk, within the number it may make."""

    def __init__(self, emit: Emit, most: int, allow: AllowTool) -> None:
        self._emit = emit
        self._most = most
        self._allow = allow
        self._calls = 0
        self.known: dict[tuple[str, str, str], tuple[str, bool]] = {}
        """What calls gave before the run broke off, by id, name and arguments: output, and whether it failed."""
        self.taped: TapedResults | None = None
        """In a replay: no tool runs, and no function of a handler."""

    async def run(
        self, offer: Offer, handler: Handler, completion: Completion, context: Context, place: Place
    ) -> list[ToolResult] | None:
        """One result per call, in the order of the calls; None when the handler takes the answer for the final one.

        Raises BudgetExceeded before a call that is one too many for the run.
        """
        calls = completion.tool_calls
        self._count(len(calls))
        try:
            replayed = self.taped is not None and self.taped.has(calls)
            own = None if replayed else await handler.call_tools(completion, context)
        except Exception as exc:
            log.warning("%s raised while it ran tools", type(handler).__name__, exc_info=exc)
            reason = SECRETS.hide(f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__)
            own = [ToolResult(call_id=call.id, output=f"Error: {reason}", failed=True) for call in calls]
        if own is not None:
            return await self._given(calls, own, place)
        if not (offer.tools or replayed):
            return None
        turns = context.conversation.turns if context.conversation is not None else ()
        token = outside_text.set(holds_outside_text(turns, offer.tools))
        try:
            return await self._run(offer, calls, place)
        finally:
            outside_text.reset(token)

    def _count(self, calls: int) -> None:
        if self._calls + calls > self._most:
            raise BudgetExceeded(
                f"The run has called {self._calls} tools and may call {self._most}; the model asks for {calls} more.",
                hint="Look for a model that never stops calling, or raise the limit of tool calls.",
                facts={"limit": "max_tool_calls", "spent": str(self._calls)},
            )
        self._calls += calls

    async def _given(self, calls: Sequence[ToolCall], results: Sequence[ToolResult], place: Place) -> list[ToolResult]:
        """What a handler's own function made of the calls; each has a result in the end."""
        by_id = {result.call_id: result for result in reversed(results)}
        complete = [by_id.get(call.id) or ToolResult(call_id=call.id, output=NO_RESULT, failed=True) for call in calls]
        for call, result in zip(calls, complete, strict=True):
            await self._tell(call, Outcome(result.output, result.failed), 0.0, place)
        return complete

    async def _run(self, offer: Offer, calls: Sequence[ToolCall], place: Place) -> list[ToolResult]:
        """Run what is the same once, the others side by side."""
        room = asyncio.Semaphore(AT_ONCE)
        different = {_signature(call): call for call in reversed(calls)}

        async def one(call: ToolCall) -> tuple[Outcome, float]:
            async with room:
                began = monotonic()
                return await self._outcome(offer, call, place), monotonic() - began

        async with asyncio.TaskGroup() as group:
            running = {key: group.create_task(one(call)) for key, call in reversed(different.items())}
        results = []
        for call in calls:
            outcome, seconds = running[_signature(call)].result()
            await self._tell(call, outcome, seconds, place)
            results.append(ToolResult(call_id=call.id, output=outcome.output, failed=outcome.failed))
        return results

    async def _outcome(self, offer: Offer, call: ToolCall, place: Place) -> Outcome:
        if self.known and (found := self.known.pop((call.id, call.name, call.arguments), None)) is not None:
            return Outcome(*found)
        if self.taped is not None:
            return self.taped.take(call)
        tool = offer.tools.get(call.name)
        if tool is not None:
            return await run_tool(tool, call, self._allow)
        known = ", ".join(offer.choice.names)
        message = f'The model called the tool "{call.name}", which it does not have; it has: {known}.'
        await send(self._emit, Warned(time=time(), message=message, **place))
        return Outcome(f"Error: Unknown tool {call.name}. Available: {known}", failed=True)

    async def _tell(self, call: ToolCall, outcome: Outcome, seconds: float, place: Place) -> None:
        event = ToolCalled(
            time=time(),
            name=call.name,
            arguments=call.arguments,
            output=outcome.output,
            failed=outcome.failed,
            call_id=call.id,
            seconds=seconds,
            **place,
        )
        await send(self._emit, event)


def unique_ids(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls, none with the id of another: a result belongs to one call."""
    seen: set[str] = set()
    unique = []
    for call in calls:
        call_id, number = call.id, 2
        while call_id in seen:
            call_id, number = f"{call.id}_{number}", number + 1
        seen.add(call_id)
        unique.append(call if call_id == call.id else replace(call, id=call_id))
    return tuple(unique)


def _signature(call: ToolCall) -> tuple[str, str]:
    """The same for calls that ask for the same."""
    try:
        return call.name, json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return call.name, call.arguments
