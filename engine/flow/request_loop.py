"""Asks a model for one branch: attempts, streaming, the handler, what it cost."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from time import time
from typing import TypedDict

from engine.completion import Chunk, Completer, Completion, FinishReason, Stream
from engine.conversation import Conversation
from engine.errors import BudgetExceeded, EngineError, FlowError, HandlerError, RequestError, ServerError
from engine.events import (
    AnyEvent,
    CacheHit,
    ChunkReceived,
    CompletionFinished,
    HandlerFailed,
    PhaseChanged,
    PromptReady,
    Retrying,
    Statistics,
    Warned,
)
from engine.flow import trace as symbol
from engine.flow.agent import Agent
from engine.flow.context import Context
from engine.flow.handlers import Again, Handler, HandlerResult
from engine.flow.trace import Kind
from engine.profile import ModelProfile
from engine.statistics import RequestStatistic

log = logging.getLogger(__name__)

Emit = Callable[[AnyEvent], Awaitable[None] | None]
"""Takes an event. Returns None when there was room for it, else an awaitable that ends when there is, which may be
dropped. Never raises."""

ATTEMPTS = 2
MAX_PASSES = 10
"""How often the attempts of one branch are started over at most."""

FINISH_SYMBOLS = {
    FinishReason.TOKEN_LIMIT_REACHED: symbol.TOKEN_LIMIT,
    FinishReason.CONTENT_FILTERED: symbol.FILTERED,
    FinishReason.TOOL_CALLS: symbol.TOOL_CALLS,
    FinishReason.ERROR: symbol.ERROR,
}


class Place(TypedDict):
    """The fields that place an event: one branch of one agent execution."""

    run_id: str
    agent: str
    step: int
    branch: str


@dataclass(slots=True, kw_only=True)
class Asking:
    """One branch that asks a model."""

    agent: Agent
    profile: ModelProfile
    context: Context
    place: Place
    skip_cache: bool


class RequestLoop:
    """Asks models for all branches of one walk, and adds up what that costs."""

    def __init__(self, completer: Completer, emit: Emit, max_cost: Decimal | None) -> None:
        self._completer = completer
        self._emit = emit
        self._max_cost = max_cost
        self._spent = Decimal(0)
        self.by_agent: dict[str, RequestStatistic] = {}
        """Totals of this walk by agent name."""

    async def ask(self, agent: Agent, profile: ModelProfile, context: Context, place: Place) -> None:
        """Request until the handler is content.

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
            skip_cache=agent.skip_cache or context.skip_cache,
        )
        context.skip_cache = False
        failure: EngineError | None = None
        for attempt in range(1, ATTEMPTS * min(1 + agent.retry_on_parsing_error, MAX_PASSES) + 1):
            failure = await self._attempt(asking, attempt)
            if failure is None:
                return
            if attempt % ATTEMPTS == 0 and not isinstance(failure, HandlerError):
                break
        context.trace = context.trace.add(Kind.FATAL, symbol.FATAL)
        if failure is not None:
            raise failure

    async def _attempt(self, asking: Asking, attempt: int) -> EngineError | None:
        """One request and its handling; returns why its answer is of no use."""
        agent, profile, context, place = asking.agent, asking.profile, asking.context, asking.place
        conversation = context.conversation or Conversation()
        self._check_cost()
        handler = agent.handler(context)
        if (full := self._emit(_prompt_ready(asking, conversation, attempt))) is not None:
            await full
        completion = await self._request(asking, conversation, handler, attempt)
        await self._count(asking, attempt, completion)
        if completion.finish_reason is FinishReason.ERROR:
            failure = ServerError(
                f'The model "{profile.name}" ended its answer with an error.',
                hint="Try again; if it stays, look at the server's own log.",
                facts={"profile": profile.name, "url": profile.url, "finish reason": completion.finish_raw},
                partial=completion.content,
                partial_reasoning=completion.reasoning,
            )
            if completion.content:
                handler.keep(completion, context)
                raise failure
            return failure
        if completion.tool_calls:
            names = ", ".join(call.name for call in completion.tool_calls)
            await self._send(
                Warned(time=time(), message=f"The model asked for tools it does not have: {names}.", **place)
            )
            completion = context.last = replace(completion, tool_calls=())
        result = await _handled(handler, completion, context)
        if not isinstance(result, Again):
            return None
        context.trace = context.trace.add(Kind.RETRY, symbol.RETRY)
        if result.correction:
            context.conversation = corrected(context.conversation or conversation, completion, result)
        await self._send(HandlerFailed(time=time(), attempt=attempt, reason=result.reason, **place))
        return HandlerError(
            f'The answer to "{agent.name}" could not be used: {result.reason}',
            hint="Say in the prompt exactly what form is wanted, or use a stronger model.",
            facts={"attempts": str(attempt), "answer": completion.content[:500]},
        )

    async def _request(self, asking: Asking, conversation: Conversation, handler: Handler, attempt: int) -> Completion:
        agent, context, place = asking.agent, asking.context, asking.place
        content: list[str] = []
        reasoning: list[str] = []
        live = agent.stream and context.streaming
        stream: Stream | None = None
        try:
            async with self._completer.stream(
                asking.profile,
                conversation,
                overrides=agent.overrides or None,
                skip_cache=asking.skip_cache or attempt > 1,
            ) as stream:
                async for chunk in stream:
                    if chunk.phase is not None or chunk.retry is not None:
                        await self._progress(chunk, place, attempt)
                    if chunk.content or chunk.reasoning:
                        content.append(chunk.content)
                        reasoning.append(chunk.reasoning)
                        handler.on_chunk(chunk, context)
                        if live:
                            event = ChunkReceived(
                                time=time(), content=chunk.content, reasoning=chunk.reasoning, attempt=attempt, **place
                            )
                            if (full := self._emit(event)) is not None:
                                await full
                for warning in stream.warnings:
                    await self._send(Warned(time=time(), message=warning, **place))
                return stream.completion
        except BaseException as exc:
            partial = _partial(stream, exc, content, reasoning)
            if partial.content or partial.reasoning:
                self._add(agent.name, context, partial)
                handler.keep(partial, context)
                # Nobody waits for room here: stopping a run does not depend on who reads its events.
                self._emit(_finished(asking, attempt, partial))
            raise

    async def _progress(self, chunk: Chunk, place: Place, attempt: int) -> None:
        if chunk.phase is not None:
            await self._send(PhaseChanged(time=time(), phase=chunk.phase, attempt=attempt, **place))
        if (retry := chunk.retry) is not None:
            await self._send(
                Retrying(
                    time=time(),
                    attempt=retry.attempt,
                    attempts=retry.attempts,
                    delay=retry.delay,
                    reason=retry.reason,
                    **place,
                )
            )

    async def _count(self, asking: Asking, attempt: int, completion: Completion) -> None:
        context = asking.context
        self._add(asking.agent.name, context, completion)
        used = completion.statistics
        context.trace = context.trace.add(Kind.DURATION, f"({round(used.duration * 1000)} ms)")
        finish = FINISH_SYMBOLS.get(completion.finish_reason)
        if finish is not None:
            context.trace = context.trace.add(Kind.FINISH, finish)
        if used.cached:
            await self._send(CacheHit(time=time(), **asking.place))
        if completion.skipped_chunks:
            await self._send(Warned(time=time(), message=_skipped_text(completion.skipped_chunks), **asking.place))
        await self._send(_finished(asking, attempt, completion))

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

    async def _send(self, event: AnyEvent) -> None:
        full = self._emit(event)
        if full is not None:
            await full


def _prompt_ready(asking: Asking, conversation: Conversation, attempt: int) -> PromptReady:
    return PromptReady(
        time=time(),
        attempt=attempt,
        profile=asking.profile.name,
        turns=tuple([(turn.role.value, turn.text) for turn in conversation.turns]),
        parameters=asking.agent.overrides,
        **asking.place,
    )


def _finished(asking: Asking, attempt: int, completion: Completion) -> CompletionFinished:
    return CompletionFinished(
        time=time(),
        attempt=attempt,
        profile=completion.profile or asking.profile.name,
        model=completion.model,
        content=completion.content,
        reasoning=completion.reasoning,
        finish_reason=completion.finish_reason,
        statistics=Statistics.of_call(completion.statistics),
        no_answer=completion.no_answer,
        finish_raw=completion.finish_raw,
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
