"""A line to type into that keeps what cannot be taken, and says below it what is expected."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QWidget

from workbench.theme import theme
from workbench.widgets.icon_label import IconLabel


class CheckedLine(QLineEdit):
    """A line whose owner takes its text or refuses it; Esc takes back what was typed."""

    taken_back = Signal()
    """The person pressed Esc: the line shows the value it had."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self._value = ""
        self.note = QWidget(self.parentWidget())
        """Icon and words of the fault, to be placed under the line; hidden while there is none."""
        self._words = QLabel(self.note)
        self._words.setWordWrap(True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        row = QHBoxLayout(self.note)
        row.setContentsMargins(0, theme.px(2), 0, theme.px(2))
        row.setSpacing(theme.px(6))
        row.addWidget(IconLabel("error", "err", 14, self.note), 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._words, 1)
        self.note.hide()
        theme.changed.connect(self._restyle)
        self._restyle()

    @property
    def fault(self) -> str:
        """Why the text was refused; empty when it was not."""
        return "" if self.note.isHidden() else self._words.text()

    def show_value(self, text: str) -> None:
        """Show a value that was taken; whatever was typed is gone."""
        self._value = text
        if self.text() != text:
            self.setText(text)
        self.setModified(False)
        self._mark("")

    def refuse(self, typed: str, fault: str, value: str) -> None:
        """Show a text that cannot be taken, why, and keep the value for Esc."""
        self._value = value
        if self.text() != typed:
            self.setText(typed)
        self.setModified(False)
        self._mark(fault)

    def event(self, event: QEvent) -> bool:
        """Take Esc before the window does, when there is something to take back."""
        if event.type() == QEvent.Type.ShortcutOverride and self._takes_back(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc shows the value again."""
        if not self._takes_back(event):
            super().keyPressEvent(event)
            return
        self.show_value(self._value)
        self.taken_back.emit()

    def _takes_back(self, event: QEvent) -> bool:
        pending = self.isModified() or bool(self.fault)
        return pending and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape

    def _mark(self, fault: str) -> None:
        self._words.setText(fault)
        self.note.setVisible(bool(fault))
        self.setAccessibleDescription(fault)
        invalid = "true" if fault else "false"
        if self.property("invalid") != invalid:
            self.setProperty("invalid", invalid)
            self.style().unpolish(self)
            self.style().polish(self)

    def _restyle(self) -> None:
        self._words.setFont(theme.font(12))
        self._words.setStyleSheet(f"color: {theme.hex('err')};")
