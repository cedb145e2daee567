"""What the window shows about flows, profiles and runs: explorer, status bar, titles, palette."""

import time
from datetime import datetime
from functools import cache, partial
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QObject, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeySequence
from PySide6.QtWidgets import QWidget

from engine import Engine, EngineError, Problem, RunRow, bundled, load_flow, read_flow
from engine.flow.flow_check import check_flow
from engine.flow.flow_spec import FlowSpec
from engine.folders import Folders
from engine.profile_store import ProfileEntry
from workbench.command_palette import CommandPalette, Entry
from workbench.documents import Documents
from workbench.error_presenter import error_banner
from workbench.explorer import ExplorerItem
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.settings import Settings
from workbench.tasks import Tasks
from workbench.text_format import clock_text, cost_text, rate_text
from workbench.widgets.banner import Banner, BannerButton, Message

translate = QCoreApplication.translate

STATUS_LOOKS = {
    "finished": ("ok", "ok"),
    "failed": ("failed", "err"),
    "stopped": ("stop", "warn"),
    "budget": ("warning", "warn"),
    "crashed": ("error", "err"),
    "running": ("spinner", "run"),
}
"""Status of a run → icon, colour."""


class Overview(QObject):
    """Keeps everything outside the documents true."""

    banner_made = Signal(object)
    """A Banner to show."""

    def __init__(
        self,
        window: MainWindow,
        engine: Engine,
        documents: Documents,
        settings: Settings,
        folders: Folders,
        tasks: Tasks,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self._documents = documents
        self._settings = settings
        self._folders = folders
        self._tasks = tasks
        self._today = "$0"
        self._file_titles: dict[tuple[Path, int], str] = {}
        """Name of a flow by its file and when that was written."""
        self._palette = CommandPalette(window)
        self._focus_before: QWidget | None = None
        self.explorer, self.problems = window.explorer, window.problems
        self._ticker = QTimer(self)
        self._ticker.setInterval(200)
        self._ticker.timeout.connect(self._show_run_state)
        self.explorer.item_activated.connect(self._open_item)
        self.explorer.set_folded(settings.folded)
        self.explorer.folds_changed.connect(lambda kinds: setattr(settings, "folded", kinds))
        self.problems.problem_chosen.connect(self._show_problem)
        self._palette.closed.connect(self._return_focus)
        documents.title_changed.connect(self._show_title)
        documents.list_changed.connect(self.refresh_lists)
        documents.tab_added.connect(self._follow)
        documents.tab_removed.connect(lambda _tab: self.refresh_lists())
        window.tab_changed.connect(lambda _editor: self.show_current())

    def _follow(self, tab: FlowTab) -> None:
        tab.document.problems_changed.connect(self._show_problems)
        tab.run_changed.connect(self._run_changed)
        tab.panel.profile_requested.connect(self._show_profile)

    def show_current(self) -> None:
        """Another flow is in front."""
        self._show_problems()
        self._show_run_state()
        self._show_title()

    def close(self) -> None:
        """Stop following runs."""
        self._ticker.stop()

    def _tell(self, error: EngineError) -> None:
        self.banner_made.emit(error_banner(error))

    def _run_changed(self) -> None:
        running = any(tab.is_running for tab in self._documents.tabs)
        if running and not self._ticker.isActive():
            self._ticker.start()
        elif not running:
            self._ticker.stop()
            self.refresh_lists()
        self._show_run_state()

    def _show_run_state(self) -> None:
        tab, status = self._documents.current, self._window.status
        if tab is None or not tab.run_started_at:
            status.show_idle(self.tr("Ready"), "ok")
            return
        progress, now = tab.progress, time.time()
        if tab.is_running:
            branches = f" {progress.done}/{progress.total}" if progress.total > 1 else ""
            rate = progress.rate(now)
            status.show_running(
                f"{progress.agent}{branches}",
                progress.share,
                clock_text(now - tab.run_started_at),
                "~" + rate_text(rate) if rate else "",
            )
        else:
            icon, color = STATUS_LOOKS.get(progress.status, STATUS_LOOKS["failed"])
            status.show_idle(status_word(progress.status), icon, color, share=progress.share)
        self._show_cost()

    def _show_cost(self) -> None:
        tab = self._documents.current
        run = cost_text(tab.progress.cost, tab.progress.provenance) if tab and tab.run_started_at else "–"
        self._window.status.show_cost(run, self._today)

    def refresh_lists(self) -> None:
        """Read flows, profiles, recorded runs and today's cost again."""
        self.explorer.show_items("flow", self._flow_items())
        self.explorer.show_items("profile", self._profile_items())
        if self._engine.history is not None:
            self._tasks.start(self._refresh_runs())

    async def _refresh_runs(self) -> None:
        history = self._engine.history
        if history is None:
            return
        rows = await history.runs(50)
        self.explorer.show_items("run", [run_item(row) for row in rows])
        total = await history.today_cost()
        self._today = cost_text(total.cost, total.provenance)
        self._show_cost()

    def _flow_items(self) -> list[ExplorerItem]:
        items: dict[str, ExplorerItem] = {}
        for tab in (tab for tab in self._documents.tabs if not tab.run_title):
            mark = " •" if tab.document.is_modified else ""
            items[tab.source] = ExplorerItem(
                kind="flow", id=tab.source, text=tab.document.title + mark, tip=tab.source, icon="flow", color="accent"
            )
        own = sorted(str(path) for path in self._folders.flows.glob("*.flow.json"))
        for path in [*own, *self._settings.recent]:
            if path not in items and Path(path).exists():
                title = self._file_title(Path(path))
                items[path] = ExplorerItem(kind="flow", id=path, text=title, tip=path, icon="flow")
        for name in usable_samples():
            if name not in items:
                tip = self.tr("Sample: %1").replace("%1", name)
                title = sample_title(name)
                items[name] = ExplorerItem(kind="flow", id=name, text=title, tip=tip, icon="flow")
        return list(items.values())

    def _file_title(self, path: Path) -> str:
        """The name of the flow in a file, or the file's own when it has none that can be read."""
        try:
            key = (path, path.stat().st_mtime_ns)
            if key not in self._file_titles:
                self._file_titles[key] = load_flow(path).spec.name
            name = self._file_titles[key]
        except (EngineError, OSError):
            name = ""
        return name or path.name.removesuffix(".flow.json")

    def _profile_items(self) -> list[ExplorerItem]:
        items = []
        for entry in self._engine.profiles.profiles():
            tip = "\n".join([entry.name, *(problem.message for problem in entry.problems)])
            icon, color = _profile_look(entry)
            items.append(ExplorerItem(kind="profile", id=entry.name, text=entry.name, tip=tip, icon=icon, color=color))
        return items

    def _open_item(self, item: ExplorerItem) -> None:
        match item.kind:
            case "flow":
                self._documents.open(item.id)
            case "profile":
                self._show_profile(item.id)
            case "run":
                self._tasks.start(self.open_run(item.id))

    async def open_run(self, run_id: str) -> None:
        """Show a recorded run as it looked, on the flow it was made with."""
        history = self._engine.history
        if history is None:
            return
        recorded = await history.run(run_id)
        loaded = read_flow(recorded.flow_text, name=recorded.row.flow)
        name = f"run {run_id}"
        tab = next((tab for tab in self._documents.tabs if tab.source == name), None)
        if tab is None:
            title = f"{recorded.row.flow}, {when_text(recorded.row.started)}"
            tab = self._documents.add(loaded, name, None, run_title=title)
        self._window.tabs.setCurrentWidget(tab.editor)
        started = recorded.row.started.astimezone().strftime("%H:%M, %d %B")
        tab.show_run(self.tr("%1, run of %2").replace("%1", recorded.row.flow).replace("%2", started), recorded.events)
        self._window.show_dock("run")

    def _show_profile(self, name: str) -> None:
        """What a profile says and what is wrong with it."""
        try:
            entry = self._engine.profiles.entry(name)
        except EngineError as error:
            self._tell(error)
            return
        settings = "\n".join(f"{key}={value}" for key, value in entry.settings)
        problems = "\n".join(str(problem) for problem in entry.problems)
        buttons = []
        if entry.path is not None:
            path = entry.path
            buttons.append(
                BannerButton(self.tr("Open file"), lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(path))))
            )
        kind = "accent" if entry.usable else "warn"
        where = str(entry.path) if entry.path else self.tr("Comes with the workbench.")
        title = self.tr("Profile %1").replace("%1", name)
        message = Message(kind=kind, title=title, text=problems or where, details=settings)
        self.banner_made.emit(Banner(message, buttons))

    def _show_title(self) -> None:
        tab = self._documents.current
        self._window.setWindowModified(tab is not None and tab.document.is_modified)
        self._window.setWindowTitle(f"{tab.title}[*] – Flow Workbench" if tab else "Flow Workbench")

    def _show_problems(self) -> None:
        tab = self._documents.current
        problems = tab.document.problems if tab else ()
        self.problems.show_problems(problems)
        count = f"  {len(problems)}" if problems else ""
        self._window.docks["problems"].setWindowTitle(self.tr("Problems") + count)
        self._window.run_hint.setText(self._hint(tab) if tab is not None else "")

    def _hint(self, tab: FlowTab) -> str:
        errors = sum(problem.severity == "error" for problem in tab.document.problems)
        if errors:
            return (
                self.tr("One error keeps this flow from running")
                if errors == 1
                else self.tr("%1 errors keep this flow from running").replace("%1", str(errors))
            )
        agents = len(tab.document.spec.agents)
        return self.tr("1 agent") if agents == 1 else self.tr("%1 agents").replace("%1", str(agents))

    def _show_problem(self, problem: Problem) -> None:
        tab = self._documents.current
        if tab is not None and problem.agent:
            tab.editor.select([problem.agent])
            tab.editor.reveal(problem.agent)

    def open_palette(self) -> None:
        """Show the command palette."""
        actions = self._window.actions_by_id
        entries = [
            Entry(
                group="action",
                text=action.text().replace("&", ""),
                detail=actions.menu_title(action),
                shortcut=action.shortcut().toString(QKeySequence.SequenceFormat.NativeText),
                icon=str(action.property("icon_name") or ""),
                enabled=action.isEnabled() and action.menu() is None,
                run=action.trigger,
            )
            for action in actions.all()
            if action.objectName() != "palette"
        ]
        for kind in ("flow", "profile", "run"):
            entries += [
                Entry(
                    group=kind,
                    text=item.text,
                    icon=item.icon,
                    detail=item.tip.partition("\n")[0],
                    run=partial(self._open_item, item),
                )
                for item in self.explorer.items(kind)
            ]
        for tab in self._documents.tabs:
            entries += [
                Entry(
                    group="agent",
                    text=agent.name,
                    icon="edit",
                    detail=tab.title,
                    run=partial(self._show_agent, tab, agent.name),
                )
                for agent in tab.document.spec.agents
            ]
        self._focus_before = self._window.focusWidget()
        self._palette.open_with(entries)

    def _return_focus(self) -> None:
        """Back to where the person was before the palette opened."""
        before, self._focus_before = self._focus_before, None
        if before is not None and before.isVisible() and not self._window.status.isAncestorOf(before):
            before.setFocus()
        else:
            self._window.focus_documents()

    def _show_agent(self, tab: FlowTab, name: str) -> None:
        self._window.tabs.setCurrentWidget(tab.editor)
        tab.editor.select([name])
        tab.editor.reveal(name)


def _profile_look(entry: ProfileEntry) -> tuple[str, str]:
    """Icon and colour of a profile: served here, usable, without its key, faulty."""
    if entry.profile is None:
        return "warning", "err"
    if not entry.usable:
        return "key", "muted"
    return ("server", "ok") if entry.profile.embedded else ("profile", "text2")


@cache
def _sample(name: str) -> FlowSpec:
    data = bundled.read_bytes("resources", "flows", f"{name}.flow.json")
    return read_flow(data, name=name).spec


def sample_title(name: str) -> str:
    """The title of a sample flow."""
    return _sample(name).name


@cache
def usable_samples() -> tuple[str, ...]:
    """Names of the sample flows that this version can run."""
    names = bundled.names("resources", "flows", suffix=".flow.json")
    return tuple(name for name in names if not any(found.severity == "error" for found in check_flow(_sample(name))))


def status_word(status: str) -> str:
    """How a run ended, in words."""
    words = {
        "finished": translate("overview", "Finished"),
        "failed": translate("overview", "Failed"),
        "stopped": translate("overview", "Stopped"),
        "budget": translate("overview", "Stopped at a limit"),
        "crashed": translate("overview", "Crashed"),
        "running": translate("overview", "Running"),
    }
    return words.get(status, words["failed"])


def when_text(started: datetime) -> str:
    """When a run began: the time, with the day unless that is today."""
    local = started.astimezone()
    today = local.date() == datetime.now().astimezone().date()
    return local.strftime("%H:%M") if today else local.strftime("%d %b %H:%M")


def run_item(row: RunRow) -> ExplorerItem:
    """A recorded run as a row of the explorer."""
    icon, color = STATUS_LOOKS.get(row.status, STATUS_LOOKS["failed"])
    cost = cost_text(row.cost, row.provenance)
    text = f"{when_text(row.started)}  {row.flow}"
    return ExplorerItem(
        kind="run", id=row.id, text=text, tip=f"{text}\n{status_word(row.status)}, {cost}", icon=icon, color=color
    )
