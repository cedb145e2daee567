"""Joins engine, settings and window: what each action does, what happens at start and end."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QCursor, QDesktopServices, QGuiApplication, QUndoGroup
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from engine import Engine, LocalModelError, ServerState, ServerStatus, StorageError
from engine.flow.flow_links import reachable_agents
from engine.folders import Folders
from workbench.about import About
from workbench.documents import Documents
from workbench.error_presenter import error_banner
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.overview import Overview, sample_title, usable_samples
from workbench.run_panel.input_form import InputForm
from workbench.settings import Settings
from workbench.tasks import Tasks
from workbench.theme import DARK, LIGHT, SYSTEM, theme
from workbench.widgets.banner import Banner, BannerButton, Message
from workbench.widgets.input_fields import missing_inputs

logger = logging.getLogger(__name__)

SERVER_COLORS = {
    ServerState.STOPPED: "muted",
    ServerState.STARTING: "run",
    ServerState.READY: "ok",
    ServerState.FAILED: "err",
    ServerState.STOPPING: "muted",
}

NEEDS_FLOW = (
    "save", "save_as", "close", "select_all", "select_none", "fit", "fit_selection", "zoom_in", "zoom_out",
    "zoom_reset", "edit_prompt", "check", "next_agent", "previous_agent", "inputs", "copy_summary",
)  # fmt: skip
"""Actions that make sense only while a flow is open."""


class Desk(QObject):
    """The window at work."""

    quit_requested = Signal()
    """Everything was asked and saved: the application may end."""

    def __init__(self, window: MainWindow, engine: Engine, settings: Settings, folders: Folders) -> None:
        super().__init__(window)
        self.window = window
        self.engine = engine
        self.settings = settings
        self.folders = folders
        self.tasks = Tasks(self)
        self.documents = Documents(window, engine, settings, folders, self.tasks)
        self.overview = Overview(window, engine, self.documents, settings, folders, self.tasks)
        self._undo = QUndoGroup(self)
        self._closing = False
        self._sample_menu, self._recent_menu, self._server_menu = QMenu(window), QMenu(window), QMenu(window)
        self._connect_parts()
        self._connect_actions()
        self._stop_listening = [engine.server.on_state(self._server_changed)]
        if engine.history is not None:
            self._stop_listening.append(engine.history.on_error(self._history_failed))
        self._server_changed(engine.server.status)
        self._show_offline()

    # -- building -----------------------------------------------------------------------------------------------------

    def _connect_parts(self) -> None:
        window = self.window
        window.tab_changed.connect(self._tab_changed)
        window.closing.connect(self.close)
        window.run_hovered.connect(self._show_planned)
        window.status.offline_clicked.connect(self._set_offline)
        window.sample_wanted.connect(self._choose_sample)
        self.documents.tab_added.connect(self._follow)
        self.documents.tab_removed.connect(self._forget)
        self.documents.list_changed.connect(self._fill_recent)
        for part in (self.documents, self.overview):
            part.banner_made.connect(self.show_banner)
        self.tasks.failed.connect(self.show_error)

    def _follow(self, tab: FlowTab) -> None:
        self._undo.addStack(tab.editor.undo_stack)
        tab.inspector.inputs_changed.connect(lambda texts: self.settings.set_inputs(tab.source, texts))
        tab.run_changed.connect(self._show_actions)
        tab.failed.connect(self.show_error)
        for requested in (tab.editor.run_requested, tab.panel.run_requested, tab.panel.retry_requested):
            requested.connect(lambda: self.run(tab))
        tab.editor.sample_requested.connect(self._choose_sample)
        if not self.settings.has_run and not any(problem.severity == "error" for problem in tab.document.problems):
            tab.editor.show_first_run(
                self.tr("The built-in model answers on this computer. No key and no network are needed.")
            )

    def _forget(self, tab: FlowTab) -> None:
        self._undo.removeStack(tab.editor.undo_stack)
        self._show_actions()

    def _connect_actions(self) -> None:
        actions = self.window.actions_by_id
        handlers: dict[str, Callable[[], object]] = {
            "open": self.documents.choose_file,
            "open_sample": lambda: self._choose_sample(),
            "save": lambda: self._with_tab(self.documents.save),
            "save_as": lambda: self._with_tab(self.documents.save_as),
            "close": lambda: self._with_tab(self.documents.close_tab),
            "quit": self.window.close,
            "undo": self._undo.undo,
            "redo": self._undo.redo,
            "select_all": lambda: self._with_tab(lambda tab: tab.editor.select_all()),
            "select_none": lambda: self._with_tab(lambda tab: tab.editor.select_none()),
            "palette": self.overview.open_palette,
            "fit": lambda: self._with_tab(lambda tab: tab.editor.fit_all()),
            "fit_selection": lambda: self._with_tab(lambda tab: tab.editor.fit_selection()),
            "zoom_in": lambda: self._with_tab(lambda tab: tab.editor.zoom_in()),
            "zoom_out": lambda: self._with_tab(lambda tab: tab.editor.zoom_out()),
            "zoom_reset": lambda: self._with_tab(lambda tab: tab.editor.zoom_reset()),
            "text_larger": lambda: self._set_zoom(theme.zoom + 0.1),
            "text_smaller": lambda: self._set_zoom(theme.zoom - 0.1),
            "text_reset": lambda: self._set_zoom(1.0),
            "theme_system": lambda: self._set_theme(SYSTEM),
            "theme_dark": lambda: self._set_theme(DARK),
            "theme_light": lambda: self._set_theme(LIGHT),
            "theme_toggle": lambda: self._set_theme(LIGHT if theme.dark else DARK),
            "reduced_motion": self._toggle_motion,
            "reset_layout": self.window.arrange,
            "edit_prompt": lambda: self._with_tab(self._edit_prompt),
            "check": lambda: self.window.show_dock("problems"),
            "next_agent": lambda: self._with_tab(lambda tab: tab.editor.select_next(1)),
            "previous_agent": lambda: self._with_tab(lambda tab: tab.editor.select_next(-1)),
            "run": lambda: self._with_tab(self.run),
            "stop": lambda: self._with_tab(lambda tab: tab.runs.stop()),
            "inputs": lambda: self._with_tab(self.ask_inputs),
            "copy_summary": lambda: self._with_tab(self._copy_summary),
            "server_start": lambda: self.tasks.start(self.engine.server.ensure()),
            "server_stop": lambda: self.tasks.start(self.engine.server.stop()),
            "server_file": self._choose_model_file,
            "reload_profiles": self._reload_profiles,
            "offline": lambda: self._set_offline(actions["offline"].isChecked()),
            "data_folder": self._show_data_folder,
            "about": self._about,
        }
        for action_id, handler in handlers.items():
            actions[action_id].triggered.connect(lambda _checked=False, run=handler: run())
        actions["open_sample"].setMenu(self._sample_menu)
        actions["open_recent"].setMenu(self._recent_menu)
        for name in usable_samples():
            self._sample_menu.addAction(sample_title(name), partial(self.documents.open, name))
        self._fill_recent()
        self._server_menu.addActions([actions[name] for name in ("server_start", "server_stop", "server_file")])
        self.window.status.set_server_menu(self._server_menu)
        actions["reduced_motion"].setChecked(theme.reduced_motion)
        self._undo.canUndoChanged.connect(actions["undo"].setEnabled)
        self._undo.canRedoChanged.connect(actions["redo"].setEnabled)
        self._undo.undoTextChanged.connect(
            lambda text: actions["undo"].setToolTip(self.tr("Undo %1").replace("%1", text))
        )
        self._show_actions()
        self._show_theme()

    def _with_tab(self, work: Callable[[FlowTab], object]) -> None:
        tab = self.documents.current
        if tab is not None:
            work(tab)

    def _fill_recent(self) -> None:
        self._recent_menu.clear()
        for path in self.settings.recent:
            self._recent_menu.addAction(path.replace("&", "&&"), partial(self.documents.open, path))
        self.window.actions_by_id["open_recent"].setEnabled(bool(self.settings.recent))

    def start(self, documents: Sequence[str]) -> None:
        """Open the flows, and get the embedded model ready."""
        self._check_folder()
        self.documents.start(documents)
        self.window.show_tabs()
        if self.engine.server.find_model() is not None:
            self.tasks.start(self.engine.server.ensure())

    def _check_folder(self) -> None:
        """Tell at once when nothing can be kept."""
        root = self.folders.root
        try:
            root.mkdir(parents=True, exist_ok=True)
            if os.access(root, os.W_OK):
                return
            reason = self.tr("it is read-only")
        except OSError as error:
            reason = error.strerror or str(error)
        text = self.tr("The data folder %1 cannot be written: %2.").replace("%2", reason).replace("%1", str(root))
        self.show_error(
            StorageError(
                text,
                hint=self.tr("Runs, unsaved changes and settings are not kept. --data-dir names another folder."),
                facts={"path": str(root)},
            )
        )

    # -- runs ---------------------------------------------------------------------------------------------------------

    def run(self, tab: FlowTab) -> None:
        """Run a flow with its inputs; asks only when a required one has no value."""
        specs = tab.document.spec.inputs
        texts = tab.inspector.flow_form.texts()
        if missing_inputs(specs, texts):
            self.ask_inputs(tab)
            return
        values = {key: text for key, text in texts.items() if text}
        self.window.show_dock("run")
        tab.editor.show_first_run(None)
        self.settings.has_run = True
        tab.run(values)

    def ask_inputs(self, tab: FlowTab) -> None:
        """Show the form of inputs."""
        if not tab.document.spec.inputs:
            self.show_banner(Banner(Message(kind="accent", title=self.tr("This flow declares no inputs."))))
            return
        form = InputForm(tab.document.spec, tab.inspector.flow_form.texts(), self.window)

        def submitted(texts: dict[str, str], run_now: bool) -> None:
            tab.inspector.flow_form.show_values(texts)
            self.settings.set_inputs(tab.source, texts)
            if run_now:
                self.run(tab)

        form.submitted.connect(submitted)
        form.open()

    def _show_planned(self, shown: bool) -> None:
        """Tint the agents a run would reach while the mouse is on Run."""
        tab = self.documents.current
        if tab is not None and not tab.is_running:
            tab.editor.show_planned(reachable_agents(tab.document.spec) if shown else ())

    def _choose_sample(self, button: QWidget | None = None) -> None:
        """Show the samples below the button that asked for them, else at the mouse."""
        place = QCursor.pos() if button is None else button.mapToGlobal(button.rect().bottomLeft())
        self._sample_menu.popup(place)

    def _copy_summary(self, tab: FlowTab) -> None:
        QGuiApplication.clipboard().setText(tab.panel.summary_text())

    def _tab_changed(self, editor: object) -> None:
        tab = self.documents.current
        if tab is not None and tab.editor is editor:
            self.window.bring_to_front(tab.editor, tab.inspector, tab.panel)
            tab.editor.undo_stack.setActive(True)
        self._show_actions()
        self._remember_open()

    def _edit_prompt(self, tab: FlowTab) -> None:
        self.window.show_dock("inspector")
        tab.inspector.edit_prompt()

    def _show_actions(self) -> None:
        tab, actions = self.documents.current, self.window.actions_by_id
        running = tab is not None and tab.is_running
        for action_id in NEEDS_FLOW:
            actions[action_id].setEnabled(tab is not None)
        actions["run"].setEnabled(tab is not None and not running)
        actions["stop"].setEnabled(running)
        actions["undo"].setEnabled(self._undo.canUndo())
        actions["redo"].setEnabled(self._undo.canRedo())

    def show_error(self, error: BaseException, buttons: list[BannerButton] | None = None) -> None:
        """Tell an error as a banner; the log has it too."""
        logger.warning("%s", error)
        self.show_banner(error_banner(error, buttons or []))

    def show_banner(self, banner: Banner) -> None:
        """Put a banner over the documents."""
        self.window.banners.push(banner)

    def _set_theme(self, preference: str) -> None:
        self.settings.theme = preference
        theme.choose(preference)
        self._show_theme()

    def _show_theme(self) -> None:
        for preference in (SYSTEM, DARK, LIGHT):
            self.window.actions_by_id[f"theme_{preference}"].setChecked(theme.preference == preference)

    def _set_zoom(self, zoom: float) -> None:
        theme.set_zoom(zoom)
        self.settings.zoom = theme.zoom

    def _toggle_motion(self) -> None:
        reduced = self.window.actions_by_id["reduced_motion"].isChecked()
        self.settings.reduced_motion = reduced
        theme.set_reduced_motion(reduced)

    def _server_changed(self, status: ServerStatus) -> None:
        self.window.status.show_server(
            self.tr("Embedded model: %1").replace("%1", status.text), SERVER_COLORS[status.state], status.text
        )
        running = status.state in (ServerState.STARTING, ServerState.READY)
        self.window.actions_by_id["server_start"].setEnabled(not running)
        self.window.actions_by_id["server_stop"].setEnabled(running)
        if status.error is not None:
            choose = BannerButton(self.tr("Choose a model file…"), self._choose_model_file)
            self.show_error(status.error, [choose])

    def _choose_model_file(self) -> None:
        dialog = QFileDialog(self.window, self.tr("Choose a model file"), "", self.tr("GGUF models (*.gguf)"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda name: self.tasks.start(self._serve(Path(name))))
        dialog.open()

    async def _serve(self, file: Path) -> None:
        try:
            await self.engine.server.choose_model(file)
        except LocalModelError as error:
            # Nothing has changed: say so before saying what to choose instead.
            hint = self.tr("The model that was in use stays in use. %1").replace("%1", error.hint)
            choose = BannerButton(self.tr("Choose a model file…"), self._choose_model_file)
            self.show_error(LocalModelError(error.message, hint=hint, facts=error.facts), [choose])
            return
        self.settings.model_file = str(file)
        await self.engine.server.ensure()

    def _reload_profiles(self) -> None:
        self.engine.profiles.reload()
        for tab in self.documents.tabs:
            tab.check()
        self.overview.refresh_lists()
        entries = self.engine.profiles.profiles()
        faulty = sum(entry.profile is None for entry in entries)
        keyless = sum(bool(entry.missing) for entry in entries if entry.profile is not None)
        parts = [self.tr("%1 profiles").replace("%1", str(len(entries)))]
        if keyless:
            parts.append(self.tr("%1 without a key").replace("%1", str(keyless)))
        if faulty:
            parts.append(self.tr("%1 with problems").replace("%1", str(faulty)))
        self.window.status.show_note(", ".join(parts))

    def _set_offline(self, locked: bool) -> None:
        self.engine.offline = locked
        self.settings.offline = locked
        self._show_offline()

    def _show_offline(self) -> None:
        self.window.actions_by_id["offline"].setChecked(self.engine.offline)
        self.window.status.show_offline(self.engine.offline)

    def _history_failed(self, error: StorageError) -> None:
        retry = BannerButton(self.tr("Try again"), lambda: self.tasks.start(self._retry_history()))
        self.show_error(error, [retry])

    async def _retry_history(self) -> None:
        if self.engine.history is not None and await self.engine.history.flush():
            self.show_banner(Banner(Message(kind="accent", title=self.tr("The runs are saved now."))))

    def _show_data_folder(self) -> None:
        self.folders.root.mkdir(parents=True, exist_ok=True)
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self.folders.root)))

    def _about(self) -> None:
        About(self.folders, self.window).open()

    # -- leaving ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The person wants to close the window: ask once about runs and changes, then end."""
        logger.info("The window is asked to close")
        if self.documents.is_asking or self._closing:
            return
        concerned = [tab for tab in self.documents.tabs if tab.is_running or tab.document.is_modified]
        if concerned:
            self.documents.ask_to_close(concerned, self.leave)
        else:
            self.leave()

    def leave(self) -> None:
        """End without asking; unsaved changes stay in their recovery files."""
        if self._closing:
            return
        self._remember_open()
        self._closing = True
        self.settings.set_window(*self.window.layout_state())
        self.settings.sync()
        self.quit_requested.emit()

    async def shut_down(self) -> None:
        """Stop all runs, end what is under way, keep what is unsaved, stop listening to the engine."""
        self.overview.close()
        # The group would tell of stacks that go, to actions that went before.
        self._undo.blockSignals(True)
        await asyncio.gather(*(tab.runs.close() for tab in self.documents.tabs))
        for tab in self.documents.tabs:
            tab.document.close()
        await self.tasks.close()
        for stop_listening in self._stop_listening:
            stop_listening()

    def _remember_open(self) -> None:
        if not self._closing:
            self.settings.open_documents = [tab.source for tab in self.documents.tabs if not tab.run_title]
