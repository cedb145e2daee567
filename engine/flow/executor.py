"""Runs a flow from a context, or from where a recorded run was (docs/running-flows.md).

This is the beginning and the end of a run: limits, profiles, what is kept of an earlier run, results. What happens in
between, from agent to agent, is in `branches.py`.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from time import monotonic, time
from types import MappingProxyType

import msgspec

from engine.completion import Completer
from engine.cut_calls import CutCall
from engine.events import REPLAY, AnyEvent, RunFinished, RunStarted, Statistics, Warned
from engine.flow import trace as symbol
from engine.flow.branches import Branches, RunState
from engine.flow.breakpoints import Breakpoints
from engine.flow.context import Context
from engine.flow.conversation_setup import with_answer
from engine.flow.deadline import Deadline
from engine.flow.flow import Flow, Limits
from engine.flow.frozen import Frozen, FrozenAgents
from engine.flow.place import Emit, Place, send
from engine.flow.profile_resolver import ProfileResolver
from engine.flow.recorded_answers import RecordedAnswers
from engine.flow.recorder import Keep, Recorder
from engine.flow.request_loop import RequestLoop
from engine.flow.restart import Restart
from engine.flow.results import Results
from engine.flow.tool_rounds import Replayed, TapedResults
from engine.flow.tools import AllowTool, refuse
from engine.flow.trace import Kind
from engine.statistics import RequestStatistic


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
        allow_tool: AllowTool = refuse,
        keep: Keep | None = None,
        restart: Restart | None = None,
        frozen: Sequence[Frozen] = (),
        breakpoints: Breakpoints | None = None,
        prompts: Mapping[str, str] = MappingProxyType({}),
        replayed: Replayed | None = None,
    ) -> None:
        """Prepare; raises FlowInvalid for a flow that cannot run and FlowError for an unknown start.

        Args:
            keep: gets what the walk has reached, so that it can go on from there later; it must not raise.
            restart: where a recorded run goes on; `context` and `start` are not used then.
            frozen: agents whose recorded answers are used instead of asking.
            breakpoints: where branches wait until somebody lets them go on; missing: nowhere.
            prompts: the texts of the prompt library the run may use, for the record.
            replayed: the recorded run this one only plays again.
        """
        flow.check()
        self._flow = flow
        self._context = context
        self._run_id = run_id
        self._emit = emit
        self._start = flow.agent(start or flow.first)
        self._limits = flow.limits if limits is None else flow.limits.smaller(limits)
        self._record = None if keep is None else Recorder(run_id, keep)
        self._restart = restart
        self._breakpoints = breakpoints
        self._prompts = prompts
        self._profiles = ProfileResolver(completer)
        self._requests = RequestLoop(
            RecordedAnswers(completer, restart.answers) if restart is not None and restart.answers else completer,
            emit,
            self._limits.max_cost,
            max_tool_calls=self._limits.max_tool_calls,
            allow_tool=allow_tool,
        )
        if frozen:
            self._requests.frozen = FrozenAgents(frozen)
        self._replayed = replayed
        if replayed is not None:
            self._requests.tool_rounds.taped = TapedResults(replayed.results)
        if restart is not None:
            self._requests.tool_rounds.known.update(restart.results)
            context.statistic = restart.statistic
        self._results = Results()
        self._began = monotonic()
        self._over: float | None = None

    @property
    def contexts(self) -> list[Context]:
        """The contexts that ended so far: depth-first in branch order, then those with an error in the same order."""
        return self._results.contexts

    @property
    def statistic(self) -> RequestStatistic:
        """What this walk has used so far, of all branches."""
        total = RequestStatistic(effective_seconds=(self._over or monotonic()) - self._began)
        for statistic in self._requests.by_agent.values():
            total.join(statistic)
        return total

    @property
    def cut_calls(self) -> Sequence[tuple[Place, int, CutCall]]:
        """The calls that were cancelled: where, which attempt, and what was cut."""
        return self._requests.cut

    def known_profiles(self) -> dict[str, str]:
        """Agent → name of the profile that will answer, as far as that is known before the run."""
        return self._profiles.known(self._flow, self._context)

    async def run(self) -> list[Context]:
        """Walk until no branch is left; errors of branches are on their contexts.

        The context given is changed. Raises only for a cancellation or a fault of `emit`.
        """
        self._began = monotonic()
        branches = self._branches()
        await self._send(self._run_started())
        context = self._context
        if context.trace:
            context.trace = context.trace.add(Kind.WALK, symbol.WALK)
        if context.answered and context.error is None:
            context.conversation = with_answer(context.conversation, context.last)
        context.steps = 0
        try:
            if self._restart is None:
                await branches.set_out(context, self._start)
            else:
                await self._tell_kept(self._restart)
                await branches.go_on(self._restart)
        finally:
            self._over = monotonic()
            context.statistic.effective_seconds += self._over - self._began
        await self._send(self.finished())
        return self.contexts

    def _branches(self) -> Branches:
        limits, restart = self._limits, self._restart
        run = RunState(
            run_id=self._run_id,
            emit=self._emit,
            requests=self._requests,
            profiles=self._profiles,
            numbers=count(1 if restart is None else restart.next_number),
            began=self._began,
            breakpoints=self._breakpoints,
        )
        deadline = None if limits.max_seconds is None else Deadline(limits.max_seconds, self._began)
        return Branches(run, self._flow, limits, self._results, deadline=deadline, record=self._record)

    def _run_started(self) -> RunStarted:
        started = RunStarted(
            time=time(),
            run_id=self._run_id,
            flow=self._flow.name,
            profiles=self.known_profiles(),
            prompts=dict(self._prompts),
        )
        if self._replayed is not None:
            return msgspec.structs.replace(started, origin=REPLAY, parent=self._replayed.run_id)
        return started if self._restart is None else self._restart.announced(started)

    async def _tell_kept(self, restart: Restart) -> None:
        """Record and tell again what stays true of the recorded run."""
        if self._record is not None:
            for checkpoint in restart.kept_checkpoints(self._run_id):
                self._record.keep(checkpoint)
        for event in restart.kept_events(self._run_id):
            await self._send(event)
        for message in restart.warnings:
            await self._send(Warned(time=time(), run_id=self._run_id, message=message))

    def finished(self, status: str = "", reason: str = "") -> RunFinished:
        """The last event of the run; without a status it is what the errors of the branches make it."""
        self._over = self._over or monotonic()
        if not status:
            status, reason = self._results.status
        return RunFinished(
            time=time(),
            run_id=self._run_id,
            status=status,
            results=self._results.plain(),
            outputs=self._results.outputs(self._flow.outputs),
            statistics=Statistics.of_run(self.statistic),
            agents={name: Statistics.of_run(own) for name, own in self._requests.by_agent.items()},
            reason=reason,
            before=None if self._restart is None else self._restart.before,
        )

    async def _send(self, event: AnyEvent) -> None:
        await send(self._emit, event)
