"""The key of a profile: hidden while it is typed, and offered to be kept where no file holds it."""

import re

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from engine.api_keys import is_reference, variable_name
from workbench.theme import theme
from workbench.widgets.fault_note import FaultNote
from workbench.widgets.words import Words


class KeyField(QWidget):
    """A line for the key, or for the `${NAME}` that stands for it."""

    edited = Signal(str)
    """The person changed it."""
    keyring_wanted = Signal(str, str)
    """Name and key: it is to be kept in the system's keychain."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.line = QLineEdit(self)
        self.line.setAccessibleName(name)
        self.line.setPlaceholderText(self.tr("Paste the key, or ${NAME} of a variable"))
        self.line.textEdited.connect(self._edited)
        self.note = FaultNote(self)
        self.keyring = QPushButton(self.tr("Move to keychain"), self)
        self.keyring.setToolTip(self.tr("Keep it in the system's keychain; the file names it only"))
        self.variable = QPushButton(self.tr("Use a variable"), self)
        self.variable.setToolTip(self.tr("Take it out of the file and name an environment variable instead"))
        self.state = Words("", self, wrap=True)
        self._variable = ""
        self._can_keep = False
        self.keyring.clicked.connect(lambda: self.keyring_wanted.emit(self._variable, self.line.text().strip()))
        self.variable.clicked.connect(lambda: self._edited(f"${{{self._variable}}}"))
        buttons = QHBoxLayout()
        buttons.setSpacing(theme.px(8))
        for button in (self.keyring, self.variable):
            buttons.addWidget(button)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(theme.px(4))
        for part in (self.line, self.state, self.note):
            column.addWidget(part)
        column.addLayout(buttons)
        self.setFocusProxy(self.line)

    def show_key(self, profile: str, text: str, missing: bool, *, can_keep: bool, editable: bool) -> None:
        """Show what the profile of this name says; `missing`: what its `${NAME}` stands for is found nowhere."""
        self._variable = f"{re.sub('[^A-Z0-9]+', '_', profile.upper()).strip('_') or 'MY'}_KEY"
        self._can_keep = can_keep
        if text != self.line.text():
            self.line.setText(text)
        plain = self._mask(text)
        self.line.setReadOnly(not editable)
        self.keyring.setVisible(plain and can_keep)
        self.variable.setVisible(plain)
        warning = self.tr("The key stands in the file as it is: whoever reads the file has it.")
        self.note.show_fault(warning if plain else "", is_warning=True)
        self.state.setText(self._state(text, missing))
        self.state.setVisible(bool(self.state.text()))

    def _state(self, text: str, missing: bool) -> str:
        if not is_reference(text):
            return "" if text else self.tr("No key is sent.")
        name = variable_name(text) or text
        if missing:
            return self.tr("Found nowhere: set the environment variable %1, or paste the key.").replace("%1", name)
        return self.tr("Taken from %1, by the environment or the keychain; the file has its name only.").replace(
            "%1", name
        )

    def _mask(self, text: str) -> bool:
        """Hide what may be a key; whether it may be one."""
        plain = bool(text) and not text.startswith("$")
        self.line.setEchoMode(QLineEdit.EchoMode.Password if plain else QLineEdit.EchoMode.Normal)
        return plain

    def _edited(self, text: str) -> None:
        self._mask(text)
        self.edited.emit(text.strip())
