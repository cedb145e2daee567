"""Links between cards: their course, and their look at rest and in a run (visual design, section 6)."""

from enum import Enum
from functools import lru_cache
from itertools import pairwise

from PySide6.QtCore import QCoreApplication, QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPen, QPolygonF
from PySide6.QtWidgets import (
    QGraphicsEllipseItem,
    QGraphicsItem,
    QGraphicsPathItem,
    QGraphicsPolygonItem,
    QGraphicsScene,
    QStyleOptionGraphicsItem,
    QWidget,
)

from workbench.designer.agent_run import LinkRun
from workbench.designer.card_content import CARD_WIDTH, Port, Verdict
from workbench.designer.card_grid import CardGrid
from workbench.designer.card_layout import baseline, metrics, scene_font
from workbench.designer.level import Level
from workbench.theme import theme

translate = QCoreApplication.translate

ARROW_LENGTH, ARROW_WIDTH = 8.0, 9.0
ARROW_GAP = 5.0
"""Between the arrow's tip and the middle of the port."""
LOOP_RISE = 52.0
LOOP_LEG = 14.0
LOOP_RADIUS = 12.0
_LOOP_CLEARANCE = 24.0
_SHORTEST_HANDLE = 28.0
_NARROW_GAP = 90.0
_PILL_HEIGHT = 18.0
_PILL_RISE = 15.0
_DOT_RADIUS = 3.5
_FEEDBACK_ROUNDS = 2
"""First attempt and the one with feedback."""
LINK_DATA = 0
"""Under which the item of a line keeps agent and port of its link."""
_Z_LINK, _Z_PILL = -1.0, 2.0


class LinkLook(Enum):
    """Colour, width and dashes (lengths and gaps in px) of a link."""

    ROUTE = ("edge", 1.5, ())
    FLOWING = ("run", 2.5, ())
    TAKEN = ("text2", 2.25, ())
    PASSED = ("ok", 2.0, ())
    LOOP = ("edge", 1.5, (6.0, 3.0))
    LOOP_FLOWING = ("run", 2.5, (6.0, 3.0))
    LOOP_TAKEN = ("text2", 2.25, (6.0, 3.0))
    FEEDBACK_TAKEN = ("err", 2.0, (6.0, 3.0))
    UNGRADED_TAKEN = ("warn", 2.0, (6.0, 3.0))
    MARKED = ("accent", 2.5, ())

    @property
    def color(self) -> str:
        """Colour token."""
        return str(self.value[0])


@lru_cache(maxsize=64)
def _pen(look: LinkLook, color: str) -> QPen:
    _, width, dashes = look.value
    pen = QPen(QColor(color), width)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    if dashes:
        pen.setDashPattern([length / width for length in dashes])
    return pen


@lru_cache(maxsize=64)
def _brush(color: str) -> QBrush:
    return QBrush(QColor(color))


_ARROW = QPolygonF(
    [QPointF(0.0, 0.0), QPointF(-ARROW_LENGTH, -ARROW_WIDTH / 2), QPointF(-ARROW_LENGTH, ARROW_WIDTH / 2)]
)
_NO_PEN = QPen(Qt.PenStyle.NoPen)
_ORIGIN = QPointF()
_AT_REST = LinkRun()


def goes_back(start: QPointF, end: QPointF) -> bool:
    """Whether a link leads to a column further left, or to its own card, and so has to pass over the top."""
    return end.x() < start.x() - CARD_WIDTH * 1.5


def curve(start: QPointF, end: QPointF) -> QPainterPath:
    """The course of a link that goes forward, up to its arrow."""
    x, y, tip_x, tip_y = start.x(), start.y(), end.x() - ARROW_GAP - ARROW_LENGTH + 1.0, end.y()
    distance = tip_x - x
    handle = max(_SHORTEST_HANDLE, distance / 2, -distance / 4 + _SHORTEST_HANDLE)
    path = QPainterPath(start)
    if y == tip_y and distance > 0:
        path.lineTo(tip_x, tip_y)
    else:
        path.cubicTo(x + handle, y, tip_x - handle, tip_y, tip_x, tip_y)
    return path


def loop(start: QPointF, end: QPointF, top: float) -> QPainterPath:
    """The right-angled course of a link that goes back, over `top`, up to its arrow."""
    right, left, radius = start.x() + LOOP_LEG, end.x() - LOOP_LEG - ARROW_LENGTH, LOOP_RADIUS
    double = 2 * radius
    path = QPainterPath(start)
    path.lineTo(right - radius, start.y())
    path.arcTo(QRectF(right - double, start.y() - double, double, double), 270.0, 90.0)
    path.lineTo(right, top + radius)
    path.arcTo(QRectF(right - double, top, double, double), 0.0, 90.0)
    path.lineTo(left + radius, top)
    path.arcTo(QRectF(left, top, double, double), 90.0, 90.0)
    path.lineTo(left, end.y() - radius)
    path.arcTo(QRectF(left, end.y() - double, double, double), 180.0, 90.0)
    path.lineTo(end.x() - ARROW_GAP - ARROW_LENGTH + 1.0, end.y())
    return path


def loop_top(start: QPointF, end: QPointF, top: float, cards: CardGrid) -> float:
    """How high a loop passes: above the two cards, whose upper edge is `top`, and through no card between them."""
    left, right = end.x() - 2 * LOOP_LEG, start.x() + 2 * LOOP_LEG
    height = top - LOOP_RISE
    while True:
        corridor = QRectF(left, height - _LOOP_CLEARANCE / 2, right - left, _LOOP_CLEARANCE)
        in_the_way = cards.near(corridor)
        if not in_the_way:
            return height
        height = min(card.top() for card in in_the_way) - _LOOP_CLEARANCE


class LinkPicture:
    """One link: a path and an arrow that Qt paints alone, a pill when it has something to say, dots while it flows.

    The items are made by the first `draw`; until then a link is only known.
    """

    __slots__ = ("_end", "_pills_shown", "_run", "_start", "_top", "_waits", "arrow", "dots", "index", "level", "line",
                 "look", "marked", "pill", "port", "source", "target")  # fmt: skip

    def __init__(self, source: str, index: int, port: Port, target: str) -> None:
        self.source, self.index, self.port, self.target = source, index, port, target
        self.line: QGraphicsPathItem | None = None
        self.arrow: QGraphicsPolygonItem | None = None
        self.pill: PillItem | None = None
        self.dots: list[QGraphicsEllipseItem] = []
        self.look = LinkLook.ROUTE
        self.marked = False
        """Whether it is selected."""
        self.level: Level | None = None
        """The level of detail whose ports it joins; None until it is drawn."""
        self._start = self._end = _ORIGIN
        self._top: float | None = None
        self._run = _AT_REST
        self._pills_shown = True
        self._waits = False

    @property
    def is_loop(self) -> bool:
        """Whether it passes over the top."""
        return self._top is not None

    def bounds(self) -> QRectF:
        """What its line covers; empty before it is drawn."""
        return self.line.path().boundingRect() if self.line is not None else QRectF()

    def remove(self, scene: QGraphicsScene) -> None:
        """Take it out of the scene."""
        for part in (self.line, self.pill):
            if part is not None:
                scene.removeItem(part)

    def draw(self, scene: QGraphicsScene, start: QPointF, end: QPointF, top: float | None) -> None:
        """Lead from port to port, over `top` if it goes back."""
        changed = self.line is None or self._waits or self.is_loop != (top is not None)
        self._start, self._end, self._top = start, end, top
        if self.line is None or self.arrow is None:
            self.line = QGraphicsPathItem()
            self.line.setZValue(_Z_LINK)
            self.line.setData(LINK_DATA, (self.source, self.index))
            self.arrow = QGraphicsPolygonItem(_ARROW, self.line)
            self.arrow.setPen(_NO_PEN)
            scene.addItem(self.line)
        if self._waits:
            self._waits = False
            self.line.setVisible(True)
            self.show_pill(self._pills_shown)
        self.line.setPath(curve(start, end) if top is None else loop(start, end, top))
        self.arrow.setPos(end.x() - ARROW_GAP, end.y())
        if changed:
            self.refresh()
        self._place_pill()

    def wait(self) -> None:
        """Be where nobody sees it until it is drawn again, to ports that moved."""
        self.level, self._top, self._waits = None, None, True
        self.set_shown(False)

    def straight(self, start: QPointF, end: QPointF) -> list[QLineF]:
        """The course in straight lines between two points, for views from far away."""
        top = self._top
        if top is None:
            return [QLineF(start, end)]
        corners = (
            start,
            QPointF(start.x() + LOOP_LEG, start.y()),
            QPointF(start.x() + LOOP_LEG, top),
            QPointF(end.x() - LOOP_LEG, top),
            QPointF(end.x() - LOOP_LEG, end.y()),
            end,
        )
        return [QLineF(one, other) for one, other in pairwise(corners)]

    def show_run(self, run: LinkRun) -> None:
        """Show what went along."""
        self._run = LinkRun(count=run.count, flowing=run.flowing, ungraded=run.ungraded)
        self.refresh()

    def set_shown(self, shown: bool) -> None:
        """Hide it while its end is dragged elsewhere."""
        for part in (self.line, self.pill):
            if part is not None:
                part.setVisible(shown)

    def show_pill(self, shown: bool) -> None:
        """Hide the pill where it could not be read."""
        self._pills_shown = shown
        if self.pill is not None:
            self.pill.setVisible(shown)

    def refresh(self) -> None:
        """Paint in the present look and colours."""
        if self.line is None or self.arrow is None:
            return
        self.look = LinkLook.MARKED if self.marked else self._present_look()
        color = theme.hex(self.look.color)
        self.line.setPen(_pen(self.look, color))
        self.arrow.setBrush(_brush(color))
        if self._run.flowing or self.dots:
            self._set_dots(self.line, bool(self._run.flowing), color)
        if self._run.count or self.port.is_feedback or self.pill is not None:
            self._set_pill(self.line.scene(), *self.pill_text)

    def advance(self, phase: float) -> None:
        """Move the dots along; `phase` 0 to 1."""
        if self.line is None:
            return
        path = self.line.path()
        for index, dot in enumerate(self.dots):
            dot.setPos(path.pointAtPercent((phase + index / len(self.dots)) % 1.0))

    def _present_look(self) -> LinkLook:
        if self._run.flowing:
            return LinkLook.LOOP_FLOWING if self.is_loop else LinkLook.FLOWING
        if not self._run.count:
            return LinkLook.LOOP if self.is_loop else LinkLook.ROUTE
        if self.port.verdict is Verdict.FAILED:
            only_ungraded = self._run.ungraded >= self._run.count
            return LinkLook.UNGRADED_TAKEN if only_ungraded else LinkLook.FEEDBACK_TAKEN
        if self.is_loop:
            return LinkLook.LOOP_TAKEN
        return LinkLook.PASSED if self.port.verdict is Verdict.PASSED else LinkLook.TAKEN

    @property
    def pill_text(self) -> tuple[str, str]:
        """Icon and text of the pill; both empty without one."""
        count, ungraded = self._run.count, self._run.ungraded
        if self.port.is_feedback:
            taken = f"{min(count, _FEEDBACK_ROUNDS)} of {_FEEDBACK_ROUNDS}"
            if ungraded:
                return "warning", f"{taken}, {_ungraded_text(ungraded, count)}"
            return "loop", taken if count else f"≤ {_FEEDBACK_ROUNDS} rounds"
        if ungraded and self.port.verdict is Verdict.FAILED:
            return "warning", _ungraded_text(ungraded, count)
        if count and self.port.verdict is Verdict.PASSED:
            return "check", f"{count}×" if count > 1 else "passed"
        return ("loop" if self.is_loop else ""), f"{count}×" if count > 1 else ""

    def _set_pill(self, scene: QGraphicsScene, icon: str, text: str) -> None:
        if not text:
            if self.pill is not None:
                scene.removeItem(self.pill)
                self.pill = None
            return
        if self.pill is None:
            self.pill = PillItem()
            self.pill.setVisible(self._pills_shown)
            scene.addItem(self.pill)
        self.pill.show_text(icon, text, self.look.color)
        self._place_pill()

    def _place_pill(self) -> None:
        if self.pill is None:
            return
        if self._top is not None:
            self.pill.setPos((self._start.x() + self._end.x()) / 2, self._top)
            return
        middle = (self._start + self._end) / 2
        narrow = self._end.x() - self._start.x() < _NARROW_GAP
        self.pill.setPos(middle.x(), middle.y() - (_PILL_RISE if narrow else 0.0))

    def _set_dots(self, line: QGraphicsPathItem, flowing: bool, color: str) -> None:
        if not flowing:
            for dot in self.dots:
                dot.scene().removeItem(dot)
            self.dots = []
            return
        if not self.dots:
            for _ in range(2):
                dot = QGraphicsEllipseItem(-_DOT_RADIUS, -_DOT_RADIUS, 2 * _DOT_RADIUS, 2 * _DOT_RADIUS, line)
                dot.setPen(_NO_PEN)
                self.dots.append(dot)
            self.advance(0.25)
        for dot in self.dots:
            dot.setBrush(QColor(color))


def _ungraded_text(ungraded: int, count: int) -> str:
    """That contexts went on without a verdict, and how many of several."""
    if count == 1:
        return translate("links", "no verdict")
    return translate("links", "%1 without verdict").replace("%1", str(ungraded))


class PillItem(QGraphicsItem):
    """A short text on a link."""

    def __init__(self) -> None:
        super().__init__()
        self.setZValue(_Z_PILL)
        self._icon = self._text = ""
        self._color = "edge"
        self._width = 0.0

    def show_text(self, icon: str, text: str, color: str) -> None:
        """Set icon, text and the token of its border."""
        width = metrics(11, 600).horizontalAdvance(text) + (15.0 if icon else 0.0) + 14.0
        if width != self._width:
            self.prepareGeometryChange()
            self._width = width
        self._icon, self._text, self._color = icon, text, color
        self.update()

    def boundingRect(self) -> QRectF:
        """The pill around its origin, with its border."""
        return QRectF(-self._width / 2 - 1.0, -_PILL_HEIGHT / 2 - 1.0, self._width + 2.0, _PILL_HEIGHT + 2.0)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Draw border, icon and text."""
        box = QRectF(-self._width / 2, -_PILL_HEIGHT / 2, self._width, _PILL_HEIGHT)
        painter.setPen(QPen(theme.color(self._color), 1.0))
        painter.setBrush(theme.color("bg.canvas"))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), _PILL_HEIGHT / 2 - 0.5, _PILL_HEIGHT / 2 - 0.5)
        color = "text2" if self._color == "edge" else self._color
        x = box.left() + 7.0
        if self._icon:
            theme.paint_icon(painter, self._icon, QRectF(x, -6.0, 12.0, 12.0), color)
            x += 15.0
        painter.setFont(scene_font(11, 600))
        painter.setPen(theme.color(color))
        painter.drawText(QPointF(x, baseline(0.0, 11, 600)), self._text)
