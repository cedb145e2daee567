"""What the window shows about flows, profiles and runs: explorer, status bar, titles, palette."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QWidget

from engine import Engine, EngineError, Problem, RunRow, StorageError, bundled, load_flow, read_flow
from engine.events import Statistics
from engine.flow.flow_check import check_flow
from engine.flow.flow_spec import FlowSpec
from engine.folders import Folders
from engine.profile_store import ProfileEntry
from workbench.after_paint import after_paint
from workbench.command_palette import CommandPalette, Entry
from workbench.documents import Documents
from workbench.error_presenter import error_banner
from workbench.explorer import ExplorerItem
from workbench.flow_source import NEW
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.offered_pages import show_profile
from workbench.page_tabs import PageOffer, PageTabs
from workbench.run_looks import STATUS_LOOKS, origin_word, run_look, run_text, status_word
from workbench.run_panel.run_state import State
from workbench.run_panel.summary import statistics_text
from workbench.saved_agents import SavedAgents
from workbench.settings import Settings
from workbench.tasks import Tasks
from workbench.text_format import clock_text, cost_text, rate_text, when_text


class Overview(QObject):
    """Keeps everything outside the documents true."""

    banner_made = Signal(object)
    """A Banner to show."""

    def __init__(
        self,
        window: MainWindow,
        engine: Engine,
        documents: Documents,
        pages: PageTabs,
        settings: Settings,
        folders: Folders,
        tasks: Tasks,
        saved: SavedAgents,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self._documents = documents
        self._pages = pages
        self._settings = settings
        self._folders = folders
        self._tasks = tasks
        self._saved = saved
        self._today = "$0"
        self._file_titles: dict[tuple[Path, int], str] = {}
        """Name of a flow by its file and when that was written."""
        self._palette = CommandPalette(window)
        self._focus_before: QWidget | None = None
        self.explorer, self.problems = window.explorer, window.problems
        self._ticker = QTimer(self)
        self._ticker.setInterval(200)
        self._ticker.timeout.connect(self._show_run_state)
        self.explorer.item_activated.connect(self.open_item)
        self.explorer.set_folded(settings.folded)
        self.explorer.folds_changed.connect(lambda kinds: setattr(settings, "folded", kinds))
        self.problems.problem_chosen.connect(self._show_problem)
        self._palette.closed.connect(self._return_focus)
        documents.title_changed.connect(self.show_title)
        pages.changed.connect(self.show_title)
        self._closed = False
        self._reading = 0
        """How often the lists have been read."""
        self._reading_runs = 0
        # At the start the flow is drawn first: the lists read all samples and profiles.
        documents.list_changed.connect(lambda: after_paint(self, self.refresh_lists))
        documents.tab_added.connect(self._follow)
        documents.tab_removed.connect(lambda _tab: self.refresh_lists())
        window.tab_changed.connect(lambda _editor: self.show_current())

    def _follow(self, tab: FlowTab) -> None:
        tab.document.problems_changed.connect(self._show_problems)
        tab.run_changed.connect(self._run_changed)
        tab.panel.profile_requested.connect(self._open_profile)

    def show_current(self) -> None:
        """Another flow is in front."""
        self._show_problems()
        self._show_run_state()
        self.show_title()
        tab, page = self._documents.current, self._pages.current
        if page is not None:
            self.explorer.set_current("page", self._pages.id_of(page))
        if tab is not None:
            kind = "run" if tab.run_title else "flow"
            self.explorer.set_current(kind, tab.source.removeprefix("run ") if tab.run_title else tab.source)

    def close(self) -> None:
        """Stop following runs."""
        self._ticker.stop()
        self._closed = True

    def _tell(self, error: EngineError) -> None:
        self.banner_made.emit(error_banner(error))

    def _run_changed(self) -> None:
        running = any(tab.is_running for tab in self._documents.tabs)
        if running:
            self._ticker.start()
            # Also one that goes on is among the runs.
            self._tasks.start(self._show_begun())
        else:
            self._ticker.stop()
            self.refresh_lists()
        self._show_run_state()

    def _show_run_state(self) -> None:
        tab, status = self._documents.current, self._window.status
        if tab is None:  # a page is in front: what runs behind it is of interest
            tab = next((tab for tab in self._documents.tabs if tab.is_running), None)
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
            word = status_word(progress.status)
            if progress.status == "finished" and progress.cached and not progress.requests:
                frozen = any(State.FROZEN in step.counts for step in tab.panel.model.steps.values())
                # Frozen answers lie beside the history, not in the cache.
                word = self.tr("Finished, no model asked") if frozen else self.tr("Finished, all from the cache")
            status.show_idle(word, icon, color, share=progress.share)
        self._show_cost()

    def _show_cost(self) -> None:
        tab = self._documents.current
        paid = tab is not None and tab.run_started_at and not tab.is_replay
        run = cost_text(tab.progress.cost, tab.progress.provenance) if tab and paid else "–"
        self._window.status.show_cost(run, self._today)

    def refresh_lists(self) -> None:
        """Read flows, profiles, recorded runs and today's cost again."""
        if not self._closed:
            self._tasks.start(self.read_lists())

    async def read_lists(self) -> None:
        """Read flows, profiles, recorded runs and today's cost, in threads: their disk may be slow."""
        self._reading += 1
        number = self._reading
        titles = await asyncio.to_thread(self._saved_flows, [*self._settings.recent])
        entries = await asyncio.to_thread(self._engine.profiles.profiles)
        await self._saved.read()
        if number == self._reading:  # else they are being read again
            self.explorer.show_items("flow", self._flow_items(titles))
            self.explorer.show_items("profile", [_profile_item(entry) for entry in entries])
            self.explorer.show_items("page", [_page_item(offer) for offer in self._pages.offers.values()])
        await self._refresh_runs()

    async def _show_begun(self) -> None:
        """List the runs; that they cannot be written, the history tells by itself."""
        with suppress(StorageError):
            await self._refresh_runs()

    async def _refresh_runs(self) -> None:
        history = self._engine.history
        if history is None:
            return
        self._reading_runs += 1
        number = self._reading_runs
        rows, total = await history.runs(50), await history.today_cost()
        if number != self._reading_runs:  # they are being read again
            return
        self.explorer.show_items("run", [run_item(row) for row in rows])
        self._today = cost_text(total.cost, total.provenance)
        self._show_cost()

    def _saved_flows(self, recent: Sequence[str]) -> dict[str, str]:
        """Path → title of the person's flows: those in the data folder, then others opened lately."""
        own = sorted(str(path) for path in self._folders.flows.glob("*.flow.json"))
        return {path: self._file_title(Path(path)) for path in [*own, *recent] if Path(path).exists()}

    def _flow_items(self, saved: Mapping[str, str]) -> list[ExplorerItem]:
        items: dict[str, ExplorerItem] = {}
        for tab in (tab for tab in self._documents.tabs if not tab.run_title):
            mark = " •" if tab.document.is_modified else ""
            items[tab.source] = ExplorerItem(
                kind="flow",
                id=tab.source,
                text=tab.document.title + mark,
                tip=str(tab.document.path or self.tr("Not saved yet")),
                icon="flow",
                color="accent",
            )
        for path, title in saved.items():
            if path not in items:
                items[path] = ExplorerItem(kind="flow", id=path, text=title, tip=path, icon="flow")
        for name in usable_samples():
            if name not in items:
                tip = self.tr("Sample: %1").replace("%1", name)
                title = sample_title(name)
                items[name] = ExplorerItem(kind="flow", id=name, text=title, tip=tip, icon="flow")
        return self._told_apart(list(items.values()))

    def _told_apart(self, items: list[ExplorerItem]) -> list[ExplorerItem]:
        """Say of flows with the same name which is the sample, and the files of the others."""
        mark = " •"
        names = [item.text.removesuffix(mark) for item in items]
        apart = []
        for item, name in zip(items, names, strict=True):
            if names.count(name) > 1:
                own = Path(item.id).is_absolute()
                which = Path(item.id).name.removesuffix(".flow.json") if own else self.tr("sample")
                item = replace(item, text=f"{name} ({which}){item.text[len(name) :]}", ends_matter=True)
            apart.append(item)
        return apart

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

    def open_item(self, item: ExplorerItem) -> None:
        """Open a flow, a recorded run or a page, add a saved agent, or show what a profile says."""
        match item.kind:
            case "flow":
                self._documents.open_soon(item.id)
            case "profile":
                self._open_profile(item.id)
            case "saved_agent":
                self._saved.insert(item)
            case "run":
                self._tasks.start(self.open_run(item.id))
            case "page":
                self._pages.show(item.id)

    async def open_run(self, run_id: str) -> FlowTab:
        """Show a recorded run as it looked, on the flow it was made with. Raises StorageError and FlowError."""
        under_way = next((tab for tab in self._documents.tabs if tab.is_running and tab.run_id == run_id), None)
        if under_way is not None:
            self._window.tabs.setCurrentWidget(under_way.editor)
            self._window.show_dock("run")
            return under_way
        recorded = await self._engine.recorded.run(run_id)
        loaded = read_flow(recorded.flow_text, name=recorded.row.flow)
        name = f"run {run_id}"
        tab = next((tab for tab in self._documents.tabs if tab.source == name), None)
        if tab is None:
            title = f"{recorded.row.flow}, {when_text(recorded.row.started.timestamp())}"
            tab = self._documents.add(loaded, name, None, run_title=title)
        self._window.tabs.setCurrentWidget(tab.editor)
        started = recorded.row.started.astimezone().strftime("%H:%M, %d %B")
        tab.show_run(
            self.tr("%1, run of %2").replace("%1", recorded.row.flow).replace("%2", started),
            recorded.events,
            recorded.row.status,
            {key: list(values) for key, values in recorded.inputs.items()},
        )
        self._window.show_dock("run")
        return tab

    def flows(self) -> list[tuple[str, str]]:
        """Title and source of the flows of the explorer that are on the disk or samples."""
        items = self.explorer.items("flow")
        return [(item.text.removesuffix(" •"), item.id) for item in items if not item.id.startswith(NEW)]

    def _open_profile(self, name: str) -> None:
        show_profile(self._pages, name)

    def profile_used(self, name: str) -> str:
        """What the requests of a profile have used since the start; empty when there was none."""
        used = self._engine.totals.get(name)
        if used is None:
            return ""
        return self.tr("Since the start: %1").replace("%1", statistics_text(Statistics.of_run(used)))

    def show_title(self) -> None:
        """Name what is in front and the environment."""
        tab, page = self._documents.current, self._pages.current
        title = tab.title if tab is not None else self._pages.title(page) if page is not None else ""
        modified = tab.document.is_modified if tab is not None else page is not None and page.is_modified
        self._window.setWindowModified(modified)
        parts = [f"{title}[*]" if title else "", "Flow Workbench", self._engine.settings.environment]
        self._window.setWindowTitle(" – ".join(filter(None, parts)))

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
        for kind in ("flow", "profile", "saved_agent", "run"):
            entries += [
                Entry(
                    group=kind,
                    text=item.text,
                    icon=item.icon,
                    detail=item.tip.partition("\n")[0],
                    run=partial(self.open_item, item),
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


def _profile_item(entry: ProfileEntry) -> ExplorerItem:
    tip = "\n".join([entry.name, *(problem.message for problem in entry.problems)])
    icon, color = _profile_look(entry)
    return ExplorerItem(kind="profile", id=entry.name, text=entry.name, tip=tip, icon=icon, color=color)


def _page_item(offer: PageOffer) -> ExplorerItem:
    return ExplorerItem(kind="page", id=offer.id, text=offer.title, tip=offer.tip, icon=offer.icon)


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


def run_item(row: RunRow) -> ExplorerItem:
    """A recorded run as a row of the explorer."""
    icon, color = run_look(row)
    cost = cost_text(row.cost, row.provenance)
    text, origin = run_text(row), origin_word(row)
    tip = f"{text}\n{status_word(row.status)}, {cost}"
    if origin:
        from_run = QCoreApplication.translate("overview", "%1, from run %2")
        tip += "\n" + from_run.replace("%2", row.parent).replace("%1", origin[:1].upper() + origin[1:])
    return ExplorerItem(
        kind="run", id=row.id, text=text, tip=tip, icon=icon, color=color, status=row.status, ends_matter=bool(origin)
    )
