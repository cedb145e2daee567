"""The person's own agents: kept from a flow, listed in the explorer and the palettes, put into any flow."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QMessageBox

from engine import EngineError
from engine.errors import FlowFileError
from engine.flow.flow_spec import AgentSpec
from engine.flow.subflow_files import SAMPLE, FlowFiles
from workbench.agent_library import AgentLibrary, SavedAgent
from workbench.designer.card_content import icon_name
from workbench.documents import Documents
from workbench.error_presenter import error_banner
from workbench.explorer import ExplorerItem
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.tasks import Tasks
from workbench.widgets.name_dialog import NameDialog


class SavedAgents(QObject):
    """What can be done with them."""

    banner_made = Signal(object)
    """A Banner to show."""

    def __init__(self, window: MainWindow, documents: Documents, library: AgentLibrary, tasks: Tasks) -> None:
        super().__init__(window)
        self._window = window
        self._documents = documents
        self._tasks = tasks
        self.library = library
        window.explorer.rename_wanted.connect(self._of(self.ask_name))
        window.explorer.delete_wanted.connect(self._of(self.ask_delete))

    def _of(self, then: Callable[[SavedAgent], None]) -> Callable[[ExplorerItem], None]:
        """What to do with a row of the explorer, if it is a saved agent."""

        def act(item: ExplorerItem) -> None:
            saved = self.saved(item.id) if item.kind == "saved_agent" else None
            if saved is not None:
                then(saved)

        return act

    def saved(self, path: str) -> SavedAgent | None:
        """The saved agent of a file."""
        return next((one for one in self.library.agents if str(one.path) == path), None)

    async def read(self) -> None:
        """Read the library again and list it."""
        await asyncio.to_thread(self.library.read)
        self.show()

    def show(self) -> None:
        """List what is known of the library."""
        self._window.explorer.show_items("saved_agent", [_item(one) for one in self.library.agents])

    # -- keeping ------------------------------------------------------------------------------------------------------

    def keep(self, tab: FlowTab, name: str) -> None:
        """Ask under which name to keep an agent of a flow."""
        agent = tab.document.spec.agent(name)
        if agent is None:
            return

        def check(typed: str) -> tuple[str, bool]:
            taken = self.library.named(typed) is not None
            return (self.tr("The saved agent of this name will be replaced.") if taken else "", True)

        title = self.tr("Save agent %1").replace("%1", name)
        dialog = NameDialog(title, name, self.tr("Save"), check, self._window)
        dialog.named.connect(lambda chosen: self._tasks.start(self._keep(tab, replace(agent, name=chosen))))
        dialog.open()

    async def _keep(self, tab: FlowTab, agent: AgentSpec) -> None:
        await asyncio.to_thread(self.library.save, _found_anywhere(agent, tab.document.path))
        self.show()
        self._window.status.show_note(self.tr("%1 is among the saved agents").replace("%1", agent.name))

    # -- using --------------------------------------------------------------------------------------------------------

    def insert(self, item: ExplorerItem) -> None:
        """Add a saved agent to the flow in front, at the mouse; say why when it cannot be."""
        saved, tab = self.saved(item.id), self._documents.current
        if saved is None:
            return
        if saved.part is None:
            fault = FlowFileError(saved.fault, facts={"file": str(saved.path)})
            self.banner_made.emit(error_banner(fault))
        elif tab is None:
            self._window.status.show_note(self.tr("No flow is open."))
        else:
            tab.editor.commands.palettes.add_saved(item.id)
            tab.editor.view.setFocus()

    # -- changing -----------------------------------------------------------------------------------------------------

    def ask_name(self, saved: SavedAgent) -> None:
        """Rename a saved agent."""
        if saved.part is None:
            return

        def check(typed: str) -> tuple[str, bool]:
            other = self.library.named(typed)
            taken = other is not None and other.path != saved.path
            return (self.tr("There is a saved agent of this name already."), False) if taken else ("", True)

        title = self.tr("Rename saved agent %1").replace("%1", saved.name)
        dialog = NameDialog(title, saved.name, self.tr("Rename"), check, self._window)
        dialog.named.connect(lambda name: self._tasks.start(self._rename(saved, name)))
        dialog.open()

    async def _rename(self, saved: SavedAgent, name: str) -> None:
        if name != saved.name:
            await self._changed(partial(self.library.rename, saved, name))

    def ask_delete(self, saved: SavedAgent) -> None:
        """Delete a saved agent after asking."""
        question = QMessageBox(self._window)
        question.setIcon(QMessageBox.Icon.NoIcon)
        question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        question.setTextFormat(Qt.TextFormat.PlainText)
        question.setText(self.tr("Delete the saved agent %1?").replace("%1", saved.name))
        question.setInformativeText(self.tr("Its file is gone for good. Flows that use it have their own copy."))
        delete = question.addButton(self.tr("Delete"), QMessageBox.ButtonRole.DestructiveRole)
        cancel = question.addButton(QMessageBox.StandardButton.Cancel)
        question.setDefaultButton(cancel)
        question.setEscapeButton(cancel)

        def answered() -> None:
            if question.clickedButton() is delete:
                self._tasks.start(self._changed(partial(self.library.delete, saved)))

        question.finished.connect(answered)
        question.open()

    async def _changed(self, change: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(change)
        finally:
            await self.read()


def _found_anywhere(agent: AgentSpec, path: Path | None) -> AgentSpec:
    """The agent with the file of the flow it runs named in full: another flow is elsewhere."""
    if not agent.flow or path is None:
        return agent
    try:
        origin = FlowFiles(str(path), trusted=True).resolved(agent.flow, str(path))
    except EngineError:  # the problems tell of it wherever it is used
        return agent
    return agent if origin.startswith(SAMPLE) else replace(agent, flow=origin)


def _item(saved: SavedAgent) -> ExplorerItem:
    agent = saved.agent
    tip = "\n".join(filter(None, (saved.name, saved.about)))
    if agent is None:
        return ExplorerItem(
            kind="saved_agent", id=str(saved.path), text=saved.name, tip=saved.fault, icon="warning", color="err"
        )
    return ExplorerItem(kind="saved_agent", id=str(saved.path), text=saved.name, tip=tip, icon=icon_name(agent))
