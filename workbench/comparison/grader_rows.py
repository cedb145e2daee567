"""The graders of a comparison, one row each."""

from collections.abc import Sequence
from typing import Literal, cast

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QToolButton, QVBoxLayout, QWidget

from engine.comparison_values import GraderColumn
from workbench.theme import theme
from workbench.widgets.elided import ElidedComboBox

Kind = Literal["key", "expected", "binary", "rating", "vote"]
ASK_MODEL = ("binary", "rating", "vote")


class GraderRow(QWidget):
    """One grader."""

    changed = Signal()
    removed = Signal()

    def __init__(self, profiles: Sequence[str], parent: QWidget) -> None:
        super().__init__(parent)
        self.kind, self.match, self.judge = ElidedComboBox(self), ElidedComboBox(self), ElidedComboBox(self)
        self.text, self.remove = QLineEdit(self), QToolButton(self)
        for kind, title in (
            ("expected", self.tr("Has what a column expects")),
            ("rating", self.tr("A model rates 0 to 100")),
            ("binary", self.tr("A model says yes or no")),
            ("vote", self.tr("A model votes")),
            ("key", self.tr("An output of the flow")),
        ):
            self.kind.addItem(title, kind)
        for match, title in (
            ("contains", self.tr("within")),
            ("equal", self.tr("equal")),
            ("pattern", self.tr("pattern")),
        ):
            self.match.addItem(title, match)
        self.judge.addItem(self.tr("Category M"), "")
        for name in profiles:
            self.judge.addItem(name, name)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        for widget, stretch in ((self.kind, 2), (self.text, 2), (self.match, 1), (self.judge, 1), (self.remove, 0)):
            row.addWidget(widget, stretch)
        for widget, name in (
            (self.kind, self.tr("Kind of grader")),
            (self.text, self.tr("What it looks at")),
            (self.match, self.tr("How it must match")),
            (self.judge, self.tr("Who judges")),
            (self.remove, self.tr("Remove this grader")),
        ):
            widget.setAccessibleName(name)
        self.remove.setToolTip(self.tr("Remove this grader"))
        self.remove.clicked.connect(self.removed)
        self.kind.currentIndexChanged.connect(self._follow)
        self.text.textChanged.connect(lambda _text: self.changed.emit())
        theme.changed.connect(self._restyle)
        self._restyle()
        self._follow()

    def _follow(self) -> None:
        kind = self.kind.currentData()
        self.match.setVisible(kind == "expected")
        self.judge.setVisible(kind in ASK_MODEL)
        hints = {"expected": self.tr("Column"), "key": self.tr("Output")}
        self.text.setPlaceholderText(hints.get(kind, self.tr("What to judge by (optional)")))
        self.changed.emit()

    def _restyle(self) -> None:
        self.remove.setIcon(theme.icon("cross", 14))
        self.remove.setIconSize(QSize(theme.px(14), theme.px(14)))

    def grader(self, name: str) -> GraderColumn:
        """The grader of this row."""
        kind = cast("Kind", self.kind.currentData())
        text = self.text.text().strip()
        by_model = kind in ASK_MODEL
        return GraderColumn(
            name=name,
            kind=kind,
            key="" if by_model else text,
            match=cast("Literal['equal', 'contains', 'pattern']", self.match.currentData()),
            profile=str(self.judge.currentData()) if by_model else "",
            question=text if by_model else "",
        )


class GraderRows(QWidget):
    """Any number of graders."""

    changed = Signal()

    def __init__(self, profiles: Sequence[str], parent: QWidget) -> None:
        super().__init__(parent)
        self._profiles = list(profiles)
        self.rows: list[GraderRow] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._add = QPushButton(self.tr("Add a grader"), self)
        self._add.setAutoDefault(False)
        self._add.clicked.connect(self.add)
        line = QHBoxLayout()
        line.addWidget(self._add)
        line.addStretch(1)
        self._layout.addLayout(line)

    def add(self) -> GraderRow:
        """Add a grader."""
        row = GraderRow(self._profiles, self)
        row.changed.connect(self.changed)
        row.removed.connect(lambda: self._remove(row))
        self.rows.append(row)
        self._layout.insertWidget(len(self.rows) - 1, row)
        row.kind.setFocus()
        self.changed.emit()
        return row

    def _remove(self, row: GraderRow) -> None:
        self.rows.remove(row)
        row.hide()
        row.deleteLater()
        self.changed.emit()

    def columns(self) -> list[str]:
        """The columns that hold what is expected."""
        return [row.text.text().strip() for row in self.rows if row.kind.currentData() == "expected"]

    def graders(self) -> tuple[GraderColumn, ...]:
        """All graders, with names that differ."""
        found: list[GraderColumn] = []
        for row in self.rows:
            kind = str(row.kind.currentData())
            base = kind if kind in ASK_MODEL else row.text.text().strip()
            taken = {one.name for one in found}
            numbered = (base if number == 1 else f"{base} {number}" for number in range(1, len(found) + 2))
            found.append(row.grader(next(name for name in numbered if name not in taken)))
        return tuple(found)

    def fault(self) -> str:
        """What is missing; empty when nothing is."""
        for row in self.rows:
            if row.kind.currentData() not in ASK_MODEL and not row.text.text().strip():
                return self.tr("A grader needs the name of its column or output.")
        return ""
