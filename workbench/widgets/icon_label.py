"""Icons that keep sharp at any zoom, alone and beside a text; the spinner turns whenever it is painted."""

import time

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.elided import ElidedLabel


def paint_state_icon(painter: QPainter, icon: str, rect: QRectF, color: str) -> None:
    """Draw an icon; the spinner turns once a second unless motion is reduced."""
    if icon != "spinner" or theme.reduced_motion:
        theme.paint_icon(painter, icon, rect, color)
        return
    pixmap = theme.pixmap(icon, rect.width() / theme.zoom, color, painter.device().devicePixelRatioF())
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
    painter.translate(rect.center())
    painter.rotate(time.monotonic() % 1.0 * 360)
    painter.drawPixmap(QRectF(-rect.width() / 2, -rect.height() / 2, rect.width(), rect.height()).toRect(), pixmap)
    painter.restore()


class IconLabel(QWidget):
    """An icon at a design size, in the colour of a token."""

    def __init__(self, icon: str, color: str, size: int = 14, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icon, self._color, self._size = icon, color, size
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        theme.changed.connect(self._resize)
        self._resize()

    def show_icon(self, icon: str, color: str) -> None:
        """Change the picture."""
        if (icon, color) != (self._icon, self._color):
            self._icon, self._color = icon, color
            self.update()

    def _resize(self) -> None:
        self.setFixedSize(QSize(theme.px(self._size), theme.px(self._size)))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the icon."""
        if not self._icon:
            return
        painter = QPainter(self)
        paint_state_icon(painter, self._icon, self.rect().toRectF(), self._color)


class IconText(QWidget):
    """A small icon with a text beside it."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self._icon = IconLabel("", "text2", 14, self)
        self._text = ElidedLabel(self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.px(6))
        layout.addWidget(self._icon)
        layout.addWidget(self._text)

    def show_text(self, text: str, icon: str, color: str = "text2", tip: str = "") -> None:
        """Show an icon in a colour and a text."""
        self._icon.show_icon(icon, color)
        self._text.setText(text)
        self.setToolTip(tip)
        self.setAccessibleDescription(text)

    def text(self) -> str:
        """The text shown."""
        return self._text.text()
