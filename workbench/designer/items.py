"""The items of the canvas that paint agents: one card each, and one overview of all for views from far away."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPixmap
from PySide6.QtWidgets import QGraphicsItem, QGraphicsPathItem, QStyleOptionGraphicsItem, QWidget

from workbench.designer.agent_run import AgentRun, CardState, FrozenMark
from workbench.designer.card_content import CARD_WIDTH, FOOTER_HEIGHT, PORT_Y, CardContent
from workbench.designer.card_footer import card_footer
from workbench.designer.card_layout import CardLayout
from workbench.designer.level import Level
from workbench.designer.node_card import (
    MARGIN,
    STATE_ICONS,
    CardLook,
    card_height,
    paint_card,
    paint_halo,
    paint_title,
    spinner_path,
    spinner_place,
)
from workbench.theme import theme

_GLYPH = 60.0
_DIMMED = 0.6
_SMALLEST_GLYPH = 5.0
"""px on screen below which a state glyph is only a speck."""


class AgentItem(QGraphicsItem):
    """The card of one agent. It paints and tells geometry; it edits nothing."""

    def __init__(self, content: CardContent) -> None:
        super().__init__()
        self.content = content
        self.look = CardLook(footer=card_footer(content, AgentRun(), 0.0))
        self.level = Level.FULL
        self._layout: CardLayout | None = None
        self._bounds = self._reach()
        self._halo: _HaloItem | None = None
        self._spinner: QGraphicsPathItem | None = None
        # The picture of a card is kept at device resolution: panning, dots and halos repaint no card.
        self.setCacheMode(QGraphicsItem.CacheMode.DeviceCoordinateCache)

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.content.name

    def card_rect(self) -> QRectF:
        """The card itself, in scene coordinates."""
        place = self.pos()
        return QRectF(place.x(), place.y(), CARD_WIDTH, card_height(self.content, self.look))

    def resting_rect(self) -> QRectF:
        """The card without a footer, which comes and goes, in scene coordinates."""
        return QRectF(self.x(), self.y(), CARD_WIDTH, self.content.body_height)

    def in_port(self) -> QPointF:
        """Where links arrive, in scene coordinates."""
        y = self.content.body_height / 2 if self.level is Level.TITLES else PORT_Y
        return QPointF(self.x(), self.y() + y)

    def out_port(self, index: int) -> QPointF:
        """Where the link of a route leaves, in scene coordinates."""
        y = self.content.body_height / 2 if self.level is Level.TITLES else self.content.port_y(index)
        return QPointF(self.x() + CARD_WIDTH, self.y() + y)

    def set_content(self, content: CardContent) -> None:
        """Show other values of the agent."""
        self.content = content
        self._layout = None
        bounds = self._reach()
        if bounds != self._bounds:
            self.prepareGeometryChange()
            self._bounds = bounds
        self.update()

    def set_marks(self, *, selected: bool, current: bool) -> None:
        """Show whether it is selected and has the keyboard."""
        if (self.look.selected, self.look.current) != (selected, current):
            self.look.selected, self.look.current = selected, current
            self._refresh_motion()
            self.update()

    def set_drop(self, *, target: bool = False, dimmed: bool = False) -> None:
        """Show that a link that is being dragged would join it, or cannot."""
        self.setOpacity(_DIMMED if dimmed else 1.0)
        if self.look.drop_target != target:
            self.look.drop_target = target
            self.update()

    def set_hovered(self, hovered: bool) -> None:
        """Show that the mouse is over it."""
        self.look.hovered = hovered
        self.update()

    def set_problem(self, severity: str) -> None:
        """Show a fault: `error`, `warning`, or none."""
        if self.look.problem != severity:
            self.look.problem = severity
            self.update()

    def set_level(self, level: Level) -> None:
        """Draw another level of detail; the zoom that led to it repaints the card anyway."""
        self.level = level
        if self._spinner is not None:
            self._refresh_motion()

    def show_run(self, run: AgentRun, elapsed: float, mark: FrozenMark | None = None) -> None:
        """Show what the run made of the agent, and that it is frozen."""
        self.look.footer = card_footer(self.content, run, elapsed, mark)
        self.look.frozen = mark is not None
        state = run.state
        if mark is not None and state is CardState.IDLE:
            state = CardState.STALE if mark.stale else CardState.FROZEN
        if self.look.state is not state:
            self.look.state = state
            self._refresh_motion()
        self.update()

    def refresh(self) -> None:
        """Paint again in the present colours."""
        self._refresh_motion()
        self.update()

    def animate(self, turn: float, glow: float) -> None:
        """Turn the spinner (0 to 1) and set the halo's strength (0 to 1)."""
        if self._spinner is not None:
            self._spinner.setRotation(360.0 * turn)
        if self._halo is not None:
            self._halo.setOpacity(glow)

    def boundingRect(self) -> QRectF:
        """Everything that may be painted, whatever the state."""
        return self._bounds

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Draw the card at its level of detail."""
        if self._layout is None:
            self._layout = CardLayout(self.content)
        if self.level is Level.FULL:
            paint_card(painter, self._layout, self.look)
        else:
            paint_title(painter, self._layout, self.look)

    def _reach(self) -> QRectF:
        height = self.content.body_height + FOOTER_HEIGHT
        return QRectF(-MARGIN, -MARGIN, CARD_WIDTH + 2 * MARGIN, height + 2 * MARGIN)

    def _refresh_motion(self) -> None:
        """Have a halo and a spinner while they are due: items of their own, so that motion repaints no card."""
        running = self.look.state is CardState.RUNNING
        for item in (self._halo, self._spinner):
            if item is not None:
                item.scene().removeItem(item)
        self._halo = self._spinner = None
        if not running:
            return
        if not (self.look.selected or self.look.current or theme.reduced_motion):
            height = self.content.body_height + (FOOTER_HEIGHT if self.level is Level.FULL else 0.0)
            self._halo = _HaloItem(QRectF(0.0, 0.0, CARD_WIDTH, height), self)
        center, radius = spinner_place(self.content, titles=self.level is Level.TITLES)
        self._spinner = QGraphicsPathItem(spinner_path(radius), self)
        self._spinner.setPos(center)
        pen = QPen(theme.color("run"), radius * 0.3)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        self._spinner.setPen(pen)


class _HaloItem(QGraphicsItem):
    """The glow behind a running card."""

    def __init__(self, card: QRectF, parent: QGraphicsItem) -> None:
        super().__init__(parent)
        self._card = card
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemStacksBehindParent)

    def boundingRect(self) -> QRectF:
        """The card and its glow."""
        return self._card.adjusted(-8.0, -8.0, 8.0, 8.0)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Draw the glow."""
        paint_halo(painter, self._card)


class OverviewItem(QGraphicsItem):
    """All agents as boxes and all links as lines, in a few calls, for scales below 35 %."""

    def __init__(self) -> None:
        super().__init__()
        self._bounds = QRectF()
        self._boxes: dict[str, list[QRectF]] = {}
        self._glyphs: dict[tuple[str, str], list[QPointF]] = {}
        self._lines: Sequence[QLineF] = ()
        self._selected: list[QRectF] = []

    def rebuild(self, items: Iterable[AgentItem], lines: Sequence[QLineF], bounds: QRectF) -> None:
        """Take in where everything is and how it is."""
        self.prepareGeometryChange()
        self._bounds, self._lines = bounds, lines
        self._boxes, self._glyphs, self._selected = {}, {}, []
        for item in items:
            place = item.pos()
            rect = QRectF(place.x(), place.y(), CARD_WIDTH, item.content.body_height)
            icon, color = STATE_ICONS.get(item.look.state, ("", ""))
            if not icon and item.look.problem:
                icon, color = ("error", "err") if item.look.problem == "error" else ("warning", "warn")
            self._boxes.setdefault(color or "line.control", []).append(rect)
            if icon:
                self._glyphs.setdefault(("check" if icon == "ok" else icon, color), []).append(rect.center())
            if item.look.selected:
                self._selected.append(rect)
        self.update()

    def boundingRect(self) -> QRectF:
        """All agents, with room for a selection's border."""
        return self._bounds.adjusted(-20.0, -20.0, 20.0, 20.0)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Draw lines, boxes and glyphs."""
        scale = painter.worldTransform().m11()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(theme.color("edge"), 0))
        painter.drawLines(list(self._lines))
        for color, rects in self._boxes.items():
            painter.setPen(QPen(theme.color(color), 0))
            painter.setBrush(theme.color(color, 0.30 if theme.dark else 0.22))
            painter.drawRects(rects)
        if self._selected:
            painter.setPen(QPen(theme.color("accent"), 2.0 / scale))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRects(self._selected)
        size = _GLYPH * scale
        if size >= _SMALLEST_GLYPH:
            self._paint_glyphs(painter, round(size))

    def _paint_glyphs(self, painter: QPainter, size: int) -> None:
        transform = painter.worldTransform()
        painter.save()
        painter.resetTransform()
        ratio = painter.device().devicePixelRatio()
        for (icon, color), places in self._glyphs.items():
            picture: QPixmap = theme.pixmap(icon, size / theme.zoom, color, ratio)
            # Whole pixels of the device: a glyph between two pixels is a blur.
            for place in places:
                at = transform.map(place)
                painter.drawPixmap(QPointF(round(at.x() - size / 2), round(at.y() - size / 2)), picture)
        painter.restore()
