"""The open flows: opening, saving, closing, recovering; one tab each."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from engine import Engine, EngineError, LoadedFlow, StorageError, bundled, load_flow, read_flow
from engine.errors import FlowInvalid
from engine.folders import Folders
from engine.recovery_files import RecoveredDocument, RecoveryFiles
from workbench.designer.flow_document import ChangedOnDisk, FlowDocument
from workbench.error_presenter import error_banner
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.settings import Settings
from workbench.tasks import Tasks
from workbench.widgets.banner import Banner, BannerButton, Message

FIRST_FLOW = "release-announcement"


class Documents(QObject):
    """Owns the tabs."""

    tab_added = Signal(object)
    """A FlowTab was opened: connect to it."""
    tab_removed = Signal(object)
    """A FlowTab is gone."""
    title_changed = Signal()
    """A flow has another name, or other unsaved changes."""
    list_changed = Signal()
    """Files were opened, saved or renamed."""
    banner_made = Signal(object)
    """A Banner to show."""

    def __init__(self, window: MainWindow, engine: Engine, settings: Settings, folders: Folders, tasks: Tasks) -> None:
        super().__init__(window)
        self.tabs: list[FlowTab] = []
        self._window = window
        self._engine = engine
        self._settings = settings
        self._folders = folders
        self._tasks = tasks
        self._recovery = RecoveryFiles(folders.recovery)
        self.is_asking = False
        """A question about closing is on the screen."""
        window.tab_close_requested.connect(self._close_editor)

    @property
    def current(self) -> FlowTab | None:
        """The flow in front."""
        editor = self._window.tabs.currentWidget()
        return next((tab for tab in self.tabs if tab.editor is editor), None)

    def start(self, documents: Sequence[str]) -> None:
        """Open the flows named on the command line, else those of the last time, else the first sample."""
        for name in documents or self._settings.open_documents or [FIRST_FLOW]:
            self.open(name)
        if not self.tabs and not documents:
            self.open(FIRST_FLOW)
        self._offer_recovery()
        self.list_changed.emit()

    def open(self, source: str) -> FlowTab | None:
        """Open a flow by path or sample name, or bring its tab to the front; a broken file becomes a banner."""
        is_sample = source in bundled.names("resources", "flows", suffix=".flow.json")
        name = source if is_sample else str(Path(source).absolute())
        known = next((tab for tab in self.tabs if tab.source == name), None)
        if known is not None:
            self._window.tabs.setCurrentWidget(known.editor)
            return known
        try:
            loaded = (
                read_flow(bundled.read_bytes("resources", "flows", f"{name}.flow.json"), name=f"{name}.flow.json")
                if is_sample
                else load_flow(name)
            )
        except EngineError as error:
            self._tell(error)
            return None
        if not is_sample:
            self._settings.add_recent(name)
        return self.add(loaded, name, None if is_sample else Path(name))

    def choose_file(self) -> None:
        """Ask for a flow file and open it."""
        dialog = QFileDialog(self._window, self.tr("Open flow"), str(self._folder()), self._file_filter())
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.filesSelected.connect(lambda names: [self.open(name) for name in names])
        dialog.open()

    def save(self, tab: FlowTab) -> bool:
        """Save to the flow's file; a flow without one asks for it. Returns whether it is saved now."""
        if not self._may_save(tab):
            return False
        if tab.document.path is None:
            self.save_as(tab)
            return False
        return self._save_to(tab, tab.document.path)

    def _may_save(self, tab: FlowTab) -> bool:
        """Whether every field took what was typed; else the first that did not has the cursor, and a banner says so."""
        if tab.inspector.finish_editing():
            return True
        fault = tab.inspector.invalid_fields()[0]
        self._tell(FlowInvalid(self.tr("The flow was not saved: %1").replace("%1", fault.message), problems=[fault]))
        return False

    def save_as(self, tab: FlowTab) -> None:
        """Ask for a file and save to it."""
        if not self._may_save(tab):
            return
        name = slug(tab.document.title) + ".flow.json"
        place = str(self._folder() / name)
        dialog = QFileDialog(self._window, self.tr("Save flow as"), place, self._file_filter())
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("flow.json")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda chosen: self._save_to(tab, Path(chosen)))
        dialog.open()

    def _save_to(self, tab: FlowTab, path: Path, *, overwrite: bool = False) -> bool:
        try:
            tab.document.save(path, overwrite=overwrite)
        except EngineError as error:
            buttons = [BannerButton(self.tr("Save as…"), partial(self.save_as, tab))]
            if isinstance(error, ChangedOnDisk):
                buttons.append(BannerButton(self.tr("Reload"), partial(self._reload, tab, path)))
                buttons.append(BannerButton(self.tr("Overwrite"), partial(self._save_to, tab, path, overwrite=True)))
            self._tell(error, buttons)
            return False
        tab.editor.undo_stack.setClean()
        tab.source, tab.run_title = str(path.absolute()), ""
        self._settings.add_recent(tab.source)
        self._title_changed(tab)
        self.list_changed.emit()
        return True

    def _reload(self, tab: FlowTab, path: Path) -> None:
        """Take what others wrote into the flow's file; what was edited here comes back with Undo."""
        try:
            loaded = load_flow(path)
        except EngineError as error:
            self._tell(error)
            return
        tab.editor.edit(self.tr("Reload from disk"), loaded.spec)
        tab.document.saved_as_read(loaded)
        tab.editor.undo_stack.setClean()
        self._title_changed(tab)

    def close_tab(self, tab: FlowTab) -> None:
        """Close a flow; asks when it runs or has changes."""
        if tab.is_running or tab.document.is_modified:
            self.ask_to_close([tab], lambda: self._tasks.start(self._remove(tab)))
        else:
            self._tasks.start(self._remove(tab))

    def add(self, loaded: LoadedFlow, source: str, path: Path | None, *, run_title: str = "") -> FlowTab:
        """Open a tab for a flow that was read; `source` names it between starts, `run_title` a recorded run of it."""
        document = FlowDocument.of(loaded, path, source, self._recovery)
        tab = FlowTab(document, self._engine, source, self)
        tab.run_title = run_title
        self.tabs.append(tab)
        tab.inspector.flow_form.show_values(self._settings.inputs(source))
        document.recovery_failed.connect(self._tell)
        document.modified_changed.connect(lambda _modified: self._title_changed(tab))
        document.spec_changed.connect(lambda _before, _after: self._title_changed(tab))
        self.tab_added.emit(tab)
        self._window.add_tab(tab.editor, tab.inspector, tab.panel, tab.title)
        self._title_changed(tab)
        tab.editor.setFocus()
        for problem in loaded.problems:
            self.banner_made.emit(Banner(Message(kind="warn", title=str(problem))))
        return tab

    async def _remove(self, tab: FlowTab) -> None:
        await tab.runs.close()
        tab.document.close()
        self._window.remove_tab(tab.editor, tab.inspector, tab.panel)
        self.tabs.remove(tab)
        self.tab_removed.emit(tab)
        for part in (tab.editor, tab.inspector, tab.panel, tab):
            part.deleteLater()

    def _close_editor(self, editor: QWidget) -> None:
        for tab in self.tabs:
            if tab.editor is editor:
                self.close_tab(tab)
                return

    def _tell(self, error: EngineError, buttons: Sequence[BannerButton] = ()) -> None:
        self.banner_made.emit(error_banner(error, buttons))

    def _file_filter(self) -> str:
        return self.tr("Flows (*.flow.json);;All files (*)")

    def _folder(self) -> Path:
        """Where file dialogs begin: beside the flow in front, else in the user's flows."""
        tab = self.current
        if tab is not None and tab.document.path is not None:
            return tab.document.path.parent
        self._folders.flows.mkdir(parents=True, exist_ok=True)
        return self._folders.flows

    def _offer_recovery(self) -> None:
        for found in self._recovery.found():
            kept = self._apart(found)
            when = datetime.fromtimestamp(kept.saved).astimezone().strftime("%H:%M, %d %B")
            name = Path(kept.path).name if kept.path else kept.document
            buttons = [
                BannerButton(self.tr("Open it"), partial(self._recover, kept)),
                BannerButton(self.tr("Discard"), partial(self._discard, kept)),
            ]
            title = self.tr("An unsaved version of %1 from %2 was kept.").replace("%1", name).replace("%2", when)
            text = self.tr("The program ended unexpectedly.")
            message = Message(kind="accent", title=title, text=text, icon="history")
            self.banner_made.emit(Banner(message, buttons))

    def _apart(self, found: RecoveredDocument) -> RecoveredDocument:
        """Keep a version from being replaced by the next changes of its document while nobody has decided about it."""
        try:
            return self._recovery.set_aside(found)
        except StorageError as error:
            self._tell(error)
            return found

    def _discard(self, kept: RecoveredDocument) -> None:
        try:
            self._recovery.discard(kept)
        except StorageError as error:
            self._tell(error)

    def _recover(self, kept: RecoveredDocument) -> None:
        try:
            loaded = read_flow(kept.text, name=kept.path or kept.document)
        except EngineError as error:
            self._tell(error)
            return
        tab = self.open(kept.path or kept.document)
        if tab is None:
            tab = self.add(loaded, kept.document, None)
            tab.document.forget_saved()
        tab.editor.edit(self.tr("Recover unsaved version"), loaded.spec)
        tab.document.keep_now()
        self._discard(kept)

    def _title_changed(self, tab: FlowTab) -> None:
        mark = " •" if tab.document.is_modified else ""
        tip = self.tr("Recorded run") if tab.run_title else str(tab.document.path or self.tr("Sample, not saved yet"))
        icon = "history" if tab.run_title else "flow"
        self._window.set_tab_title(tab.editor, tab.title + mark, tip, icon)
        self.title_changed.emit()

    def ask_to_close(self, tabs: list[FlowTab], leave: Callable[[], object]) -> None:
        """Ask once about runs and unsaved changes; `leave` is called when they may go."""
        running = [tab.title for tab in tabs if tab.is_running]
        changed = [tab for tab in tabs if tab.document.is_modified]
        question = QMessageBox(self._window)
        question.setIcon(QMessageBox.Icon.NoIcon)
        question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        lines = []
        if running:
            lines.append(
                self.tr("%1 is running. Closing stops it and keeps what came.").replace("%1", ", ".join(running))
            )
        if changed:
            names = ", ".join(tab.title for tab in changed)
            lines.append(self.tr("%1 has changes that are not saved.").replace("%1", names))
        question.setText("\n".join(lines))
        saving = question.addButton(self.tr("Save and close"), QMessageBox.ButtonRole.AcceptRole) if changed else None
        closing = question.addButton(
            self.tr("Close without saving") if changed else self.tr("Stop and close"),
            QMessageBox.ButtonRole.DestructiveRole,
        )
        cancel = question.addButton(QMessageBox.StandardButton.Cancel)
        question.setDefaultButton(saving or cancel)
        question.setEscapeButton(cancel)
        self.is_asking = True

        def answered() -> None:
            self.is_asking = False
            chosen = question.clickedButton()
            if chosen is closing:
                for tab in changed:
                    tab.document.discard_recovery()
                leave()
            elif saving is not None and chosen is saving and all(self.save(tab) for tab in changed):
                leave()

        question.finished.connect(answered)
        question.open()


def slug(title: str) -> str:
    """A safe file name from a title: letters, digits and hyphens."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
    return words or "flow"
