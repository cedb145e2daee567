"""A run of a flow: starts its walk, hands its events on, and makes sure that it ends once."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextvars import copy_context
from time import time
from types import TracebackType

from engine.clients.wire_tape import current_tape
from engine.completion import Completer
from engine.events import AnyEvent, RunFinished, StopProved, Warned
from engine.flow.breakpoints import Breakpoints
from engine.flow.context import Context
from engine.flow.event_buffer import EventBuffer
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.flow.frozen import Frozen
from engine.flow.granted_tools import NO_GRANTS, Grants, current_grants
from engine.flow.restart import Restart
from engine.flow.subflow import named_agents
from engine.flow.tool_rounds import Replayed
from engine.flow.tools import AllowTool, refuse
from engine.flow.trace import EMPTY, Trace
from engine.interceptors import current_run
from engine.run_history import RunHistory
from engine.run_prompts import RunPrompts, current_prompts
from engine.run_tape import RunTape
from engine.statistics import RequestStatistic
from engine.stop_proof import Prove

log = logging.getLogger(__name__)

EVENTS_AHEAD = 256
"""Events a run may be ahead of who reads them; then its sockets wait."""


class Run:
    """A run, going on inside its `async with`: iterate its events; they end when the run does."""

    def __init__(
        self,
        flow: Flow,
        context: Context,
        completer: Completer,
        *,
        history: RunHistory | None = None,
        start: str | None = None,
        limits: Limits | None = None,
        flow_text: str = "",
        allow_tool: AllowTool = refuse,
        restart: Restart | None = None,
        frozen: Sequence[Frozen] = (),
        breakpoints: Breakpoints | None = None,
        grants: Grants = NO_GRANTS,
        prompts: RunPrompts | None = None,
        replayed: Replayed | None = None,
        prove: Prove | None = None,
    ) -> None:
        """Prepare; `prove` asks the servers of calls that a stop cuts off, before the last event."""
        self.id = secrets.token_hex(6)
        self._prompts = prompts
        self.tape: RunTape | None = None
        """Set it before the run begins to record its calls."""
        self._grants = grants
        self._flow = flow
        self._flow_text = flow_text
        self.inputs = context.values_copy()
        """What it begins with."""
        self._history = history
        self._events = EventBuffer(EVENTS_AHEAD)
        self._walk = Walk(
            flow,
            context,
            completer,
            run_id=self.id,
            emit=self._emit,
            start=start,
            limits=limits,
            allow_tool=allow_tool,
            keep=None if history is None else history.record,
            restart=restart,
            frozen=frozen,
            breakpoints=breakpoints,
            prompts=_used(flow, prompts),
            replayed=replayed,
        )
        self._task: asyncio.Task[list[Context]] | None = None
        self._prove = prove
        self._stopped = False
        self._proof: asyncio.Task[None] | None = None
        self._finished: RunFinished | None = None

    async def __aenter__(self) -> "Run":
        try:
            if self._history is not None:
                # A disk that fails does not keep a run from happening; the history tells it by itself.
                profiles = self._walk.known_profiles()
                await self._history.begin(
                    self.id, self._flow.name, self._flow_text, self.inputs, profiles, self._flow.origin
                )
        except BaseException:
            self._end()
            raise
        surroundings = copy_context()
        surroundings.run(current_run.set, self.id)
        surroundings.run(current_grants.set, self._grants)
        surroundings.run(current_prompts.set, self._prompts)
        surroundings.run(current_tape.set, self.tape.wire if self.tape is not None else None)
        self._task = asyncio.create_task(self._walk.run(), context=surroundings)
        # Not in the task itself: one that is cancelled before its first step runs nothing of its own.
        self._task.add_done_callback(lambda _: self._over())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop if it still runs, and wait until all its connections are closed and its end is recorded."""
        self._events.abandon()
        if self._task is None:
            return
        self._stopped = False  # nobody waits for a proof
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._proof is not None:
            self._proof.cancel()
            await asyncio.wait([self._proof])
        self._end()
        if (fault := self._fault()) is not None:
            raise fault

    @property
    def contexts(self) -> list[Context]:
        """The contexts that ended, in branch order, then those with an error."""
        return self._walk.contexts

    @property
    def statistic(self) -> RequestStatistic:
        """What the run has used so far."""
        return self._walk.statistic

    @property
    def trace(self) -> Trace:
        """The trace of the first of `contexts`, empty while there is none; each context has its own."""
        contexts = self.contexts
        return contexts[0].trace if contexts else EMPTY

    @property
    def finished(self) -> RunFinished | None:
        """The last event, once it has happened."""
        return self._finished

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self._events

    async def take(self, within: float = 0.0) -> list[AnyEvent]:
        """Wait for the next event; it and all others that come within so many seconds, none when the run is over.

        What `async for` gives one by one, for readers that have more to do per turn than per event, such as a window.
        A full buffer or the end of the run is not waited for.
        """
        return await self._events.take(within)

    def stop(self) -> None:
        """Cancel every request at once and keep what came; the last events follow, with the status `stopped`.

        Servers that can tell are asked whether they stopped, for at most two seconds.
        """
        if self._task is not None:
            self._stopped = True
            self._task.cancel()

    def _over(self) -> None:
        """The walk is over: end the run, after a stop as soon as is known what the servers do."""
        if self._stopped and self._prove is not None and self._walk.cut_calls and self._finished is None:
            self._proof = asyncio.get_running_loop().create_task(self._prove_stopped(self._prove))
            self._proof.add_done_callback(lambda _: self._end())
        else:
            self._end()

    async def _prove_stopped(self, prove: Prove) -> None:
        cut = self._walk.cut_calls
        try:
            proofs = await prove([call for _, _, call in cut])
        except Exception as fault:
            log.warning("Whether the servers stopped is not known: %s", fault)
            return
        for (place, attempt, call), found in zip(cut, proofs, strict=True):
            # Nobody waits for room here: a stop does not depend on who reads the events.
            self._emit(
                StopProved(
                    time=time(),
                    attempt=attempt,
                    profile=call.profile.name,
                    proof=found.proof,
                    busy=found.busy,
                    slots=found.slots,
                    seconds=found.seconds,
                    **place,
                )
            )

    def _end(self) -> None:
        """Make sure, as often as called, that there is one last event and nothing after it."""
        if self._finished is None:
            fault = self._fault()
            self._emit(self._walk.finished("failed" if fault else "stopped", str(fault or "")))
        self._events.close()

    def _fault(self) -> BaseException | None:
        """What ended the walk although it should never raise."""
        task = self._task
        return task.exception() if task is not None and task.done() and not task.cancelled() else None

    def _emit(self, event: AnyEvent) -> Awaitable[None] | None:
        if self.tape is not None:
            self._note(self.tape, event)
        if isinstance(event, RunFinished):
            self._finished = event
        return self._send_on(event)

    def _note(self, tape: RunTape, event: AnyEvent) -> None:
        """Record an event on the tape; when that failed, the run tells before it ends."""
        tape.note(event)
        if isinstance(event, RunFinished) and tape.error is not None:
            self._send_on(Warned(time=event.time, run_id=self.id, message=f"{tape.error} {tape.error.hint}"))

    def _send_on(self, event: AnyEvent) -> Awaitable[None] | None:
        if self._history is not None:
            self._history.record(event)
        return self._events.put(event)


def _used(flow: Flow, prompts: RunPrompts | None) -> dict[str, str]:
    """Versions of the prompts a run of this flow may need: those about tools."""
    needed = prompts is not None and any(agent.has_tools for _, agent in named_agents(flow))
    return prompts.versions if prompts is not None and needed else {}
