"""Walks a flow: steps, splits, merges, routes, limits (docs/running-flows.md).

A step is one execution of an agent. Its splits wait in the lane of the profile they ask; a lane has as many workers as
the profile allows requests at a time, so 10,000 splits are 10,000 turns of a few workers, never 10,000 tasks. A worker
that ends a split also takes its context to the next agent, so branches finish one after the other instead of all late.
"""

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Awaitable
from itertools import count
from time import monotonic, time
from typing import TypeVar

from engine.completion import Completer
from engine.errors import BudgetExceeded, EngineError, FlowError, HandlerError
from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    BranchFailed,
    Graded,
    Merged,
    RunFinished,
    RunResult,
    RunStarted,
    SplitStarted,
    Statistics,
    Warned,
)
from engine.flow import trace as symbol
from engine.flow.agent import Agent, Next
from engine.flow.context import BranchError, Context, Skip, text_of
from engine.flow.conversation_setup import FRESH, set_up, with_answer
from engine.flow.flow import Flow, Limits
from engine.flow.flow_spec import AgentType
from engine.flow.gathering import Arrival, Gathering, common_branch
from engine.flow.request_loop import Emit, Place, RequestLoop
from engine.flow.steps import Lane, Position, Step
from engine.flow.template import Parts, fill, literal, narrowed, split_count, split_keys
from engine.flow.trace import Kind
from engine.profile import Category, ModelProfile, ProfileRef
from engine.statistics import RequestStatistic

log = logging.getLogger(__name__)

CONCURRENCY_WITHOUT_PROFILE = 4
"""Workers for steps that ask no model."""
CONCURRENCY_WITHOUT_LIMIT = 1000
"""Workers for a profile that allows any number of requests at a time: about as many sockets as a process may have."""

T = TypeVar("T")


class Walk:
    """One run of a flow from one context.

    `emit` gets every event in order (of each branch); RunFinished only when the flow ended by itself or by a limit.
    After a cancellation `finished("stopped")` makes the last event from what there is.
    """

    def __init__(
        self,
        flow: Flow,
        context: Context,
        completer: Completer,
        *,
        run_id: str,
        emit: Emit,
        start: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Prepare; raises FlowInvalid for a flow that cannot run and FlowError for an unknown start."""
        flow.check()
        self._flow = flow
        self._context = context
        self._completer = completer
        self._run_id = run_id
        self._emit = emit
        self._start = flow.agent(start or flow.first)
        self._limits = flow.limits if limits is None else flow.limits.smaller(limits)
        self._requests = RequestLoop(completer, emit, self._limits.max_cost)
        self._ended: list[tuple[Position, Context]] = []
        self._failed: list[tuple[Position, Context]] = []
        self._lanes: dict[str, Lane] = {}
        self._profiles: dict[str | Category, ModelProfile] = {}
        self._numbers = count(1)
        self._at: Counter[str] = Counter()
        """Live steps by agent name."""
        self._gathering = Gathering(flow)
        self._began = monotonic()
        self._over: float | None = None
        self._deadline: float | None = None

    @property
    def contexts(self) -> list[Context]:
        """The contexts that ended so far: depth-first in branch order, then those with an error in the same order."""
        ordered = [sorted(found, key=lambda item: item[0]) for found in (self._ended, self._failed)]
        return [context for found in ordered for _, context in found]

    @property
    def statistic(self) -> RequestStatistic:
        """What this walk has used so far, of all branches."""
        total = RequestStatistic(effective_seconds=(self._over or monotonic()) - self._began)
        for statistic in self._requests.by_agent.values():
            total.join(statistic)
        return total

    async def run(self) -> list[Context]:
        """Walk until no branch is left; errors of branches are on their contexts.

        The context given is changed. Raises only for a cancellation or a fault of `emit`.
        """
        self._began = monotonic()
        if self._limits.max_seconds is not None:
            self._deadline = asyncio.get_running_loop().time() + self._limits.max_seconds
        await self._send(
            RunStarted(time=time(), run_id=self._run_id, flow=self._flow.name, profiles=self.known_profiles())
        )
        context = self._context
        if context.trace:
            context.trace = context.trace.add(Kind.WALK, symbol.WALK)
        if context.answered and context.error is None:
            context.conversation = with_answer(context.conversation, context.last)
        context.steps = 0
        try:
            async with asyncio.TaskGroup() as self._workers:
                await self._arrive(context, self._start, 0, (), None)
                await self._gather(None)
        except BaseExceptionGroup as group:
            # Branches never raise, so what is in here is a fault outside of them; one is enough to tell.
            raise _first(group) from None
        finally:
            self._over = monotonic()
            context.statistic.effective_seconds += self._over - self._began
        await self._send(self.finished())
        return self.contexts

    def finished(self, status: str = "", reason: str = "") -> RunFinished:
        """The last event of the run; without a status it is what the errors of the branches make it."""
        self._over = self._over or monotonic()
        errors = [context.error for _, context in self._failed if context.error]
        limits = [error.exception for error in errors if isinstance(error.exception, BudgetExceeded)]
        if not status:
            status = "budget" if limits else "failed" if errors else "finished"
            reason = str(limits[0]) if limits else reason
        contexts = self.contexts
        good = [context for context in contexts if context.error is None]
        return RunFinished(
            time=time(),
            run_id=self._run_id,
            status=status,
            results=tuple(_result(context) for context in contexts),
            outputs={
                key: [value for context in good for value in context.get(key, ())]
                for key in self._flow.outputs
                if any(key in context for context in good)
            },
            statistics=Statistics.of_run(self.statistic),
            agents={name: Statistics.of_run(own) for name, own in self._requests.by_agent.items()},
            reason=reason,
        )

    # --- from agent to agent ---

    async def _arrive(
        self, context: Context, agent: Agent, from_step: int, position: Position, lane: Lane | None
    ) -> None:
        if agent.gather:
            self._gathering.park(agent, context, from_step, position)
        else:
            await self._begin(Step(agent, context, next(self._numbers), position), from_step, lane)

    async def _begin(
        self, step: Step, from_step: int, lane: Lane | None, merged: tuple[int, int] | None = None
    ) -> None:
        """Prepare a step and put its splits into the lane of its profile."""
        agent, context = step.agent, step.context
        self._at[agent.name] += 1
        context.steps += 1
        context.error = None
        context.attempts = 0
        context.answered = False
        error: Exception | None = None
        try:
            await self._prepare(step)
        except Exception as exc:
            error = exc
        place = self._place(step, context)
        started = AgentStarted(time=time(), category=step.label, splits=step.count, from_step=from_step, **place)
        if (full := self._emit(started)) is not None:
            await full
        if merged:
            await self._send(Merged(time=time(), inputs=merged[0], outputs=merged[1], **place))
        if step.warning:
            await self._send(Warned(time=time(), message=step.warning, **place))
        if error is None:
            self._push(step, lane)
        else:
            await self._fail(context, error, step, step.position)
            await self._leave(step, lane)

    async def _prepare(self, step: Step) -> None:
        agent, context = step.agent, step.context
        if self._deadline is not None:
            self._check_time()
        if agent.has_before:
            await self._settled(agent.before(context))
            if context.error is not None:
                raise context.error.exception
        skip = context.skip_next
        step.skip = skip if isinstance(skip, Skip) else Skip.SKIP if skip else Skip.NO
        context.skip_next = Skip.NO
        step.system, step.text = agent.prompt(context)
        keys = split_keys(step.text, step.system)
        if keys:
            step.count = split_count(keys, context) or 1
            if all(context[key] for key in keys):
                step.keys = keys
            else:
                empty = ", ".join(key for key in keys if not context[key])
                step.warning = f'"{agent.name}" is not split: there is no value of {empty}.'
        step.left = step.count
        first = narrowed(context, step.keys, 0, step.count) if step.keys and agent.varies else context
        step.kind, step.profile, step.label = self._asked(step, first)
        if agent.merges and not agent.gather:
            step.done = [None] * step.count

    def _asked(self, step: Step, context: Context) -> tuple[AgentType, ModelProfile | None, str]:
        """What a branch does with the conversation, which profile it asks if any, and how the trace names that."""
        kind = step.agent.agent_type(context)
        if kind is AgentType.PROCESSING_ONLY or step.skip is not Skip.NO:
            return kind, None, ""
        return kind, *self._resolved(step.agent.model(context))

    def _push(self, step: Step, own: Lane | None) -> None:
        """Queue the splits of a step; `own` is the lane of the worker that calls, who will take one of them itself."""
        profile = step.profile
        name = "" if profile is None else profile.name
        lane = self._lanes.get(name)
        if lane is None:
            limit = profile.options.max_concurrent if profile is not None else CONCURRENCY_WITHOUT_PROFILE
            lane = self._lanes[name] = Lane(limit or CONCURRENCY_WITHOUT_LIMIT)
        lane.steps.appendleft(step)
        lane.queued += step.count
        for _ in range(min(lane.limit - lane.active, lane.queued - lane.fresh - (lane is own))):
            lane.active += 1
            lane.fresh += 1
            self._workers.create_task(self._work(lane))

    async def _work(self, lane: Lane) -> None:
        lane.fresh -= 1
        while lane.queued:
            step, index = lane.take()
            await self._run_split(step, index, lane)
        lane.active -= 1

    async def _run_split(self, step: Step, index: int, lane: Lane) -> None:
        context = narrowed(step.context, step.keys, index, step.count) if step.keys else step.context
        error: Exception | None = None
        try:
            if step.count > 1:
                await self._enter_split(step, index, context)
            if self._deadline is None:
                await self._execute(step, context)
            else:
                self._check_time()
                await self._in_time(self._execute(step, context))
        except Exception as exc:
            error = exc
        except asyncio.CancelledError as exc:
            error = _own_cancellation(exc)
        if error is not None:
            await self._fail(context, error, step, step.place(index))
        elif step.done is None:
            await self._choose(context, step, step.place(index), lane)
        else:
            step.done[index] = context
        step.left -= 1
        if step.left == 0:
            await self._leave(step, lane)

    async def _enter_split(self, step: Step, index: int, context: Context) -> None:
        number = f"{index + 1}/{step.count}"
        context.branch = f"{context.branch}.{number}" if context.branch else number
        context.split_index = index + 1
        context.split_count = step.count
        context.trace = context.trace.add(Kind.SPLIT, f"⇉ {number}")
        label = text_of(context[step.keys[0]][0])[:80]
        place = self._place(step, context)
        started = SplitStarted(time=time(), index=index + 1, count=step.count, label=label, **place)
        if (full := self._emit(started)) is not None:
            await full

    async def _execute(self, step: Step, context: Context) -> None:
        """One split of a step, up to the end of its `after`."""
        agent = step.agent
        kind, profile, label = self._asked(step, context) if agent.varies else (step.kind, step.profile, step.label)
        entry = (Kind.SKIPPED, symbol.SKIPPED) if profile is None else (Kind.CATEGORY, label)
        context.trace = context.trace.add(*entry).add(Kind.AGENT, agent.name)
        if step.skip is not Skip.SKIP and kind is not AgentType.PROCESSING_ONLY:
            fit = fill if step.keys else _literal
            system, text = fit(step.system, context), fit(step.text, context)
            context.conversation = set_up(context.conversation, kind, system, text, agent.few_shot)
            if profile is None:
                return
            await self._requests.ask(agent, profile, context, self._place(step, context))
            context.answered = True
        if agent.has_after:
            result = agent.after(context)
            if result is not None:
                await result
            if context.error is not None:
                raise context.error.exception

    async def _leave(self, step: Step, lane: Lane | None) -> None:
        """The last split of a step has ended."""
        if step.done is not None:
            await self._merge(step, lane)
        self._at[step.agent.name] -= 1
        if self._gathering.waits:
            await self._gather(lane)

    async def _merge(self, step: Step, lane: Lane | None) -> None:
        inputs = [(step.place(index), context) for index, context in enumerate(step.done or ()) if context is not None]
        step.done = None
        if not inputs:
            return
        try:
            merged = await self._settled(step.agent.merge([context for _, context in inputs]))
        except Exception as exc:
            for position, context in inputs:
                await self._fail(context, exc, step, position)
            return
        if merged is None:
            for position, context in inputs:
                await self._choose(context, step, position, lane)
            return
        outgoing = step.context
        await self._send(Merged(time=time(), inputs=len(inputs), outputs=len(merged), **self._place(step, outgoing)))
        for index, context in enumerate(merged):
            _join(context, len(inputs), len(merged), index, outgoing.branch)
            context.split_index, context.split_count = outgoing.split_index, outgoing.split_count
            await self._choose(context, step, step.position if len(merged) == 1 else (*step.position, index), lane)

    async def _choose(self, context: Context, step: Step, position: Position, lane: Lane | None) -> None:
        """Take a context to the next agent, or to the end."""
        try:
            chosen = await self._settled(step.agent.choose_next(context)) or Next()
            target = await self._go(context, step, chosen)
        except Exception as exc:
            await self._fail(context, exc, step, position)
            return
        name = target.name if target else None
        place = self._place(step, context)
        finished = AgentFinished(time=time(), to=name, values=context.values_copy(), **place)
        if (full := self._emit(finished)) is not None:
            await full
        if target is None:
            self._ended.append((position, context))
        else:
            await self._arrive(context, target, step.number, position, lane)

    async def _go(self, context: Context, step: Step, chosen: Next) -> Agent | None:
        """Write what was chosen to trace and conversation; returns the agent, or None at the end of the flow."""
        if chosen.graded is not None:
            mark = symbol.PASSED if chosen.graded else symbol.FAILED
            context.trace = context.trace.add(Kind.GRADE, mark)
            await self._send(Graded(time=time(), passed=chosen.graded, **self._place(step, context)))
        if chosen.agent is None:
            return None
        target = self._flow.by_name.get(chosen.agent)
        if target is None:
            context.trace = context.trace.add(Kind.FATAL, symbol.FATAL)
            message = f'"{step.agent.name}" leads to "{chosen.agent}", which is not an agent; the flow ends here.'
            await self._send(Warned(time=time(), message=message, **self._place(step, context)))
            return None
        if context.steps >= self._limits.max_steps:
            raise BudgetExceeded(
                f'The flow stopped after {context.steps} steps, before "{target.name}".',
                hint="Look for a loop without a way out, or raise the limit of steps.",
                facts={"limit": "max_steps", "spent": str(context.steps)},
            )
        kind = target.agent_type(context)
        if kind in FRESH:
            mark = symbol.COMPLETION if kind is AgentType.COMPLETION else symbol.NEW_CONVERSATION
            context.conversation = None
        else:
            if context.answered:
                context.conversation = with_answer(context.conversation, context.last)
            continues = context.conversation is not None and context.conversation.turns
            mark = symbol.CONVERSATION if continues else symbol.NEW_CONVERSATION
        if kind is not AgentType.PROCESSING_ONLY:
            context.trace = context.trace.add(Kind.NEXT, mark)
        return target

    async def _gather(self, lane: Lane | None) -> None:
        """Start the gathering agents that no live branch can reach any more."""
        while (released := self._gathering.release(self._at)) is not None:
            agent, arrived = released
            self._at[agent.name] += 1  # it lives while it merges: others may wait for what comes of it
            await self._release(agent, arrived, lane)
            self._at[agent.name] -= 1

    async def _release(self, agent: Agent, arrived: list[Arrival], lane: Lane | None) -> None:
        """Merge what arrived at a gathering agent and begin what that makes."""
        contexts = [arrival.context for arrival in arrived]
        position, _, from_step = arrived[0]
        steps = max(context.steps for context in contexts)
        branch = common_branch([context.branch for context in contexts])
        try:
            merged = await self._settled(agent.merge(contexts.copy()))
        except Exception as exc:
            step = Step(agent, contexts[0], next(self._numbers), position)
            await self._send(AgentStarted(time=time(), from_step=from_step, **self._place(step, contexts[0])))
            for arrival in arrived:
                await self._fail(arrival.context, exc, step, arrival.position)
            return
        for index, context in enumerate(contexts if merged is None else merged):
            place = position if merged is not None and len(merged) == 1 else (*position, index)
            step = Step(agent, context, next(self._numbers), place)
            if merged is None:
                await self._begin(step, arrived[index].from_step, lane)
                continue
            _join(context, len(contexts), len(merged), index, branch)
            context.steps, context.split_index, context.split_count = steps, 1, 1
            await self._begin(step, from_step, lane, (len(contexts), len(merged)))

    # --- helpers ---

    async def _fail(self, context: Context, exc: Exception, step: Step, position: Position) -> None:
        if isinstance(exc, EngineError):
            exc = exc.with_traceback(None)  # its frames would keep the whole branch alive
        else:
            log.warning("a branch of %s failed", step.agent.name, exc_info=exc)
        context.error = BranchError(
            kind="PARSING" if isinstance(exc, HandlerError) else "GENERAL", exception=exc, agent=step.agent.name
        )
        context.answered = False
        self._failed.append((position, context))
        await self._send(BranchFailed(time=time(), error=context.error.info, **self._place(step, context)))

    def _resolved(self, ref: ProfileRef) -> tuple[ModelProfile, str]:
        """The profile and how the trace names it."""
        if isinstance(ref, ModelProfile):
            return ref, ref.category
        profile = self._profiles.get(ref)
        if profile is None:
            profile = self._profiles[ref] = self._completer.resolve(ref)
        return profile, ref.label if isinstance(ref, Category) else profile.category

    def known_profiles(self) -> dict[str, str]:
        """Agent → name of the profile that will answer, as far as that is known before the run."""
        known: dict[str, str] = {}
        for agent in self._flow.agents:
            if agent.type is not AgentType.PROCESSING_ONLY:
                try:
                    known[agent.name] = self._resolved(agent.model(self._context))[0].name
                except Exception:
                    log.debug("the profile of %s is not known yet", agent.name, exc_info=True)
        return known

    def _place(self, step: Step, context: Context) -> Place:
        return {"run_id": self._run_id, "agent": step.agent.name, "step": step.number, "branch": context.branch}

    async def _send(self, event: AnyEvent) -> None:
        full = self._emit(event)
        if full is not None:
            await full

    async def _settled(self, value: Awaitable[T] | T) -> T:
        """The result of a plain or async callable, within the time of the run."""
        if value is None or isinstance(value, Next | list) or not inspect.isawaitable(value):
            return value
        return await self._in_time(value)

    async def _in_time(self, work: Awaitable[T]) -> T:
        try:
            if self._deadline is None:
                return await work
            async with asyncio.timeout_at(self._deadline) as timeout:
                return await work
        except TimeoutError:
            if self._deadline is not None and timeout.expired():
                raise self._out_of_time() from None
            raise
        except asyncio.CancelledError as exc:
            raise _own_cancellation(exc) from None

    def _check_time(self) -> None:
        if self._deadline is not None and asyncio.get_running_loop().time() >= self._deadline:
            raise self._out_of_time()

    def _out_of_time(self) -> BudgetExceeded:
        return BudgetExceeded(
            f"The run took longer than the {self._limits.max_seconds:g} seconds it may take.",
            hint="Raise the limit of the flow, or use a faster model.",
            facts={"limit": "max_seconds", "spent": f"{monotonic() - self._began:.1f}"},
        )


def _literal(parts: Parts, _context: Context) -> str:
    return literal(parts)


def _join(context: Context, inputs: int, outputs: int, index: int, branch: str) -> None:
    """Mark a merged context; `branch` is the path the splits came from."""
    context.trace = context.trace.add(Kind.MERGE, f"{inputs}↣{outputs}")
    number = "" if outputs == 1 else f"{index + 1}/{outputs}"
    context.branch = ".".join(part for part in (branch, number) if part)


def _result(context: Context) -> RunResult:
    return RunResult(
        trace=context.trace.text(),
        trace_timed=context.trace.text(timed=True),
        context=context.values_copy(),
        error=context.error.info if context.error else None,
        error_agent=context.error.agent if context.error else "",
    )


def _own_cancellation(exc: asyncio.CancelledError) -> FlowError:
    """What a step gets that cancels itself: its worker would else end and take the branch along without a word."""
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise exc
    return FlowError("The step cancelled itself.", hint="A hook, handler or client raised CancelledError.")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
