"""Asks a model for one branch: attempts, streaming, the handler, what it cost."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from decimal import Decimal
from time import time

import msgspec

from engine.completion import Chunk, Completer, Completion, FinishReason, Stream
from engine.conversation import Conversation, Role, ToolChoice, ToolUse, Turn
from engine.cut_calls import CutCall, current_cuts
from engine.errors import BudgetExceeded, EngineError, FlowError, HandlerError, RequestError, ServerError, ToolError
from engine.events import (
    CacheHit,
    ChunkReceived,
    CompletionFinished,
    HandlerFailed,
    PhaseChanged,
    PromptReady,
    PromptShortened,
    RequestFailed,
    RequestFormed,
    Retrying,
    Statistics,
    Warned,
)
from engine.flow import trace as symbol
from engine.flow.agent import Agent
from engine.flow.context import Context
from engine.flow.frozen import FrozenAgents, GivenAnswer
from engine.flow.handlers import Again, Handler, HandlerResult
from engine.flow.place import Emit, Place, send
from engine.flow.tool_rounds import ToolRounds, offer_for, unique_ids
from engine.flow.tools import AllowTool, Offer, can_call_tools, refuse
from engine.flow.trace import Kind
from engine.messages import raw_prompt
from engine.process_memory import resident_bytes
from engine.profile import ModelProfile, Provider
from engine.reasoning_audit import audit
from engine.statistics import RequestStatistic
from engine.struct_parse import raw_text

log = logging.getLogger(__name__)

ATTEMPTS = 2
MAX_CORRECTIONS = 2
"""How often a model is told in one step that its calls cannot be read."""
MAX_PASSES = 10
"""How often the attempts of one branch are started over at most."""

FINISH_SYMBOLS = {
    FinishReason.TOKEN_LIMIT_REACHED: symbol.TOKEN_LIMIT,
    FinishReason.CONTENT_FILTERED: symbol.FILTERED,
    FinishReason.TOOL_CALLS: symbol.TOOL_CALLS,
    FinishReason.ERROR: symbol.ERROR,
}


@dataclass(slots=True, kw_only=True)
class Asking:
    """One branch that asks a model."""

    agent: Agent
    profile: ModelProfile
    context: Context
    place: Place
    skip_cache: bool
    account: str
    """The agent what it uses is counted under."""
    offer: Offer | None = None
    """The tools the model may call."""
    request: int = 0
    """Number of the request within the branch; events call it the attempt."""
    corrections: int = 0
    """How often the model was told that its calls cannot be read."""
    rounds: int = 0
    """Rounds of tool calls so far."""
    given: GivenAnswer | None = None
    """The answer of a frozen agent."""
    failed: bool = False
    """Whether an answer was of no use: the next one is not taken from the cache."""


class RequestLoop:
    """Asks models for all branches of one walk, and adds up what that costs."""

    def __init__(
        self,
        completer: Completer,
        emit: Emit,
        max_cost: Decimal | None,
        *,
        max_tool_calls: int = 100,
        allow_tool: AllowTool = refuse,
    ) -> None:
        self._completer = completer
        self._emit = emit
        self._max_cost = max_cost
        self.tool_rounds = ToolRounds(emit, max_tool_calls, allow_tool)
        self._spent = Decimal(0)
        self.frozen: FrozenAgents | None = None
        """Agents whose recorded answers are used."""
        self.cut: list[tuple[Place, int, CutCall]] = []
        """Calls that were cancelled: where, which attempt, and what was cut."""
        self.by_agent: dict[str, RequestStatistic] = {}
        """Totals of this walk by agent name."""

    async def ask(self, agent: Agent, profile: ModelProfile, context: Context, place: Place, account: str = "") -> None:
        """Request until the handler is content; `account` is the agent it is counted under, missing: this one.

        Raises HandlerError when it never was, otherwise what the request or a limit raised. The text of a broken answer
        stays in `context.last` and in the keys the handler keeps it in.
        """
        if context.conversation is None or not context.conversation.turns:
            raise FlowError(
                f'"{agent.name}" has nothing to send: its prompts are empty.',
                hint="Give it a template or a system prompt.",
            )
        asking = Asking(
            agent=agent,
            profile=profile,
            context=context,
            place=place,
            skip_cache=agent.skip_cache or context.skip_cache or context.always_skip_cache,
            account=account or agent.name,
        )
        context.skip_cache = False
        await self._offer_tools(asking)
        failure: EngineError | None = None
        for attempt in range(1, ATTEMPTS * min(1 + agent.retry_on_parsing_error, MAX_PASSES) + 1):
            if attempt % ATTEMPTS == 1:
                asking.rounds = 0
            failure = await self._attempt(asking)
            if failure is None:
                return
            asking.failed = True
            if attempt % ATTEMPTS == 0 and not isinstance(failure, HandlerError):
                break
        context.trace = context.trace.add(Kind.FATAL, symbol.FATAL)
        if failure is not None:
            raise failure

    async def _offer_tools(self, asking: Asking) -> None:
        agent, context, profile = asking.agent, asking.context, asking.profile
        offer = offer_for(agent, context)
        if offer is None:
            return
        if can_call_tools(profile):
            asking.offer = context.tools = offer
        elif agent.offer(context) is not None:
            message = (
                f'"{agent.name}" has tools, but the profile "{profile.name}" takes none: it is asked without them.'
            )
            await send(self._emit, Warned(time=time(), message=message, **asking.place))

    async def _attempt(self, asking: Asking) -> EngineError | None:
        """One request, with the rounds of tool calls it leads to, and its handling; why its answer is of no use."""
        context = asking.context
        while True:
            handler = asking.agent.handler(context)
            completion = await self._ask_once(asking, handler)
            if completion.finish_reason is FinishReason.ERROR:
                return self._ended_with_error(asking, handler, completion)
            if completion.call_errors and not completion.tool_calls:
                self._correct_calls(asking, completion)
            elif not completion.tool_calls or not await self._call_tools(asking, handler, completion):
                return await self._handle(asking, handler, context.last or completion)

    def _correct_calls(self, asking: Asking, completion: Completion) -> None:
        """Tell the model that its calls could not be read; raises ToolError when it was told often enough."""
        if asking.corrections >= MAX_CORRECTIONS:
            raise ToolError(
                f'The model writes tool calls that cannot be read ("{asking.agent.name}").',
                hint="Use a model that calls tools natively, or say in the prompt how a call is written.",
                facts={"kind": "bad_tool_json", "answer": completion.content[:500]},
            )
        asking.corrections += 1
        conversation = asking.context.conversation or Conversation()
        answer = Turn(role=Role.ASSISTANT, text=raw_text(completion))
        asking.context.conversation = conversation.add(answer).add_user("\n\n".join(completion.call_errors))

    async def _ask_once(self, asking: Asking, handler: Handler) -> Completion:
        conversation = asking.context.conversation or Conversation()
        self._check_cost()
        asking.request += 1
        if (full := self._emit(_prompt_ready(asking, conversation))) is not None:
            await full
        completion = await self._request(asking, conversation, handler)
        await self._count(asking, completion)
        return completion

    def _ended_with_error(self, asking: Asking, handler: Handler, completion: Completion) -> EngineError:
        """Why an answer with this finish reason is of no use; raises when it holds text, which is kept."""
        profile = asking.profile
        failure = ServerError(
            f'The model "{profile.name}" ended its answer with an error.',
            hint="Try again; if it stays, look at the server's own log.",
            facts={"profile": profile.name, "url": profile.url, "finish reason": completion.finish_raw},
            partial=completion.content,
            partial_reasoning=completion.reasoning,
        )
        if completion.content:
            handler.keep(completion, asking.context)
            raise failure
        return failure

    async def _call_tools(self, asking: Asking, handler: Handler, completion: Completion) -> bool:
        """Run the calls of an answer and put them into the conversation; whether the model is asked again."""
        offer, context, agent = asking.offer, asking.context, asking.agent
        if offer is None or not handler.calls_tools:
            return False
        if asking.rounds >= agent.max_tool_rounds:
            raise ToolError(
                f'The model still calls tools after {asking.rounds} rounds, which is all "{agent.name}" allows.',
                hint="Raise the limit of rounds, or say in the prompt when to stop calling.",
                facts={"limit": "max_tool_call_rounds", "spent": str(asking.rounds)},
            )
        completion = context.last = replace(completion, tool_calls=unique_ids(completion.tool_calls))
        results = await self.tool_rounds.run(offer, handler, completion, context, asking.place)
        if results is None:
            return False
        if completion.call_errors:
            last = results[-1]
            results[-1] = replace(last, output="\n\n".join([last.output, *completion.call_errors]))
        asking.rounds += 1
        asking.offer = offer.choosing(ToolUse.AUTO)
        conversation = context.conversation or Conversation()
        context.conversation = conversation.add_tool_round(
            completion.content, completion.tool_calls, results, kept=completion.kept, origin=completion.origin
        )
        return True

    async def _handle(self, asking: Asking, handler: Handler, completion: Completion) -> EngineError | None:
        """Let the handler use a final answer; why it could not."""
        agent, context, place = asking.agent, asking.context, asking.place
        if completion.tool_calls:
            names = ", ".join(call.name for call in completion.tool_calls)
            message = f"The model called tools that nothing runs here ({names}): the calls were dropped."
            await send(self._emit, Warned(time=time(), message=message, **place))
            completion = context.last = replace(completion, tool_calls=())
        if asking.offer is not None and asking.offer.is_demanded and handler.calls_tools:
            names = ", ".join(asking.offer.choice.names)
            result: HandlerResult = Again("it calls no tool, though it must", f"Call one of your tools: {names}.")
        else:
            result = await _handled(handler, completion, context)
        if not isinstance(result, Again):
            if result.warning:
                await send(self._emit, Warned(time=time(), message=result.warning, **place))
            return None
        context.trace = context.trace.add(Kind.RETRY, symbol.RETRY)
        if result.correction:
            context.conversation = corrected(context.conversation or Conversation(), completion, result)
        await send(self._emit, HandlerFailed(time=time(), attempt=asking.request, reason=result.reason, **place))
        return HandlerError(
            f'The answer to "{agent.name}" could not be used: {result.reason}',
            hint="Say in the prompt exactly what form is wanted, or use a stronger model.",
            facts={"attempts": str(asking.request), "answer": completion.content[:500]},
        )

    def _opened(
        self, asking: Asking, conversation: Conversation, tools: ToolChoice | None
    ) -> AbstractAsyncContextManager[Stream]:
        """The stream of the answer: a kept one for a frozen agent."""
        agent, place = asking.agent, asking.place
        if self.frozen is not None:
            found = self.frozen.given(agent, asking.profile, conversation, place["step"], place["branch"])
            asking.given = found
            if found is not None:
                return found.stream
        return self._completer.stream(
            asking.profile,
            conversation,
            overrides=agent.overrides or None,
            tools=tools,
            skip_cache=asking.skip_cache or asking.failed,
        )

    async def _request(self, asking: Asking, conversation: Conversation, handler: Handler) -> Completion:
        agent, context, place, attempt = asking.agent, asking.context, asking.place, asking.request
        content: list[str] = []
        reasoning: list[str] = []
        live = agent.stream and context.streaming
        stream: Stream | None = None
        tools = None
        if asking.offer is not None:
            tools = (asking.offer if handler.calls_tools else asking.offer.choosing(ToolUse.NONE)).choice
        cuts: list[CutCall] = []
        current_cuts.set(cuts)
        try:
            async with self._opened(asking, conversation, tools) as stream:
                async for chunk in stream:
                    if chunk.phase or chunk.retry or chunk.shortened or chunk.formed:
                        await self._progress(chunk, place, attempt)
                    if chunk.content or chunk.reasoning:
                        if live and not content:
                            handler.before_stream(context)
                        content.append(chunk.content)
                        reasoning.append(chunk.reasoning)
                        if live:
                            handler.on_chunk(chunk, context)
                            event = ChunkReceived(
                                time=time(), content=chunk.content, reasoning=chunk.reasoning, attempt=attempt, **place
                            )
                            if (full := self._emit(event)) is not None:
                                await full
                for warning in stream.warnings:
                    await send(self._emit, Warned(time=time(), message=warning, **place))
                return stream.completion
        except BaseException as exc:
            partial = _partial(stream, exc, content, reasoning)
            if partial.content or partial.reasoning:
                self._add(asking.account, context, partial)
                handler.keep(partial, context)
            # Nobody waits for room here: stopping a run does not depend on who reads its events.
            self._emit(_broken_off(asking, partial, exc))
            if isinstance(exc, asyncio.CancelledError) and cuts:
                self.cut.append((place, attempt, cuts[-1]))
            raise

    async def _progress(self, chunk: Chunk, place: Place, attempt: int) -> None:
        if chunk.phase is not None:
            await send(self._emit, PhaseChanged(time=time(), phase=chunk.phase, attempt=attempt, **place))
        if chunk.formed is not None:
            await send(self._emit, RequestFormed(time=time(), attempt=attempt, request=chunk.formed, **place))
        if (cut := chunk.shortened) is not None:
            await send(
                self._emit,
                PromptShortened(
                    time=time(),
                    attempt=attempt,
                    before=cut.before,
                    after=cut.after,
                    budget=cut.budget,
                    dropped=cut.dropped,
                    shrunk=cut.shrunk,
                    message=cut.message,
                    **place,
                ),
            )
        if (retry := chunk.retry) is not None:
            await send(
                self._emit,
                Retrying(
                    time=time(),
                    attempt=retry.attempt,
                    attempts=retry.attempts,
                    delay=retry.delay,
                    reason=retry.reason,
                    profile=retry.profile,
                    **place,
                ),
            )

    async def _count(self, asking: Asking, completion: Completion) -> None:
        context = asking.context
        self._add(asking.account, context, completion)
        used = completion.statistics
        context.trace = context.trace.add(Kind.DURATION, f"({round(used.duration * 1000)} ms)")
        finish = FINISH_SYMBOLS.get(completion.finish_reason)
        if finish is not None:
            context.trace = context.trace.add(Kind.FINISH, finish)
        if (kept := asking.given) is not None:
            context.trace = context.trace.add(Kind.FINISH, symbol.FROZEN)
            await send(self._emit, CacheHit(time=time(), frozen_from=kept.run_id, stale=kept.stale, **asking.place))
        elif used.cached:
            await send(self._emit, CacheHit(time=time(), **asking.place))
        if completion.skipped_chunks:
            await send(
                self._emit, Warned(time=time(), message=_skipped_text(completion.skipped_chunks), **asking.place)
            )
        if completion.from_thinking:
            message = f'The thinking of "{asking.agent.name}" is taken as its answer.'
            await send(self._emit, Warned(time=time(), message=message, **asking.place))
        await send(self._emit, _finished(asking, completion))

    def _add(self, agent: str, context: Context, completion: Completion) -> None:
        context.last = completion
        context.attempts += 1
        context.statistic.add(completion.statistics)
        own = self.by_agent.get(agent)
        if own is None:
            own = self.by_agent[agent] = RequestStatistic()
        own.add(completion.statistics)
        self._spent += completion.statistics.cost

    def _check_cost(self) -> None:
        # A limit of 0 still lets free models answer.
        if self._max_cost is not None and self._spent and self._spent >= self._max_cost:
            raise BudgetExceeded(
                f"The run has spent {self._spent} of the {self._max_cost} it may cost.",
                hint="Raise the limit of the flow, or use a cheaper model.",
                facts={"limit": "max_cost", "spent": str(self._spent)},
            )


def _prompt_ready(asking: Asking, conversation: Conversation) -> PromptReady:
    parameters = asking.agent.overrides
    if asking.offer is not None:
        parameters = {**parameters, "tools": list(asking.offer.choice.names)}
    raw = raw_format = ""
    if asking.profile.provider == Provider.OPENAI_TEXT:
        raw, raw_format = raw_prompt(asking.profile, conversation.turns, asking.agent.overrides)
    return PromptReady(
        time=time(),
        attempt=asking.request,
        profile=asking.profile.name,
        turns=conversation.shown,
        parameters=parameters,
        raw=raw,
        raw_format=raw_format,
        **asking.place,
    )


def _finished(asking: Asking, completion: Completion) -> CompletionFinished:
    return CompletionFinished(
        time=time(),
        attempt=asking.request,
        profile=completion.profile or asking.profile.name,
        model=completion.model,
        content=completion.content,
        reasoning=completion.reasoning,
        finish_reason=completion.finish_reason,
        statistics=Statistics.of_call(completion.statistics),
        no_answer=completion.no_answer,
        finish_raw=completion.finish_raw,
        tool_calls=completion.tool_calls,
        kept=completion.kept,
        origin=completion.origin,
        attempts=completion.attempts,
        provider=completion.provider or asking.profile.provider,
        skipped_chunks=completion.skipped_chunks,
        memory=resident_bytes(),
        audit=audit(completion),
        from_thinking=completion.from_thinking,
        **asking.place,
    )


def _broken_off(asking: Asking, partial: Completion, exc: BaseException) -> CompletionFinished | RequestFailed:
    """The event of an attempt that was not answered whole."""
    attempts = (exc.attempts if isinstance(exc, RequestError) else ()) or partial.attempts
    outcome = attempts[-1].outcome if attempts and isinstance(exc, RequestError) else type(exc).__name__
    error = outcome if isinstance(exc, Exception) else "cancelled"
    if partial.content or partial.reasoning:
        return msgspec.structs.replace(_finished(asking, partial), error=error, attempts=attempts)
    return RequestFailed(
        time=time(),
        attempt=asking.request,
        profile=partial.profile or asking.profile.name,
        model=partial.model or asking.profile.model,
        error=error,
        statistics=Statistics.of_call(partial.statistics),
        attempts=attempts,
        provider=partial.provider or asking.profile.provider,
        memory=resident_bytes(),
        **asking.place,
    )


async def _handled(handler: Handler, completion: Completion, context: Context) -> HandlerResult:
    try:
        return await handler.handle(completion, context)
    except Exception as exc:
        if not isinstance(exc, EngineError):
            log.warning("%s raised", type(handler).__name__, exc_info=exc)
        return Again(str(exc) or type(exc).__name__)


def corrected(conversation: Conversation, completion: Completion, again: Again) -> Conversation:
    """Append the bad answer and what the model is told about it."""
    return conversation.add_assistant(completion.content).add_user(again.correction)


def _partial(stream: Stream | None, exc: BaseException, content: Sequence[str], reasoning: Sequence[str]) -> Completion:
    """What had arrived of an answer that broke off, with what it cost as far as the stream knows."""
    arrived = Completion() if stream is None else stream.so_far
    text, thinking = "".join(content) or arrived.content, "".join(reasoning) or arrived.reasoning
    if isinstance(exc, RequestError):
        text, thinking = text or exc.partial, thinking or exc.partial_reasoning
    finish = FinishReason.ERROR if isinstance(exc, Exception) else FinishReason.STOPPED
    return replace(arrived, content=text, reasoning=thinking, finish_reason=finish, tool_calls=(), no_answer=False)


def _skipped_text(count: int) -> str:
    events = "1 event of the answer was" if count == 1 else f"{count} events of the answer were"
    return f"{events} malformed and passed over: words may be missing."
