"""A banner: what happened, in words a person can act on, with buttons for the next step; details fold below."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from workbench.theme import theme

ICONS = {"err": "error", "warn": "warning", "accent": "info"}


@dataclass(frozen=True, slots=True)
class BannerButton:
    """One action a banner offers."""

    text: str
    run: Callable[[], object]


class Banner(QFrame):
    """One message. `kind` is a colour token: `err`, `warn` or `accent`."""

    closed = Signal()
    """The person closed it, or used one of its buttons."""

    def __init__(
        self,
        kind: str,
        title: str,
        text: str = "",
        details: str = "",
        buttons: Sequence[BannerButton] = (),
        icon: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._kind = kind
        self._icon_name = icon or ICONS.get(kind, "info")
        self.copied = "\n".join(part for part in (title, text, details) if part)
        """All it says, for the clipboard."""
        self.setObjectName("banner")
        self.setAccessibleName(title)
        self.setAccessibleDescription(text)
        self._icon, self._title, self._text, self._details = (QLabel(self) for _ in range(4))
        for label, words in ((self._title, title), (self._text, text), (self._details, details)):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setText(words)
            label.setWordWrap(True)
            label.setVisible(bool(words))
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._details.hide()
        self._fold = QToolButton(self)
        self._fold.setText("Details")
        self._fold.setCheckable(True)
        self._fold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._fold.setVisible(bool(details))
        self._fold.toggled.connect(self._show_details)
        texts = QVBoxLayout()
        texts.setSpacing(theme.px(2))
        for widget in (self._title, self._text, self._fold, self._details):
            texts.addWidget(widget)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(theme.px(14), theme.px(6), theme.px(8), theme.px(6))
        layout.setSpacing(theme.px(10))
        layout.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        layout.addLayout(texts, 1)
        for each in buttons:
            button = QPushButton(each.text, self)
            button.clicked.connect(each.run)
            button.clicked.connect(self._leave)
            layout.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        self._copy, self._close = QToolButton(self), QToolButton(self)
        for tool, name in ((self._copy, "Copy"), (self._close, "Close")):
            tool.setToolTip(name)
            tool.setAccessibleName(f"{name} this message")
            layout.addWidget(tool, 0, Qt.AlignmentFlag.AlignTop)
        self._copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.copied))
        self._close.clicked.connect(self._leave)
        theme.changed.connect(self._restyle)
        self._restyle()

    def title(self) -> str:
        """The first line."""
        return self._title.text()

    def _leave(self) -> None:
        self.hide()
        self.closed.emit()
        self.deleteLater()

    def _show_details(self, shown: bool) -> None:
        self._details.setVisible(shown)
        self._fold.setIcon(theme.icon("chevron-down" if shown else "chevron-right", 12, checked="text2"))

    def _restyle(self) -> None:
        color = self._kind if self._kind != "accent" else "accent"
        self.setStyleSheet(
            f"#banner {{ background: {theme.hex(f'tint.{self._kind}')};"
            f" border-left: {theme.px(3)}px solid {theme.hex(color)}; }}"
            f" #banner QToolButton:checked {{ background: transparent; }}"
        )
        self._icon.setPixmap(theme.pixmap(self._icon_name, 16, color, self.devicePixelRatio()))
        self._icon.setContentsMargins(0, theme.px(3), 0, 0)
        self._title.setFont(theme.font(13, 600))
        self._text.setFont(theme.font(12))
        self._details.setFont(theme.font(11, mono=True))
        self._fold.setFont(theme.font(12))
        for tool, icon in ((self._copy, "copy"), (self._close, "cross")):
            tool.setIcon(theme.icon(icon, 14))
            tool.setIconSize(QSize(theme.px(14), theme.px(14)))
        self._show_details(self._fold.isChecked())
