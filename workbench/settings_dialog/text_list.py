"""A list of texts: Enter or *Add* adds what was typed, Del or *Remove* takes the chosen one away."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QLabel, QListWidget, QPushButton, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.checked_line import CheckedLine
from workbench.widgets.row_delegate import RowDelegate

MOST_ROWS = 5
"""Rows that are seen at once."""


class TextList(QWidget):
    """Shows entries and asks its owner to change them."""

    changed = Signal(object)
    """The entries as they shall be, a tuple."""

    def __init__(self, name: str, example: str, empty: str, check: Callable[[str], str], parent: QWidget) -> None:
        """`check` gives the entry for what was typed, or raises ValueError in words; `empty` stands for no entries."""
        super().__init__(parent)
        self._check = check
        self.entries: tuple[str, ...] = ()
        self.list = QListWidget(self)
        self.list.setAccessibleName(name)
        self.list.setItemDelegate(RowDelegate(26, self))
        self.list.currentRowChanged.connect(self._show_chosen)
        delete = QShortcut(QKeySequence(Qt.Key.Key_Delete), self.list)
        delete.setContext(Qt.ShortcutContext.WidgetShortcut)
        delete.activated.connect(self._remove)
        self._empty = QLabel(empty, self)
        self._empty.setProperty("role", "muted")
        self._empty.setWordWrap(True)
        self.line = CheckedLine(self.tr("New: %1").replace("%1", name), self)
        self.line.setPlaceholderText(example)
        self.line.returnPressed.connect(self._add_typed)
        self.line.textEdited.connect(self._forget_fault)
        self.add, self.remove = QPushButton(self.tr("Add"), self), QPushButton(self.tr("Remove"), self)
        self.add.setAccessibleName(self.tr("Add to %1").replace("%1", name))
        self.remove.setAccessibleName(self.tr("Remove from %1").replace("%1", name))
        self.remove.setToolTip(self.tr("Remove the chosen one (Del)"))
        self.add.clicked.connect(self._add_typed)
        self.remove.clicked.connect(self._remove)
        self._entering = QHBoxLayout()
        self._entering.addWidget(self.line, 1)
        for button in (self.add, self.remove):
            button.setAutoDefault(False)
            self._entering.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(theme.px(6))
        column.addWidget(self._empty)
        column.addWidget(self.list)
        column.addLayout(self._entering)
        column.addWidget(self.line.note)
        theme.changed.connect(self._restyle)
        self._restyle()
        self._show_chosen()

    def add_button(self, button: QPushButton) -> None:
        """Another way to enter something, before *Remove*."""
        button.setAutoDefault(False)
        self._entering.insertWidget(self._entering.count() - 1, button)

    def show_entries(self, entries: Sequence[str]) -> None:
        """Show what holds."""
        if tuple(entries) == self.entries:
            return
        row = self.list.currentRow()
        self.entries = tuple(entries)
        self.list.clear()
        self.list.addItems(list(entries))
        self.list.setCurrentRow(min(row, len(entries) - 1))
        self._restyle()

    def take(self, text: str) -> None:
        """Add a text, or say below the line why not."""
        try:
            entry = self._check(text)
            if entry in self.entries:
                raise ValueError(self.tr("“%1” is in the list already.").replace("%1", entry))
        except ValueError as error:
            self.line.refuse(text, str(error), "")
            return
        self.line.show_value("")
        self.changed.emit((*self.entries, entry))

    def _forget_fault(self, typed: str) -> None:
        if self.line.fault:
            self.line.refuse(typed, "", "")

    def _add_typed(self) -> None:
        if text := self.line.text().strip():
            self.take(text)
        self.line.setFocus()

    def _remove(self) -> None:
        row = self.list.currentRow()
        if 0 <= row < len(self.entries):
            self.changed.emit(self.entries[:row] + self.entries[row + 1 :])
            (self.list if self.entries else self.line).setFocus()

    def _show_chosen(self) -> None:
        self.remove.setEnabled(self.list.currentRow() >= 0)

    def _restyle(self) -> None:
        self.list.setFont(theme.font(13))
        self.line.setFont(theme.font(13))
        self.list.setFixedHeight(min(len(self.entries), MOST_ROWS) * theme.px(26) + 2)
        self.list.setVisible(bool(self.entries))
        self._empty.setFont(theme.font(12))
        self._empty.setHidden(bool(self.entries))
        self._entering.setSpacing(theme.px(8))
