"""One symbol trace, painted as badges, names and icons that wrap; each piece explains itself."""

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetricsF, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from engine.flow.trace import Kind
from workbench.run_panel.trace_entries import Entry, trace_text
from workbench.text_format import plain_tip, visible_text
from workbench.theme import theme


class TraceLine(QWidget):
    """The trace of one result."""

    agent_clicked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries: list[Entry] = []
        self._failed = False
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setMouseTracking(True)
        theme.changed.connect(self.updateGeometry)

    @property
    def entries(self) -> list[Entry]:
        """What is shown."""
        return self._entries

    def show_entries(self, entries: list[Entry]) -> None:
        """Show this trace."""
        if entries != self._entries:
            self._entries = entries
            self.setAccessibleName(self.tr("Trace: %1").replace("%1", visible_text(trace_text(entries))))
            self.updateGeometry()
            self.update()

    # -- layout -----------------------------------------------------------------------------------------------------

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """The pieces wrap."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """Height of all lines at this width."""
        places = self._places(width)
        return round(places[-1].bottom()) + theme.px(6) if places else theme.px(24)

    def sizeHint(self) -> QSize:
        """One line."""
        return QSize(theme.px(400), self.heightForWidth(max(theme.px(100), self.width())))

    def minimumSizeHint(self) -> QSize:
        """Everything wraps."""
        return QSize(theme.px(100), self.heightForWidth(max(theme.px(100), self.width())))

    def _places(self, width: int) -> list[QRectF]:
        margin, gap, height = theme.px(12), theme.px(6), theme.px(20)
        left, top = float(margin), float(theme.px(4))
        places = []
        for number, entry in enumerate(self._entries):
            wanted = self._width(entry)
            together = wanted
            if entry.kind is Kind.CATEGORY and number + 1 < len(self._entries):
                together += gap + self._width(self._entries[number + 1])
            if left > margin and left + together > width - margin:
                left, top = float(margin), top + height + theme.px(4)
            wanted = min(wanted, width - 2 * margin)
            places.append(QRectF(left, top, wanted, height))
            left += wanted + gap
        return places

    @staticmethod
    def _font(entry: Entry) -> QFont:
        if entry.kind is Kind.CATEGORY:
            return theme.font(10, 700)
        if entry.kind is Kind.AGENT:
            return theme.font(12, 600)
        return theme.font(12) if entry.kind in (Kind.SPLIT, Kind.MERGE) else theme.font(11)

    def _width(self, entry: Entry) -> float:
        text = QFontMetricsF(self._font(entry)).horizontalAdvance(visible_text(entry.shown)) if entry.shown else 0.0
        if entry.kind is Kind.CATEGORY:
            return text + theme.px(10)
        icon = theme.px(14) if entry.icon is not None else 0
        between = theme.px(4) if icon and text else 0
        padding = theme.px(12) if entry.kind is Kind.SPLIT else 0
        return text + icon + between + padding + 1

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width may need another height."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    # -- painting ---------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the pieces."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for entry, place in zip(self._entries, self._places(self.width()), strict=True):
            self._paint(painter, entry, place)

    def _paint(self, painter: QPainter, entry: Entry, place: QRectF) -> None:
        color = "muted" if entry.kind is Kind.DURATION else "text"
        area = QRectF(place)
        if entry.kind is Kind.CATEGORY:
            color, tint = theme.category_tokens(entry.text)
            self._fill(painter, place.adjusted(0, theme.px(1), 0, -theme.px(1)), tint)
        if entry.kind is Kind.SPLIT:
            color = "accent"
            self._fill(painter, place, "tint.accent")
            area.adjust(theme.px(6), 0, -theme.px(6), 0)
        if entry.icon is not None:
            icon, token = entry.icon
            size = theme.px(14)
            theme.paint_icon(painter, icon, QRectF(area.left(), area.center().y() - size / 2, size, size), token)
            area.setLeft(area.left() + size + theme.px(4))
        if entry.shown:
            painter.setFont(self._font(entry))
            painter.setPen(theme.color(color))
            text = painter.fontMetrics().elidedText(
                visible_text(entry.shown), Qt.TextElideMode.ElideRight, round(place.width())
            )
            centred = entry.kind is Kind.CATEGORY
            align = Qt.AlignmentFlag.AlignCenter if centred else Qt.AlignmentFlag.AlignVCenter
            painter.drawText(area, int(align | Qt.TextFlag.TextSingleLine), text)

    @staticmethod
    def _fill(painter: QPainter, place: QRectF, token: str) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color(token))
        painter.drawRoundedRect(place, theme.px(4), theme.px(4))

    # -- asking -----------------------------------------------------------------------------------------------------

    def entry_at(self, x: float, y: float) -> Entry | None:
        """The piece at a point."""
        for entry, place in zip(self._entries, self._places(self.width()), strict=True):
            if place.adjusted(-2, -2, 2, 2).contains(x, y):
                return entry
        return None

    def event(self, event: QEvent) -> bool:
        """Explain the piece under the mouse."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            entry = self.entry_at(event.pos().x(), event.pos().y())
            QToolTip.showText(event.globalPos(), plain_tip(entry.explanation()) if entry is not None else "", self)
            return True
        return super().event(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select the agent of the piece under the mouse."""
        entry = self.entry_at(event.position().x(), event.position().y())
        if entry is not None and entry.agent:
            self.agent_clicked.emit(entry.agent)
