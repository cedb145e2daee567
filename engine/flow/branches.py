"""Takes the branches of a flow from agent to agent: steps, splits, merges, routes, flows inside of nodes.

A step is one execution of an agent. Its splits wait in the lane of the profile they ask. A worker that ends a split
also takes its context to the next agent, so branches finish one after the other instead of all late.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from time import time

from engine.checkpoints import Stage
from engine.errors import BudgetExceeded, EngineError, FlowError, HandlerError
from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    BranchFailed,
    Merged,
    SplitStarted,
    Warned,
)
from engine.flow import trace as symbol
from engine.flow.agent import Agent, Next
from engine.flow.breakpoints import Breakpoints, paused
from engine.flow.context import BranchError, Context, Skip, text_of
from engine.flow.conversation_setup import lead_over, set_up
from engine.flow.deadline import Deadline, in_time, own_cancellation, settled
from engine.flow.flow import Flow, Limits
from engine.flow.flow_spec import AgentType
from engine.flow.gathering import Arrival, Gathering, common_branch
from engine.flow.graders import AgentGrader, graded_event
from engine.flow.lanes import Lane, Lanes
from engine.flow.place import Emit, Place
from engine.flow.profile_resolver import ProfileResolver
from engine.flow.recorder import Recorder
from engine.flow.request_loop import RequestLoop
from engine.flow.restart import OpenStep, Restart
from engine.flow.results import Results
from engine.flow.step_setup import StepSetup
from engine.flow.steps import Position, Step
from engine.flow.subflow import Subflow
from engine.flow.template import Parts, fill, literal, narrowed
from engine.flow.trace import Kind, Trace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """What all walks of one run share: that of its flow, and those of flows that run as nodes."""

    run_id: str
    emit: Emit
    requests: RequestLoop
    profiles: ProfileResolver
    numbers: Iterator[int]
    """Of the steps to come."""
    began: float
    """By `monotonic`."""
    breakpoints: Breakpoints | None = None


class Branches:
    """One walk over a flow. Errors of branches go to their contexts; nothing is raised but a fault of `emit`."""

    def __init__(
        self,
        run: RunState,
        flow: Flow,
        limits: Limits,
        results: Results,
        *,
        deadline: Deadline | None = None,
        record: Recorder | None = None,
        within: int = 0,
        prefix: str = "",
        account: str = "",
    ) -> None:
        """Prepare a walk.

        Args:
            results: gets the contexts that end.
            record: gets what is reached, of the flow of the run only.
            within: number of the step this walk happens inside of: a flow run as one node.
            prefix: names of the nodes around it, each with a slash.
            account: the agent that what is used is counted under; empty: each agent its own.
        """
        self._run = run
        self._run_id = run.run_id
        self._emit = run.emit
        self._requests = run.requests
        self._numbers = run.numbers
        self._flow = flow
        self._limits = limits
        self._results = results
        self._deadline = deadline
        self._record = record
        self._within = within
        self._prefix = prefix
        self._account = account
        self._setup = StepSetup(run.profiles, deadline)
        self._at: Counter[str] = Counter()
        """Live steps by agent name."""
        self._gathering = Gathering(flow)
        self._restoring = False

    async def set_out(self, context: Context, start: Agent) -> None:
        """Walk from an agent until no branch is left."""

        async def begin() -> None:
            number = 0 if start.gather else next(self._numbers)
            if self._record is not None:
                self._record.arrived(start.name, number, context)
            await self._arrive(context, start, number, Arrival((), context, 0, 0), None)

        await self._to_end(begin)

    async def go_on(self, restart: Restart) -> None:
        """Put everything where a recorded run had it, then walk until no branch is left."""

        async def begin() -> None:
            self._restoring = True
            self._results.ended += restart.ended
            for agent, arrival in restart.waiting:
                self._gathering.park(agent, arrival)
            for chosen in restart.chooses:
                step = Step(chosen.agent, chosen.context, chosen.step, chosen.position)
                await self._choose(chosen.context, step, chosen.position, chosen.index, None)
            for opened in restart.steps:
                await self._reopen(opened)
            for begun in restart.begins:
                await self._begin(Step(begun.agent, begun.context, begun.step, begun.position), begun.from_step, None)
            self._restoring = False

        await self._to_end(begin)

    async def _to_end(self, begin: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.TaskGroup() as workers:
                self._lanes = Lanes(workers, self._run_split)
                await begin()
                await self._gather(None)
        except BaseExceptionGroup as group:
            # Branches never raise, so what is in here is a fault outside of them; one is enough to tell.
            raise _first(group) from None

    async def _arrive(self, context: Context, agent: Agent, number: int, arrival: Arrival, lane: Lane | None) -> None:
        """Begin the step of this number; without one, wait to be gathered."""
        if number:
            await self._begin(Step(agent, context, number, arrival.position), arrival.from_step, lane)
        else:
            self._gathering.park(agent, arrival)

    async def _begin(
        self, step: Step, from_step: int, lane: Lane | None, merged: tuple[int, int] | None = None
    ) -> None:
        """Prepare a step and put its splits into the lane of its profile."""
        agent, context = step.agent, step.context
        self._at[agent.name] += 1
        if (breakpoints := self._run.breakpoints) is not None and not self._prefix and breakpoints.stops(agent.name):
            place = self._place(step, context)
            await paused(breakpoints, context, place, self._emit, self._deadline)
        context.steps += 1
        context.error = None
        context.attempts = 0
        context.answered = False
        error: Exception | None = None
        try:
            await self._setup.prepare(step)
        except Exception as exc:
            error = exc
        place = self._place(step, context)
        started = AgentStarted(
            time=time(),
            category=step.label,
            splits=step.count,
            from_step=from_step,
            within=self._within,
            **place,
        )
        if (full := self._emit(started)) is not None:
            await full
        if merged:
            await self._send(Merged(time=time(), inputs=merged[0], outputs=merged[1], **place))
        if step.warning:
            await self._send(Warned(time=time(), message=step.warning, **place))
        if error is None:
            if step.count > 1 and self._record is not None:
                self._record.split(step)
            self._lanes.push(step, lane)
        else:
            await self._fail(context, error, step, step.position, Stage.PREPARE)
            await self._leave(step, lane)

    async def _run_split(self, step: Step, index: int, lane: Lane) -> None:
        context = narrowed(step.context, step.keys, index, step.count) if step.keys else step.context
        error: Exception | None = None
        try:
            if step.count > 1:
                await self._enter_split(step, index, context)
            if self._deadline is None:
                await self._execute(step, context)
            else:
                self._deadline.check()
                await in_time(self._execute(step, context), self._deadline)
        except Exception as exc:
            error = exc
        except asyncio.CancelledError:
            error = own_cancellation()
            if error is None:
                raise
        if error is not None:
            await self._fail(context, error, step, step.place(index), Stage.SPLIT, index)
        elif step.done is None:
            await self._choose(context, step, step.place(index), index, lane)
        else:
            step.done[index] = context
            if self._record is not None:
                self._record.done(step, context, index)
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
        if agent.subflow is not None and step.skip is Skip.NO:
            await self._descend(agent.subflow, step, context)
            await self._after(agent, context)
            return
        kind, profile, label = step.kind, step.profile, step.label
        if agent.varies:
            kind, profile, label = self._setup.asked(step, context)
        entry = (Kind.SKIPPED, symbol.SKIPPED) if profile is None else (Kind.CATEGORY, label)
        context.trace = context.trace.add(*entry).add(Kind.AGENT, agent.name)
        if step.skip is not Skip.SKIP and kind is not AgentType.PROCESSING_ONLY:
            fit = fill if step.keys else _literal
            system, text = fit(step.system, context), fit(step.text, context)
            context.conversation = set_up(
                context.conversation, kind, system, text, agent.few_shot, agent.pictures(context)
            )
            if profile is None:
                return
            await self._requests.ask(agent, profile, context, self._place(step, context), self._account or agent.name)
            context.answered = True
        if agent.has_after:
            await self._after(agent, context)

    async def _after(self, agent: Agent, context: Context) -> None:
        if not agent.has_after:
            return
        result = agent.after(context)
        if result is not None:
            await result
        if context.error is not None:
            raise context.error.exception

    async def _descend(self, subflow: Subflow, step: Step, context: Context) -> None:
        """Run a flow as one node of a branch: its own walk, with the counters and limits of this one."""
        results = Results()
        walk = self._inside(subflow.flow, results, step, context)
        failed = await subflow.walk(step.text, context, walk.set_out, results)
        position = step.place(context.split_index - 1)
        self._results.failed += [((*position, index), lost) for index, lost in enumerate(failed)]
        await subflow.leave(context, [result for result in results.contexts if result.error is None])

    def _inside(self, flow: Flow, results: Results, step: Step, context: Context) -> "Branches":
        """The walk over a flow inside of a step; raises FlowInvalid for one that cannot run."""
        flow.check()
        limits, deadline = flow.limits, self._deadline
        if limits.max_seconds is not None:
            deadline = Deadline(limits.max_seconds, self._run.began).nearer(deadline)
        return Branches(
            self._run,
            flow,
            replace(limits, max_steps=min(self._limits.max_steps, context.steps + limits.max_steps)),
            results,
            deadline=deadline,
            within=step.number,
            prefix=f"{self._prefix}{step.agent.name}/",
            account=self._account or step.agent.name,
        )

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
            merged = await settled(step.agent.merge([context for _, context in inputs]), self._deadline)
        except Exception as exc:
            for position, context in inputs:
                await self._fail(context, exc, step, position, Stage.MERGE, position[-1] if step.count > 1 else 0)
            return
        if merged is None:
            for position, context in inputs:
                await self._choose(context, step, position, position[-1] if step.count > 1 else 0, lane)
            return
        outgoing = step.context
        await self._send(Merged(time=time(), inputs=len(inputs), outputs=len(merged), **self._place(step, outgoing)))
        for index, context in enumerate(merged):
            _join(context, len(inputs), len(merged), index, outgoing.branch)
            context.split_index, context.split_count = outgoing.split_index, outgoing.split_count
        places = [step.position] if len(merged) == 1 else [(*step.position, index) for index in range(len(merged))]
        if self._record is not None:
            self._record.merged(step, merged, places)
        for index, (context, place) in enumerate(zip(merged, places, strict=True)):
            await self._choose(context, step, place, index, lane)

    async def _choose(self, context: Context, step: Step, position: Position, index: int, lane: Lane | None) -> None:
        """Take a context to the next agent, or to the end; `index` is its number among those that leave the step."""
        trace = context.trace
        try:
            chosen = await settled(step.agent.choose_next(context), self._deadline) or Next()
            target = await self._go(context, step, chosen)
        except Exception as exc:
            await self._fail(context, exc, step, position, Stage.CHOOSE, index, trace)
            return
        name, number = None, 0
        if target is not None:
            name, number = target.name, 0 if target.gather else next(self._numbers)
        values = context.values_copy()
        if self._record is not None:
            self._record.left(step, context, values, position, index, name, number)
        finished = AgentFinished(time=time(), to=name, values=values, **self._place(step, context))
        if (full := self._emit(finished)) is not None:
            await full
        if target is None:
            self._results.ended.append((position, context))
        else:
            await self._arrive(context, target, number, Arrival(position, context, step.number, index), lane)

    async def _go(self, context: Context, step: Step, chosen: Next) -> Agent | None:
        """Write what was chosen to trace and conversation; returns the agent, or None at the end of the flow."""
        if chosen.graded is not None:
            mark = symbol.PASSED if chosen.graded else symbol.FAILED
            context.trace = context.trace.add(Kind.GRADE, mark)
            await self._send(graded_event(step.agent.name, context, chosen.graded, self._place(step, context)))
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
        lead_over(context, target.agent_type(context))
        return target

    async def _gather(self, lane: Lane | None) -> None:
        """Start the gathering agents that no live branch can reach any more."""
        while not self._restoring and (released := self._gathering.release(self._at)) is not None:
            agent, arrived = released
            self._at[agent.name] += 1  # it lives while it merges: others may wait for what comes of it
            await self._release(agent, arrived, lane)
            self._at[agent.name] -= 1

    async def _release(self, agent: Agent, arrived: list[Arrival], lane: Lane | None) -> None:
        """Merge what arrived at a gathering agent and begin what that makes."""
        contexts = [arrival.context for arrival in arrived]
        position, from_step = arrived[0].position, arrived[0].from_step
        steps = max(context.steps for context in contexts)
        branch = common_branch([context.branch for context in contexts])
        try:
            merged = await settled(agent.merge(contexts.copy()), self._deadline)
        except Exception as exc:
            step = Step(agent, contexts[0], next(self._numbers), position)
            at = self._place(step, contexts[0])
            await self._send(AgentStarted(time=time(), from_step=from_step, within=self._within, **at))
            for arrival in arrived:
                await self._fail(arrival.context, exc, step, arrival.position, Stage.GATHER)
            return
        begins: list[tuple[Step, int]] = []
        for index, context in enumerate(contexts if merged is None else merged):
            place = position if merged is not None and len(merged) == 1 else (*position, index)
            step = Step(agent, context, next(self._numbers), place)
            begins.append((step, arrived[index].from_step if merged is None else from_step))
            if merged is not None:
                _join(context, len(contexts), len(merged), index, branch)
                context.steps, context.split_index, context.split_count = steps, 1, 1
        if self._record is not None:
            self._record.gathered(agent.name, begins[0][0].number if begins else 0, begins, arrived)
        for step, source in begins:
            await self._begin(step, source, lane, None if merged is None else (len(contexts), len(merged)))

    async def _fail(
        self,
        context: Context,
        exc: Exception,
        step: Step,
        position: Position,
        stage: Stage,
        index: int = 0,
        trace: Trace | None = None,
    ) -> None:
        """End a branch with an error; `trace` is the one to go on with when it is tried again."""
        if isinstance(exc, EngineError):
            exc = exc.with_traceback(None)  # its frames would keep the whole branch alive
        else:
            log.warning("a branch of %s failed", step.agent.name, exc_info=exc)
        known = context.error  # of a flow inside, which names the agent there
        agent = known.agent if known is not None and known.exception is exc and known.agent else step.agent.name
        context.error = BranchError(
            kind="PARSING" if isinstance(exc, HandlerError) else "GENERAL", exception=exc, agent=agent
        )
        context.answered = False
        self._results.failed.append((position, context))
        if self._record is not None:
            self._record.failed(step, context, position, index, stage, trace)
        if isinstance(step.agent, AgentGrader) and step.agent.give_up(context, exc):
            await self._send(graded_event(step.agent.name, context, False, self._place(step, context)))
        await self._send(BranchFailed(time=time(), error=context.error.info, **self._place(step, context)))

    async def _reopen(self, opened: OpenStep) -> None:
        """Do what is left of a step whose other splits are recorded."""
        step = Step(opened.agent, opened.context, opened.step, opened.position)
        self._at[step.agent.name] += 1
        step.skip = opened.skip
        try:
            await self._setup.shape(step)
            if step.count != opened.count:
                raise FlowError(
                    f'"{step.agent.name}" now splits into {step.count} branches, the recorded run had {opened.count}.',
                    hint="Run the flow from this agent instead of resuming it.",
                )
        except Exception as exc:
            await self._fail(step.context, exc, step, step.position, Stage.PREPARE)
            await self._leave(step, None)
            return
        step.todo, step.splits, step.left = opened.todo, len(opened.todo), len(opened.todo)
        if step.done is not None:
            for index, context in opened.done.items():
                step.done[index] = context
        if opened.todo:
            self._lanes.push(step, None)
        else:
            await self._leave(step, None)

    def _place(self, step: Step, context: Context) -> Place:
        name = self._prefix + step.agent.name
        return {"run_id": self._run_id, "agent": name, "step": step.number, "branch": context.branch}

    async def _send(self, event: AnyEvent) -> None:
        full = self._emit(event)
        if full is not None:
            await full


def _literal(parts: Parts, _context: Context) -> str:
    return literal(parts)


def _join(context: Context, inputs: int, outputs: int, index: int, branch: str) -> None:
    """Mark a merged context; `branch` is the path the splits came from."""
    context.trace = context.trace.add(Kind.MERGE, f"{inputs}↣{outputs}")
    number = "" if outputs == 1 else f"{index + 1}/{outputs}"
    context.branch = ".".join(part for part in (branch, number) if part)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
