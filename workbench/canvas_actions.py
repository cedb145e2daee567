"""Joins the actions of menus and keys to the commands of the flow in front, and shows which of them can be done."""

from functools import partial

from PySide6.QtCore import QObject

from workbench.designer.canvas_commands import IDS, CanvasCommands
from workbench.designer.outline import Outline
from workbench.documents import Documents
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.saved_agents import SavedAgents


class CanvasActions(QObject):
    """Follows the open flows."""

    def __init__(self, window: MainWindow, documents: Documents, saved: SavedAgents) -> None:
        super().__init__(window)
        self._window = window
        self._documents = documents
        self._saved = saved
        self._outlines: dict[FlowTab, Outline] = {}
        for action_id in IDS:
            window.actions_by_id[action_id].triggered.connect(partial(self._perform, action_id))
        documents.tab_added.connect(self._follow)
        documents.tab_removed.connect(self._forget)
        window.tab_changed.connect(lambda _editor: self._show())
        self._show()

    def _follow(self, tab: FlowTab) -> None:
        outline = self._outlines[tab] = Outline(tab.editor, self._window)
        self._window.outlines.addWidget(outline)
        for widget in (tab.editor, outline):
            self._window.actions_by_id.add_canvas(widget)
        tab.editor.selection_changed.connect(lambda _names: self._show())
        tab.editor.marked.connect(self._show)
        commands = tab.editor.commands
        commands.told.connect(self._window.status.show_note)
        commands.prompt_wanted.connect(partial(self._edit, tab, "prompt"))
        commands.rename_wanted.connect(partial(self._edit, tab, "name"))
        commands.save_wanted.connect(partial(self._saved.keep, tab))
        commands.palettes.flows = self._flows
        commands.palettes.saved = lambda: self._saved.library.agents
        self._show()

    def _forget(self, tab: FlowTab) -> None:
        outline = self._outlines.pop(tab, None)
        if outline is not None:
            self._window.outlines.removeWidget(outline)
            outline.deleteLater()
        self._show()

    def _perform(self, action_id: str, _checked: bool = False) -> None:
        tab = self._documents.current
        if tab is not None:
            tab.editor.commands.perform(action_id)

    def _edit(self, tab: FlowTab, part: str, agent: str) -> None:
        tab.editor.select([agent])
        self._window.show_dock("inspector")
        if part == "name":
            tab.inspector.edit_name()
        else:
            tab.inspector.edit_prompt()

    def _flows(self) -> list[tuple[str, str]]:
        """The flows that can run as nodes: all that the explorer lists, but for the one in front."""
        front = self._documents.current
        items = self._window.explorer.items("flow")
        return [(item.text.removesuffix(" •"), item.id) for item in items if front is None or item.id != front.source]

    def _show(self) -> None:
        tab = self._documents.current
        if tab is not None and tab in self._outlines:
            self._window.outlines.setCurrentWidget(self._outlines[tab])
        elif tab is None:
            self._window.outlines.setCurrentIndex(0)
        commands: CanvasCommands | None = tab.editor.commands if tab is not None else None
        for action_id in IDS:
            reason = commands.why_not(action_id) if commands is not None else self.tr("No flow is open.")
            self._window.actions_by_id[action_id].setEnabled(not reason)
            self._window.actions_by_id.explain(action_id, reason)
