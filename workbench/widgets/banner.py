"""A banner: what happened, in words a person can act on, with buttons for the next step; details fold below."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from workbench.text_format import visible_text
from workbench.theme import theme
from workbench.widgets.icon_label import IconLabel

ICONS = {"err": "error", "warn": "warning", "accent": "info"}
"""Kind of a message → the icon it has unless it names another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a banner says; outside text is shown as it is, whatever it looks like."""

    kind: str
    """A colour token: `err`, `warn` or `accent`."""
    title: str
    text: str = ""
    details: str = ""
    icon: str = ""
    """Another icon than that of the kind."""

    @property
    def copied(self) -> str:
        """Everything as plain text."""
        return "\n".join(part for part in (self.title, self.text, self.details) if part)


@dataclass(frozen=True, slots=True)
class BannerButton:
    """One action a banner offers."""

    text: str
    run: Callable[[], object]
    icon: str = ""


class Banner(QWidget):
    """One message with its actions; hidden while it says nothing."""

    closed = Signal()
    """The person wants it gone; its owner decides."""
    answered = Signal()
    """The person used one of its buttons."""

    def __init__(
        self, message: Message | None = None, buttons: Sequence[BannerButton] = (), parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._message: Message | None = None
        self._actions: list[BannerButton] = []
        self._buttons: list[QPushButton] = []
        self._icon = IconLabel("error", "err", 16, self)
        self._title, self._text, self._details = self._label(), self._label(), self._label()
        self._details.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._fold = QToolButton(self)
        self._fold.setText(self.tr("Details"))
        self._fold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._fold.setCheckable(True)
        # A fold is no pressed button: its open state must not look like one.
        self._fold.setStyleSheet("QToolButton { padding: 1px 4px 1px 0; border: none; background: transparent; }")
        self._fold.toggled.connect(self._show_details)
        self._copy = self._tool(self.tr("Copy message and details"))
        self._copy.clicked.connect(self._copy_text)
        self._close = self._tool(self.tr("Close this message"))
        self._close.clicked.connect(self.closed)
        self._row = QHBoxLayout()
        self._grid = QGridLayout(self)
        self._lay_out()
        theme.changed.connect(self._restyle)
        self._show_buttons(buttons)
        # Looks come before words: a style sheet gives labels back, when their parent changes, what they had at first.
        self._restyle()
        if message is None:
            self.hide()
        else:
            self._say(message)

    def _label(self) -> QLabel:
        label = QLabel(self)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label

    def _tool(self, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        return button

    def _lay_out(self) -> None:
        """Icon, words and actions side by side; the details below the words."""
        words = QVBoxLayout()
        words.setSpacing(theme.px(2))
        for label in (self._title, self._text):
            words.addWidget(label)
        for tool in (self._copy, self._close):
            self._row.addWidget(tool)
        more = QVBoxLayout()
        more.setSpacing(theme.px(2))
        more.addWidget(self._fold, 0, Qt.AlignmentFlag.AlignLeft)
        more.addWidget(self._details)
        self._grid.addWidget(self._icon, 0, 0, Qt.AlignmentFlag.AlignVCenter)
        self._grid.addLayout(words, 0, 1, Qt.AlignmentFlag.AlignVCenter)
        self._grid.addLayout(self._row, 0, 2, Qt.AlignmentFlag.AlignVCenter)
        self._grid.addLayout(more, 1, 1, 1, 2)
        self._grid.setColumnStretch(1, 1)

    @property
    def message(self) -> Message | None:
        """What is said now."""
        return self._message

    @property
    def copied(self) -> str:
        """All it says, for the clipboard."""
        return self._message.copied if self._message is not None else ""

    def title(self) -> str:
        """The first line."""
        return self._title.text()

    def show_message(self, message: Message | None, buttons: Sequence[BannerButton] = ()) -> None:
        """Say this, or nothing."""
        self._show_buttons(buttons)
        if message is None:
            self._message = None
        elif message != self._message:
            self._say(message)
        self.setVisible(message is not None)

    def leave(self) -> None:
        """Go for good."""
        self.hide()
        self.deleteLater()

    def _say(self, message: Message) -> None:
        self._message = message
        title, text = visible_text(message.title), visible_text(message.text)
        self._title.setText(title)
        self._text.setText(text)
        self._text.setVisible(bool(text))
        self._details.setText(visible_text(message.details))
        self._fold.setVisible(bool(message.details))
        self._fold.setChecked(False)
        self._show_details(False)
        self._icon.show_icon(message.icon or ICONS[message.kind], message.kind)
        self.setAccessibleName(title)
        self.setAccessibleDescription(text)
        self.update()

    def _show_buttons(self, actions: Sequence[BannerButton]) -> None:
        """Take these actions; buttons that look the same stay, so that a press is not lost."""
        looks = [(action.text, action.icon) for action in actions]
        if looks != [(action.text, action.icon) for action in self._actions]:
            for button in self._buttons:
                self._row.removeWidget(button)
                button.hide()
                button.deleteLater()
            self._buttons = [QPushButton(text, self) for text, _ in looks]
            for place, button in enumerate(self._buttons):
                button.clicked.connect(lambda _checked=False, place=place: self._run(place))
                self._row.insertWidget(place, button)
                button.show()  # now, not when the layout gets to it: whoever looks at once finds it
        self._actions = list(actions)
        self._style_buttons()

    def _run(self, place: int) -> None:
        self._actions[place].run()
        self.answered.emit()

    def _show_details(self, shown: bool) -> None:
        self._details.setVisible(shown)
        self._fold.setIcon(theme.icon("chevron-down" if shown else "chevron-right", 12, checked="text2"))

    def _copy_text(self) -> None:
        QGuiApplication.clipboard().setText(visible_text(self.copied))

    def _style_buttons(self) -> None:
        for button, action in zip(self._buttons, self._actions, strict=True):
            if action.icon:
                button.setIcon(theme.icon(action.icon, 14, "text"))

    def _restyle(self) -> None:
        fonts = ((self._title, theme.font(13, 600), "text"), (self._text, theme.font(12), "text2"))
        for label, font, color in (*fonts, (self._details, theme.font(11, mono=True), "text2")):
            label.setFont(font)
            palette = label.palette()
            palette.setColor(label.foregroundRole(), theme.color(color))
            label.setPalette(palette)
        self._fold.setFont(theme.font(11))
        self._fold.setIconSize(QSize(theme.px(12), theme.px(12)))
        self._show_details(self._fold.isChecked())
        self._style_buttons()
        for button, icon in ((self._copy, "copy"), (self._close, "cross")):
            button.setIcon(theme.icon(icon, 16))
            button.setIconSize(QSize(theme.px(16), theme.px(16)))
        self._grid.setContentsMargins(theme.px(14), theme.px(6), theme.px(8), theme.px(6))
        self._grid.setHorizontalSpacing(theme.px(12))
        self._grid.setVerticalSpacing(theme.px(2))
        self._row.setSpacing(theme.px(8))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Fill with the tint of the kind, a bar at the left edge."""
        if self._message is None:
            return
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.color(f"tint.{self._message.kind}"))
        painter.fillRect(0, 0, theme.px(3), self.height(), theme.color(self._message.kind))
