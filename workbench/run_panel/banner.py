"""A message at the top of the view it concerns: what happened, what to do, the details folded."""

from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from workbench.run_panel.labels import IconLabel
from workbench.text_format import visible_text
from workbench.theme import theme


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a banner says."""

    kind: str
    """err or warn."""
    title: str
    text: str = ""
    details: str = ""
    profile: str = ""
    """The profile that may have to be edited; empty for no such button."""
    retry: bool = False
    """Whether running again may help."""

    @property
    def copied(self) -> str:
        """Everything as plain text."""
        return "\n".join(part for part in (self.title, self.text, self.details) if part)


class Banner(QWidget):
    """One message with its actions."""

    retry_requested = Signal()
    profile_requested = Signal(str)
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._message: Message | None = None
        self._icon = IconLabel("error", "err", 16, self)
        self._title = self._label()
        self._text = self._label()
        self._details = self._label()
        self._details.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._fold = QToolButton(self)
        self._fold.setText(self.tr("Details"))
        self._fold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._fold.setCheckable(True)
        self._fold.setStyleSheet("QToolButton { padding: 1px 4px 1px 0; border: none; background: transparent; }")
        self._fold.toggled.connect(self._show_details)
        self._retry = QPushButton(self.tr("Retry"), self)
        self._retry.clicked.connect(self.retry_requested)
        self._edit = QPushButton(self.tr("Edit profile"), self)
        self._edit.clicked.connect(self._edit_profile)
        self._copy = self._tool(self.tr("Copy message and details"))
        self._copy.clicked.connect(self._copy_text)
        self._close = self._tool(self.tr("Close this message"))
        self._close.clicked.connect(self.closed)
        self._lay_out()
        self.setVisible(False)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _label(self) -> QLabel:
        label = QLabel(self)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        return label

    def _tool(self, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        return button

    def _lay_out(self) -> None:
        actions = QHBoxLayout()
        for button in (self._retry, self._edit, self._copy, self._close):
            actions.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        words = QVBoxLayout()
        words.setSpacing(theme.px(2))
        for widget in (self._title, self._text):
            words.addWidget(widget)
        words.addWidget(self._fold, 0, Qt.AlignmentFlag.AlignLeft)
        words.addWidget(self._details)
        grid = QGridLayout(self)
        grid.addWidget(self._icon, 0, 0, Qt.AlignmentFlag.AlignTop)
        grid.addLayout(words, 0, 1)
        grid.addLayout(actions, 0, 2, Qt.AlignmentFlag.AlignTop)
        grid.setColumnStretch(1, 1)

    @property
    def message(self) -> Message | None:
        """What is said now."""
        return self._message

    def show_message(self, message: Message | None) -> None:
        """Say this, or nothing."""
        if message == self._message:
            return
        self._message = message
        self.setVisible(message is not None)
        if message is None:
            return
        self._title.setText(visible_text(message.title))
        self._text.setText(visible_text(message.text))
        self._text.setVisible(bool(message.text))
        self._details.setText(visible_text(message.details))
        self._fold.setVisible(bool(message.details))
        self._fold.setChecked(False)
        self._show_details(False)
        self._retry.setVisible(message.retry)
        self._edit.setVisible(bool(message.profile))
        self.setAccessibleName(visible_text(f"{message.title} {message.text}"))
        self._restyle()

    def _restyle(self) -> None:
        kind = self._message.kind if self._message is not None else "err"
        self._icon.show_icon("error" if kind == "err" else "warning", kind)
        fonts = ((self._title, theme.font(13, 600), "text"), (self._text, theme.font(12), "text2"))
        for label, font, color in (*fonts, (self._details, theme.font(11, mono=True), "text2")):
            label.setFont(font)
            palette = label.palette()
            palette.setColor(label.foregroundRole(), theme.color(color))
            label.setPalette(palette)
        self._fold.setFont(theme.font(11))
        small, big = QSize(theme.px(12), theme.px(12)), QSize(theme.px(16), theme.px(16))
        self._fold.setIconSize(small)
        self._show_details(self._fold.isChecked())
        self._retry.setIcon(theme.icon("retry", 14, "text"))
        for button, icon in ((self._copy, "copy"), (self._close, "cross")):
            button.setIcon(theme.icon(icon, 16))
            button.setIconSize(big)
        layout = self.layout()
        if layout is not None:
            layout.setContentsMargins(theme.px(14), theme.px(8), theme.px(8), theme.px(8))
            layout.setSpacing(theme.px(8))
        self.update()

    def _show_details(self, shown: bool) -> None:
        self._details.setVisible(shown and bool(self._message and self._message.details))
        self._fold.setIcon(theme.icon("chevron-down" if shown else "chevron-right", 12))

    def _edit_profile(self) -> None:
        if self._message is not None:
            self.profile_requested.emit(self._message.profile)

    def _copy_text(self) -> None:
        if self._message is not None:
            QGuiApplication.clipboard().setText(visible_text(self._message.copied))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Fill with the tint of the kind, a bar at the left edge."""
        kind = self._message.kind if self._message is not None else "err"
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.color(f"tint.{kind}"))
        painter.fillRect(0, 0, theme.px(3), self.height(), theme.color(kind))
