"""Joins engine, settings and window: what each action does, what happens at start and end."""

import asyncio
import gc
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QCursor, QGuiApplication, QUndoGroup
from PySide6.QtWidgets import QMenu, QWidget

from engine import Engine, EngineError, StorageError
from engine.folders import Folders
from workbench.agent_library import AgentLibrary
from workbench.canvas_actions import CanvasActions
from workbench.context_menus import ContextMenus
from workbench.documents import Documents
from workbench.engine_options import EngineOptions
from workbench.error_presenter import error_banner
from workbench.file_drop import FileDrop
from workbench.flow_export import FlowExport
from workbench.flow_tab import FlowTab
from workbench.folder_watch import FolderWatch
from workbench.help_menu import HelpMenu
from workbench.local_model import LocalModel
from workbench.main_window import MainWindow
from workbench.offered_pages import Views, offer_pages
from workbench.overview import Overview, sample_title, usable_samples
from workbench.page_tabs import PageTabs
from workbench.pass_actions import PassActions
from workbench.preferences import Preferences
from workbench.run_actions import RunActions
from workbench.run_panel.input_form import InputForm
from workbench.run_planning import RunPlanning
from workbench.saved_agents import SavedAgents
from workbench.settings import Settings
from workbench.tasks import Tasks
from workbench.widgets.banner import Banner, BannerButton, Message
from workbench.widgets.input_fields import missing_inputs
from workbench.wire_tapes import WireTapes

logger = logging.getLogger(__name__)

NEEDS_FLOW = (
    "save_as", "export_flow", "select_all", "select_none", "fit", "fit_selection", "zoom_in", "zoom_out",
    "zoom_reset", "edit_prompt", "check", "next_agent", "previous_agent", "inputs", "copy_summary", "compare_flow",
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
        self.options = EngineOptions(engine, folders.engine_settings, self.tasks, self)
        self.documents = Documents(window, engine, settings, folders, self.tasks)
        self.saved = SavedAgents(window, self.documents, AgentLibrary(folders.agents), self.tasks)
        self.pages = PageTabs(window, self.documents, settings, self.tasks)
        self.overview = Overview(window, engine, self.documents, self.pages, settings, folders, self.tasks, self.saved)
        views = Views(
            open_run=lambda run_id: self.tasks.start(self.overview.open_run(run_id)),
            show_settings=lambda page: self.preferences.show_settings(page),
            profile_used=self.overview.profile_used,
            flows=self.overview.flows,
        )
        offer_pages(self.pages, engine, self.documents, folders, self.options, self.tasks, views)
        self.preferences = Preferences(window, engine, settings, folders, self.options, self.tasks)
        self.help = HelpMenu(window, engine, folders)
        self.run_actions = RunActions(window, engine, self.documents, self.overview, self.tasks)
        ContextMenus(window, engine, self.documents, self.overview, self.run_actions, self.saved)
        CanvasActions(window, self.documents, self.saved)
        PassActions(window, self.documents)
        self.tapes = WireTapes(window, engine, self.documents, settings, folders, self.tasks)
        FlowExport(window, engine, self.documents, self.tasks)
        self._planning = RunPlanning(window, engine, self.documents)
        self._undo = QUndoGroup(self)
        self._closing = False
        self.model = LocalModel(window, engine, settings, self.tasks)
        self._sample_menu, self._recent_menu, self._version_menu = QMenu(window), QMenu(window), QMenu(window)
        self._profiles = FolderWatch(folders.profiles, "*.properties", self.tasks, self)
        self._connect_parts()
        self._connect_actions()
        self._stop_listening = [self.model.stop_listening]
        if engine.history is not None:
            self._stop_listening.append(engine.history.on_error(self.show_error))
        self._show_offline()

    # -- building -----------------------------------------------------------------------------------------------------

    def _connect_parts(self) -> None:
        window = self.window
        window.tab_changed.connect(self._tab_changed)
        window.closing.connect(self.close)
        window.status.offline_clicked.connect(self._set_offline)
        window.sample_wanted.connect(self._choose_sample)
        FileDrop(window).dropped.connect(self._take_files)
        self.documents.tab_added.connect(self._follow)
        self.documents.tab_added.connect(self.preferences.alarms.follow)
        self.documents.tab_removed.connect(self._forget)
        self.documents.list_changed.connect(self._fill_recent)
        tellers = (self.documents, self.overview, self.saved, self.help, self.run_actions, self.model, self.tapes)
        for part in (*tellers, self.preferences.alarms):
            part.banner_made.connect(self.show_banner)
        self.tasks.failed.connect(self.show_error)
        self._profiles.changed.connect(self._profiles_changed)

    def _follow(self, tab: FlowTab) -> None:
        self._undo.addStack(tab.editor.undo_stack)
        tab.inspector.inputs_changed.connect(lambda texts: self.settings.set_inputs(tab.source, texts))
        for changed in (tab.run_changed, tab.frozen.changed, tab.editor.selection_changed):
            changed.connect(self._show_actions)
        tab.failed.connect(self.show_error)
        for requested in (tab.editor.run_requested, tab.panel.run_requested, tab.panel.retry_requested):
            requested.connect(lambda: self.run(tab))
        tab.panel.fresh_run_requested.connect(lambda: self.run(tab, fresh=True))
        tab.editor.sample_requested.connect(self._choose_sample)
        if not self.settings.has_run:
            tab.editor.show_first_run(
                self.tr("The built-in model answers on this computer. No key and no network are needed.")
            )
            tab.document.problems_changed.connect(partial(self._withdraw_first_run, tab))

    @staticmethod
    def _withdraw_first_run(tab: FlowTab) -> None:
        if any(problem.severity == "error" for problem in tab.document.problems):
            tab.editor.show_first_run(None)

    def _forget(self, tab: FlowTab) -> None:
        self._undo.removeStack(tab.editor.undo_stack)
        self._show_actions()

    def _connect_actions(self) -> None:
        actions = self.window.actions_by_id
        handlers: dict[str, Callable[[], object]] = {
            "new": self.documents.new,
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
            "reset_layout": self.window.arrange,
            "edit_prompt": lambda: self._with_tab(self._edit_prompt),
            "check": lambda: self.window.show_dock("problems"),
            "next_agent": lambda: self._with_tab(lambda tab: tab.editor.select_next(1)),
            "previous_agent": lambda: self._with_tab(lambda tab: tab.editor.select_next(-1)),
            "run": lambda: self._with_tab(self.run),
            "run_fresh": lambda: self._with_tab(partial(self.run, fresh=True)),
            "use_cache": lambda: self.options.change(cache=actions["use_cache"].isChecked()),
            "resume": lambda: self._with_tab(self.run_actions.resume),
            "run_from": lambda: self._with_tab(self._run_from),
            "pause": lambda: self._with_tab(self._hold),
            "step": lambda: self._with_tab(FlowTab.step),
            "edit_context": lambda: self._with_tab(FlowTab.edit_paused),
            "freeze": lambda: self._with_tab(lambda tab: self.run_actions.toggle_frozen(tab, tab.editor.selected())),
            "compare_flow": lambda: self._with_tab(self._compare_flow),
            "compare_runs": lambda: self.run_actions.compare(),
            "stop": lambda: self._with_tab(lambda tab: tab.runs.stop()),
            "inputs": lambda: self._with_tab(self.ask_inputs),
            "copy_summary": lambda: self._with_tab(self._copy_summary),
            "reload_profiles": self._reload_profiles,
            "offline": lambda: self._set_offline(actions["offline"].isChecked()),
        }
        for action_id, handler in handlers.items():
            actions[action_id].triggered.connect(lambda _checked=False, run=handler: run())
        actions["open_sample"].setMenu(self._sample_menu)
        actions["open_recent"].setMenu(self._recent_menu)
        actions["restore_version"].setMenu(self._version_menu)
        self._version_menu.aboutToShow.connect(self._fill_versions)
        self._sample_menu.aboutToShow.connect(self._fill_samples)
        self._fill_recent()
        self._undo.canUndoChanged.connect(actions["undo"].setEnabled)
        self._undo.canRedoChanged.connect(actions["redo"].setEnabled)
        self._undo.undoTextChanged.connect(
            lambda text: actions["undo"].setToolTip(self.tr("Undo %1").replace("%1", text))
        )
        self.options.changed.connect(self._show_options)
        for show in (self._profiles_changed, self.overview.show_title):
            self.options.environment_changed.connect(show)
        self._show_actions()
        self._show_options()

    def _with_tab(self, work: Callable[[FlowTab], object]) -> None:
        tab = self.documents.current
        if tab is not None:
            work(tab)

    def _fill_samples(self) -> None:
        if self._sample_menu.isEmpty():
            for name in usable_samples():
                self._sample_menu.addAction(sample_title(name), partial(self.documents.open_soon, name))

    def _fill_recent(self) -> None:
        self._recent_menu.clear()
        for path in self.settings.recent:
            self._recent_menu.addAction(path.replace("&", "&&"), partial(self.documents.open_soon, path))
        self.window.actions_by_id["open_recent"].setEnabled(bool(self.settings.recent))

    def _fill_versions(self) -> None:
        self._version_menu.clear()
        tab = self.documents.current
        if tab is not None and tab.document.path is not None:
            for version in self.documents.versions.of(tab.document.path):
                when = version.saved.astimezone().strftime("%H:%M:%S, %d %B")
                self._version_menu.addAction(when, partial(self.documents.restore_soon, tab, version))
        if self._version_menu.isEmpty():
            self._version_menu.addAction(self.tr("This flow was not saved before.")).setEnabled(False)

    def start(self, documents: Sequence[str]) -> None:
        """Open the flows, and get the embedded model ready."""
        self._check_folder()
        self._profiles.begin()
        self.tasks.start(self._open(documents))
        self.tasks.start(self._forget_old_runs())
        self.model.begin()

    async def _open(self, documents: Sequence[str]) -> None:
        await self.documents.start(documents)
        self.pages.reopen()
        self.window.show_tabs()
        # All that was loaded by now stays: to go through it in each search for garbage would hold the window for 0.1 s.
        gc.freeze()

    async def _forget_old_runs(self) -> None:
        days = self.engine.settings.history_days
        if days and self.engine.history is not None and (count := await self.engine.history.prune(days)):
            logger.info("%d recorded runs older than %d days are deleted", count, days)
            await self.overview.read_lists()

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

    def run(self, tab: FlowTab, *, fresh: bool = False) -> None:
        """Run a flow with its inputs; asks only when a required one has no value. `fresh`: all answers are new."""
        if tab.is_paused:
            tab.go_on()
            return
        specs = tab.document.spec.inputs
        texts = tab.inspector.flow_form.texts()
        if missing_inputs(specs, texts):
            self.ask_inputs(tab, fresh=fresh)
            return
        values = {key: text for key, text in texts.items() if text}
        self.window.show_dock("run")
        tab.editor.show_first_run(None)
        self.settings.has_run = True
        tab.run(values, fresh=fresh)

    def ask_inputs(self, tab: FlowTab, *, fresh: bool = False) -> None:
        """Show the form of inputs."""
        if not tab.document.spec.inputs:
            self.show_banner(Banner(Message(kind="accent", title=self.tr("This flow declares no inputs."))))
            return
        form = InputForm(
            tab.document.spec, tab.inspector.flow_form.texts(), partial(self._planning.words, tab), self.window
        )

        def submitted(texts: dict[str, str], run_now: bool) -> None:
            tab.inspector.flow_form.show_values(texts)
            self.settings.set_inputs(tab.source, texts)
            if run_now:
                self.run(tab, fresh=fresh)

        form.submitted.connect(submitted)
        form.open()

    def _choose_sample(self, button: QWidget | None = None) -> None:
        """Show the samples below the button that asked for them, else at the mouse."""
        place = QCursor.pos() if button is None else button.mapToGlobal(button.rect().bottomLeft())
        self._sample_menu.popup(place)

    def _copy_summary(self, tab: FlowTab) -> None:
        QGuiApplication.clipboard().setText(tab.panel.summary_text())

    def _tab_changed(self, editor: object) -> None:
        tab = self.documents.current
        self.window.make_room(self.pages.current is not None)
        if self.pages.current is not None and (undone := self._undo.activeStack()) is not None:
            undone.setActive(False)  # a page takes back its own edits
        if tab is not None and tab.editor is editor:
            self.window.bring_to_front(tab.editor, tab.inspector, tab.panel)
            tab.editor.undo_stack.setActive(True)
        self._show_actions()
        self._remember_open()

    def _run_from(self, tab: FlowTab) -> None:
        for agent in tab.editor.selected()[:1]:
            self.run_actions.run_from(tab, agent)

    def _hold(self, tab: FlowTab) -> None:
        tab.hold(self.window.actions_by_id["pause"].isChecked())
        self._show_actions()

    def _compare_flow(self, tab: FlowTab) -> None:
        from workbench.comparison.page import ComparePage

        page = self.pages.show("compare")
        assert isinstance(page, ComparePage)  # noqa: S101 - what is offered by that id
        page.ask(tab.source)

    def _edit_prompt(self, tab: FlowTab) -> None:
        self.window.show_dock("inspector")
        tab.inspector.edit_prompt()

    def _show_actions(self) -> None:
        tab, actions = self.documents.current, self.window.actions_by_id
        running = tab is not None and tab.is_running
        for action_id in NEEDS_FLOW:
            actions[action_id].setEnabled(tab is not None)
        for action_id in ("save", "close"):
            actions[action_id].setEnabled(tab is not None or self.pages.current is not None)
        for action_id in ("run", "run_fresh"):
            actions[action_id].setEnabled(tab is not None and not running)
        paused = tab is not None and tab.is_paused
        actions["run"].setEnabled(tab is not None and (paused or not running))
        for action_id in ("step", "edit_context"):
            actions[action_id].setEnabled(paused)
        actions["stop"].setEnabled(running)
        actions["pause"].setEnabled(running)
        actions["pause"].setChecked(running and tab is not None and tab.breakpoints.is_held)
        self._show_recorded_actions(tab)
        actions["undo"].setEnabled(self._undo.canUndo())
        actions["redo"].setEnabled(self._undo.canRedo())

    def _show_recorded_actions(self, tab: FlowTab | None) -> None:
        """What needs a recorded run says in its tip why it cannot be done."""
        actions = self.window.actions_by_id
        actions["resume"].setEnabled(tab is not None and tab.can_resume)
        actions["compare_runs"].setEnabled(self.engine.history is not None)
        selected = tab.editor.selected() if tab is not None else ()
        frozen = tab is not None and bool(selected) and all(agent in tab.frozen for agent in selected)
        actions["freeze"].setText(self.tr("Thaw") if frozen else self.tr("Free&ze"))
        reason = self.tr("Select an agent.")
        keep = reason
        if tab is not None and selected:
            reason = tab.cannot_start_from(selected[0]) if len(selected) == 1 else self.tr("Select one agent only.")
            found = (self.run_actions.cannot_freeze(tab, agent) for agent in selected)
            keep = "" if frozen else next((text for text in found if text), "")
        for action_id, why in (("run_from", reason), ("freeze", keep)):
            actions[action_id].setEnabled(not why)
            actions.explain(action_id, why)

    def _show_options(self) -> None:
        action = self.window.actions_by_id["use_cache"]
        action.setEnabled(self.options.has_cache)
        action.setChecked(self.options.has_cache and self.options.current.cache)

    def show_error(self, error: BaseException, buttons: list[BannerButton] | None = None) -> None:
        """Tell an error as a banner; the log has it too."""
        logger.warning("%s", error)
        offered = list(buttons or [])
        if isinstance(error, StorageError) and error.facts.get("path") == str(self.folders.history):
            offered.append(BannerButton(self.tr("Try again"), lambda: self.tasks.start(self._retry_history())))
        if not isinstance(error, EngineError):
            # Nobody foresaw it: where it came from is in the log.
            offered.append(BannerButton(self.tr("Open log"), lambda: self.window.show_dock("log")))
        self.show_banner(error_banner(error, offered))

    def show_banner(self, banner: Banner) -> None:
        """Put a banner over the documents."""
        self.window.banners.push(banner)

    def _take_files(self, paths: list[str]) -> None:
        """Open what was dropped: flows, or a model to serve."""
        for path in paths:
            if path.lower().endswith(".gguf"):
                self.tasks.start(self.model.serve(Path(path)))
            else:
                self.documents.open_soon(path)

    def _profiles_changed(self) -> None:
        for tab in self.documents.tabs:
            tab.check_all()
        self.overview.refresh_lists()

    def _reload_profiles(self) -> None:
        self.engine.profiles.reload()
        self._profiles_changed()
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

    async def _retry_history(self) -> None:
        if self.engine.history is not None and await self.engine.history.flush():
            self.show_banner(Banner(Message(kind="accent", title=self.tr("The runs are saved now."))))

    # -- leaving ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The person wants to close the window: ask once about runs and changes, then end."""
        logger.info("The window is asked to close")
        if self.documents.is_asking or self._closing:
            return
        concerned = [tab for tab in self.documents.tabs if tab.is_running or tab.document.is_modified]
        if concerned or self.pages.modified:
            self.documents.ask_to_close(concerned, self.leave, self.pages.modified)
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
        self._profiles.close()
        # The group would tell of stacks that go, to actions that went before.
        self._undo.blockSignals(True)
        await asyncio.gather(*(tab.runs.close() for tab in self.documents.tabs))
        await asyncio.gather(*(tab.document.close() for tab in self.documents.tabs))
        await self.pages.shut_down()
        await self.tasks.close()
        await self.options.close()
        for stop_listening in self._stop_listening:
            stop_listening()
        gc.unfreeze()

    def _remember_open(self) -> None:
        if not self._closing:
            self.settings.open_documents = self.documents.sources
