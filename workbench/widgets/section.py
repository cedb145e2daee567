"""A section of a form that folds."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from workbench.theme import theme


class Section(QWidget):
    """A head with a title, 28 px high, and a body that it shows or hides."""

    def __init__(self, title: str, parent: QWidget | None = None, *, is_open: bool = True) -> None:
        super().__init__(parent)
        self.head = QToolButton(self)
        """Folds and unfolds the body."""
        self.head.setText(title)
        self.head.setCheckable(True)
        self.head.setChecked(is_open)
        self.head.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.head.setAccessibleName(title)
        self._note = QLabel(self)
        self._note.setProperty("role", "muted")
        self._buttons: list[tuple[QToolButton, str]] = []
        self._head_row = head = QHBoxLayout()
        head.setContentsMargins(theme.px(4), 0, theme.px(12), 0)
        head.addWidget(self.head)
        head.addWidget(self._note)
        head.addStretch(1)
        self.body = QVBoxLayout()
        """Where the fields go."""
        self._body = QWidget(self)
        self._body.setLayout(self.body)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, theme.px(2), 0, theme.px(2))
        layout.setSpacing(0)
        layout.addLayout(head)
        layout.addWidget(self._body)
        self.head.toggled.connect(self._fold)
        theme.changed.connect(self._restyle)
        self._restyle()
        self._fold(is_open)

    def set_note(self, text: str) -> None:
        """A few muted words beside the title, a count for instance."""
        self._note.setText(text)

    @property
    def is_open(self) -> bool:
        """Whether the body is shown."""
        return self.head.isChecked()

    def set_open(self, is_open: bool) -> None:
        """Fold or unfold."""
        self.head.setChecked(is_open)

    def add_button(self, icon: str, name: str) -> QAbstractButton:
        """A button at the right end of the head."""
        button = QToolButton(self)
        button.setToolTip(name)
        button.setAccessibleName(name)
        self._buttons.append((button, icon))
        self._head_row.addWidget(button)
        self._restyle()
        return button

    def _fold(self, is_open: bool) -> None:
        self._body.setVisible(is_open)
        self.head.setIcon(theme.icon("chevron-down" if is_open else "chevron-right", 14, checked="text2"))

    def _restyle(self) -> None:
        self.head.setFont(theme.font(13, 600))
        self.head.setIconSize(QSize(theme.px(14), theme.px(14)))
        self._note.setFont(theme.font(12))
        # A fold is no pressed button: its open state must not look like one.
        self.head.setStyleSheet("QToolButton:checked { background: transparent; }")
        self.body.setContentsMargins(theme.px(12), 0, theme.px(12), theme.px(8))
        self.body.setSpacing(theme.px(6))
        for button, icon in self._buttons:
            button.setIcon(theme.icon(icon, 14))
            button.setIconSize(QSize(theme.px(14), theme.px(14)))
        self._fold(self.head.isChecked())
