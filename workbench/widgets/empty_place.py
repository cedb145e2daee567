"""What stands where nothing is yet: an icon, a sentence, the next action."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.icon_label import IconLabel


class EmptyPlace(QWidget):
    """Says in the middle of a view what is missing and how to get on."""

    def __init__(self, icon: str, title: str, text: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._title, self._text = QLabel(title, self), QLabel(text, self)
        self._text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._text.setWordWrap(True)
        self._icons: list[tuple[QPushButton, str, str]] = []
        self._buttons = QHBoxLayout()
        layout = QVBoxLayout(self)
        layout.setSpacing(theme.px(8))
        layout.addStretch(1)
        for widget in (IconLabel(icon, "muted", 32, self), self._title):
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addWidget(self._text)
        layout.addLayout(self._buttons)
        layout.setAlignment(self._buttons, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(1)
        theme.changed.connect(self._restyle)
        self._restyle()

    def say(self, text: str) -> None:
        """Say something else below the title."""
        self._text.setText(text)

    def add_button(self, text: str, icon: str = "", *, primary: bool = False) -> QPushButton:
        """Offer an action."""
        button = QPushButton(text, self)
        button.setProperty("primary", primary)
        if icon:
            self._icons.append((button, icon, "on.fill" if primary else "text"))
        self._buttons.addWidget(button)
        self._restyle()
        return button

    def _restyle(self) -> None:
        for label, font, color in ((self._title, theme.font(15, 600), "text"), (self._text, theme.font(13), "text2")):
            label.setFont(font)
            palette = label.palette()
            palette.setColor(label.foregroundRole(), theme.color(color))
            label.setPalette(palette)
        for button, icon, color in self._icons:
            button.setIcon(theme.icon(icon, 14, color))
            button.setIconSize(QSize(theme.px(14), theme.px(14)))
