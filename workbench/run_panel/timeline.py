"""When each request waited, read, thought and answered: one bar per request, branches below each other."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from engine.completion import Phase
from workbench.run_panel.labels import state_look
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import Attempt, Branch
from workbench.run_panel.statistics_line import cost_of_attempt
from workbench.text_format import seconds_text, visible_text
from workbench.theme import theme
from workbench.widgets.icon_label import paint_state_icon

WAIT, READ, THINK, ANSWER = "wait", "reading", "thinking", "answering"
KINDS = {
    Phase.QUEUED: WAIT,
    Phase.CONNECTING: WAIT,
    Phase.LOADING_MODEL: WAIT,
    Phase.READING_PROMPT: READ,
    Phase.THINKING: THINK,
    Phase.ANSWERING: ANSWER,
}
STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
"""Seconds between two grid lines."""
MAX_ZOOM = 64.0


def paint_bar(painter: QPainter, kind: str, rect: QRectF) -> None:
    """One piece of a bar; the kinds differ in shape too, not in colour only."""
    radius = min(2.0, rect.width() / 2)
    if kind == WAIT:
        painter.setPen(QPen(theme.color("line.control"), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)
        return
    token = {READ: "series.8", THINK: "series.4", ANSWER: "series.1"}[kind]
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.color(token))
    painter.drawRoundedRect(rect, radius, radius)
    if kind == THINK:
        painter.setBrush(QBrush(theme.color("bg.canvas", 0.55), Qt.BrushStyle.BDiagPattern))
        painter.drawRoundedRect(rect, radius, radius)


class Timeline(QAbstractScrollArea):
    """Painted rows that scroll and zoom."""

    branch_chosen = Signal(int, str)
    """Step number, branch path."""

    def __init__(self, model: RunModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._branches: list[Branch] = []
        self._zoom = 1.0
        self._selected: Branch | None = None
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setAccessibleName(self.tr("Timeline of the requests"))
        theme.changed.connect(self.refresh)

    def sizeHint(self) -> QSize:
        """Some rows."""
        return QSize(theme.px(400), theme.px(160))

    # -- content ----------------------------------------------------------------------------------------------------

    def select(self, branch: Branch | None) -> None:
        """Mark a row."""
        self._selected = branch
        self.viewport().update()

    def refresh(self) -> None:
        """Take what the run has now."""
        self._branches = [branch for step in self._model.steps.values() for branch in step.branches.values()]
        if not self._model.running:
            self.setAccessibleDescription("; ".join(self._said(branch) for branch in self._branches[:200]))
        self._set_ranges()
        self.viewport().update()

    def _said(self, branch: Branch) -> str:
        now = self._model.now()
        times: dict[str, float] = {}
        for attempt in branch.attempts:
            for span in attempt.spans:
                times[KINDS[span.phase]] = times.get(KINDS[span.phase], 0.0) + span.seconds(now)
        parts = ", ".join(f"{kind} {seconds_text(seconds)}" for kind, seconds in times.items())
        return visible_text(f"{branch.agent} {branch.name if branch.count > 1 else ''}: {parts}")

    def zoom_by(self, factor: float) -> None:
        """Widen or narrow the time axis around its middle."""
        bar = self.horizontalScrollBar()
        middle = (bar.value() + self._axis_width() / 2) / self._zoom
        self._zoom = min(MAX_ZOOM, max(1.0, self._zoom * factor))
        self._set_ranges()
        bar.setValue(round(middle * self._zoom - self._axis_width() / 2))
        self.viewport().update()

    def fit(self) -> None:
        """Show the whole run."""
        self._zoom = 1.0
        self._set_ranges()
        self.viewport().update()

    # -- geometry ---------------------------------------------------------------------------------------------------

    def _name_width(self) -> int:
        return min(theme.px(180), self.viewport().width() // 3)

    def _cost_width(self) -> int:
        return theme.px(72)

    def _axis_width(self) -> float:
        return max(10.0, self.viewport().width() - self._name_width() - self._cost_width() - theme.px(8))

    def _duration(self) -> float:
        started = self._model.begun
        return max(0.5, self._model.now() - started) * 1.02 if started is not None else 1.0

    def _set_ranges(self) -> None:
        content = len(self._branches) * theme.px(24)
        room = self.viewport().height() - theme.px(22)
        self.verticalScrollBar().setRange(0, max(0, content - room))
        self.verticalScrollBar().setPageStep(max(1, room))
        self.verticalScrollBar().setSingleStep(theme.px(24))
        axis = self._axis_width()
        self.horizontalScrollBar().setRange(0, round(axis * (self._zoom - 1)))
        self.horizontalScrollBar().setPageStep(round(axis))

    def _x(self, moment: float) -> float:
        started = self._model.begun or 0.0
        share = (moment - started) / self._duration()
        return self._name_width() + share * self._axis_width() * self._zoom - self.horizontalScrollBar().value()

    # -- painting ---------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw axis and visible rows."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.viewport().rect(), theme.color("bg.dock"))
        if self._model.begun is None:
            return
        top, height = theme.px(22), theme.px(24)
        offset = self.verticalScrollBar().value()
        first = offset // height
        last = min(len(self._branches), first + self.viewport().height() // height + 2)
        self._paint_axis(painter, top)
        painter.save()
        painter.setClipRect(0, top, self.viewport().width(), self.viewport().height())
        for number in range(first, last):
            self._paint_row(painter, self._branches[number], top + number * height - offset, height)
        painter.restore()

    def _paint_axis(self, painter: QPainter, top: int) -> None:
        left, right = self._name_width(), self._name_width() + self._axis_width()
        seconds = self._duration() / self._zoom
        labels = max(2.0, self._axis_width() / theme.px(80))
        step = next((one for one in STEPS if seconds / one <= labels), STEPS[-1])
        painter.setFont(theme.font(11))
        metrics = QFontMetricsF(painter.font())
        tick = 0.0
        while tick <= self._duration():
            x = self._x((self._model.begun or 0.0) + tick)
            if left <= x <= right:
                painter.setPen(theme.color("line"))
                painter.drawLine(QPointF(x, top), QPointF(x, self.viewport().height()))
                text = f"{tick:g} s" if step < 60 else f"{tick / 60:g} min"
                painter.setPen(theme.color("muted"))
                width = metrics.horizontalAdvance(text)
                painter.drawText(
                    QRectF(max(left, x - width / 2), 0, width + 2, top), int(Qt.AlignmentFlag.AlignVCenter), text
                )
            tick += step

    def _paint_row(self, painter: QPainter, branch: Branch, top: int, height: int) -> None:
        width = self.viewport().width()
        if branch is self._selected:
            painter.fillRect(QRectF(0, top, width, height), theme.color("bg.selected"))
        indent = theme.px(16) if branch.count > 1 else 0
        icon, token = state_look(branch.state, branch.warned)
        size = theme.px(14)
        paint_state_icon(painter, icon, QRectF(theme.px(12) + indent, top + (height - size) / 2, size, size), token)
        left = theme.px(12) + indent + size + theme.px(6)
        painter.setFont(theme.font(12))
        painter.setPen(theme.color("text"))
        room = self._name_width() - left - theme.px(6)
        name = painter.fontMetrics().elidedText(visible_text(branch.name), Qt.TextElideMode.ElideRight, room)
        painter.drawText(QRectF(left, top, room, height), int(Qt.AlignmentFlag.AlignVCenter), name)
        painter.setPen(theme.color("text2"))
        cost = cost_of_attempt(branch.attempts[-1]) if branch.attempts else "–"
        place = QRectF(width - self._cost_width() - theme.px(12), top, self._cost_width(), height)
        painter.drawText(place, int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter), cost)
        painter.save()
        painter.setClipRect(QRectF(self._name_width(), top, self._axis_width(), height), Qt.ClipOperation.IntersectClip)
        for attempt in branch.attempts:
            self._paint_attempt(painter, attempt, top + theme.px(7), height - theme.px(14))
        painter.restore()

    def _paint_attempt(self, painter: QPainter, attempt: Attempt, top: float, height: float) -> None:
        now = self._model.now()
        if not attempt.spans and not attempt.cached:
            end = now if attempt.ended is None else attempt.ended
            self._paint_piece(painter, ANSWER, attempt.started, end, top, height)
        for span in attempt.spans:
            self._paint_piece(
                painter, KINDS[span.phase], span.start, now if span.end is None else span.end, top, height
            )

    def _paint_piece(self, painter: QPainter, kind: str, start: float, end: float, top: float, height: float) -> None:
        left, right = self._x(start), self._x(end)
        if right - left >= 0.5 or kind != WAIT:
            paint_bar(painter, kind, QRectF(left, top, max(1.0, right - left - 0.5), height))

    # -- input ------------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the row under the mouse."""
        row = int(event.position().y() - theme.px(22) + self.verticalScrollBar().value()) // theme.px(24)
        if event.position().y() >= theme.px(22) and 0 <= row < len(self._branches):
            branch = self._branches[row]
            self.branch_chosen.emit(branch.step, branch.path)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom with Ctrl, else scroll."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.zoom_by(1.25 if event.angleDelta().y() > 0 else 0.8)
            event.accept()
        else:
            super().wheelEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the ranges right."""
        super().resizeEvent(event)
        self._set_ranges()
