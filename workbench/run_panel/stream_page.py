"""The Stream tab: phase clock, reasoning beside content, or a grid of branches, with the figures below."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QSplitter, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from engine.completion import Phase
from engine.events import ErrorInfo, ToolCalled
from workbench.run_panel.branch_grid import BranchGrid
from workbench.run_panel.messages import (
    RunMessage,
    branch_message,
    empty_words,
    error_message,
    pause_message,
    run_message,
    step_message,
)
from workbench.run_panel.phase_clock import PhaseClock
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import Attempt, Branch, State, Step
from workbench.run_panel.statistics_line import StatisticsLine, attempt_figures, step_figures
from workbench.run_panel.stream_pane import StreamPane
from workbench.run_panel.stream_text import PaneFlusher, View
from workbench.run_panel.tool_page import ToolPage
from workbench.text_format import seconds_text, tokens_text, visible_text
from workbench.theme import theme
from workbench.widgets.banner import Banner, BannerButton


class StreamPage(QWidget):
    """Shows one attempt, or all branches of one agent execution."""

    branch_chosen = Signal(int, str)
    """A cell of the grid was opened: step number, branch path."""
    view_changed = Signal()
    retry_requested = Signal()
    fresh_run_requested = Signal()
    resume_requested = Signal()
    step_requested = Signal()
    go_on_requested = Signal()
    edit_context_requested = Signal()
    """Of a run that waits at a breakpoint."""
    says_resume_changed = Signal()
    thaw_requested = Signal(str)
    """The frozen agent that shall be asked again from now on."""
    ask_again_requested = Signal(str)
    """The frozen agent whose answer shall be made anew."""
    profile_requested = Signal(str)
    thinking_requested = Signal(int, str, int)
    """The thinking shall be the answer of this step, branch and attempt."""
    limit_requested = Signal(int)
    """The agent of this step shall be asked again with a higher limit of tokens."""

    def __init__(self, model: RunModel, flusher: PaneFlusher, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self.offers_resume = False
        """Whether a message about a run that broke off offers to go on with it."""
        self.says_resume = False
        """Whether one does so now."""
        self._step: Step | None = None
        self._branch: Branch | None = None
        self._attempt: Attempt | None = None
        self._tool: ToolCalled | None = None
        self._chosen: View | None = None
        self._fold = False
        self._error: RunMessage | None = None
        self._said: RunMessage | None = None
        self._closed: set[RunMessage] = set()
        self._unstarted = ""
        """The agent on show that has not begun."""
        self.banner = Banner(parent=self)
        self.clock = PhaseClock(self)
        self.line = StatisticsLine(self)
        self.reasoning = StreamPane(flusher, reasoning=True, parent=self)
        self.content = StreamPane(flusher, reasoning=False, parent=self)
        self.grid = BranchGrid(flusher, self)
        self.tool = ToolPage(flusher, self)
        self._unfold = self._unfold_button()
        self._splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setHandleWidth(1)
        self._splitter.addWidget(self.reasoning)
        self._splitter.addWidget(self.content)
        self._splitter.setSizes([1000, 1000])
        self._single = QWidget(self)
        single = QVBoxLayout(self._single)
        single.setContentsMargins(0, 0, 0, 0)
        single.setSpacing(0)
        for widget in (self.clock, self._unfold):
            single.addWidget(widget)
        single.addWidget(self._splitter, 1)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self._single)
        self._stack.addWidget(self.grid)
        self._stack.addWidget(self.tool)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.banner)
        layout.addWidget(self._stack, 1)
        layout.addWidget(self.line)
        self._connect()
        theme.changed.connect(self._restyle)
        self._restyle()

    def _connect(self) -> None:
        self.grid.branch_chosen.connect(self.branch_chosen)
        self.grid.page_turned.connect(self.refresh)
        self.reasoning.folded.connect(lambda: self._set_fold(True))
        self.grid.view_changed.connect(self.view_changed)
        self.content.text.view_changed.connect(self.view_changed)
        self.banner.closed.connect(self._close_banner)

    def _unfold_button(self) -> QToolButton:
        button = QToolButton(self)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        button.setToolTip(self.tr("Show the reasoning"))
        button.setAccessibleName(self.tr("Show the reasoning"))
        button.clicked.connect(lambda: self._set_fold(False))
        button.hide()
        return button

    def _restyle(self) -> None:
        self._unfold.setFont(theme.font(12))
        self._unfold.setIcon(theme.icon("reasoning", 14, "reason"))
        self._unfold.setIconSize(QSize(theme.px(14), theme.px(14)))
        self.refresh()

    # -- what is shown ----------------------------------------------------------------------------------------------

    @property
    def attempt(self) -> Attempt | None:
        """The attempt on show, None for a grid."""
        return self._attempt

    @property
    def shows_grid(self) -> bool:
        """Whether several branches stand side by side."""
        return self._step is not None and self._branch is None

    @property
    def view(self) -> View:
        """How the content is shown."""
        if self._tool is not None:
            return self._chosen or self.tool.result.view
        cells = self.grid.cells if self.shows_grid else []
        return self._chosen or (cells[0].text.view if cells else self.content.text.view)

    def choose_view(self, view: View) -> None:
        """Show content rendered, raw or as JSON from now on."""
        self._chosen = view
        self.content.text.choose_view(view)
        self.tool.choose_view(view)
        self.refresh()
        self.view_changed.emit()

    def show_nothing(self) -> None:
        """Forget the run."""
        self._step = self._branch = self._attempt = self._tool = None
        self._unstarted = ""
        self._error = None
        self._closed.clear()
        self.refresh()

    def show_error(self, error: ErrorInfo) -> None:
        """Tell of an error that belongs to no branch, until another run is shown."""
        self._error = error_message(error)
        self.refresh()

    def show_step(self, step: Step) -> None:
        """Show all branches of an execution."""
        self._step, self._branch, self._attempt, self._tool = step, None, None, None
        self._unstarted = ""
        self.refresh()

    def show_unstarted(self, agent: str) -> None:
        """Show that an agent has not begun."""
        self._step = self._branch = self._attempt = self._tool = None
        self._unstarted = agent
        self.refresh()

    def show_branch(self, branch: Branch, attempt: Attempt | None) -> None:
        """Show one attempt of a branch, or the newest as it comes."""
        self._step, self._branch, self._attempt, self._tool = None, branch, attempt, None
        self._unstarted = ""
        self.refresh()

    def show_tool(self, branch: Branch, attempt: Attempt, tool: ToolCalled) -> None:
        """Show what an attempt called."""
        self._step, self._branch, self._attempt, self._tool = None, branch, attempt, tool
        self._unstarted = ""
        self.tool.show_call(tool)
        self.refresh()

    @property
    def full_text(self) -> str:
        """The whole text on show, for the clipboard."""
        if self._tool is not None:
            return self.tool.full_text
        if self._step is not None:
            parts = [(one.name, one.attempt) for one in self._step.branches.values()]
            return "\n\n".join(f"{name}\n{attempt.content.text}" for name, attempt in parts if attempt is not None)
        return self.content.text.full_text

    # -- keeping up -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Bring everything but the streaming text itself up to date."""
        now = self._model.now()
        self._stack.setCurrentWidget(self._page())
        self._refresh_banner()
        if self._tool is not None:
            self.line.show_figures(self.tool.figures())
            return
        if self._step is not None:
            self.grid.show_step(self._step, now, self._chosen)
            self.line.show_figures(step_figures(self._step, now))
        else:
            self._refresh_single(now)

    def _page(self) -> QWidget:
        if self._tool is not None:
            return self.tool
        return self.grid if self.shows_grid else self._single

    def _refresh_single(self, now: float) -> None:
        branch = self._branch
        attempt = self._attempt or (branch.attempt if branch is not None else None)
        self.clock.setVisible(attempt is not None and bool(attempt.spans))
        self.clock.show_attempt(attempt, now)
        live = attempt is not None and attempt.state in (State.RUNNING, State.QUEUED)
        whole = attempt is None or not attempt.incomplete
        self.content.show_text(attempt.content if attempt is not None else None, live=live, whole=whole)
        self.content.show_words(self._not_begun() if self._unstarted else empty_words(branch, attempt))
        self.content.show_figures(attempt, attempt.phase_seconds(Phase.ANSWERING, now) if attempt is not None else 0)
        thinking = live and attempt is not None and not attempt.content.length
        self.reasoning.show_text(attempt.reasoning if attempt is not None else None, live=thinking, whole=whole)
        seconds = attempt.phase_seconds(Phase.THINKING, now) if attempt is not None else 0.0
        self.reasoning.show_figures(attempt, seconds)
        thought = attempt is not None and bool(attempt.reasoning.length)
        self.reasoning.setVisible(thought and not self._fold)
        self._unfold.setVisible(thought and self._fold)
        if attempt is not None and thought:
            text = self.tr("Thought %1 tok, %2").replace("%1", tokens_text(*attempt.reasoning_tokens()))
            self._unfold.setText(text.replace("%2", seconds_text(seconds)))
        figures = attempt_figures(branch, attempt, now) if branch is not None and attempt is not None else []
        self.line.show_figures(figures)

    def _not_begun(self) -> str:
        text = self.tr("%1 has not begun.") if self._model.running else self.tr("%1 did not run.")
        return text.replace("%1", visible_text(self._unstarted))

    def _set_fold(self, fold: bool) -> None:
        self._fold = fold
        self.refresh()

    def _refresh_banner(self) -> None:
        message = None
        if self._branch is not None:
            message = branch_message(self._branch, self._model.now())
        elif self._step is not None:
            message = step_message(self._step, self._model.now())
        paused = pause_message(self._model) if self._model.paused else None
        message = self._error or paused or message or run_message(self._model)
        self._said = message
        if message is None or message in self._closed:
            self.banner.show_message(None)
        else:
            self.banner.show_message(message, self._buttons(message))
        says = message is not None and message not in self._closed and message.retry and self.offers_resume
        if says is not self.says_resume:
            self.says_resume = says
            self.says_resume_changed.emit()

    def _buttons(self, message: RunMessage) -> list[BannerButton]:
        buttons = []
        if message.retry and self.offers_resume:
            buttons.append(BannerButton(self.tr("Resume"), self.resume_requested.emit, "resume"))
        if message.paused:
            buttons.append(BannerButton(self.tr("Step"), self.step_requested.emit, "step"))
            buttons.append(BannerButton(self.tr("Go on"), self.go_on_requested.emit, "resume"))
            buttons.append(BannerButton(self.tr("Edit context…"), self.edit_context_requested.emit, "edit"))
        if message.frozen:
            agent = message.frozen
            buttons.append(BannerButton(self.tr("Thaw"), lambda: self.thaw_requested.emit(agent), "frozen"))
            buttons.append(BannerButton(self.tr("Run it again"), lambda: self.ask_again_requested.emit(agent), "retry"))
        if not self._model.running:
            buttons += self._audit_buttons(message)
        if message.retry:
            buttons.append(BannerButton(self.tr("Retry"), self.retry_requested.emit, "retry"))
        if message.fresh:
            buttons.append(BannerButton(self.tr("Run fresh"), self.fresh_run_requested.emit, "retry"))
        if message.profile:
            profile = message.profile
            buttons.append(BannerButton(self.tr("Edit profile"), lambda: self.profile_requested.emit(profile)))
        return buttons

    def _audit_buttons(self, message: RunMessage) -> list[BannerButton]:
        """What helps when thinking took the place of the answer."""
        branch, buttons = self._branch, []
        if branch is None:
            return []
        if (audited := message.audited) is not None:
            place = (branch.step, branch.path, audited.number)
            text = self.tr("Use thinking as answer")
            buttons.append(BannerButton(text, lambda: self.thinking_requested.emit(*place), "reasoning"))
        # The limits of agents inside of a node stand in the file of the flow that it runs.
        if message.limited and "/" not in branch.agent:
            text = self.tr("Retry with a higher limit…")
            buttons.append(BannerButton(text, lambda: self.limit_requested.emit(branch.step), "tokens"))
        return buttons

    def _close_banner(self) -> None:
        if self._said is not None:
            self._closed.add(self._said)
        self._refresh_banner()
