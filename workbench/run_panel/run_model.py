"""State of one run, folded from its events.

The same events give the same state, live or recorded. Times are seconds since the epoch, as in the events.
"""

import math
import time
from collections.abc import Callable
from typing import assert_never

import msgspec
from PySide6.QtCore import QObject, Signal

from engine.completion import Phase
from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    BranchFailed,
    CacheHit,
    ChunkReceived,
    CompletionFinished,
    FileProduced,
    Graded,
    HandlerFailed,
    Merged,
    Paused,
    PhaseChanged,
    PlanChanged,
    PromptReady,
    PromptShortened,
    RequestFailed,
    RequestFormed,
    Retrying,
    RunFinished,
    RunResult,
    RunStarted,
    SplitStarted,
    Statistics,
    StopProved,
    ToolCalled,
    Warned,
)
from workbench.run_panel.run_state import (
    GOOD_STATES,
    OPEN_STATES,
    Attempt,
    Branch,
    Span,
    State,
    Step,
    Totals,
    answer_state,
)
from workbench.run_panel.run_totals import completed, wall_seconds

_Noted = CacheHit | Retrying | PromptShortened | ToolCalled | HandlerFailed | Graded | Merged | StopProved


class RunModel(QObject):
    """Folds the events of one run into state and tells what changed."""

    run_started = Signal()
    step_started = Signal(int)
    """Step number."""
    branch_started = Signal(int, str)
    """Step number, branch path."""
    attempt_started = Signal(int, str, int)
    """Step number, branch path, attempt number."""
    graded = Signal(int, str)
    """Step number, branch path."""
    tool_called = Signal(int, str)
    """Step number, branch path."""
    branch_changed = Signal(int, str)
    """A state, phase or figure changed: step number, branch path."""
    text_arrived = Signal()
    """The first text since `take_fresh` was asked last."""
    step_finished = Signal(int)
    """Step number; again for every context that leaves."""
    warned = Signal(str)
    pause_changed = Signal()
    """A branch waits at a breakpoint, or goes on: look at `paused`."""
    run_finished = Signal()

    def __init__(self, parent: QObject | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(parent)
        self._clock = clock
        self._given: dict[str, list[object]] | None = None
        self._reset()

    def _reset(self) -> None:
        self.run_id = ""
        self.flow = ""
        self.profiles: dict[str, str] = {}
        self.prompts: dict[str, str] = {}
        """Prompt of the library → language and version of the text the run uses."""
        self.steps: dict[int, Step] = {}
        self.passes: list[int] = []
        """Numbers of the executions of the flow's own agents, in order; those inside of a node belong to its own."""
        self.started: float | None = None
        self.ended: float | None = None
        self.status = ""
        """Empty before the first event, then running, finished, failed, stopped, budget or crashed."""
        self.origin = self.origin_run = ""
        """How it came from a recorded run (`resume`, `from`, `repeat`), and that run."""
        self.edited = False
        self.before: Statistics | None = None
        """What the runs it goes on from used."""
        self.reason = ""
        self.results: tuple[RunResult, ...] = ()
        self.inputs: dict[str, list[object]] | None = self._given
        """What the run began with, as far as that is known."""
        self.outputs: dict[str, list[object]] = {}
        self.paused: dict[int, Paused] = {}
        """Step number → the pause of a branch that waits before it."""
        self.warnings: list[str] = []
        self.files: list[str] = []
        self._statistics: Statistics | None = None
        self._agents: dict[str, Statistics] = {}
        self._last_time = 0.0
        self._keeping = False
        """The events are those of the run it goes on from."""
        self._kept_until = 0.0
        self._fresh: set[tuple[int, str]] = set()
        self._streaming: dict[tuple[int, str, int], Attempt] = {}
        """Attempts by place, for the chunks, which are many."""

    # -- asking -----------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether events are still to come."""
        return self.status == "running"

    @property
    def begun(self) -> float | None:
        """When the first of what is shown began: what is kept of an earlier run stands before the start."""
        first = next(iter(self.steps.values()), None)
        return self.started if self.started is None or first is None else min(self.started, first.started)

    def now(self) -> float:
        """The moment up to which open durations count."""
        return self._clock() if self.running else (self.ended or self._last_time)

    def branch(self, step: int, path: str) -> Branch | None:
        """One branch, if it is known."""
        known = self.steps.get(step)
        return known.branches.get(path) if known is not None else None

    def last_step_of(self, agent: str, until: int = 0) -> Step | None:
        """The newest execution of an agent; with `until`, none that began after that step."""
        numbers = [*self.steps]
        upto = numbers[: numbers.index(until) + 1] if until else numbers
        return next((self.steps[number] for number in reversed(upto) if self.steps[number].agent == agent), None)

    def pass_of(self, number: int) -> int:
        """The execution of one of the flow's own agents that a step is, or happens inside of."""
        while (within := self.steps[number].within) in self.steps:
            number = within
        return number

    def grades_of(self, agent: str, path: str) -> list[Graded]:
        """What a grader made of the answers on one branch, in order."""
        return [
            branch.grade
            for step in self.steps.values()
            if step.agent == agent and (branch := step.branches.get(path)) is not None and branch.grade is not None
        ]

    def failed_branches(self) -> list[Branch]:
        """Branches that ended with an error, in the order of their steps."""
        return [branch for step in self.steps.values() for branch in step.branches.values() if branch.error is not None]

    def agent_statistics(self) -> dict[str, Statistics]:
        """Totals by agent, from the run's end or from what has finished so far.

        Their effective seconds are the wall time of the agent's executions: what went on side by side counts once.
        """
        now = self.now()
        agents: dict[str, Totals] = {}
        spans: dict[str, list[tuple[float, float]]] = {}
        begun = -math.inf if self.started is None else self.started
        for step in self.steps.values():
            if step.kept:
                continue
            outermost = self.steps[self.pass_of(step.number)]
            agents.setdefault(outermost.agent, Totals()).add(step.spent.statistics())
            start = max(begun, step.started)
            spans.setdefault(outermost.agent, []).append((start, max(start, step.started + step.seconds(now))))
        known = {agent: totals.statistics(wall_seconds(spans[agent])) for agent, totals in agents.items()}
        return {agent: completed(done, known.get(agent)) for agent, done in (self._agents or known).items()}

    def statistics(self) -> Statistics:
        """Totals of the run, so far or final, without those of the run it goes on from."""
        wall = self.now() - self.started if self.started is not None else 0.0
        totals = Totals()
        for step in self.steps.values():
            totals.add(step.spent.statistics())
        known = totals.statistics(wall)
        if self._statistics is None:
            return known
        if self._statistics.effective_seconds:
            known = msgspec.structs.replace(known, effective_seconds=self._statistics.effective_seconds)
        return completed(self._statistics, known)

    def take_fresh(self) -> set[tuple[int, str]]:
        """Branches that got text since the last call."""
        fresh, self._fresh = self._fresh, set()
        return fresh

    # -- folding ----------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Take the next event of the run."""
        if self._keeping:
            self._keep(event)
        self._last_time = max(self._last_time, event.time)
        self._fold(event)

    def _fold(self, event: AnyEvent) -> None:
        match event:
            case ChunkReceived():
                self._add_text(event)
            case PhaseChanged():
                self._enter_phase(event)
            case RunStarted():
                self._start_run(event)
            case AgentStarted() | SplitStarted():
                self._start(event)
            case PromptReady() | RequestFormed():
                self._note_prompt(event)
            case CompletionFinished():
                self._finish_attempt(event)
            case AgentFinished():
                self._finish_step(event)
            case BranchFailed():
                self._fail_branch(event)
            case RunFinished():
                self._finish_run(event)
            case CacheHit() | Retrying() | ToolCalled() | HandlerFailed() | Graded() | Merged() | StopProved():
                self._note(event)
            case PromptShortened() | Warned() | FileProduced() | PlanChanged() | Paused() | RequestFailed():
                self._note_of_run(event)
            case _:
                assert_never(event)

    def finish(self, status: str = "stopped") -> None:
        """No more events will come; what is still open was stopped, by a crash for instance."""
        if not self.running:
            return
        self.status = status
        self._close(self._last_time)

    def clear(self, inputs: dict[str, list[object]] | None = None) -> None:
        """Forget the run; the next one begins with these inputs, as far as they are known."""
        self._given = inputs
        self._reset()

    def _start_run(self, event: RunStarted) -> None:
        self._reset()
        self.run_id, self.flow, self.profiles = event.run_id, event.flow, event.profiles
        self.started = self._last_time = event.time
        self.status = "running"
        self.origin, self.origin_run, self.edited = event.origin, event.parent, event.edited
        self.before = event.before
        self.prompts = event.prompts
        self._keeping = event.kept > 0
        self.run_started.emit()

    def _keep(self, event: AnyEvent) -> None:
        """Take note that an event is one of the earlier run; the first new one ends them."""
        if self.started is not None and event.time < self.started:
            self._kept_until = max(self._kept_until, event.time)
            return
        self._keeping = False
        # The time between the two runs belongs to neither: what is kept is shown right before what is new.
        if self.started is not None and self._kept_until:
            for step in self.steps.values():
                step.shift(self.started - self._kept_until)

    def _step(self, event: AnyEvent) -> Step:
        step = self.steps.get(event.step)
        if step is None:
            within = event.within if isinstance(event, AgentStarted) else 0
            step = Step(event.step, event.agent, event.branch, event.time, within=within)
            step.kept = self._keeping
            self.steps[event.step] = step
            if within not in self.steps:
                self.passes.append(event.step)
            self.step_started.emit(event.step)
        elif step.kept and not self._keeping:
            step.kept = False
        return step

    def _start(self, event: AgentStarted | SplitStarted) -> None:
        if isinstance(event, SplitStarted):
            step = self._step(event)
            step.splits = max(step.splits, event.count)
            branch = self._branch(event, index=event.index, count=event.count, label=event.label)
            step.change(branch, State.RUNNING)
            self.branch_changed.emit(event.step, event.branch)
            return
        if self.paused.pop(event.step, None) is not None:
            self.pause_changed.emit()
        step = self._step(event)
        step.category, step.splits, step.from_step = event.category, event.splits, event.from_step
        if event.splits < 2:
            self._branch(event, state=State.RUNNING)

    def _branch(
        self, event: AnyEvent, *, index: int = 1, count: int = 1, label: str = "", state: State = State.QUEUED
    ) -> Branch:
        step = self._step(event)
        branch = step.branches.get(event.branch)
        if branch is None:
            branch = Branch(event.step, event.branch, event.agent, event.time, index, count, label, state)
            branch.kept = self._keeping
            step.add(branch)
            self.branch_started.emit(event.step, event.branch)
        return branch

    def _attempt(self, event: AnyEvent, number: int) -> Attempt:
        branch = self._branch(event)
        for attempt in reversed(branch.attempts):
            if attempt.number == number:
                return attempt
        attempt = Attempt(number, event.time)
        branch.attempts.append(attempt)
        branch.kept = self._keeping
        step = self.steps[event.step]
        step.asked += 1
        step.open_attempts.add(attempt)
        step.change(branch, State.RUNNING)
        branch.ended = None
        self.attempt_started.emit(event.step, event.branch, number)
        return attempt

    def _note_prompt(self, event: PromptReady | RequestFormed) -> None:
        attempt = self._attempt(event, event.attempt)
        if isinstance(event, RequestFormed):
            attempt.request = event.request
        else:
            attempt.profile, attempt.turns, attempt.parameters = event.profile, event.turns, event.parameters
            attempt.raw, attempt.raw_format = event.raw, event.raw_format
        self.branch_changed.emit(event.step, event.branch)

    def _enter_phase(self, event: PhaseChanged) -> None:
        attempt = self._attempt(event, event.attempt)
        if attempt.spans and attempt.spans[-1].end is None:
            if attempt.spans[-1].phase is event.phase:
                return
            attempt.spans[-1].end = event.time
        attempt.spans.append(Span(event.phase, event.time))
        branch = self._branch(event)
        self.steps[event.step].change(branch, State.QUEUED if event.phase is Phase.QUEUED else State.RUNNING)
        self.branch_changed.emit(event.step, event.branch)

    def _add_text(self, event: ChunkReceived) -> None:
        attempt = self._streaming.get((event.step, event.branch, event.attempt))
        if attempt is None:
            attempt = self._attempt(event, event.attempt)
            self._streaming[event.step, event.branch, event.attempt] = attempt
        if event.reasoning:
            attempt.reasoning.append(event.reasoning)
        if event.content:
            attempt.content.append(event.content)
        quiet = not self._fresh
        self._fresh.add((event.step, event.branch))
        if quiet:
            self.text_arrived.emit()

    def _finish_attempt(self, event: CompletionFinished) -> None:
        attempt = self._attempt(event, event.attempt)
        branch = self._branch(event)
        attempt.profile, attempt.model = event.profile, event.model
        attempt.statistics = event.statistics
        attempt.finish_reason, attempt.finish_raw = event.finish_reason, event.finish_raw
        attempt.no_answer, attempt.audit, attempt.from_thinking = event.no_answer, event.audit, event.from_thinking
        attempt.content.settle(event.content)
        attempt.reasoning.settle(event.reasoning)
        attempt.cached = attempt.cached or bool(event.statistics.cached_prompts and not event.statistics.requests)
        attempt.state = answer_state(event, frozen=bool(attempt.frozen_from), cached=attempt.cached)
        step = self.steps[event.step]
        step.totals.add(event.statistics)
        if not self._keeping:
            step.spent.add(event.statistics)
        step.change(branch, attempt.state)
        branch.ended = event.time
        step.end_attempt(attempt, event.time)
        self.branch_changed.emit(event.step, event.branch)

    def _note_of_run(self, event: AnyEvent) -> None:
        if isinstance(event, PromptShortened):
            self._note(event)
        if isinstance(event, Warned | PromptShortened):
            if event.step in self.steps:
                self.steps[event.step].warnings.append(event.message)
            self.warnings.append(event.message)
            self.warned.emit(event.message)
        elif isinstance(event, FileProduced):
            self.files.append(event.path)
        elif isinstance(event, Paused):
            self.paused[event.step] = event
            self.pause_changed.emit()

    def _note(self, event: _Noted) -> None:
        if isinstance(event, Merged):
            self._step(event).merged = (event.inputs, event.outputs)
            return
        branch = self._branch(event)
        step = self.steps[event.step]
        if isinstance(event, Graded):
            step.note_grade(branch, event)
            self.graded.emit(event.step, event.branch)
        elif isinstance(event, StopProved):
            self._attempt(event, event.attempt).proof = event
        elif isinstance(event, HandlerFailed):
            attempt = self._attempt(event, event.attempt)
            attempt.failure, attempt.state = event.reason, State.REJECTED
            step.change(branch, State.RUNNING)
            branch.ended = None
            step.troubled += 1
        else:
            attempt = branch.attempt or self._attempt(event, 1)
            if isinstance(event, CacheHit):
                attempt.cached = True
                attempt.frozen_from, attempt.stale = event.frozen_from, event.stale
                step.troubled += bool(event.stale)
            elif isinstance(event, Retrying):
                attempt.retries.append(event)
                step.troubled += 1
            elif isinstance(event, PromptShortened):
                attempt.shortened = event
                step.troubled += 1
            else:
                attempt.tools.append(event)
                self.tool_called.emit(event.step, event.branch)
        self.branch_changed.emit(event.step, event.branch)

    def _finish_step(self, event: AgentFinished) -> None:
        """A context leaves: one branch walks on alone, or all of them were merged."""
        step = self._step(event)
        step.leaving.append(event.to)
        step.left.append((event.branch, event.values))
        alone = step.branches.get(event.branch)
        for branch in [alone] if alone is not None else list(step.branches.values()):
            if branch.state in OPEN_STATES:
                last = branch.attempt
                step.change(branch, last.state if last is not None and last.state in GOOD_STATES else State.DONE)
                branch.ended = event.time
                self.branch_changed.emit(step.number, branch.path)
        if alone is None or step.finished_count >= max(step.splits, len(step.branches)):
            step.ended = event.time
        self.step_finished.emit(step.number)

    def _fail_branch(self, event: BranchFailed) -> None:
        branch = self._branch(event)
        step = self.steps[event.step]
        step.change(branch, State.FAILED)
        branch.error, branch.ended = event.error, event.time
        attempt = branch.attempt
        if attempt is not None:
            if attempt.state is State.RUNNING:
                attempt.state, attempt.error = State.FAILED, event.error
                if event.error.partial and not attempt.content.length:
                    attempt.content.settle(event.error.partial)
            step.end_attempt(attempt, event.time)
        if step.ended is None and step.state not in OPEN_STATES:
            step.ended = event.time
        self.branch_changed.emit(event.step, event.branch)

    def _finish_run(self, event: RunFinished) -> None:
        self.status, self.reason = event.status, event.reason
        self.results, self.outputs = event.results, event.outputs
        self._statistics, self._agents = event.statistics, event.agents
        self.before = event.before or self.before
        self._close(event.time)

    def _close(self, moment: float) -> None:
        self.ended = moment
        if self.paused:
            self.paused.clear()
            self.pause_changed.emit()
        for step in self.steps.values():
            step.ended = step.ended or moment
            for branch in step.branches.values():
                if branch.state in OPEN_STATES:
                    step.change(branch, State.STOPPED)
                    branch.ended = moment
                    if branch.attempt is not None and branch.attempt.state is State.RUNNING:
                        branch.attempt.state = State.STOPPED
                        step.end_attempt(branch.attempt, moment)
                    self.branch_changed.emit(step.number, branch.path)
        self.run_finished.emit()
