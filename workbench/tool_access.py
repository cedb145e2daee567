"""What the page *Tools* is told of the open flows: the tools beside them, and what their runs may use."""

from functools import partial

from PySide6.QtCore import QObject, Signal

from engine import Engine
from engine.trust import Approval
from workbench.documents import Documents
from workbench.flow_tab import FlowTab
from workbench.toolbox.approvals_view import Grant
from workbench.toolbox.tool_entries import FlowTools


class ToolAccess(QObject):
    """Looks at the open flows."""

    changed = Signal()
    """There are other flows, trust was given, or a run allows something else."""

    def __init__(self, documents: Documents, engine: Engine, parent: QObject) -> None:
        super().__init__(parent)
        self._documents = documents
        self._engine = engine
        for tab in documents.tabs:
            self._follow(tab)
        documents.tab_added.connect(self._follow)
        for changed in (documents.tab_added, documents.tab_removed):
            changed.connect(lambda _tab: self.changed.emit())

    def _follow(self, tab: FlowTab) -> None:
        for changed in (tab.trust.changed, tab.run_changed, tab.approvals_changed):
            changed.connect(self.changed)

    def flow_tools(self) -> list[FlowTools]:
        """The tools in the folders beside the open flows; reads them."""
        looked = [(tab.title, tab.trust.look()) for tab in list(self._documents.tabs)]
        return [
            FlowTools(flow=title, plugins=self._engine.access.plugins(access), trusted=access.trust.trusted)
            for title, access in looked
            if access is not None and access.folder is not None
        ]

    def run_grants(self) -> list[Grant]:
        """The tools allowed in runs that go on."""
        return [
            Grant(kind="run", name=name, detail=tab.title, key=partial(tab.take_back, name))
            for tab in self._documents.tabs
            if tab.is_running
            for name in tab.allowed_tools
        ]

    def withdrawn(self, approval: Approval) -> None:
        """A flow that was open when its trust was taken back is restricted like any other."""
        for tab in self._documents.tabs:
            if approval.path is not None and tab.document.path == approval.path:
                tab.trust.read_again()
                tab.check_all()
