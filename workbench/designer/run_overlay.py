"""What a run does to the canvas: folds events into a state per agent and a count per link. Qt-free."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import assert_never

from engine.completion import FinishReason
from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    BranchFailed,
    CacheHit,
    ChunkReceived,
    CompletionFinished,
    Event,
    FileProduced,
    Graded,
    GradeOutcome,
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
    RunStarted,
    SplitStarted,
    StopProved,
    ToolCalled,
    Warned,
)
from engine.flow.run_plan import PlannedAgent
from workbench.designer.agent_run import (
    AgentRun,
    CardState,
    FrozenMark,
    Link,
    LinkRun,
    settled_state,
)
from workbench.token_estimate import piece_tokens


@dataclass(slots=True)
class _Execution:
    agent: str
    splits: int
    link: Link | None
    done: set[str] = field(default_factory=set)
    streamed: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, GradeOutcome] = field(default_factory=dict)
    failed: int = 0
    left: int = 0
    outputs: int | None = None

    @property
    def is_over(self) -> bool:
        expected = self.splits - self.failed if self.outputs is None else self.outputs
        return self.left >= expected


class RunOverlay:
    """State of all agents and links in one run; `changed_*` collect what to repaint until `take_changes`."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self.agents: dict[str, AgentRun] = {}
        self.links: dict[Link, LinkRun] = {}
        self.frozen: dict[str, FrozenMark] = {}
        """The frozen agents; that is not of one run."""
        self._executions: dict[int, _Execution] = {}
        self._last_link: dict[int, Link] = {}
        self._names: dict[str, str] = {}
        """The run's name of an agent → its name now, for agents renamed since the run began."""
        self._event_time = self._seen = 0.0
        self._goes_on = 0.0
        """When this run began, while its events are those of the run it goes on from."""
        self._changed_agents: set[str] = set()
        self._changed_links: set[Link] = set()

    def clear(self) -> None:
        """Forget the run."""
        self._changed_agents |= self.agents.keys()
        self._changed_links |= self.links.keys()
        self.agents, self.links = {}, {}
        self._executions, self._last_link, self._names = {}, {}, {}
        self._goes_on = 0.0

    @classmethod
    def of_moment(
        cls, agents: Mapping[str, AgentRun], links: Mapping[Link, LinkRun], frozen: Mapping[str, FrozenMark], now: float
    ) -> "RunOverlay":
        """A state that was put together from what is known of a run; `now` in the time of its events."""
        overlay = cls()
        overlay.agents, overlay.links, overlay.frozen = dict(agents), dict(links), dict(frozen)
        overlay._event_time, overlay._seen = now, overlay._clock()
        return overlay

    def agent(self, name: str) -> AgentRun:
        """An agent's state; idle when the run has not touched it."""
        return self.agents.get(name) or AgentRun()

    def freeze(self, marks: Mapping[str, FrozenMark]) -> None:
        """Mark exactly these agents as frozen."""
        self._changed_agents |= {name for name in {**marks, **self.frozen} if marks.get(name) != self.frozen.get(name)}
        self.frozen = dict(marks)

    @property
    def is_active(self) -> bool:
        """Whether anything runs."""
        return bool(self._executions)

    def running_agents(self) -> list[str]:
        """Agents whose elapsed time goes on."""
        return [name for name, run in self.agents.items() if run.state is CardState.RUNNING]

    def elapsed(self, run: AgentRun) -> float:
        """Seconds an agent has worked; goes on between events."""
        if run.since is None:
            return run.spent
        return run.spent + max(0.0, self._event_time + (self._clock() - self._seen) - run.since)

    def take_changes(self) -> tuple[set[str], set[Link]]:
        """Agents and links that changed since the last call."""
        changes = self._changed_agents, self._changed_links
        self._changed_agents, self._changed_links = set(), set()
        return changes

    def rename(self, names: Mapping[str, str]) -> None:
        """Follow agents that get another name (old to new); the run itself goes on under the old one."""
        if not names:
            return
        self._names = {key: names.get(name, name) for key, name in self._names.items()}
        self._names |= {old: new for old, new in names.items() if old not in self._names}
        for new in names.values():
            self._names.pop(new, None)
        self.agents = {names.get(name, name): run for name, run in self.agents.items()}
        self.links = {_renamed_link(link, names): run for link, run in self.links.items()}
        self._last_link = {step: _renamed_link(link, names) for step, link in self._last_link.items()}
        for execution in self._executions.values():
            execution.agent = names.get(execution.agent, execution.agent)
            execution.link = execution.link and _renamed_link(execution.link, names)
        self._changed_agents |= self.agents.keys()
        self._changed_links |= self.links.keys()

    def plan(self, agents: Mapping[str, PlannedAgent]) -> None:
        """Tint exactly these agents that have not run as going to run."""
        for name, run in list(self.agents.items()):
            if run.state is CardState.PLANNED and name not in agents:
                run.state, run.planned = CardState.IDLE, None
                self._changed_agents.add(name)
        for name, planned in agents.items():
            run = self.agents.setdefault(name, AgentRun())
            if run.state in (CardState.IDLE, CardState.PLANNED):
                run.state, run.planned = CardState.PLANNED, planned
                self._changed_agents.add(name)

    def apply(self, event: AnyEvent) -> None:
        """Fold one event in."""
        if self._goes_on and event.time >= self._goes_on:
            self._skip_pause(event.time)
        self._event_time, self._seen = event.time, self._clock()
        match event:
            case ChunkReceived():
                self._stream(event)
            case RunStarted():
                self.clear()
                self._goes_on = event.time if event.kept else 0.0
            case AgentStarted():
                self._start(event)
            case CompletionFinished() | HandlerFailed() | PromptReady() | CacheHit():
                self._attempt(event)
            case Graded() | Merged() | AgentFinished() | BranchFailed():
                self._leave(event)
            case PhaseChanged() | Retrying() | PromptShortened() | Warned() | Paused():
                self._note(event)
            case RunFinished():
                self._finish_run(event)
            case SplitStarted() | RequestFormed() | RequestFailed() | StopProved() | ToolCalled():
                pass
            case PlanChanged() | FileProduced():
                pass
            case _:
                assert_never(event)

    # -- the run ----------------------------------------------------------------------------------------------------

    def _skip_pause(self, now: float) -> None:
        """The time between the two runs is nobody's work."""
        self._goes_on = 0.0
        for run in self.agents.values():
            if run.since is not None:
                run.since += now - self._event_time

    def _finish_run(self, event: RunFinished) -> None:
        for step in list(self._executions):
            self._end(step, event.time, stopped=True)
        for name, waiting in self.agents.items():
            if waiting.state is CardState.PAUSED:
                waiting.state = CardState.STOPPED
                self._changed_agents.add(name)
        for run_name, statistics in event.agents.items():
            name = self.name_now(run_name)
            run = self.agents.get(name)
            if run is not None and run.is_over:
                run.settle(statistics)
                self._changed_agents.add(name)
        self.plan({})

    # -- one execution ----------------------------------------------------------------------------------------------

    def _start(self, event: AgentStarted) -> None:
        name = self.name_now(event.agent)
        run = self.agents.setdefault(name, AgentRun())
        if run.since is None:
            run.since, run.total, run.done, run.phase = event.time, 0, 0, None
        run.total += event.splits
        run.state = CardState.RUNNING
        link = self._last_link.get(event.from_step)
        if link is not None and link[1] == name:
            on_link = self.links[link]
            on_link.flowing += 1
            # One context fans out at the far end of the link: the link shows what it became.
            on_link.count += event.splits - 1
            self._changed_links.add(link)
        else:
            link = None
        self._executions[event.step] = _Execution(name, event.splits, link)
        self._changed_agents.add(name)

    def _stream(self, event: ChunkReceived) -> None:
        execution = self._executions.get(event.step)
        if execution is not None:
            tokens = piece_tokens(event.content) + piece_tokens(event.reasoning)
            execution.streamed[event.branch] = execution.streamed.get(event.branch, 0) + tokens
            self.agents[execution.agent].streamed += tokens
            self._changed_agents.add(execution.agent)

    def _attempt(self, event: CompletionFinished | HandlerFailed | PromptReady | CacheHit) -> None:
        execution, run = self._of(event)
        if execution is None or run is None:
            return
        match event:
            case CompletionFinished():
                run.add(event.statistics)
                run.audit = event.audit or run.audit
                run.streamed -= execution.streamed.pop(event.branch, 0)
                self._set_done(execution, event.branch, event.finish_reason is not FinishReason.STOPPED)
                if event.content.strip():
                    run.output = event.content.strip().splitlines()[0][:200]
                    run.output_branch = event.branch
            case HandlerFailed():
                run.retries += 1
                run.reason = event.reason
                self._set_done(execution, event.branch, False)
            case PromptReady():
                run.streamed -= execution.streamed.pop(event.branch, 0)
                self._set_done(execution, event.branch, False)
            case CacheHit():
                run.cached += 1
                run.frozen += bool(event.frozen_from)
                run.stale = event.stale or run.stale

    def _leave(self, event: Graded | Merged | AgentFinished | BranchFailed) -> None:
        execution, run = self._of(event)
        if execution is None or run is None:
            return
        match event:
            case Graded():
                outcome = event.outcome or (GradeOutcome.PASSED if event.passed else GradeOutcome.FAILED)
                execution.verdicts[event.branch] = outcome
                run.note_grade(event, outcome)
            case Merged():
                if execution.done or execution.failed:
                    execution.outputs = event.outputs
            case AgentFinished():
                execution.left += 1
                if execution.outputs is None:
                    self._set_done(execution, event.branch, True)
                target = None if event.to is None else self.name_now(event.to)
                verdict = execution.verdicts.pop(event.branch, None)
                link = (execution.agent, target, None if verdict is None else verdict is GradeOutcome.PASSED)
                on_link = self.links.setdefault(link, LinkRun())
                on_link.count += 1
                on_link.ungraded += verdict in (GradeOutcome.UNPARSABLE, GradeOutcome.UNANSWERED)
                self._last_link[event.step] = link
                self._changed_links.add(link)
            case BranchFailed():
                execution.failed += 1
                run.failures += 1
                run.reason = f"{event.branch} {event.error.message}".strip()
                run.streamed -= execution.streamed.pop(event.branch, 0)
                self._set_done(execution, event.branch, True)
        if execution.is_over and not isinstance(event, Graded | Merged):
            self._end(event.step, event.time)

    def _note(self, event: PhaseChanged | Retrying | PromptShortened | Warned | Paused) -> None:
        name = self.name_now(event.agent)
        run = self.agents.get(name)
        if run is None and isinstance(event, Paused):
            run = self.agents.setdefault(name, AgentRun())
        if run is None:
            return
        match event:
            case PhaseChanged():
                run.phase = event.phase
                if run.state is CardState.PAUSED:
                    run.state = CardState.RUNNING
            case Retrying():
                run.retries += 1
                run.reason = event.reason
            case Warned() | PromptShortened():
                run.reason = event.message
            case Paused():
                run.state = CardState.PAUSED
        self._changed_agents.add(name)

    def name_now(self, run_name: str) -> str:
        """What an agent of the run is called in the flow as it is now."""
        return self._names.get(run_name, run_name)

    def _of(self, event: Event) -> tuple[_Execution | None, AgentRun | None]:
        execution = self._executions.get(event.step)
        if execution is None:
            return None, None
        self._changed_agents.add(execution.agent)
        return execution, self.agents[execution.agent]

    def _set_done(self, execution: _Execution, branch: str, done: bool) -> None:
        if done is (branch in execution.done):
            return
        run = self.agents[execution.agent]
        if done:
            execution.done.add(branch)
            run.done += 1
        else:
            execution.done.discard(branch)
            run.done -= 1

    def _end(self, step: int, time: float, *, stopped: bool = False) -> None:
        execution = self._executions.pop(step)
        run = self.agents[execution.agent]
        if execution.link is not None:
            self.links[execution.link].flowing -= 1
            self._changed_links.add(execution.link)
        self._changed_agents.add(execution.agent)
        if any(other.agent == execution.agent for other in self._executions.values()):
            return
        if run.since is not None:
            run.spent += max(0.0, time - run.since)
            run.since = None
        run.phase = None
        run.state = CardState.STOPPED if stopped else settled_state(run)


def _renamed_link(link: Link, names: Mapping[str, str]) -> Link:
    source, target, verdict = link
    return names.get(source, source), target and names.get(target, target), verdict
