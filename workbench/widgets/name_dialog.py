"""Asks for a name and says under the field, while it is typed, why one cannot be taken or what it replaces."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.checked_line import CheckedLine

LONGEST = 200
"""Characters of a name."""


class NameDialog(QDialog):
    """`open` it and wait for `named`."""

    named = Signal(str)
    """The name, without blanks at its ends."""

    def __init__(
        self, title: str, value: str, accept: str, check: Callable[[str], tuple[str, bool]], parent: QWidget
    ) -> None:
        """Ask for a name, `value` at first, with the button `accept`.

        `check` tells of a name what to say about it, and whether it can be taken all the same.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self._check = check
        label = QLabel(self.tr("Name"), self)
        self.field = CheckedLine(label.text(), self)
        self.field.setMaxLength(LONGEST)
        self.field.show_value(value)
        self.field.selectAll()
        label.setBuddy(self.field)
        cancel = QPushButton(self.tr("Cancel"), self)
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        self._accept = QPushButton(accept, self)
        self._accept.setProperty("primary", "true")
        self._accept.setDefault(True)
        self._accept.clicked.connect(self._take)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(cancel)
        buttons.addWidget(self._accept)
        column = QVBoxLayout(self)
        column.setContentsMargins(*(theme.px(16),) * 4)
        column.setSpacing(theme.px(8))
        for part in (label, self.field, self.field.note):
            column.addWidget(part)
        column.addStretch(1)
        column.addLayout(buttons)
        self.setMinimumWidth(theme.px(380))
        self.field.textEdited.connect(self._look)
        self._look()
        self.field.setFocus()

    def _look(self) -> None:
        name = self.field.text().strip()
        words, can_be_taken = self._check(name) if name else (self.tr("A name is needed."), False)
        self.field.show_problem(words, is_warning=can_be_taken)
        self._accept.setEnabled(can_be_taken)

    def _take(self) -> None:
        self.named.emit(self.field.text().strip())
        self.accept()
