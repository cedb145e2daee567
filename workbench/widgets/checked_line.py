"""A line to type into that keeps what cannot be taken, and says below it what is expected."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from workbench.widgets.fault_note import FaultNote, mark_invalid


class CheckedLine(QLineEdit):
    """A line whose owner takes its text or refuses it; Esc takes back what was typed."""

    taken_back = Signal()
    """The person pressed Esc: the line shows the value it had."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self._value = ""
        self._refused = ""
        self._problem = ("", False)
        self._help = ""
        self.note = FaultNote(self.parentWidget())
        """Icon and words of the fault, to be placed under the line; hidden while there is none."""

    @property
    def fault(self) -> str:
        """Why the text was refused; empty when it was not."""
        return self._refused

    @property
    def value(self) -> str:
        """The last text that was taken."""
        return self._value

    def set_help(self, text: str) -> None:
        """What belongs here, in one line."""
        self._help = text
        self.setToolTip(text)
        self._mark()

    def show_value(self, text: str) -> None:
        """Show a value that was taken; whatever was typed is gone."""
        self._value = text
        if self.text() != text:
            self.setText(text)
            self.setCursorPosition(0)
        self.setModified(False)
        self._refused = ""
        self._mark()

    def show_problem(self, text: str, *, is_warning: bool = False) -> None:
        """Say what is wrong with the value that was taken, or that nothing is."""
        self._problem = (text, is_warning)
        self._mark()

    def refuse(self, typed: str, fault: str, value: str) -> None:
        """Show a text that cannot be taken, why, and keep the value for Esc."""
        self._value = value
        if self.text() != typed:
            self.setText(typed)
        self.setModified(False)
        self._refused = fault
        self._mark()

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
        pending = self.isModified() or bool(self._refused)
        return pending and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape

    def _mark(self) -> None:
        text, is_warning = (self._refused, False) if self._refused else self._problem
        self.note.show_fault(text, is_warning=is_warning)
        self.setAccessibleDescription(text or self._help)
        mark_invalid(self, bool(text) and not is_warning)
