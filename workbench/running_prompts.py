"""Which versions of prompts the runs that go on use."""

from PySide6.QtCore import QObject, Signal

from workbench.documents import Documents
from workbench.flow_tab import FlowTab


class RunningPrompts(QObject):
    """Looks at the open flows."""

    changed = Signal()
    """A run began or ended."""

    def __init__(self, documents: Documents, parent: QObject) -> None:
        super().__init__(parent)
        self._documents = documents
        for tab in documents.tabs:
            self._follow(tab)
        documents.tab_added.connect(self._follow)
        documents.tab_removed.connect(lambda _tab: self.changed.emit())

    def _follow(self, tab: FlowTab) -> None:
        tab.run_changed.connect(self.changed)

    def uses(self, key: str, current: str) -> list[tuple[str, str]]:
        """Title of each flow that is running with a text of this prompt, and its language and version.

        Those with another text than the `current` one come first.
        """
        running = [tab for tab in self._documents.tabs if tab.is_running]
        found = [(tab.title, tab.panel.model.prompts[key]) for tab in running if key in tab.panel.model.prompts]
        return sorted(found, key=lambda use: use[1] == current)
