"""The score of each round of a loop as a curve; a round without a verdict has no point, for it is not 0."""

from itertools import pairwise

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from engine.flow.graders import LEAST_RATING
from workbench.run_panel.labels import GRADE_LOOKS, grade_text
from workbench.run_panel.loop_rounds import Round
from workbench.run_panel.run_state import grade_outcome
from workbench.theme import theme


class ScoreCurve(QWidget):
    """Painted chart, 0 to 100."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rounds: list[Round] = []
        theme.changed.connect(self.update)

    def show_rounds(self, rounds: list[Round]) -> None:
        """Show the scores of these."""
        self._rounds = rounds
        said = (f"{one.number}: {grade_text(one.grade)}" for one in rounds)
        self.setAccessibleName(self.tr("Score by round. %1").replace("%1", ", ".join(said)))
        self.update()

    def points(self) -> list[QPointF | None]:
        """Where each round stands; None for one without a score."""
        plot = self._plot()
        step = plot.width() / max(1, len(self._rounds) - 1)
        found: list[QPointF | None] = []
        for number, one in enumerate(self._rounds):
            x = plot.center().x() if len(self._rounds) == 1 else plot.left() + number * step
            rating = one.grade.rating
            found.append(None if rating is None else QPointF(x, self._height(rating)))
        return found

    def _plot(self) -> QRectF:
        edge = theme.px(16)
        return QRectF(self.rect()).adjusted(theme.px(36), theme.px(30), -edge - theme.px(8), -theme.px(24))

    def _height(self, rating: float) -> float:
        plot = self._plot()
        return plot.bottom() - plot.height() * min(100.0, max(0.0, rating)) / 100.0

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw axis, pass mark, curve and points."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), theme.color("bg.dock"))
        plot = self._plot()
        painter.setFont(theme.font(12, 600))
        painter.setPen(theme.color("text"))
        head = QRectF(theme.px(12), 0, self.width(), theme.px(26))
        painter.drawText(head, int(Qt.AlignmentFlag.AlignVCenter), self.tr("Score by round"))
        painter.setFont(theme.font(11))
        for value in (0, 50, 100):
            self._paint_mark(painter, plot, value)
        self._paint_pass_mark(painter, plot)
        points = self.points()
        painter.setPen(QPen(theme.color("series.1"), 1.5))
        known = [point for point in points if point is not None]
        for one, other in pairwise(known):
            painter.drawLine(QLineF(one, other))
        self._paint_rounds(painter, plot, points)

    def _paint_mark(self, painter: QPainter, plot: QRectF, value: int) -> None:
        y = self._height(value)
        painter.setPen(theme.color("line"))
        painter.drawLine(QLineF(plot.left() - theme.px(8), y, plot.right() + theme.px(8), y))
        painter.setPen(theme.color("muted"))
        place = QRectF(0, y - theme.px(8), plot.left() - theme.px(12), theme.px(16))
        painter.drawText(place, int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter), str(value))

    def _paint_pass_mark(self, painter: QPainter, plot: QRectF) -> None:
        y = self._height(LEAST_RATING)
        pen = QPen(theme.color("muted"), 1.0)
        pen.setDashPattern([4.0, 3.0])
        painter.setPen(pen)
        painter.drawLine(QLineF(plot.left() - theme.px(8), y, plot.right() + theme.px(8), y))
        text = self.tr("above %1 passes").replace("%1", f"{LEAST_RATING:g}")
        painter.drawText(QPointF(plot.left() - theme.px(4), y - theme.px(4)), text)

    def _paint_rounds(self, painter: QPainter, plot: QRectF, points: list[QPointF | None]) -> None:
        step = plot.width() / max(1, len(points) - 1)
        size = theme.px(12)
        metrics = QFontMetricsF(painter.font())
        for number, (one, point) in enumerate(zip(self._rounds, points, strict=True)):
            x = plot.center().x() if len(points) == 1 else plot.left() + number * step
            icon, token = GRADE_LOOKS[grade_outcome(one.grade)]
            y = plot.bottom() - size if point is None else point.y()
            area = QRectF(x - size / 2, y - size / 2, size, size)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("bg.dock"))
            painter.drawEllipse(area.adjusted(-1, -1, 1, 1))
            theme.paint_icon(painter, icon, area, token)
            painter.setPen(theme.color("muted"))
            text = str(one.number)
            painter.drawText(QPointF(x - metrics.horizontalAdvance(text) / 2, self.height() - theme.px(6)), text)
