"""One open flow: its editor, inspector, run panel and the runs it starts."""

import time
from collections.abc import Mapping, Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from engine import Engine, EngineError, build_flow, flow_text, inputs_context
from engine.errors import FlowInvalid, Problem
from engine.events import AnyEvent, RunFinished
from engine.flow.flow_check import check_run
from engine.flow.flow_links import reachable_agents
from workbench.charts.live_chart import LiveChart
from workbench.designer.editor import FlowEditor
from workbench.designer.flow_document import FlowDocument
from workbench.designer.inspector import Inspector
from workbench.run_controller import RunController
from workbench.run_panel.panel import RunPanel
from workbench.run_progress import RunProgress


class FlowTab(QObject):
    """Joins the parts that belong to one flow."""

    run_changed = Signal()
    """The run began, went on or ended: look at `progress` and `is_running`."""
    failed = Signal(object)
    """Something for a banner: the exception."""

    def __init__(self, document: FlowDocument, engine: Engine, source: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.source = source
        """Path, or name of the sample it came from; identifies it between starts."""
        self.run_title = ""
        """What the recorded run is called that this tab was opened for; empty for a flow."""
        self.document = document
        self.editor = FlowEditor(document)
        self.inspector = Inspector(self.editor, engine)
        self.panel = RunPanel()
        self.panel.add_page(self.tr("Chart"), LiveChart(self.panel))
        self.runs = RunController(engine, self)
        self.progress = RunProgress()
        self.run_started_at = 0.0
        self._engine = engine
        self._check_timer = QTimer(self)
        self._check_timer.setSingleShot(True)
        self._check_timer.setInterval(150)
        self._check_timer.timeout.connect(self.check)
        document.spec_changed.connect(lambda _before, _after: self._check_timer.start())
        self.inspector.agent_form.faults_changed.connect(self._check_timer.start)
        self.runs.event_received.connect(self._event)
        self.runs.running_changed.connect(self._running)
        self.runs.stopping.connect(self.panel.stopping)
        self.runs.failed.connect(self.failed)
        self.panel.agent_selected.connect(lambda name: self.editor.select([name]))
        self.editor.selection_changed.connect(self._selected)
        self.check()

    @property
    def title(self) -> str:
        """What the tab is called."""
        return self.run_title or self.document.title

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self.runs.is_running

    def check(self) -> tuple[Problem, ...]:
        """Find what is wrong with the flow as it is now."""
        problems = (*self.inspector.invalid_fields(), *check_run(self.document.spec, self._engine.profiles))
        self.document.set_problems(problems)
        self.editor.show_problems(problems)
        return problems

    def run(self, values: Mapping[str, object]) -> None:
        """Start a run with these inputs; problems and unusable inputs go to `failed`."""
        if self.is_running:
            return
        self.inspector.finish_editing()
        errors = [problem for problem in self.check() if problem.severity == "error"]
        if errors:
            self.failed.emit(FlowInvalid(self._cannot_run(errors), problems=errors))
            return
        spec = self.document.spec
        try:
            flow = build_flow(spec)
            context = inputs_context(spec, values)
        except EngineError as error:
            self.failed.emit(error)
            return
        self.progress = RunProgress(len(reachable_agents(spec)))
        self.run_started_at = time.time()
        self.editor.clear_run()
        self.panel.start(self.document.title)
        self.runs.start(flow, context, flow_text(spec))

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

    def _event(self, event: AnyEvent) -> None:
        self.progress.apply(event)
        self.editor.apply_event(event)
        self.panel.apply(event)
        if isinstance(event, RunFinished):
            self.run_changed.emit()

    def _running(self, running: bool) -> None:
        if not running:
            self.panel.finish()
        self.run_changed.emit()

    def _selected(self, names: tuple[str, ...]) -> None:
        if len(names) == 1:
            self.panel.select_agent(names[0])

    def show_run(self, title: str, events: Sequence[AnyEvent]) -> None:
        """Show a recorded run as it looked."""
        self.progress = RunProgress(len(reachable_agents(self.document.spec)))
        self.run_started_at = events[0].time if events else time.time()
        self.editor.clear_run()
        for event in events:
            self.progress.apply(event)
            self.editor.apply_event(event)
        self.panel.show_run(title, events)
        self.run_changed.emit()
