"""What a right click or the menu key offers: on the canvas, in the explorer, and on a line of a run."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, Qt, QUrl
from PySide6.QtGui import QAction, QDesktopServices, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QMenu

from engine import Engine
from engine.events import ErrorInfo
from engine.formed_request import FORMS
from workbench.designer.frame_edits import COLORS
from workbench.documents import Documents
from workbench.explorer import ExplorerItem
from workbench.flow_tab import BROKEN_OFF, FlowTab
from workbench.main_window import MainWindow
from workbench.overview import Overview
from workbench.run_actions import RunActions
from workbench.run_panel.prompt_view import copy_name, copy_request, copy_tip
from workbench.run_panel.run_rows import Row
from workbench.run_panel.run_state import Branch
from workbench.saved_agents import SavedAgents

CANVAS = (
    "add_agent",
    "paste",
    "paste_linked",
    "layout",
    "",
    "run",
    "stop",
    "inputs",
    "",
    "find",
    "fit",
    "zoom_reset",
    "zoom_in",
    "zoom_out",
    "",
    "select_all",
)
"""Actions on the empty canvas; an empty string is a line."""


AGENT = (
    "edit_prompt", "rename", "", "add_after", "connect_to", "disconnect", "", "set_start", "mute", "bypass",
    "breakpoint", "frame", "", "cut", "copy", "duplicate", "save_agent", "delete", "delete_heal",
)  # fmt: skip
"""Actions on one agent."""
SEVERAL = (
    "cut", "copy", "duplicate", "delete", "delete_heal", "", "mute", "bypass", "frame", "layout", "", "fit_selection",
    "select_none",
)  # fmt: skip
"""Actions on several agents."""


class ContextMenus(QObject):
    """Builds and shows the menus; each offers only what can be done with the thing it belongs to."""

    def __init__(
        self,
        window: MainWindow,
        engine: Engine,
        documents: Documents,
        overview: Overview,
        actions: RunActions,
        saved: SavedAgents,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self._documents = documents
        self._overview = overview
        self._actions = actions
        self._saved = saved
        window.explorer.menu_wanted.connect(self._explorer)
        documents.tab_added.connect(self._follow)

    def _follow(self, tab: FlowTab) -> None:
        tab.editor.view.menu_wanted.connect(partial(self._canvas, tab))
        tab.panel.tree.menu_wanted.connect(partial(self._run_row, tab))

    def _menu(self, name: str) -> QMenu:
        menu = QMenu(self._window)
        menu.setObjectName(name)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return menu

    # -- explorer -----------------------------------------------------------------------------------------------------

    def _explorer(self, item: ExplorerItem | None, place: QPoint) -> None:
        menu = self._menu("explorer_menu")
        actions = self._window.actions_by_id
        if item is None:
            menu.addActions([actions[name] for name in ("open", "open_sample", "reload_profiles")])
        else:
            names = {"profile": self.tr("Edit"), "saved_agent": self.tr("Add to the flow")}
            shown = names.get(item.kind, self.tr("Open"))
            menu.setDefaultAction(menu.addAction(shown, partial(self._overview.open_item, item)))
            match item.kind:
                case "flow":
                    self._add_flow(menu, item)
                case "profile":
                    self._add_profile(menu, item)
                case "saved_agent":
                    self._add_saved(menu, item)
                case "run":
                    self._add_run(menu, item)
        menu.popup(place)

    def _add_flow(self, menu: QMenu, item: ExplorerItem) -> None:
        tab = next((tab for tab in self._documents.tabs if tab.source == item.id), None)
        if tab is not None:
            menu.addAction(self.tr("Close"), partial(self._documents.close_tab, tab))
        menu.addSeparator()
        if Path(item.id).is_absolute():
            menu.addAction(self.tr("Copy path"), partial(copy, item.id))
            menu.addAction(self.tr("Show folder"), partial(open_path, Path(item.id).parent))
        else:
            menu.addAction(self.tr("Copy name for the command line"), partial(copy, item.id))

    def _add_profile(self, menu: QMenu, item: ExplorerItem) -> None:
        path = self._engine.profiles.entry(item.id).path
        if path is not None:
            menu.addAction(self.tr("Open file"), partial(open_path, path))
        menu.addSeparator()
        menu.addAction(self.tr("Copy name"), partial(copy, item.id))
        menu.addAction(self._window.actions_by_id["reload_profiles"])

    def _add_saved(self, menu: QMenu, item: ExplorerItem) -> None:
        saved = self._saved.saved(item.id)
        if saved is None:
            return
        menu.addSeparator()
        rename = menu.addAction(self.tr("Rename…"), partial(self._saved.ask_name, saved))
        rename.setShortcut(QKeySequence("F2"))
        rename.setEnabled(saved.part is not None)
        delete = menu.addAction(self.tr("Delete…"), partial(self._saved.ask_delete, saved))
        delete.setShortcut(QKeySequence("Del"))
        menu.addSeparator()
        menu.addAction(self.tr("Show folder"), partial(open_path, saved.path.parent))

    def _add_run(self, menu: QMenu, item: ExplorerItem) -> None:
        runs = [one for one in self._window.explorer.chosen() if one.kind == "run"]
        if len(runs) > 1 and item in runs:
            menu.clear()
            if len(runs) == 2:
                # The list begins with the newest; what changed is read from the older one to the newer.
                menu.setDefaultAction(
                    menu.addAction(self.tr("Compare"), lambda: self._actions.compare(runs[1].id, runs[0].id))
                )
        else:
            self._add_one_run(menu, item)
            runs = [item]
        menu.addSeparator()
        many = self.tr("Delete %1 runs…").replace("%1", str(len(runs)))
        delete = menu.addAction(self.tr("Delete…") if len(runs) == 1 else many)
        delete.triggered.connect(lambda: self._actions.ask_delete({run.id: run.text for run in runs}))
        delete.setEnabled(all(run.status != "running" for run in runs))
        menu.addSeparator()
        numbers = "\n".join(run.id for run in runs)
        menu.addAction(self.tr("Copy number of the run"), partial(copy, numbers))

    def _add_one_run(self, menu: QMenu, item: ExplorerItem) -> None:
        resume = menu.addAction(self.tr("Resume"), partial(self._actions.resume_run, item.id))
        resume.setEnabled(item.status in BROKEN_OFF)
        if not resume.isEnabled():
            resume.setToolTip(self.tr("Only a run that broke off can go on."))
        menu.addAction(self.tr("Repeat"), partial(self._actions.repeat, item.id))
        menu.addAction(self.tr("Repeat fresh"), partial(self._actions.repeat, item.id, fresh=True))
        menu.addSeparator()
        menu.addAction(self.tr("Compare with…"), lambda: self._actions.compare(second=item.id))
        export = menu.addMenu(self.tr("Export as"))
        flow = item.text.partition("  ")[2].partition(" · ")[0]
        for form, name in (("json", "JSON…"), ("md", "Markdown…"), ("html", "HTML…")):
            export.addAction(name, partial(self._actions.export, item.id, flow, form))

    # -- canvas -------------------------------------------------------------------------------------------------------

    def _canvas(self, tab: FlowTab, name: str, place: QPoint) -> None:
        menu = self._menu("canvas_menu")
        agent, selected = tab.document.spec.agent(name), tab.editor.selected()
        actions = self._window.actions_by_id
        mark = tab.editor.scene.mark
        if agent is None and isinstance(mark, int):
            self._add_frame(menu, tab, mark)
        elif agent is None and isinstance(mark, tuple):
            menu.addAction(actions["delete"])
            between = partial(tab.editor.commands.palettes.add, tab.editor.view.place_to_add(), mark)
            menu.addAction(self.tr("Add agent on this link…"), between)
        elif agent is None:
            self._add_actions(menu, CANVAS)
        elif len(selected) > 1:
            self._add_actions(menu, SEVERAL)
            menu.addSeparator()
            menu.addAction(self.tr("Copy names"), partial(copy, "\n".join(selected)))
        else:
            self._add_actions(menu, AGENT)
            menu.addSeparator()
            if tab.panel.model.last_step_of(name) is not None:
                menu.addAction(self.tr("Show in Run"), partial(self._show_in_run, tab, name))
            if tab.editor.scene.problem(name) is not None:
                menu.addAction(actions["check"])
            menu.addSeparator()
            self._add_recorded(menu, tab, name)
            menu.addSeparator()
            menu.addAction(self.tr("Copy name"), partial(copy, name))
            if agent.template:
                menu.addAction(self.tr("Copy prompt"), partial(copy, agent.template))
            menu.addSeparator()
            menu.addAction(actions["fit_selection"])
        menu.popup(place)

    def _add_recorded(self, menu: QMenu, tab: FlowTab, name: str) -> None:
        """What a recorded run makes possible for an agent; what it does not says why."""
        actions, reason = self._window.actions_by_id, tab.cannot_start_from(name)
        menu.setToolTipsVisible(True)
        menu.addAction(actions["run_from"])
        change = menu.addAction(self.tr("Run from here with changes…"))
        change.triggered.connect(lambda: self._actions.run_from(tab, name, ask=True))
        change.setEnabled(not reason)
        change.setToolTip(reason or self.tr("Choose the pass and the branches, and edit what the agent gets"))
        menu.addAction(actions["freeze"])
        if name in tab.frozen:
            again = menu.addAction(self.tr("Run it again"), partial(self._actions.ask_again, tab, name))
            again.setToolTip(self.tr("Ask the frozen agent anew with what it had, and keep the new answer"))
            again.setEnabled(not tab.is_running)

    def _add_actions(self, menu: QMenu, names: tuple[str, ...]) -> None:
        for name in names:
            if name:
                menu.addAction(self._window.actions_by_id[name])
            else:
                menu.addSeparator()

    def _add_frame(self, menu: QMenu, tab: FlowTab, index: int) -> None:
        menu.addAction(self._window.actions_by_id["rename"])
        menu.addAction(self.tr("Comment…"), partial(tab.editor.frame_text.open, index, "comment"))
        colors = menu.addMenu(self.tr("Colour"))
        names = {
            "accent": self.tr("Blue"), "ok": self.tr("Green"), "warn": self.tr("Yellow"), "err": self.tr("Red"),
            "reason": self.tr("Violet"), "ice": self.tr("Ice"),
        }  # fmt: skip
        for color in COLORS:
            colors.addAction(names[color], partial(tab.editor.commands.color_frame, index, color))
        menu.addAction(self._window.actions_by_id["delete"])

    def _show_in_run(self, tab: FlowTab, name: str) -> None:
        self._window.show_dock("run")
        tab.panel.select_agent(name)

    # -- run ----------------------------------------------------------------------------------------------------------

    def _run_row(self, tab: FlowTab, row: Row, place: QPoint) -> None:
        menu = self._menu("run_menu")
        answer, thinking = row_texts(row)
        if row.tool is not None:
            self._add_copy(menu, self.tr("Copy arguments"), row.tool.arguments)
            self._add_copy(menu, self.tr("Copy result"), row.tool.output)
        else:
            self._add_copy(menu, self.tr("Copy answer"), answer)
        if thinking:
            self._add_copy(menu, self.tr("Copy thinking"), thinking)
        fault = row_error(row)
        if fault:
            self._add_copy(menu, self.tr("Copy error"), fault)
        self._add_request(menu, row)
        menu.addSeparator()
        menu.addAction(self.tr("Show on the canvas"), partial(tab.editor.reveal, row.agent))
        menu.addAction(self._window.actions_by_id["copy_summary"])
        menu.popup(place)

    @staticmethod
    def _add_request(menu: QMenu, row: Row) -> None:
        """What one call sent; a line of several has none to copy."""
        branch = row.only_branch
        attempt = row.attempt or (branch.attempt if branch is not None else None)
        if attempt is None or row.tool is not None:
            return
        menu.setToolTipsVisible(True)
        menu.addSeparator()
        for form in FORMS:
            action = menu.addAction(copy_name(form), partial(copy_request, attempt, form))
            action.setEnabled(attempt.request is not None)
            action.setToolTip(copy_tip(attempt))

    @staticmethod
    def _add_copy(menu: QMenu, text: str, copied: str) -> QAction:
        run: Callable[[], None] = partial(copy, copied)
        action = menu.addAction(text, run)
        action.setEnabled(bool(copied))
        return action


def copy(text: str) -> None:
    """Put a text on the clipboard."""
    QGuiApplication.clipboard().setText(text)


def open_path(path: Path) -> None:
    """Have the system open a file or folder."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))


def _branches(row: Row) -> list[Branch]:
    if row.branch is not None:
        return [row.branch]
    return list(row.step.branches.values()) if row.step is not None else []


def row_texts(row: Row) -> tuple[str, str]:
    """Answer and thinking of a line; those of several branches with an empty line between."""
    newest = [branch.attempt for branch in _branches(row)] if row.attempt is None else [row.attempt]
    attempts = [attempt for attempt in newest if attempt is not None]
    answers = (attempt.content.text for attempt in attempts)
    thinking = (attempt.reasoning.text for attempt in attempts)
    return "\n\n".join(filter(None, answers)), "\n\n".join(filter(None, thinking))


def row_error(row: Row) -> str:
    """What went wrong on a line, with hints and facts; empty when nothing did."""
    if row.attempt is not None:
        return row.attempt.failure or _error_text(row.attempt.error)
    return "\n\n".join(filter(None, (_error_text(branch.error) for branch in _branches(row))))


def _error_text(error: ErrorInfo | None) -> str:
    if error is None:
        return ""
    facts = (f"{name}: {value}" for name, value in error.facts.items())
    return "\n".join(filter(None, (error.message, error.hint, *facts)))
