"""The run panel: tree of what ran on the left, its streams, prompts, trace and statistics on the right."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QSizePolicy,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from engine.events import AnyEvent, ErrorInfo
from workbench.run_panel.context_view import ContextView
from workbench.run_panel.copy_button import CopyButton
from workbench.run_panel.error_guard import ErrorGuard
from workbench.run_panel.labels import Figures, run_title
from workbench.run_panel.loop_view import LoopView
from workbench.run_panel.pass_stepper import PassStepper
from workbench.run_panel.prompt_view import PromptView
from workbench.run_panel.resume_button import ResumeButton
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_page import RunPage, TextPage
from workbench.run_panel.run_rows import Row
from workbench.run_panel.run_state import Attempt, Branch, Step
from workbench.run_panel.run_tree import RunTree
from workbench.run_panel.statistics_view import StatisticsView
from workbench.run_panel.stream_page import StreamPage
from workbench.run_panel.stream_text import FLUSH_MILLISECONDS, PaneFlusher
from workbench.run_panel.summary import summary_text
from workbench.run_panel.trace_view import TraceView
from workbench.run_panel.view_buttons import ViewButtons
from workbench.text_format import clean_text
from workbench.theme import theme
from workbench.widgets.empty_place import EmptyPlace

REFRESH_MILLISECONDS = 100
"""How often clocks and figures move while a run is on."""


class RunPanel(QWidget):
    """Shows one run, live or recorded, from its events only."""

    run_requested = Signal()
    retry_requested = Signal()
    fresh_run_requested = Signal()
    """Run again, with new answers only."""
    profile_requested = Signal(str)
    """Name of the profile to edit."""
    agent_selected = Signal(str)
    """The person chose a row of this agent."""
    title_changed = Signal(str)
    """What runs and since when."""
    pass_chosen = Signal(int)
    """The step of the pass that is shown from now on; 0: the run as it stands."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._guard = ErrorGuard()
        self.model = RunModel(self)
        self.flusher = PaneFlusher(self._guard, self)
        self._flow = ""
        self._title = ""
        self._stopping = False
        self._follow = True
        self._extra: list[RunPage] = []
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(FLUSH_MILLISECONDS)
        self._soon.timeout.connect(self._show_current)
        self._timer = QTimer(self)
        self._timer.setInterval(REFRESH_MILLISECONDS)
        self._timer.timeout.connect(self._refresh)
        self.tree = RunTree(self.model, self)
        self.stepper = PassStepper(self.model, self)
        self.stream = StreamPage(self.model, self.flusher, self)
        self.prompt = PromptView(self)
        self.context = ContextView(self.model, self)
        self.trace = TraceView(self.model, self)
        self.statistics = StatisticsView(self.model, self)
        self.loop = LoopView(self.model, self)
        self.empty = EmptyPlace(
            "run",
            self.tr("No run yet"),
            self.tr("Press Run, and answers appear here word by word,\nwith prompt, cost and trace of every step."),
            self,
        )
        self._pages = QStackedWidget(self)
        self._tabs = QTabBar(self)
        self._build_tabs()
        self._build_layout()
        self._connect()
        theme.changed.connect(self._restyle)
        self._restyle()

    # -- building ---------------------------------------------------------------------------------------------------

    def _build_tabs(self) -> None:
        self._tabs.setProperty("flat", True)
        self._tabs.setDrawBase(False)
        self._tabs.setExpanding(False)
        self._tabs.setUsesScrollButtons(True)
        self._tabs.setAccessibleName(self.tr("Views of the run"))
        pages = (
            (self.tr("Stream"), self.stream),
            (self.tr("Prompt"), self.prompt),
            (self.tr("Context"), self.context),
            (self.tr("Trace"), self.trace),
            (self.tr("Statistics"), self.statistics),
            (self.tr("Loop"), self.loop),
        )
        for name, page in pages:
            self._tabs.addTab(name)
            self._pages.addWidget(page)
        self._tabs.currentChanged.connect(self._show_tab)

    def _build_layout(self) -> None:
        self._caption = Figures(11, 400, "text2", self)
        self._caption.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._caption.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._copy = CopyButton(self)
        self._copy.clicked.connect(self.copy_shown)
        self._head = QWidget(self)
        head = QHBoxLayout(self._head)
        head.addWidget(self._tabs)
        head.addWidget(self._caption, 1)
        head.addWidget(self.stepper, 0, Qt.AlignmentFlag.AlignVCenter)
        self.resume = ResumeButton(self.stream)
        head.addWidget(self.resume, 0, Qt.AlignmentFlag.AlignVCenter)
        self._views = ViewButtons(self)
        head.addWidget(self._views, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addWidget(self._copy)
        right = QWidget(self)
        column = QVBoxLayout(right)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._head)
        column.addWidget(self._pages, 1)
        self._splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self._splitter.setHandleWidth(1)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(self.tree)
        self._splitter.addWidget(right)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.splitterMoved.connect(self._keep_split)
        self._split_by_person = False
        self.tree.setMinimumWidth(theme.px(200))
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self._splitter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._stack)

    def _connect(self) -> None:
        self.empty.add_button(self.tr("Run"), "run").clicked.connect(self.run_requested)
        self.stream.retry_requested.connect(self.retry_requested)
        self.stream.fresh_run_requested.connect(self.fresh_run_requested)
        self.stream.profile_requested.connect(self.profile_requested)
        self.stream.view_changed.connect(self._show_view)
        self._views.chosen.connect(self.stream.choose_view)
        self.stream.branch_chosen.connect(self.choose_branch)
        self.trace.branch_chosen.connect(self.choose_branch)
        self.loop.branch_chosen.connect(self.choose_branch)
        self.trace.agent_chosen.connect(self._choose_agent)
        self.stepper.chosen.connect(self._show_pass)
        self.tree.row_chosen.connect(self._row_chosen)
        self.tree.selectionModel().currentChanged.connect(self._show_row)
        self.model.run_started.connect(self._show_title)
        self.model.step_started.connect(self._step_started)
        self.model.branch_started.connect(self._branch_started)
        self.model.branch_changed.connect(self.tree.figures_changed)
        self.model.branch_changed.connect(self._branch_changed)
        self.model.attempt_started.connect(self._attempt_started)
        self.model.text_arrived.connect(self.flusher.wake)
        self.model.run_finished.connect(self._run_finished)
        self.model.pause_changed.connect(self.stream.refresh)
        self.flusher.flushed.connect(self.model.take_fresh)

    def add_page(self, name: str, page: QWidget) -> None:
        """Add a tab that takes the run's events itself; `page` is a widget and a `RunPage`."""
        if not isinstance(page, RunPage):
            raise TypeError(f"{type(page).__name__} has no apply and clear")
        self._extra.append(page)
        self._tabs.addTab(name)
        self._pages.addWidget(page)

    @property
    def tab_names(self) -> list[str]:
        """Titles of the tabs, in order."""
        return [self._tabs.tabText(index) for index in range(self._tabs.count())]

    def show_tab(self, name: str) -> None:
        """Bring the tab of that name to the front, if there is one."""
        for index in range(self._tabs.count()):
            if self._tabs.tabText(index) == name:
                self._tabs.setCurrentIndex(index)

    # -- the run ----------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What runs and since when."""
        return self._title

    def start(self, title: str, inputs: dict[str, list[object]] | None = None) -> None:
        """Get ready for a new run of the flow `title` with these inputs, as far as they are known."""
        self.clear()
        self.model.clear(inputs)
        self._stack.setCurrentWidget(self._splitter)
        self._flow = title
        self._show_title()
        self._timer.start()

    def clear(self) -> None:
        """Forget the run; the place is empty again."""
        self._timer.stop()
        self._stopping = False
        self._follow = True
        self._guard.forget()
        self.model.clear()
        self.stepper.reset()
        self.tree.rows.reset()
        for page in self._extra:
            self._guard.run(page, page.clear)
        self._guard.run(self.stream, self.stream.show_nothing)
        self._guard.run(self.prompt, lambda: self.prompt.show_attempt(None))
        self._flow = ""
        self._show_title()
        self._stack.setCurrentWidget(self.empty)
        self._refresh_pages()

    def apply(self, events: Sequence[AnyEvent]) -> None:
        """Take the next events of the run."""
        self._guard.run_each(self.model, self.model.apply, events)
        for page in self._extra:
            self._guard.run_each(page, page.apply, events)

    def stopping(self) -> None:
        """Stop was asked for; the run ends as soon as its requests are closed."""
        self._stopping = True
        self._show_caption()

    def finish(self, status: str = "stopped") -> None:
        """The run is over, whatever its last event was."""
        self.model.finish(status)
        self._run_finished()

    def show_run(
        self,
        title: str,
        events: Sequence[AnyEvent],
        status: str = "stopped",
        inputs: dict[str, list[object]] | None = None,
    ) -> None:
        """Show a recorded run; `status` is that of one without an end."""
        self.start(title, inputs)
        self.apply(events)
        self.finish(status)

    def show_error(self, error: ErrorInfo) -> None:
        """Tell of an error that kept the run from starting, or ended it outside of its agents."""
        self._stack.setCurrentWidget(self._splitter)
        self._tabs.setCurrentIndex(0)
        self.stream.show_error(error)

    def summary_text(self) -> str:
        """Answers, symbol traces and statistics as text."""
        return summary_text(self.model)

    def select_agent(self, name: str) -> None:
        """Show the newest execution of an agent, if it ran."""
        current = self.tree.current
        # What happens inside of a node is shown as that of the node.
        if current is not None and (current.agent == name or current.agent.startswith(f"{name}/")):
            return
        shown = self.stepper.step_shown
        step = self.model.last_step_of(name, shown.number if shown is not None else 0)
        if step is None:
            self._show_unstarted(name)
            return
        row = self.tree.rows.step_row(step.number)
        if row is not None:
            self._follow = False
            self.tree.choose(row)

    def _show_unstarted(self, name: str) -> None:
        """Leave what another agent did; once this one begins it is shown."""
        if not self.model.run_id:
            return
        self._follow = not self.stepper.is_away
        row = self.tree.rows.waiting_row(name)
        if row is not None and self._follow:
            self.tree.choose(row)
            return
        self.tree.choose_nothing()
        self._guard.run(self.stream, partial(self.stream.show_unstarted, name))

    # -- following the run ------------------------------------------------------------------------------------------

    def _show_pass(self, number: int) -> None:
        """Show one pass, or the newest and what comes after it."""
        self._follow = not number
        wanted = number or next(reversed(self.model.passes), 0)
        step, row = self._shown_step(), self.tree.rows.step_row(wanted)
        if row is not None and (step is None or self.model.pass_of(step.number) != wanted):
            self.tree.choose(row)
        self._show_caption()
        self.pass_chosen.emit(number)
        if row is not None:
            self.agent_selected.emit(row.agent)

    def _step_started(self, number: int) -> None:
        row = self.tree.rows.step_row(number)
        if self._follow and row is not None:
            self.tree.choose(row)

    def _branch_started(self, number: int, _path: str) -> None:
        row = self.tree.current
        if row is not None and row.step is not None and row.step.number == number:
            self._show_soon(row)

    def _attempt_started(self, number: int, path: str, _attempt: int) -> None:
        self._branch_changed(number, path)

    def _branch_changed(self, number: int, path: str) -> None:
        row = self.tree.current
        shown = row.only_branch if row is not None else None
        if shown is not None and (shown.step, shown.path) == (number, path):
            self._show_current()
        elif row is not None and row.step is not None and row.step.number == number:
            self._show_soon(row)
        self.flusher.wake()

    def _show_soon(self, row: Row) -> None:
        """Show one branch at once, many together."""
        if row.only_branch is not None:
            self._show_current()
        elif not self._soon.isActive():
            self._soon.start()

    def _run_finished(self) -> None:
        self._stopping = False
        self._timer.stop()
        self.tree.figures_changed()
        self.flusher.wake()
        self._show_current()
        self._show_caption()
        self._refresh_pages()

    def _refresh(self) -> None:
        if not self.isVisible():
            return
        self.tree.figures_changed()
        self._refresh_pages()

    def _refresh_pages(self) -> None:
        page = self._pages.currentWidget()
        for own in (self.stream, self.context, self.trace, self.statistics, self.loop):
            if page is own:
                self._guard.run(own, own.refresh)

    # -- choosing ---------------------------------------------------------------------------------------------------

    def _row_chosen(self) -> None:
        row = self.tree.current
        if row is None:
            return
        newest = next(reversed(self.model.steps.values()), None)
        step = self._shown_step()
        if self.stepper.is_away and step is not None:
            self.stepper.choose(step.number)
        self._follow = not self.stepper.is_away and (row.step is None or row.step is newest)
        self.agent_selected.emit(row.agent)

    def choose_branch(self, number: int, path: str) -> None:
        """Show one branch of an execution."""
        row = self.tree.rows.branch_row(number, path)
        if row is not None:
            self._follow = False
            self.tree.choose(row)
            if self.stepper.is_away:
                self.stepper.choose(number)
            self.agent_selected.emit(row.agent)

    def _choose_agent(self, name: str) -> None:
        self.select_agent(name)
        self.agent_selected.emit(name)

    def _show_row(self) -> None:
        self._show_current()
        self._refresh_pages()

    def _shown(self) -> tuple[Branch | None, Attempt | None]:
        """Branch and attempt of the current row; of an execution with several branches none."""
        row = self.tree.current
        if row is None:
            return None, None
        if row.tool is not None and row.parent is not None:
            row = row.parent
        if row.attempt is not None and row.parent is not None:
            return row.parent.only_branch, row.attempt
        branch = row.only_branch
        return branch, branch.attempt if branch is not None else None

    def _shown_step(self) -> Step | None:
        """The execution of the current row."""
        row = self.tree.current
        while row is not None and row.step is None:
            row = row.parent
        return row.step if row is not None else None

    def _show_current(self) -> None:
        row = self.tree.current
        branch, attempt = self._shown()
        if branch is not None and attempt is not None and row is not None and row.tool is not None:
            self._guard.run(self.stream, partial(self.stream.show_tool, branch, attempt, row.tool))
        elif branch is not None:
            chosen = attempt if row is not None and row.attempt is not None else None
            self._guard.run(self.stream, partial(self.stream.show_branch, branch, chosen))
        elif row is not None and row.step is not None:
            self._guard.run(self.stream, partial(self.stream.show_step, row.step))
            first = next(iter(row.step.branches.values()), None)
            attempt = first.attempt if first is not None else None
        elif row is not None and row.waiting:
            self._guard.run(self.stream, partial(self.stream.show_unstarted, row.waiting))
        self._guard.run(self.prompt, lambda: self.prompt.show_attempt(attempt))
        self._guard.run(self.trace, lambda: self.trace.select(branch))
        self._guard.run(self.context, partial(self.context.show_step, self._shown_step(), branch))
        self._show_view()

    def _show_tab(self, index: int) -> None:
        self._pages.setCurrentIndex(index)
        self._show_view()
        self._refresh_pages()
        self.flusher.wake()

    # -- looks ------------------------------------------------------------------------------------------------------

    def _show_title(self) -> None:
        title = run_title(self._flow, self.model.started)
        if title != self._title:
            self._title = title
            self._show_caption()
            self.title_changed.emit(title)

    def _show_caption(self) -> None:
        self._caption.setText(self.tr("stopping …") if self._stopping else self.stepper.words() or self._title)

    def _show_view(self) -> None:
        self._views.setVisible(self._pages.currentWidget() is self.stream)
        self._views.show_view(self.stream.view)

    def _restyle(self) -> None:
        self._head.setFixedHeight(theme.px(36))
        layout = self._head.layout()
        if layout is not None:
            layout.setContentsMargins(theme.px(4), 0, theme.px(8), 0)
            layout.setSpacing(theme.px(8))
        self._tabs.setFont(theme.font(12, 500))
        self._style_views()

    def _style_views(self) -> None:
        self._views.restyle(icons_only=self.width() < theme.px(1000) or theme.zoom >= 1.4)

    def copy_shown(self) -> None:
        """Put what the current tab shows on the clipboard, whole."""
        page: object = self._pages.currentWidget()
        if page is self.stream:
            text = self.stream.full_text
        else:
            text = page.text if isinstance(page, TextPage) else self.statistics.text
        QGuiApplication.clipboard().setText(clean_text(text))

    def _keep_split(self) -> None:
        self._split_by_person = True

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the tree its share, and buttons without words to a narrow panel."""
        super().resizeEvent(event)
        if not self._split_by_person:
            tree = min(theme.px(420), max(theme.px(220), round(self.width() * 0.27)))
            self._splitter.setSizes([tree, self.width() - tree])
        self._style_views()

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up."""
        super().showEvent(event)
        self.flusher.wake()
        self._refresh_pages()
