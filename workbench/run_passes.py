"""The canvas at one pass of the run: what the passes up to it did, each agent with the figures of its own last one."""

from collections.abc import Iterable

from PySide6.QtCore import QObject, QTimer

from engine.events import GradeOutcome
from workbench.designer.agent_run import AgentRun, CardState, Link, LinkRun, settled_state
from workbench.designer.editor import FlowEditor
from workbench.designer.run_overlay import RunOverlay
from workbench.run_panel.panel import REFRESH_MILLISECONDS, RunPanel
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import Branch, State, Step, Totals, grade_outcome

_UNREADABLE = (GradeOutcome.UNPARSABLE, GradeOutcome.UNANSWERED)


class PassView(QObject):
    """Has the canvas show the pass that the stepper of the run panel chose, also while it goes on."""

    def __init__(self, editor: FlowEditor, panel: RunPanel, parent: QObject) -> None:
        super().__init__(parent)
        self._editor = editor
        self._panel = panel
        self._timer = QTimer(self)
        self._timer.setInterval(REFRESH_MILLISECONDS)
        self._timer.timeout.connect(self.refresh)
        panel.pass_chosen.connect(self._choose)
        panel.model.run_finished.connect(self.refresh)
        editor.document.spec_changed.connect(self.refresh)

    def _choose(self, number: int) -> None:
        if number:
            self.refresh()
        else:
            self._timer.stop()
            self._editor.show_overlay(self._editor.overlay)

    def refresh(self) -> None:
        """Show the pass as it is by now; nothing when the canvas shows the run as it stands."""
        step = self._panel.stepper.step_shown
        if step is None:
            return
        model = self._panel.model
        passes = _passes(model, step.number)
        self._editor.show_overlay(pass_overlay(model, step.number, self._editor.overlay))
        if model.running and any(one.ended is None for one in passes):
            self._timer.start()
        else:
            self._timer.stop()


def _passes(model: RunModel, until: int) -> list[Step]:
    return [model.steps[number] for number in model.passes[: model.passes.index(until) + 1]]


def pass_overlay(model: RunModel, until: int, live: RunOverlay) -> RunOverlay:
    """The canvas after the pass `until`; `live` knows what agents are called by now, and which are frozen."""
    passes = _passes(model, until)
    inside: dict[int, list[Step]] = {}
    for step in model.steps.values():
        if step.within:
            inside.setdefault(model.pass_of(step.number), []).append(step)
    last = {step.agent: step for step in passes}
    own: dict[str, list[int]] = {}
    for number in model.passes:
        own.setdefault(model.steps[number].agent, []).append(number)
    agents = {}
    for agent, step in last.items():
        run = _agent_run(step, inside.get(step.number, ()))
        run.own_pass, run.passes = own[agent].index(step.number) + 1, len(own[agent])
        agents[live.name_now(agent)] = run
    return RunOverlay.of_moment(agents, _links(passes, live), live.frozen, model.now())


def _agent_run(step: Step, inside: Iterable[Step]) -> AgentRun:
    """One pass of an agent; what happened inside of a node is the node's."""
    parts = [step, *inside]
    run = AgentRun(total=max(step.splits, len(step.branches)), done=step.done_count)
    attempts = [attempt for part in parts for attempt in part.attempts()]
    for attempt in attempts:
        run.retries += len(attempt.retries) + bool(attempt.failure)
        run.cached += attempt.cached and attempt.statistics is not None
        run.frozen += bool(attempt.frozen_from)
        run.stale = attempt.stale or run.stale
        run.audit = attempt.audit or run.audit
        run.reason = attempt.failure or (attempt.retries[-1].reason if attempt.retries else run.reason)
        if attempt.statistics is not None:
            run.add(attempt.statistics)
    for part in parts:
        run.reason = part.warnings[-1] if part.warnings else run.reason
        run.streamed += sum(one.content.tokens + one.reasoning.tokens for one in part.open_attempts)
    for branch in step.branches.values():
        _add_branch(run, branch)
    total = Totals.of(part.totals.statistics() for part in parts).statistics()
    if total.requests:  # what came from the cache was not paid, so it does not count beside what was
        run.settle(total)
        run.streamed = sum(one.content.tokens + one.reasoning.tokens for part in parts for one in part.open_attempts)
    _set_state(run, step)
    return run


def _add_branch(run: AgentRun, branch: Branch) -> None:
    if branch.error is not None:
        run.failures += 1
        run.reason = f"{branch.path} {branch.error.message}".strip()
    if branch.grade is not None:
        run.note_grade(branch.grade, grade_outcome(branch.grade))
    attempt = branch.attempt
    text = attempt.content.text.strip() if attempt is not None and attempt.statistics is not None else ""
    if text:
        run.output, run.output_branch = text.splitlines()[0][:200], branch.path
    if attempt is not None and attempt.spans and attempt.ended is None:
        run.phase = attempt.spans[-1].phase


def _set_state(run: AgentRun, step: Step) -> None:
    if step.ended is None:
        run.state, run.since = CardState.RUNNING, step.started
        return
    run.spent, run.phase = step.seconds(step.ended), None
    run.state = CardState.STOPPED if step.counts.get(State.STOPPED) else settled_state(run)


def _links(passes: Iterable[Step], live: RunOverlay) -> dict[Link, LinkRun]:
    """How many contexts of these passes went along each link."""
    links: dict[Link, LinkRun] = {}
    leads: dict[tuple[int, str | None], Link] = {}
    for step in passes:
        name = live.name_now(step.agent)
        came = leads.get((step.from_step, name))
        if came is not None:
            # One context fans out at the far end of the link: the link shows what it became.
            links[came].count += step.splits - 1
            links[came].flowing += step.ended is None
        for (path, _), to in zip(step.left, step.leaving, strict=True):
            target = None if to is None else live.name_now(to)
            branch = step.branches.get(path)
            outcome = grade_outcome(branch.grade) if branch is not None and branch.grade is not None else None
            link = (name, target, None if outcome is None else outcome is GradeOutcome.PASSED)
            on_link = links.setdefault(link, LinkRun())
            on_link.count += 1
            on_link.ungraded += outcome in _UNREADABLE
            leads[step.number, target] = link
    return links
