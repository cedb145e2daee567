"""The stripe over the whole window that stays as long as nothing real is called."""

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from workbench.theme import theme

HEIGHT = 28
HATCHED = 72
"""Design pixels at each end."""
STEP = 10
"""Design pixels from one line of the hatching to the next."""


class ReplayStripe(QWidget):
    """Hidden while it says nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("replay_stripe")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._text = ""
        theme.changed.connect(self.updateGeometry)
        self.hide()

    @property
    def text(self) -> str:
        """What it says; empty while it is hidden."""
        return self._text

    def say(self, text: str) -> None:
        """Say a sentence over the whole window; an empty one hides the stripe."""
        if text == self._text:
            return
        self._text = text
        self.setAccessibleName(text)
        self.setToolTip(text)
        self.setVisible(bool(text))
        self.update()

    def sizeHint(self) -> QSize:
        """As high as designed, with room for larger text."""
        return QSize(theme.px(2 * HATCHED), theme.px(HEIGHT))

    def minimumSizeHint(self) -> QSize:
        """It never makes the window wider."""
        return QSize(theme.px(HEIGHT), theme.px(HEIGHT))

    def changeEvent(self, event: QEvent) -> None:
        """Draw in the colours of the scheme."""
        super().changeEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Tint, hatched ends, the tape and the sentence."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), theme.color("tint.warn"))
        font = theme.font(12, 600)
        painter.setFont(font)
        icon, gap = theme.px(16), theme.px(8)
        # The sentence comes first: in a narrow window the hatching gives way.
        wanted = painter.fontMetrics().horizontalAdvance(self._text) + icon + 3 * gap
        ends = min(theme.px(HATCHED), max(theme.px(STEP), (self.width() - wanted) // 2))
        for end in (QRect(0, 0, ends, self.height()), QRect(self.width() - ends, 0, ends, self.height())):
            self._hatch(painter, end)
        room = self.width() - 2 * ends - icon - 3 * gap
        text = painter.fontMetrics().elidedText(self._text, Qt.TextElideMode.ElideRight, max(0, room))
        width = painter.fontMetrics().horizontalAdvance(text)
        left = (self.width() - width - icon - gap) / 2
        theme.paint_icon(painter, "tape", QRectF(left, (self.height() - icon) / 2, icon, icon), "warn")
        painter.setPen(theme.color("text"))
        place = QRectF(left + icon + gap, 0, width + gap, self.height())
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        painter.setPen(QPen(theme.color("warn"), 1))
        painter.drawLine(QPointF(0, self.height() - 0.5), QPointF(self.width(), self.height() - 0.5))

    def _hatch(self, painter: QPainter, area: QRect) -> None:
        painter.save()
        painter.setClipRect(area)
        painter.setPen(QPen(theme.color("warn"), theme.px(3)))
        height, step = area.height(), theme.px(STEP)
        for x in range(area.left() - height, area.right() + height, step):
            painter.drawLine(x, area.bottom() + 1, x + height, area.top() - 1)
        painter.restore()
