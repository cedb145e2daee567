"""What can be done with recorded runs: go on, start from an agent, repeat, freeze, export, compare, delete."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QMessageBox

from engine import Engine
from engine.atomic_file import write_atomically
from engine.errors import EngineError, FlowError
from engine.flow.context import Context
from engine.flow.flow import Flow
from engine.flow.flow_spec import AgentSpec
from engine.flow.restart import Restart
from engine.history_queries import ReachedRun
from engine.recorded_runs import resume_point, start_point, visits
from engine.run_export import export_run
from engine.thinking_answer import pass_of_step, thinking_point
from workbench.designer.edits import change_agent
from workbench.designer.sections.model import with_override
from workbench.documents import Documents, slug
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.overview import Overview
from workbench.run_from_form import RunFromForm, Start
from workbench.run_panel.run_state import Step
from workbench.tasks import Tasks
from workbench.widgets.banner import Banner, BannerButton, Message

if TYPE_CHECKING:
    from workbench.run_comparison import RunComparisonDialog


class RunActions(QObject):
    """Carries them out; each works on the tab that shows the run, or opens one for it."""

    banner_made = Signal(object)
    """A Banner to show."""

    def __init__(
        self, window: MainWindow, engine: Engine, documents: Documents, overview: Overview, tasks: Tasks
    ) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self._documents = documents
        self._overview = overview
        self._tasks = tasks
        documents.tab_added.connect(self._follow)

    def _follow(self, tab: FlowTab) -> None:
        tab.panel.stream.resume_requested.connect(partial(self.resume, tab))
        tab.panel.stream.thinking_requested.connect(partial(self.use_thinking, tab))
        tab.panel.stream.limit_requested.connect(partial(self.ask_limit, tab))
        tab.panel.stream.thaw_requested.connect(lambda agent: self.thaw(tab, [agent]))
        tab.panel.stream.ask_again_requested.connect(partial(self.ask_again, tab))
        tab.asked_again.connect(partial(self._freeze_anew, tab))
        self._tasks.start(tab.frozen.load())

    # -- go on --------------------------------------------------------------------------------------------------------

    def resume(self, tab: FlowTab) -> None:
        """Go on with the run on show; what was answered is not asked again."""
        if tab.can_resume:
            self._tasks.start(self._resume(tab, tab.run_id))

    def resume_run(self, run_id: str) -> None:
        """Go on with a recorded run, in the tab that shows it, else in one of its own."""

        async def work() -> None:
            await self._resume(await self._tab_of(run_id), run_id)

        self._tasks.start(work())

    async def _resume(self, tab: FlowTab, run_id: str) -> None:
        reached = await self._engine.recorded.reached(run_id)
        await self._start(tab, reached, partial(resume_point, reached))

    def repeat(self, run_id: str, *, fresh: bool = False) -> None:
        """Run the recorded flow with the same inputs; the cache answers what has not changed, unless `fresh`."""

        async def work() -> None:
            tab = await self._tab_of(run_id)
            recorded = await self._engine.recorded.run(run_id)
            flow = tab.built()
            if flow is not None:
                self._window.show_dock("run")
                tab.start(flow, Context(recorded.inputs), fresh=fresh)

        self._tasks.start(work())

    async def _tab_of(self, run_id: str) -> FlowTab:
        for tab in self._documents.tabs:
            if tab.run_id == run_id:
                self._window.tabs.setCurrentWidget(tab.editor)
                return tab
        return await self._overview.open_run(run_id)

    async def _start(
        self, tab: FlowTab, reached: ReachedRun, point: Callable[[Flow], Restart], *, asked: str = ""
    ) -> None:
        """Start a run in the middle of a recorded one."""
        flow = tab.built()
        if flow is None:
            return
        restart = await asyncio.to_thread(point, flow)
        if not tab.is_running:  # else it was asked for twice
            self._window.show_dock("run")
            tab.start(flow, Context(reached.run.inputs), restart=restart, asked=asked)

    # -- from an agent ------------------------------------------------------------------------------------------------

    def run_from(self, tab: FlowTab, agent: str, *, ask: bool = False) -> None:
        """Start at an agent with what it had in the run on show; asks when there is a choice, or when told to."""
        if not self._cannot_start(tab, agent):
            self._tasks.start(self._run_from(tab, agent, tab.run_id, ask=ask))

    async def _run_from(self, tab: FlowTab, agent: str, run_id: str, *, ask: bool) -> None:
        reached = await self._engine.recorded.reached(run_id)
        passes = visits(reached, agent)
        if not passes:
            raise FlowError(
                self.tr("What %1 had in the run on show is not recorded.").replace("%1", agent),
                hint=self.tr("An earlier version of the program recorded it. Run the flow again."),
            )
        if not ask and len(passes) == 1 and len(next(iter(passes.values()))) == 1:
            await self._start_from(tab, reached, agent, Start())
            return
        form = RunFromForm(agent, passes, self._window)
        form.chosen.connect(lambda start: self._tasks.start(self._start_from(tab, reached, agent, start)))
        form.open()

    async def _start_from(self, tab: FlowTab, reached: ReachedRun, agent: str, start: Start, asked: str = "") -> None:
        def point(flow: Flow) -> Restart:
            return start_point(reached, flow, agent, visit=start.visit, branch=start.branch, edits=start.edits)

        await self._start(tab, reached, point, asked=asked)

    # -- answers that thinking took the place of ----------------------------------------------------------------------

    def use_thinking(self, tab: FlowTab, step: int, branch: str, attempt: int) -> None:
        """Take the thinking of an attempt of the run on show as its answer, and go on from there."""

        async def work() -> None:
            reached = await self._engine.recorded.reached(tab.run_id)
            await self._start(tab, reached, lambda flow: thinking_point(reached, flow, step, branch, attempt))

        if not self._cannot_start(tab, tab.panel.model.steps[step].agent):
            self._tasks.start(work())

    def ask_limit(self, tab: FlowTab, step: int) -> None:
        """Ask how many tokens an agent may answer with; it is then asked again, and the run goes on from there."""
        from workbench.limit_form import LimitForm

        shown = tab.panel.model.steps[step]
        agent = tab.document.spec.agent(shown.agent)
        if self._cannot_start(tab, shown.agent) or agent is None:
            return
        form = LimitForm(agent.name, self._limit_of(agent, shown), self._window)
        form.chosen.connect(lambda limit: self._tasks.start(self._with_limit(tab, step, agent.name, limit)))
        form.open()

    def _limit_of(self, agent: AgentSpec, step: Step) -> int:
        """The present limit of tokens; what came as far as that is not known."""
        override = agent.model.overrides.get("maxTokens") if agent.model is not None else None
        if isinstance(override, int):
            return override
        attempt = next(iter(step.attempts()), None)
        try:
            return self._engine.resolve(attempt.profile if attempt is not None else "").max_tokens
        except EngineError:
            return step.totals.out_tokens + step.totals.reasoning_out_tokens

    async def _with_limit(self, tab: FlowTab, step: int, agent: str, limit: int) -> None:
        reached = await self._engine.recorded.reached(tab.run_id)
        visit = pass_of_step(reached, step).visit
        spec = tab.document.spec
        if (edited := spec.agent(agent)) is not None and not tab.is_running:
            changed = change_agent(spec, agent, model=with_override(edited, "maxTokens", limit).model)
            tab.editor.edit(self.tr("Change maxTokens of %1").replace("%1", agent), changed)
            await self._start_from(tab, reached, agent, Start(visit=visit))

    def _cannot_start(self, tab: FlowTab, agent: str) -> bool:
        """Whether no run can go on from the one on show; a banner then says why."""
        reason = tab.cannot_start_from(agent)
        if reason:
            self.banner_made.emit(Banner(Message(kind="warn", title=reason)))
        return bool(reason)

    # -- frozen agents ------------------------------------------------------------------------------------------------

    def cannot_freeze(self, tab: FlowTab, agent: str) -> str:
        """Why the answers of an agent cannot be kept; empty when they can."""
        reason = tab.cannot_start_from(agent)
        if reason:
            return reason
        step = tab.panel.model.last_step_of(agent)
        if step is None or not any(attempt.finish_reason is not None for attempt in step.attempts()):
            return self.tr("%1 has no answer in the run on show that could be kept.").replace("%1", agent)
        return ""

    def toggle_frozen(self, tab: FlowTab, agents: Sequence[str]) -> None:
        """Thaw these agents when all of them are frozen, else freeze them."""
        if all(agent in tab.frozen for agent in agents):
            self.thaw(tab, agents)
            return
        for agent in agents:
            reason = self.cannot_freeze(tab, agent)
            if reason:
                self.banner_made.emit(Banner(Message(kind="warn", title=reason)))
                return
        self._tasks.start(self._freeze(tab, agents))

    async def _freeze(self, tab: FlowTab, agents: Sequence[str]) -> None:
        recorded = await self._engine.recorded.run(tab.run_id)
        await tab.frozen.freeze(recorded, agents)

    def thaw(self, tab: FlowTab, agents: Sequence[str]) -> None:
        """Ask these agents again from the next run on."""
        self._tasks.start(tab.frozen.thaw(agents))

    def ask_again(self, tab: FlowTab, agent: str) -> None:
        """Have a frozen agent answer anew, with what it had in its recorded run, and keep that."""
        if agent in tab.frozen and not tab.is_running:
            shown = "" if tab.cannot_start_from(agent) else tab.run_id
            self._tasks.start(self._ask_again(tab, agent, shown or tab.frozen.source_of(agent)))

    async def _ask_again(self, tab: FlowTab, agent: str, run_id: str) -> None:
        reached = await self._engine.recorded.reached(run_id)
        await self._start_from(tab, reached, agent, Start(), asked=agent)

    def _freeze_anew(self, tab: FlowTab, agent: str) -> None:
        """After `ask_again`: the new answers take the place of the old ones, if there are any."""
        if agent in tab.frozen and not self.cannot_freeze(tab, agent):
            self._tasks.start(self._freeze(tab, [agent]))

    # -- files and the list -------------------------------------------------------------------------------------------

    def export(self, run_id: str, flow: str, form: str) -> None:
        """Ask for a file and write a run to it as `json`, `md` or `html`."""
        kinds = {"json": "JSON (*.json)", "md": "Markdown (*.md)", "html": "HTML (*.html)"}
        place = str(Path.home() / f"{slug(flow)}-{run_id}.{form}")
        dialog = QFileDialog(self._window, self.tr("Export run as"), place, kinds[form])
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(form)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda chosen: self._tasks.start(self.export_to(run_id, form, Path(chosen))))
        dialog.open()

    async def export_to(self, run_id: str, form: str, path: Path) -> None:
        """Write a run to a file; raises StorageError, also when a key would get into it."""
        recorded = await self._engine.recorded.run(run_id)
        secrets = self._engine.profiles.secrets()

        def write() -> None:
            write_atomically(path, export_run(recorded, form, secrets=secrets).encode("utf-8", "replace"))

        await asyncio.to_thread(write)
        title = self.tr("The run was exported to %1.").replace("%1", path.name)
        # Nothing is opened outside of the window unless somebody wants it.
        buttons = [
            BannerButton(self.tr("Open it outside"), partial(_open, path)),
            BannerButton(self.tr("Show folder"), partial(_open, path.parent)),
        ]
        self.banner_made.emit(Banner(Message(kind="accent", title=title, text=str(path), icon="export"), buttons))

    def compare(self, first: str = "", second: str = "") -> "RunComparisonDialog":
        """Show two runs side by side; what is not given is chosen there."""
        from workbench.run_comparison import RunComparisonDialog

        dialog = RunComparisonDialog(self._engine, self._tasks, self._window)
        dialog.show_runs(first, second)
        dialog.show()
        return dialog

    def ask_delete(self, runs: Mapping[str, str]) -> None:
        """Delete runs (number → title) after asking."""
        question = QMessageBox(self._window)
        question.setIcon(QMessageBox.Icon.NoIcon)
        question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        title = next(iter(runs.values()))
        text = self.tr("Delete the recorded run %1?").replace("%1", title)
        if len(runs) > 1:
            text = self.tr("Delete %1 recorded runs?").replace("%1", str(len(runs)))
        question.setText(text)
        kept = self.tr("Its answers are gone for good. What it cost stays in the sums of its day.")
        question.setInformativeText(kept)
        delete = question.addButton(self.tr("Delete"), QMessageBox.ButtonRole.DestructiveRole)
        cancel = question.addButton(QMessageBox.StandardButton.Cancel)
        question.setDefaultButton(cancel)
        question.setEscapeButton(cancel)

        def answered() -> None:
            if question.clickedButton() is delete:
                self._tasks.start(self._delete(list(runs)))

        question.finished.connect(answered)
        question.open()

    async def _delete(self, run_ids: Sequence[str]) -> None:
        try:
            for run_id in run_ids:
                await self._engine.recorded.delete(run_id)
        finally:
            self._overview.refresh_lists()


def _open(path: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))
