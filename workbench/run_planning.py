"""What a run of the flow in front is going to ask and may cost: on cards, in the tip of Run, in the form of inputs."""

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QObject

from engine import Engine
from engine.flow.flow_build import asked_profile
from engine.flow.run_plan import RunPlan, plan_run
from workbench.documents import Documents
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.text_format import calls_text, planned_cost_text


class RunPlanning(QObject):
    """Shows the plan while the mouse is on Run."""

    def __init__(self, window: MainWindow, engine: Engine, documents: Documents) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self._documents = documents
        window.run_hovered.connect(self._show)

    def plan(self, tab: FlowTab, values: Mapping[str, str]) -> RunPlan:
        """What a run with these inputs is going to ask."""
        return plan_run(
            tab.document.spec,
            {key: text for key, text in values.items() if text},
            partial(asked_profile, resolve=self._engine.resolve),
            kept=tab.frozen,
            last=tab.panel.model.agent_statistics(),
        )

    def words(self, tab: FlowTab, values: Mapping[str, str]) -> str:
        """The plan in a sentence; empty when nothing is going to be asked."""
        total = self.plan(tab, values).total
        if not (total.calls or total.more):
            return ""
        text = self.tr("%1, %2").replace("%1", calls_text(total)).replace("%2", planned_cost_text(total))
        return f"{text} {self.tr('if answers get as long as they may')}" if total.at_most and total.cost else text

    def _show(self, shown: bool) -> None:
        tab = self._documents.current
        if tab is None or tab.is_running:
            return
        values = tab.inspector.flow_form.texts()
        tab.editor.show_planned(self.plan(tab, values).agents if shown else {})
        self._window.actions_by_id.add_tip("run", self.words(tab, values) if shown else "")
