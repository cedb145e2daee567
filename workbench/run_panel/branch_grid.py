"""Several branches side by side: a cell each, two rows, the rest on further pages."""

from itertools import islice

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from engine.completion import Phase
from workbench.run_panel.labels import Figures, state_look, state_word
from workbench.run_panel.run_state import Branch, State, Step
from workbench.run_panel.stream_text import PaneFlusher, StreamText, View
from workbench.text_format import plain_tip, seconds_text, visible_text
from workbench.theme import theme
from workbench.widgets.icon_label import IconLabel

CELLS = 8
CELL_WIDTH = 220
"""Design px a cell needs before four stand in a row."""


class BranchCell(QWidget):
    """One branch: state, name, time and the text it streams now."""

    chosen = Signal(int, str)
    """Double-clicked: step number, branch path."""

    def __init__(self, flusher: PaneFlusher, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._branch: Branch | None = None
        self._icon = IconLabel("pending", "muted", 14, self)
        self._name = Figures(12, 600, "text", self)
        self._name.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._word = Figures(11, 600, "text2", self)
        self._word.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self._time = Figures(11, parent=self)
        self._time.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self.text = StreamText(flusher, "text", self)
        self.text.setAccessibleName(self.tr("Branch"))
        self._head = QWidget(self)
        head = QHBoxLayout(self._head)
        for widget in (self._icon, self._name, self._word, self._time):
            head.addWidget(widget)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 1, 1, 0)
        layout.setSpacing(0)
        layout.addWidget(self._head)
        layout.addWidget(self.text, 1)
        theme.changed.connect(self._resize)
        self._resize()

    @property
    def branch(self) -> Branch | None:
        """What the cell shows."""
        return self._branch

    def _resize(self) -> None:
        self._head.setFixedHeight(theme.px(28))
        layout = self._head.layout()
        if layout is not None:
            layout.setContentsMargins(theme.px(12), 0, theme.px(12), 0)
            layout.setSpacing(theme.px(6))

    def show_branch(self, branch: Branch | None, now: float, view: View | None) -> None:
        """Show this branch as it is now."""
        self._branch = branch
        self.setVisible(branch is not None)
        if branch is None:
            self.text.bind(None, live=False)
            return
        icon, color = state_look(branch.state, branch.warned)
        self._icon.show_icon(icon, color)
        self._icon.update()
        name = visible_text(branch.name)
        if self._name.text() != name:
            self._name.setText(name)
            self._name.setToolTip(plain_tip(name))
            self.text.setAccessibleName(name)
        self._word.setText(self._state_text(branch))
        self._word.set_color(color)
        self._time.setText(seconds_text(branch.seconds(now)) if branch.state is not State.QUEUED else "–")
        attempt = branch.attempt
        if attempt is None:
            self.text.bind(None, live=False)
            return
        thinking = not attempt.content.length and attempt.reasoning.length
        self.text.choose_view(view)
        self.text.set_color("text2" if thinking else "text")
        self.text.bind(
            attempt.reasoning if thinking else attempt.content,
            live=attempt.state is State.RUNNING,
            whole=not attempt.incomplete,
        )

    def _state_text(self, branch: Branch) -> str:
        attempt = branch.attempt
        if branch.state is State.RUNNING and attempt is not None and attempt.spans:
            phase = attempt.spans[-1].phase
            words = {Phase.THINKING: self.tr("Thinking"), Phase.ANSWERING: self.tr("Answering")}
            return words.get(phase, self.tr("Waiting"))
        word = state_word(branch.state)
        if attempt is not None and attempt.incomplete:
            return self.tr("%1, incomplete").replace("%1", word)
        if branch.state is State.ANSWERED and len(branch.attempts) > 1:
            return self.tr("%1, try %2").replace("%1", word).replace("%2", str(len(branch.attempts)))
        return word

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Open this branch alone."""
        if self._branch is not None:
            self.chosen.emit(self._branch.step, self._branch.path)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the hairlines to the next cells."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.color("bg.field"))
        painter.setPen(theme.color("line"))
        painter.drawLine(self.width() - 1, 0, self.width() - 1, self.height())
        if self.y() > 0:
            painter.drawLine(0, 0, self.width(), 0)


class BranchGrid(QWidget):
    """The branches of one agent execution, a page at a time."""

    branch_chosen = Signal(int, str)
    """Step number, branch path."""
    view_changed = Signal()
    page_turned = Signal()
    """Another page or another number of cells: show the step again."""

    def __init__(self, flusher: PaneFlusher, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._step: Step | None = None
        self._page = 0
        self._flusher = flusher
        self._shape = (0, 0, 0)
        self._cells: list[BranchCell] = []
        """Made when branches need them: most flows have none, and every widget costs when the theme changes."""
        self._grid = QGridLayout()
        self._grid.setSpacing(0)
        self._shown = Figures(11, parent=self)
        self._number = Figures(11, 500, "text", self)
        self._number.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self._back = self._button("chevron-left", self.tr("Branches before"), -1)
        self._next = self._button("chevron-right", self.tr("Next branches"), 1)
        self._pager = QWidget(self)
        row = QHBoxLayout(self._pager)
        row.setContentsMargins(theme.px(12), 0, theme.px(8), 0)
        row.addWidget(self._shown, 1)
        for widget in (self._back, self._number, self._next):
            row.addWidget(widget)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(self._grid, 1)
        layout.addWidget(self._pager)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _add_cell(self) -> None:
        cell = BranchCell(self._flusher, self)
        cell.chosen.connect(self.branch_chosen)
        cell.text.view_changed.connect(self.view_changed)
        self._cells.append(cell)

    def _button(self, icon: str, tip: str, direction: int) -> QToolButton:
        button = QToolButton(self)
        button.setProperty("icon_name", icon)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.clicked.connect(lambda: self._turn(direction))
        return button

    def _restyle(self) -> None:
        self._pager.setFixedHeight(theme.px(28))
        for button in (self._back, self._next):
            button.setIcon(theme.icon(str(button.property("icon_name")), 14))
            button.setIconSize(QSize(theme.px(14), theme.px(14)))

    @property
    def cells(self) -> list[BranchCell]:
        """Cells that show a branch now."""
        return [cell for cell in self._cells if cell.branch is not None]

    @property
    def page_size(self) -> int:
        """Branches on one page at the present width."""
        return CELLS if self.width() >= 4 * theme.px(CELL_WIDTH) else CELLS // 2

    def show_step(self, step: Step, now: float, view: View | None) -> None:
        """Show the branches of this execution as they are now."""
        if step is not self._step:
            self._step, self._page = step, 0
        count = max(step.splits, len(step.branches))
        size = self.page_size
        pages = max(1, -(-count // size))
        self._page = min(self._page, pages - 1)
        first = self._page * size
        branches = list(islice(step.branches.values(), first, first + size))
        while len(self._cells) < len(branches):
            self._add_cell()
        self._arrange(count if pages == 1 else size)
        for number, cell in enumerate(self._cells):
            cell.show_branch(branches[number] if number < len(branches) else None, now, view)
        self._pager.setVisible(pages > 1)
        text = self.tr("%1 of %2 branches shown").replace("%1", str(len(branches))).replace("%2", str(count))
        self._shown.setText(text)
        self._number.setText(f"{self._page + 1} / {pages}")
        self._back.setEnabled(self._page > 0)
        self._next.setEnabled(self._page < pages - 1)

    def _arrange(self, count: int) -> None:
        columns = 4 if count > CELLS // 2 else min(2, max(1, count))
        rows = 1 if count <= columns and columns < 2 else min(2, -(-count // columns))
        shape = (columns, rows, len(self._cells))
        if shape == self._shape:
            return
        self._shape = shape
        for number, cell in enumerate(self._cells):
            self._grid.removeWidget(cell)
            if number < columns * rows:
                self._grid.addWidget(cell, number // columns, number % columns)
        for column in range(4):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
        for row in range(2):
            self._grid.setRowStretch(row, 1 if row < rows else 0)

    def _turn(self, direction: int) -> None:
        self._page = max(0, self._page + direction)
        self.page_turned.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width may fit another number of cells."""
        super().resizeEvent(event)
        self.page_turned.emit()
