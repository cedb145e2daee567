"""A field for one key combination: Enter or a click listens, the next key is taken, Esc leaves it, Del empties it."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QLineEdit, QWidget

_MODIFIERS = {
    *(Qt.Key.Key_Control, Qt.Key.Key_Shift, Qt.Key.Key_Alt, Qt.Key.Key_Meta, Qt.Key.Key_AltGr),
    *(Qt.Key.Key_CapsLock, Qt.Key.Key_NumLock, Qt.Key.Key_ScrollLock, Qt.Key.Key_unknown),
}
"""Keys that trigger nothing alone."""


class KeyLine(QLineEdit):
    """Shows a key; Tab and the like keep their meaning while it does not listen."""

    pressed = Signal(str)
    """The key that was pressed, as `Ctrl+K`; empty: it shall be none."""
    listening = False
    """Whether the next key is taken; events come before the constructor is through."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setAccessibleName(name)
        self.setAccessibleDescription(self.tr("Enter, then the new key; Del for none"))
        self.setToolTip(self.accessibleDescription())
        self.setPlaceholderText(self.tr("none"))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self._key = ""

    def show_key(self, key: str) -> None:
        """Show a key, `Ctrl+K`."""
        self._key = key
        self.listening = False
        self.setText(QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText))

    def listen(self) -> None:
        """Take the next key that is pressed."""
        self.setFocus()
        self.listening = True
        self.setText(self.tr("Press a key…"))
        self.selectAll()

    def event(self, event: QEvent) -> bool:
        """While it listens no key means anything else."""
        if self.listening and event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        if self.listening and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            self.keyPressEvent(event)  # also Tab, which would go to the next field
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Take the key, or begin to listen."""
        plain = event.modifiers() in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
        if self.listening:
            if plain and event.key() == Qt.Key.Key_Escape:
                self.show_key(self._key)
            elif event.key() not in _MODIFIERS:
                self.listening = False
                self.pressed.emit(_sequence(event))
        elif plain and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space, Qt.Key.Key_F2):
            self.listen()
        elif plain and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.pressed.emit("")
        else:
            event.ignore()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A click listens."""
        if event.button() is Qt.MouseButton.LeftButton:
            self.listen()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Going elsewhere leaves it as it was."""
        if self.listening:
            self.show_key(self._key)
        super().focusOutEvent(event)


def _sequence(event: QKeyEvent) -> str:
    """The combination as it is written; Shift and a sign such as + are the sign alone, as in the table of actions."""
    kept = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier & ~Qt.KeyboardModifier.GroupSwitchModifier
    key = Qt.Key(event.key())
    if key == Qt.Key.Key_Backtab:
        return "Shift+Tab"
    text = QKeySequence(key).toString()
    if kept & Qt.KeyboardModifier.ShiftModifier and len(text) == 1 and not text.isalnum():
        kept &= ~Qt.KeyboardModifier.ShiftModifier
    return QKeySequence(int(kept.value) | int(key)).toString()
