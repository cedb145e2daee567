"""The open flows: opening, saving, closing, recovering; one tab each."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from engine import Engine, EngineError, LoadedFlow, StorageError, flow_text, load_flow, read_flow
from engine.errors import FlowInvalid
from engine.flow.flow_spec import FlowSpec
from engine.flow.subflow_files import SAMPLE, FlowFiles
from engine.folders import Folders
from engine.recovery_files import RecoveredDocument, RecoveryFiles
from engine.saved_versions import SavedVersion, SavedVersions
from workbench.branch_series import BranchSeries
from workbench.designer.flow_document import ChangedOnDisk, FlowDocument, Saving
from workbench.error_presenter import error_banner
from workbench.flow_source import NEW, is_sample, read_source, source_name
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.page import Page
from workbench.settings import Settings
from workbench.tasks import Tasks
from workbench.trust_question import TrustQuestion
from workbench.widgets.banner import Banner, BannerButton, Message

FIRST_FLOW = "release-announcement"
REPLAYED = "replay "
"""What the source of a tab begins with in which a wire tape is played; its file follows."""


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
        self.versions = SavedVersions(folders.versions)
        self.is_asking = False
        """A question about closing is on the screen."""
        window.tab_close_requested.connect(self._close_editor)

    @property
    def current(self) -> FlowTab | None:
        """The flow in front."""
        editor = self._window.tabs.currentWidget()
        return next((tab for tab in self.tabs if tab.editor is editor), None)

    def newest_branches(self) -> BranchSeries | None:
        """The branches of the run that began last in any tab; None when no flow ran."""
        ran = [tab.branches for tab in self.tabs if tab.branches.started is not None]
        return max(ran, key=lambda series: series.started or 0.0, default=None)

    async def start(self, documents: Sequence[str]) -> None:
        """Open the flows named on the command line, else those of the last time, else the first sample."""
        for name in documents or self._settings.open_documents or [FIRST_FLOW]:
            await self.open(name)
        if not self.tabs and not documents:
            await self.open(FIRST_FLOW)
        self.list_changed.emit()
        await self._offer_recovery()

    def _open_all(self, sources: Sequence[str]) -> None:
        for source in sources:
            self.open_soon(source)

    def open_soon(self, source: str) -> None:
        """Open a flow, for whoever does not wait for it."""
        self._tasks.start(self.open(source))

    async def open(self, source: str) -> FlowTab | None:
        """Open a flow by path or sample name, or bring its tab to the front; a broken file becomes a banner."""
        name = source_name(source)
        if (known := self._to_front(name)) is not None:
            return known
        try:
            loaded = await asyncio.to_thread(read_source, name)
        except EngineError as error:
            self._tell(error)
            return None
        if (known := self._to_front(name)) is not None:  # it was asked for twice
            return known
        if is_sample(name):
            return self.add(loaded, name, None)
        self._settings.add_recent(name)
        return self.add(loaded, name, Path(name))

    def _to_front(self, source: str) -> FlowTab | None:
        known = next((tab for tab in self.tabs if tab.source == source), None)
        if known is not None:
            self._window.tabs.setCurrentWidget(known.editor)
        return known

    def new(self) -> None:
        """Open a tab for an empty flow."""
        names = {tab.document.title for tab in self.tabs}
        first = self.tr("New flow")
        numbered = (f"{first} {number}" for number in count(2))
        name = next(name for name in chain([first], numbered) if name not in names)
        self.add(LoadedFlow(spec=FlowSpec(name=name)), f"{NEW}{uuid4().hex[:12]}", None)

    @property
    def sources(self) -> list[str]:
        """What the next start opens again: all tabs but recorded runs and what was never saved."""
        return [tab.source for tab in self.tabs if not tab.run_title and not tab.source.startswith(NEW)]

    def choose_file(self) -> None:
        """Ask for a flow file and open it."""
        dialog = QFileDialog(self._window, self.tr("Open flow"), str(self._folder()), self._file_filter())
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.filesSelected.connect(self._open_all)
        dialog.open()

    def save(self, tab: FlowTab) -> None:
        """Save to the flow's file; a flow without one asks for it."""
        if not self._may_save(tab):
            return
        if tab.document.path is None:
            self.save_as(tab)
        else:
            self._save_soon_to(tab, tab.document.path)

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
        dialog.fileSelected.connect(lambda chosen: self._save_soon_to(tab, Path(chosen)))
        dialog.open()

    def _save_soon_to(self, tab: FlowTab, path: Path, *, overwrite: bool = False) -> None:
        self._tasks.start(self._finish_save(tab, self._begin_save(tab, path, overwrite=overwrite)), saves=True)

    def _begin_save(self, tab: FlowTab, path: Path, *, overwrite: bool = False) -> Saving:
        """Save the flow as it is at this moment; what is typed from here on is a step of its own for undo."""
        tab.editor.undo_stack.setClean()
        return tab.document.begin_save(path, overwrite=overwrite)

    async def _finish_save(self, tab: FlowTab, saving: Saving) -> bool:
        path = saving.path
        try:
            await tab.document.finish_save(saving)
        except EngineError as error:
            buttons = [BannerButton(self.tr("Save as…"), partial(self.save_as, tab))]
            if isinstance(error, ChangedOnDisk):
                again = partial(self._save_soon_to, tab, path, overwrite=True)
                reload = partial(self._reload, tab, path)
                buttons.append(BannerButton(self.tr("Reload"), lambda: self._tasks.start(reload())))
                buttons.append(BannerButton(self.tr("Overwrite"), again))
            self._tell(error, buttons)
            return False
        tab.source, tab.run_title = source_name(path), ""
        try:
            await asyncio.to_thread(tab.trust.saved)
        except EngineError as error:
            self._tell(error)
        try:
            await tab.frozen.saved(tab.source)
        except EngineError as error:
            self._tell(error)
        self._settings.add_recent(tab.source)
        self._title_changed(tab)
        self.list_changed.emit()
        return True

    async def _reload(self, tab: FlowTab, path: Path) -> None:
        """Take what others wrote into the flow's file; what was edited here comes back with Undo."""
        try:
            loaded = await asyncio.to_thread(load_flow, path)
        except EngineError as error:
            self._tell(error)
            return
        tab.editor.edit(self.tr("Reload from disk"), loaded.spec)
        tab.document.saved_as_read(loaded)
        await asyncio.to_thread(tab.trust.read_again)
        tab.editor.undo_stack.setClean()
        self._title_changed(tab)

    def restore_soon(self, tab: FlowTab, version: SavedVersion) -> None:
        """Put a version that was saved before into the editor; saving and undoing are up to the person."""
        self._tasks.start(self._restore(tab, version))

    async def _restore(self, tab: FlowTab, version: SavedVersion) -> None:
        name = tab.document.path.name if tab.document.path else tab.title
        loaded = await asyncio.to_thread(lambda: read_flow(version.read(), name=name))
        when = version.saved.astimezone().strftime("%H:%M, %d %B")
        tab.editor.edit(self.tr("Restore the version of %1").replace("%1", when), loaded.spec)

    def close_tab(self, tab: FlowTab) -> None:
        """Close a flow; asks when it runs or has changes."""
        if tab.is_running or tab.document.is_modified:
            self.ask_to_close([tab], lambda: self._tasks.start(self._remove(tab)))
        else:
            self._tasks.start(self._remove(tab))

    def add(self, loaded: LoadedFlow, source: str, path: Path | None, *, run_title: str = "") -> FlowTab:
        """Open a tab for a flow that was read; `source` names it between starts, `run_title` a recorded run of it."""
        document = FlowDocument.of(loaded, path, source, self._recovery, self.versions)
        tab = FlowTab(document, self._engine, source, self, made_here=path is None and not run_title)
        tab.run_title = run_title
        self.tabs.append(tab)
        self._follow_inspector(tab)
        document.recovery_failed.connect(self._tell)
        document.modified_changed.connect(lambda _modified: self._title_changed(tab))
        document.spec_changed.connect(lambda _before, _after: self._title_changed(tab))
        self.tab_added.emit(tab)
        self._window.add_tab(tab.editor, tab.inspector, tab.panel, tab.title)
        self._title_changed(tab)
        tab.editor.setFocus()
        for problem in loaded.problems:
            self.banner_made.emit(Banner(Message(kind="warn", title=str(problem))))
        question = TrustQuestion(tab, self._window)
        question.banner_made.connect(self.banner_made)
        question.failed.connect(self._tell)
        self._tasks.start(question.begin())
        return tab

    def _follow_inspector(self, tab: FlowTab) -> None:
        inspector = tab.inspector
        inspector.flow_form.show_values(self._settings.inputs(tab.source))
        inspector.set_open(self._settings.sections)
        inspector.folded.connect(self._remember_sections)
        inspector.flow_requested.connect(lambda reference: self._open_inner(tab, reference))

    def _remember_sections(self, sections: dict[str, bool]) -> None:
        self._settings.sections = sections
        for tab in self.tabs:
            tab.inspector.set_open(sections)

    def _open_inner(self, tab: FlowTab, reference: str) -> None:
        """Open the flow that a node runs."""
        files = FlowFiles(tab.document.origin, trusted=True)
        try:
            self.open_soon(files.resolved(reference, files.origin).removeprefix(SAMPLE))
        except EngineError as error:
            self._tell(error)

    async def _remove(self, tab: FlowTab) -> None:
        await tab.runs.close()
        await tab.document.close()
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

    async def _offer_recovery(self) -> None:
        for found in await asyncio.to_thread(self._recovery.found):
            kept = await self._apart(found)
            when = datetime.fromtimestamp(kept.saved).astimezone().strftime("%H:%M, %d %B")
            new = self.tr("a new flow") if kept.document.startswith(NEW) else kept.document
            name = Path(kept.path).name if kept.path else new
            buttons = [
                BannerButton(self.tr("Open it"), partial(self._recover_soon, kept)),
                BannerButton(self.tr("Discard"), partial(self._discard_soon, kept)),
            ]
            title = self.tr("An unsaved version of %1 from %2 was kept.").replace("%1", name).replace("%2", when)
            text, details = await asyncio.to_thread(self._compared, kept)
            message = Message(kind="accent", title=title, text=text, details=details, icon="history")
            self.banner_made.emit(Banner(message, buttons))

    def _compared(self, kept: RecoveredDocument) -> tuple[str, str]:
        """What to say about a version that was kept, and how it differs from what is saved."""
        from workbench.text_difference import difference

        ended = self.tr("The program ended unexpectedly.")
        try:
            saved = read_source(kept.path or kept.document)
        except EngineError:
            return f"{ended} {self.tr('There is no saved version to compare it with.')}", ""
        details = difference(flow_text(saved.spec), kept.text)
        if not details:
            return f"{ended} {self.tr('It is the same as the saved version.')}", ""
        if kept.path and saved.digest != kept.base_digest:
            return (
                f"{ended} {self.tr('The saved file was changed meanwhile. The details show the difference.')}",
                details,
            )
        return f"{ended} {self.tr('The details show the difference to the saved version.')}", details

    async def _apart(self, found: RecoveredDocument) -> RecoveredDocument:
        """Keep a version from being replaced by the next changes of its document while nobody has decided about it."""
        try:
            return await asyncio.to_thread(self._recovery.set_aside, found)
        except StorageError as error:
            self._tell(error)
            return found

    def _discard_soon(self, kept: RecoveredDocument) -> None:
        self._tasks.start(asyncio.to_thread(self._recovery.discard, kept))

    def _recover_soon(self, kept: RecoveredDocument) -> None:
        self._tasks.start(self._recover(kept))

    async def _recover(self, kept: RecoveredDocument) -> None:
        try:
            loaded = await asyncio.to_thread(read_flow, kept.text, name=kept.path or kept.document)
        except EngineError as error:
            self._tell(error)
            return
        saved = kept.path or (kept.document if is_sample(kept.document) else "")
        tab = await self.open(saved) if saved else None
        if tab is None:
            tab = self.add(loaded, kept.document, None)
            tab.document.forget_saved()
        tab.editor.edit(self.tr("Recover unsaved version"), loaded.spec)
        tab.document.keep_now()
        self._discard_soon(kept)

    def _title_changed(self, tab: FlowTab) -> None:
        mark = " •" if tab.document.is_modified else ""
        unsaved = self.tr("New, not saved yet") if tab.source.startswith(NEW) else self.tr("Sample, not saved yet")
        tip = self.tr("Recorded run") if tab.run_title else str(tab.document.path or unsaved)
        icon = "tape" if tab.source.startswith(REPLAYED) else "history" if tab.run_title else "flow"
        self._window.set_tab_title(tab.editor, tab.title + mark, tip, icon)
        self.title_changed.emit()

    def ask_to_close(
        self, tabs: list[FlowTab], leave: Callable[[], object], pages: Mapping[Page, str] = MappingProxyType({})
    ) -> None:
        """Ask once about runs and unsaved changes, also of pages with their titles; then `leave` is called."""
        running = [tab.title for tab in tabs if tab.is_running]
        changed = [tab for tab in tabs if tab.document.is_modified]
        question = QMessageBox(self._window)
        question.setIcon(QMessageBox.Icon.NoIcon)
        question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        lines = []
        names = ""
        if running:
            lines.append(
                self.tr("%1 is running. Closing stops it and keeps what came.").replace("%1", ", ".join(running))
            )
        if changed or pages:
            names = ", ".join([*(tab.title for tab in changed), *pages.values()])
            lines.append(self.tr("%1 has changes that are not saved.").replace("%1", names))
        question.setText("\n".join(lines))
        saving = question.addButton(self.tr("Save and close"), QMessageBox.ButtonRole.AcceptRole) if names else None
        closing = question.addButton(
            self.tr("Close without saving") if names else self.tr("Stop and close"),
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
                for page in pages:
                    page.discard()
                leave()
            elif saving is not None and chosen is saving:
                self._tasks.start(self._save_and_leave(changed, list(pages), leave))

        question.finished.connect(answered)
        question.open()

    async def _save_and_leave(
        self, tabs: Sequence[FlowTab], pages: Sequence[Page], leave: Callable[[], object]
    ) -> None:
        for page in pages:
            if not await page.save():
                return
        for tab in tabs:
            if not self._may_save(tab):
                return
            if tab.document.path is None:
                self.save_as(tab)
                return
            if not await self._finish_save(tab, self._begin_save(tab, tab.document.path)):
                return
        leave()


def slug(title: str) -> str:
    """A safe file name from a title: letters, digits and hyphens."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
    return words or "flow"
