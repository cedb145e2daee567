"""One open flow: its editor, inspector, run panel and the runs it starts."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal

from engine import Engine, EngineError, RecordedTape, flow_text, inputs_context
from engine.errors import FlowInvalid, Problem
from engine.events import REPLAY, AnyEvent, RunFinished, RunStarted
from engine.flow.breakpoints import Breakpoints
from engine.flow.context import Context
from engine.flow.flow import Flow
from engine.flow.flow_check import check_run
from engine.flow.flow_links import reachable_agents
from engine.flow.flow_spec import FlowSpec
from engine.flow.restart import Restart
from engine.flow.subflow_files import FlowFiles
from workbench.after_paint import after_paint
from workbench.branch_series import BranchSeries
from workbench.charts.live_chart import LiveChart
from workbench.designer.editor import FlowEditor
from workbench.designer.flow_document import FlowDocument
from workbench.designer.inspector import Inspector
from workbench.flow_trust import FlowTrust
from workbench.frozen_agents import FrozenAgents
from workbench.run_controller import Beginning, Playing, RunController
from workbench.run_panel.error_guard import ErrorGuard
from workbench.run_panel.panel import RunPanel
from workbench.run_panel.requests_view import RequestsView
from workbench.run_passes import PassView
from workbench.run_progress import RunProgress
from workbench.tasks import Tasks
from workbench.tool_question import ToolQuestion

_CHECKED_AT_ONCE = 200
"""Agents of a flow that is checked at once; larger ones are in a thread, so that the window is not held up."""
BROKEN_OFF = frozenset({"failed", "stopped", "budget", "crashed"})
"""Statuses of runs that can go on."""


class FlowTab(QObject):
    """Joins the parts that belong to one flow."""

    run_changed = Signal()
    """The run began, went on or ended: look at `progress` and `is_running`."""
    failed = Signal(object)
    """Something for a banner: the exception."""
    trust_needed = Signal(object)
    """A run waits for the answer whether the flow is trusted: the Access to ask about."""
    approvals_changed = Signal()
    """Other tools are allowed for the rest of the run: look at `allowed_tools`."""
    asked_again = Signal(str)
    """A run is over in which this frozen agent was asked: its new answer may be kept."""

    def __init__(
        self,
        document: FlowDocument,
        engine: Engine,
        source: str,
        parent: QObject | None = None,
        *,
        made_here: bool = False,
    ) -> None:
        super().__init__(parent)
        self.source = source
        """Path, or name of the sample it came from; identifies it between starts, unless it is new."""
        self.run_title = ""
        """What the recorded run is called that this tab was opened for; empty for a flow."""
        self.document = document
        self.trust = FlowTrust(document, engine, made_here=made_here, parent=self)
        self.editor = FlowEditor(document)
        self.inspector = Inspector(self.editor, engine, plugins=self.trust.plugins)
        self.panel = RunPanel()
        self.panel.add_page(self.tr("Chart"), LiveChart(self.panel))
        requests = RequestsView(self.panel)
        requests.branch_chosen.connect(self.panel.choose_branch)
        self.panel.add_page(self.tr("Requests"), requests)
        self.pass_view = PassView(self.editor, self.panel, self)
        self.runs = RunController(engine, self)
        self.frozen = FrozenAgents(engine, document, source, self.trust.plugins, self)
        self.progress = RunProgress()
        self.branches = BranchSeries()
        """Of the newest run of this flow; a recorded one that is only shown is none."""
        self.breakpoints = Breakpoints()
        """Of the run that goes on."""
        self.run_started_at = 0.0
        self.tapes: Callable[[], Path | None] = lambda: None
        """Gives the folder in which the next run is recorded."""
        self.played: RecordedTape | None = None
        """The tape that was played last."""
        self._guard = ErrorGuard()
        self._asked = ""
        self._tasks = Tasks(self)
        self._tasks.failed.connect(self.failed)
        self._question: ToolQuestion | None = None
        self._engine = engine
        self._check_timer = QTimer(self)
        self._check_timer.setSingleShot(True)
        self._check_timer.setInterval(150)
        self._check_timer.timeout.connect(self._check_soon)
        document.spec_changed.connect(self._changed)
        self.inspector.agent_form.refusals.changed.connect(self._check_timer.start)
        document.spec_changed.connect(lambda _before, after: self.breakpoints.set(after.editor.breakpoints))
        self.runs.events_received.connect(self._apply)
        self.panel.model.pause_changed.connect(self.run_changed)
        self.panel.stream.step_requested.connect(self.step)
        self.panel.stream.go_on_requested.connect(self.go_on)
        self.panel.stream.edit_context_requested.connect(self.edit_paused)
        self.frozen.changed.connect(lambda: self.editor.show_frozen(self.frozen.marks()))
        self.frozen.changed.connect(self.pass_view.refresh)
        self.runs.running_changed.connect(self._running)
        self.runs.stopping.connect(self.panel.stopping)
        self.runs.failed.connect(self.failed)
        self.panel.agent_selected.connect(self._select_card)
        self.editor.selection_changed.connect(self._selected)
        # Reading profiles and templates for the first time takes longer than drawing the flow, which comes first.
        after_paint(self, self._check_soon)

    @property
    def title(self) -> str:
        """What the tab is called."""
        return self.run_title or self.document.title

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self.runs.is_running

    @property
    def is_paused(self) -> bool:
        """Whether a branch waits at a breakpoint."""
        return bool(self.breakpoints.waiting)

    @property
    def is_replay(self) -> bool:
        """Whether the run on show plays a tape, or did."""
        return self.runs.is_playing or (not self.is_running and self.panel.model.origin == REPLAY)

    def step(self) -> None:
        """Let one waiting branch do one step."""
        self.breakpoints.step()

    def go_on(self) -> None:
        """Let all waiting branches go on to the next breakpoint."""
        self.breakpoints.resume()

    def hold(self, held: bool) -> None:
        """Let the run wait before each next agent, or let it go on."""
        if held:
            self.breakpoints.pause()
        else:
            self.breakpoints.resume()

    def edit_paused(self) -> None:
        """Edit what a waiting branch has in its context."""
        from workbench.paused_form import PausedForm

        if self.is_paused:
            PausedForm(self.breakpoints.waiting, self.editor.window()).open()

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """The tools that are no longer asked about in the last run."""
        return self._question.allowed if self._question is not None else ()

    def take_back(self, tool: str) -> None:
        """Ask again before a tool in this run."""
        if self._question is not None:
            self._question.take_back(tool)

    @property
    def run_id(self) -> str:
        """The run on show; empty for none."""
        return self.runs.run_id or self.panel.model.run_id

    def _changed(self, before: FlowSpec, after: FlowSpec) -> None:
        """Check soon, unless agents only stand elsewhere: then what is wrong is still the same."""
        if replace(before, editor=after.editor) != after:
            self._check_timer.start()

    def _check_soon(self) -> None:
        if len(self.document.spec.agents) <= _CHECKED_AT_ONCE:
            self.check_all()
        else:
            self._tasks.start(self._check_beside(self.document.spec), self)

    async def _check_beside(self, spec: FlowSpec) -> None:
        """Check a large flow in a thread; one that was edited meanwhile is checked again anyway."""
        found = await asyncio.to_thread(check_run, spec, self._engine.profiles, self.trust.plugins(spec))
        if spec is self.document.spec:
            self._show_problems(found)
            self.frozen.check()

    def check_all(self) -> None:
        """Find what is wrong with the flow, and which frozen agents are stale, as flow and profiles are now."""
        self.check()
        self.frozen.check()

    def check(self, *, inside: bool = False) -> tuple[Problem, ...]:
        """Find what is wrong with the flow as it is now; `inside` reads the flows it runs as nodes, too."""
        files = FlowFiles(self.document.origin) if inside else None
        spec = self.document.spec
        return self._show_problems(check_run(spec, self._engine.profiles, self.trust.plugins(spec), files=files))

    def _show_problems(self, found: Sequence[Problem]) -> tuple[Problem, ...]:
        problems = (*self.inspector.invalid_fields(), *found)
        self.document.set_problems(problems)
        self.editor.show_problems(problems)
        return problems

    def run(self, values: Mapping[str, object], *, fresh: bool = False) -> None:
        """Start a run with these inputs; problems and unusable inputs go to `failed`.

        A `fresh` run takes no answer from the cache.
        """
        flow = self.built()
        if flow is None:
            return
        try:
            context = inputs_context(self.document.spec, values)
        except EngineError as error:
            self.failed.emit(error)
            return
        self.start(flow, context, fresh=fresh)

    def built(self) -> Flow | None:
        """The flow as it would run now; None when one is running, or it cannot run, which goes to `failed`."""
        if self.is_running:
            return None
        self.inspector.finish_editing()
        errors = [problem for problem in self.check(inside=True) if problem.severity == "error"]
        if errors:
            self.failed.emit(FlowInvalid(self._cannot_run(errors), problems=errors))
            return None
        try:
            if (access := self.trust.restricted) is not None:
                self.trust_needed.emit(access)
                return None
            return self.trust.build(self.document.spec)
        except EngineError as error:
            self.failed.emit(error)
            return None

    def start(
        self, flow: Flow, context: Context, *, fresh: bool = False, restart: Restart | None = None, asked: str = ""
    ) -> None:
        """Start a run of what was built, where a recorded run goes on if there is one.

        `asked` is the name of an agent that is asked although it is frozen, and keeps what it answers.
        """
        self._question = ToolQuestion(self.editor.window(), self.document.title, self.approvals_changed.emit)
        self._asked = asked
        self.breakpoints = Breakpoints(self.document.spec.editor.breakpoints)
        self._begin(
            Beginning(
                flow=flow,
                context=context,
                flow_text=flow_text(self.document.spec),
                fresh=fresh,
                restart=restart,
                frozen=self.frozen.given(without=asked),
                breakpoints=self.breakpoints,
                allow_tool=self._question,
                tapes=self.tapes() if restart is None else None,
            )
        )

    def replay(self, playing: Playing) -> bool:
        """Play a tape with the flow as it is here; whether it began. What keeps it from it is told."""
        if self.is_running:
            return False
        try:
            access, flow = self.trust.recorded(playing.tape.start.flow_origin)
        except EngineError as error:
            self.failed.emit(error)
            return False
        if flow is None:
            self.trust_needed.emit(access)
            return False
        self.played, self._asked = playing.tape, ""
        self.breakpoints = Breakpoints()
        context = Context(playing.tape.start.inputs)
        text = flow_text(self.document.spec)
        self._begin(
            Beginning(flow=flow, context=context, flow_text=text, breakpoints=self.breakpoints, playing=playing)
        )
        return True

    def _begin(self, beginning: Beginning) -> None:
        spec = self.document.spec
        self.progress = RunProgress(len(reachable_agents(spec)))
        self.run_started_at = time.time()
        self._guard.forget()
        self.editor.clear_run()
        self.panel.start(self.document.title, beginning.context.values_copy())
        self.panel.resume.offer(False)
        self.runs.start(beginning)

    def _cannot_run(self, errors: Sequence[Problem]) -> str:
        text = self.tr("The flow cannot run: %1")
        if len(errors) == 2:
            text = self.tr("The flow cannot run: %1 Another problem stands in its way, too.")
        elif len(errors) > 2:
            text = self.tr("The flow cannot run: %1 %2 more problems stand in its way, too.")
            text = text.replace("%2", str(len(errors) - 1))
        first = errors[0].message
        # Some messages end with a name instead of a full stop.
        ended = first if len(errors) == 1 or first.endswith((".", "?", "!")) else f"{first}."
        return text.replace("%1", ended)

    def _apply(self, events: Sequence[AnyEvent]) -> None:
        # Each part takes them all before the next one: they do not look at each other, and short loops are fast.
        self._guard.run_each(self.progress, self.progress.apply, events)
        self._guard.run_each(self.editor, self.editor.apply_event, events)
        self._guard.run_each(self.branches, self.branches.apply, events)
        self.inspector.show_events(events)
        self.panel.apply(events)
        if any(isinstance(event, RunStarted | RunFinished) for event in events):
            self.run_changed.emit()

    def _running(self, running: bool) -> None:
        if not running:
            self.panel.finish()
            self.panel.resume.offer(self.can_resume)
            if self._asked:
                self.asked_again.emit(self._asked)
                self._asked = ""
        self.run_changed.emit()

    def _select_card(self, name: str) -> None:
        """Select an agent of a run, or the node it ran inside of."""
        while self.document.spec.agent(name) is None and "/" in name:
            name = name.rpartition("/")[0]
        self.editor.select([name])

    @property
    def can_resume(self) -> bool:
        """Whether the run on show broke off, and is recorded so that it can go on."""
        recorded = self._engine.history is not None and bool(self.run_id)
        return recorded and not self.is_running and self.panel.model.status in BROKEN_OFF

    def cannot_start_from(self, agent: str) -> str:
        """Why no run can begin at an agent with what it had in the run on show; empty when one can."""
        if self.is_running:
            return self.tr("A run is going on.")
        if self._engine.history is None or not self.run_id:
            return self.tr("Run the flow once, or open a recorded run: it starts from what an agent had there.")
        if self.panel.model.last_step_of(agent) is None:
            return self.tr("The run on show did not come to %1.").replace("%1", agent)
        return ""

    def _selected(self, names: tuple[str, ...]) -> None:
        if len(names) == 1:
            self.panel.select_agent(names[0])

    def show_run(
        self,
        title: str,
        events: Sequence[AnyEvent],
        status: str = "stopped",
        inputs: dict[str, list[object]] | None = None,
    ) -> None:
        """Show a recorded run as it looked; `status` is that of one without an end."""
        self.progress = RunProgress(len(reachable_agents(self.document.spec)))
        self.run_started_at = events[0].time if events else time.time()
        self._guard.forget()
        self.editor.clear_run()
        self._guard.run_each(self.progress, self.progress.apply, events)
        self._guard.run_each(self.editor, self.editor.apply_event, events)
        self.inspector.show_events(events, afresh=True)
        self.panel.show_run(title, events, status, inputs)
        self.panel.resume.offer(self.can_resume)
        self.run_changed.emit()
