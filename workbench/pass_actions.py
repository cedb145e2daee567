"""Joins the actions that step through the passes of a run to the stepper of the flow in front."""

from PySide6.QtCore import QObject

from workbench.documents import Documents
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.run_panel.pass_stepper import PassStepper

BACK, ON, LATEST = "previous_pass", "next_pass", "latest_pass"


class PassActions(QObject):
    """Shows which way it can go."""

    def __init__(self, window: MainWindow, documents: Documents) -> None:
        super().__init__(window)
        self._actions = window.actions_by_id
        self._documents = documents
        self._actions[BACK].triggered.connect(lambda: self._step(-1))
        self._actions[ON].triggered.connect(lambda: self._step(1))
        self._actions[LATEST].triggered.connect(lambda: self._step(0))
        documents.tab_added.connect(self._follow)
        documents.tab_removed.connect(lambda _tab: self._show())
        window.tab_changed.connect(lambda _editor: self._show())
        self._show()

    def _follow(self, tab: FlowTab) -> None:
        tab.panel.stepper.changed.connect(self._show)
        tab.panel.stepper.set_tips(*(self._actions[name].toolTip() for name in (BACK, ON, LATEST)))

    @property
    def _stepper(self) -> PassStepper | None:
        tab = self._documents.current
        return tab.panel.stepper if tab is not None else None

    def _step(self, by: int) -> None:
        stepper = self._stepper
        if stepper is not None:
            stepper.step(by) if by else stepper.show_latest()

    def _show(self) -> None:
        stepper = self._stepper
        self._actions[BACK].setEnabled(stepper is not None and stepper.can_go_back)
        self._actions[ON].setEnabled(stepper is not None and stepper.can_go_on)
        self._actions[LATEST].setEnabled(stepper is not None and stepper.is_away)
