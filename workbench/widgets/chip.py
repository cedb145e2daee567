"""A short word on a tint: a state, or what kind of thing something is."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from workbench.theme import theme


class Chip(QLabel):
    """19 px high; hidden while it says nothing."""

    def __init__(self, parent: QWidget, text: str = "", kind: str = "") -> None:
        """`kind` is a colour token with a tint, or empty for a neutral chip."""
        super().__init__(parent)
        self._kind = kind
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._restyle)
        self._restyle()
        self.say(text)

    def say(self, text: str, kind: str | None = None) -> None:
        """Say this, or nothing, in the colour of a kind."""
        if kind is not None and kind != self._kind:
            self._kind = kind
            self._restyle()
        self.setText(text)
        self.setVisible(bool(text))

    def _restyle(self) -> None:
        self.setFont(theme.font(11, 500))
        self.setFixedHeight(theme.px(19))
        color, tint = (self._kind, f"tint.{self._kind}") if self._kind else ("text2", "bg.press")
        self.setStyleSheet(
            f"background: {theme.hex(tint)}; color: {theme.hex(color)}; border-radius: {theme.px(4)}px;"
            f" padding: 0 {theme.px(6)}px;"
        )
