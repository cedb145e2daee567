"""The Problems dock: everything wrong with the flow, live; a click leads to the place."""

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QHeaderView, QLabel, QStackedLayout, QTreeView, QWidget

from engine.errors import Problem
from workbench.theme import theme
from workbench.widgets.row_delegate import RowDelegate

PROBLEM_ROLE = Qt.ItemDataRole.UserRole + 1


class ProblemsView(QWidget):
    """A table of problems."""

    problem_chosen = Signal(object)
    """The Problem that was clicked or entered."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._problems: Sequence[Problem] = ()
        self._model = QStandardItemModel(self)
        self._tree = QTreeView(self)
        self._tree.setModel(self._model)
        self._tree.setRootIsDecorated(False)
        self._tree.setUniformRowHeights(True)
        self._tree.setEditTriggers(QTreeView.EditTrigger.NoEditTriggers)
        self._tree.setAccessibleName(self.tr("Problems"))
        self._tree.setItemDelegate(RowDelegate(24, self))
        self._tree.activated.connect(self._choose)
        self._tree.clicked.connect(self._choose)
        self._empty = QLabel(self.tr("No problems. Errors and warnings of the flow appear here as you edit."), self)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setWordWrap(True)
        self._empty.setProperty("role", "secondary")
        self._layout = QStackedLayout(self)
        self._layout.addWidget(self._empty)
        self._layout.addWidget(self._tree)
        theme.changed.connect(self._fill)

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Replace the list."""
        self._problems = problems
        self._fill()

    def _fill(self) -> None:
        self._model.clear()
        self._model.setHorizontalHeaderLabels([self.tr("Problem"), self.tr("Agent"), self.tr("Place")])
        for problem in self._problems:
            error = problem.severity == "error"
            severity = self.tr("error") if error else self.tr("warning")
            first = QStandardItem(problem.message)
            first.setIcon(theme.icon("error" if error else "warning", 16, "err" if error else "warn", checked=None))
            first.setAccessibleText(f"{severity}: {problem.message}")
            first.setToolTip(problem.message)
            line = self.tr("line %1").replace("%1", str(problem.line))
            place = QStandardItem(line if problem.line else problem.path)
            row = [first, QStandardItem(problem.agent), place]
            for item in row:
                item.setData(problem, PROBLEM_ROLE)
            self._model.appendRow(row)
        header = self._tree.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.resizeSection(1, theme.px(180))
        header.resizeSection(2, theme.px(260))
        self._layout.setCurrentWidget(self._tree if self._problems else self._empty)

    def _choose(self, index: QModelIndex) -> None:
        problem = index.data(PROBLEM_ROLE)
        if problem is not None:
            self.problem_chosen.emit(problem)
