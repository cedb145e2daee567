"""The head of an inspector form."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.elided import ElidedLabel


class Head(QWidget):
    """Icon, title, one line about it, and a badge."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._icon, self._line, self._badge = (QLabel(self) for _ in range(3))
        self._title = ElidedLabel(self)
        self._line.setProperty("role", "muted")
        self._line.setWordWrap(True)
        self._shown = ("flow", "")
        texts = QVBoxLayout()
        texts.setSpacing(0)
        texts.addWidget(self._title)
        texts.addWidget(self._line)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(theme.px(12), theme.px(10), theme.px(12), theme.px(6))
        layout.setSpacing(theme.px(10))
        layout.addWidget(self._icon)
        layout.addLayout(texts, 1)
        layout.addWidget(self._badge, 0, Qt.AlignmentFlag.AlignTop)
        theme.changed.connect(self._restyle)
        # Before any words: a style sheet gives labels back, when their parent changes, the looks they had at first.
        self._restyle()

    def show_head(self, title: str, line: str, icon: str, badge: str = "") -> None:
        """Set all parts."""
        self._title.setText(title)
        self._title.setToolTip(title)
        self._line.setText(line)
        self._shown = (icon, badge)
        self._restyle()

    def _restyle(self) -> None:
        icon, badge = self._shown
        self._icon.setPixmap(theme.pixmap(icon, 18, "text2", self.devicePixelRatio()))
        self._title.setFont(theme.font(15, 600))
        self._line.setFont(theme.font(12))
        self._badge.setVisible(bool(badge))
        self._badge.setText(badge)
        self._badge.setFont(theme.font(11, 700))
        text, tint = theme.category_tokens(badge)
        self._badge.setStyleSheet(
            f"color: {theme.hex(text)}; background: {theme.hex(tint)}; border-radius: 4px;"
            f" padding: {theme.px(2)}px {theme.px(6)}px;"
        )
