"""Paints the card of an agent in all its states (visual design, section 5). Coordinates are px at 100 %."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen

from workbench.designer.agent_run import CardState
from workbench.designer.card_content import CARD_WIDTH, FOOTER_HEIGHT, PORT_Y, CardContent, Port, Verdict
from workbench.designer.card_footer import Footer
from workbench.designer.card_layout import CardLayout, PlacedText, baseline, elided, metrics, scene_font
from workbench.theme import theme

RADIUS = 8.0
PORT_RADIUS = 5.0
END_SIDE = 9.0
MARGIN = 18.0
"""How far marks reach outside the card: rings, ports, the breakpoint, the state disc."""
SPINNER = "spinner"
"""The one icon that a card does not paint itself: an item of its own turns it."""
_TITLE_ICON = 30.0
_STATE_DISC = 17.0

STATE_ICONS: Mapping[CardState, tuple[str, str]] = MappingProxyType(
    {
        CardState.RUNNING: (SPINNER, "run"),
        CardState.FINISHED: ("ok", "ok"),
        CardState.CACHED: ("cached", "ok"),
        CardState.FROZEN: ("frozen", "ice"),
        CardState.STALE: ("stale", "warn"),
        CardState.WARNING: ("warning", "warn"),
        CardState.FAILED: ("failed", "err"),
        CardState.STOPPED: ("stop", "muted"),
        CardState.PAUSED: ("pause", "text"),
    }
)
"""Icon and colour by which a state is told from further away."""

_BORDERS: Mapping[CardState, tuple[str, float]] = MappingProxyType(
    {
        CardState.PLANNED: ("accent", 1.0),
        CardState.RUNNING: ("run", 2.0),
        CardState.PAUSED: ("text", 2.0),
        CardState.WARNING: ("warn", 1.5),
        CardState.FAILED: ("err", 2.0),
        CardState.FROZEN: ("ice", 1.5),
        CardState.STALE: ("warn", 1.0),
    }
)
_VERDICT_COLORS = {Verdict.PASSED: "ok", Verdict.FAILED: "err"}


@dataclass(slots=True)
class CardLook:
    """What changes about a card while its agent stays the same."""

    state: CardState = CardState.IDLE
    frozen: bool = False
    footer: Footer | None = None
    selected: bool = False
    current: bool = False
    """Has the keyboard's attention without being selected."""
    hovered: bool = False
    problem: str = ""
    """`error` or `warning`."""
    drop_target: bool = False
    """A link that is being dragged would join it."""


def card_height(content: CardContent, look: CardLook) -> float:
    """Height of the card in scene units."""
    return content.body_height + (FOOTER_HEIGHT if look.footer else 0.0)


def paint_card(painter: QPainter, layout: CardLayout, look: CardLook) -> None:
    """Draw the whole card, for scales from 50 % up."""
    content = layout.content
    rect = QRectF(0.0, 0.0, CARD_WIDTH, card_height(content, look))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_body(painter, rect, content, look)
    if look.footer:
        _paint_footer(painter, rect, look.footer)
    _paint_border(painter, rect, content, look)
    text, secondary = ("muted", "muted") if content.muted else ("text", "text2")
    theme.paint_icon(painter, content.icon, QRectF(10.0, 9.0, 16.0, 16.0), secondary)
    _text(painter, layout.name, text, 14, 600)
    _paint_badge(painter, layout)
    for line in layout.preview:
        _text(painter, line, secondary, 12)
    _paint_chips(painter, layout, secondary)
    for port, row in zip(content.ports, layout.rows, strict=False):
        color = _VERDICT_COLORS.get(port.verdict, secondary)
        if row.icon:
            theme.paint_icon(painter, row.icon, row.icon_rect, color)
        _text(painter, row.text, color, 11 if port.is_expression else 12, mono=port.is_expression)
    paint_port(painter, QPointF(0.0, PORT_Y), None, look.hovered)
    for index, port in enumerate(content.ports):
        paint_port(painter, QPointF(CARD_WIDTH, content.port_y(index)), port, look.hovered)
    _paint_marks(painter, content, look)
    _paint_ring(painter, rect, look)


def paint_title(painter: QPainter, layout: CardLayout, look: CardLook) -> None:
    """Draw icon, name and state in large, for scales from 35 to 50 %."""
    content = layout.content
    rect = QRectF(0.0, 0.0, CARD_WIDTH, content.body_height)
    middle = rect.center().y()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_body(painter, rect, content, look)
    _paint_border(painter, rect, content, look)
    text, secondary = ("muted", "muted") if content.muted else ("text", "text2")
    theme.paint_icon(painter, content.icon, QRectF(14.0, middle - 15.0, _TITLE_ICON, _TITLE_ICON), secondary)
    for line in layout.title:
        _text(painter, line, text, 25, 600)
    paint_port(painter, QPointF(0.0, middle), None, False)
    paint_port(painter, QPointF(CARD_WIDTH, middle), next(iter(content.ports), None), False)
    icon, color = STATE_ICONS.get(look.state, ("", ""))
    if look.problem and not icon:
        icon, color = _problem_icon(look.problem)
    if icon:
        center = QPointF(CARD_WIDTH, 0.0)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("bg.card"))
        painter.drawEllipse(center, _STATE_DISC, _STATE_DISC)
        if icon != SPINNER:
            theme.paint_icon(painter, icon, QRectF(center.x() - 13.0, center.y() - 13.0, 26.0, 26.0), color)
    _paint_ring(painter, rect, look)


def paint_port(painter: QPainter, at: QPointF, port: Port | None, hovered: bool) -> None:
    """Draw an in-port (no Port) or an out-port: a disc, or a hollow square where the flow ends."""
    color = _VERDICT_COLORS.get(port.verdict, "edge") if port else "edge"
    if port is not None and port.target is None:
        side = END_SIDE
        painter.setPen(QPen(theme.color(color), 1.5))
        painter.setBrush(theme.color("bg.card"))
        painter.drawRect(QRectF(at.x() - side / 2, at.y() - side / 2, side, side))
        return
    radius = PORT_RADIUS + 1.0 if hovered else PORT_RADIUS
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.color("accent" if hovered and color == "edge" else color))
    painter.drawEllipse(at, radius, radius)


def paint_halo(painter: QPainter, rect: QRectF) -> None:
    """Draw the glow around a running card."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for reach, alpha in ((4.0, 0.18), (7.0, 0.10)):
        painter.setPen(QPen(theme.color("run", alpha), reach * 2))
        painter.drawRoundedRect(rect, RADIUS, RADIUS)


def spinner_path(radius: float) -> QPainterPath:
    """Three quarters of a ring around the origin."""
    path = QPainterPath(QPointF(0.0, -radius))
    path.arcTo(QRectF(-radius, -radius, 2 * radius, 2 * radius), 90.0, -270.0)
    return path


def spinner_place(content: CardContent, *, titles: bool) -> tuple[QPointF, float]:
    """Centre and radius of a running card's spinner: in the footer, or in the state disc of the titles level."""
    if titles:
        return QPointF(CARD_WIDTH, 0.0), 10.0
    return QPointF(17.0, content.body_height + FOOTER_HEIGHT / 2 + 0.5), 5.0


def _paint_body(painter: QPainter, rect: QRectF, content: CardContent, look: CardLook) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(0, 0, 0, 69 if theme.dark else 18))
    # Only its lower edge is seen, and filling what the card covers takes time.
    painter.drawRoundedRect(QRectF(0.0, rect.bottom() - 18.0, rect.width(), 20.0), RADIUS, RADIUS)
    if content.fans_out:
        painter.setPen(QPen(theme.color("line.strong"), 1.0))
        painter.setBrush(theme.color("bg.card"))
        for step in (8.0, 4.0):
            lower = QRectF(step + 0.5, rect.bottom() - 20.0, rect.width() - 2 * step - 1.0, 19.5 + step)
            painter.drawRoundedRect(lower, RADIUS, RADIUS)
        painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.color("bg.dock" if content.muted else "bg.card"))
    painter.drawRoundedRect(rect, RADIUS, RADIUS)
    if content.muted:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.save()
        painter.setClipPath(_rounded(rect))
        painter.setPen(QPen(theme.color("line"), 1.0))
        for x in range(int(-rect.height()), int(CARD_WIDTH), 6):
            painter.drawLine(QPointF(x, rect.height()), QPointF(x + rect.height(), 0.0))
        painter.restore()
    if look.state is CardState.PLANNED:
        _fill_band(painter, rect, QRectF(0.0, 0.0, CARD_WIDTH, 34.0), "tint.accent")


def _fill_band(painter: QPainter, card: QRectF, band: QRectF, token: str) -> None:
    """Fill a band of the card without spilling over its round corners."""
    path = _rounded(card).intersected(_box(band))
    painter.fillPath(path, theme.color(token))


def _paint_border(painter: QPainter, rect: QRectF, content: CardContent, look: CardLook) -> None:
    passive = content.muted or content.bypassed
    if look.drop_target:
        token, width = "accent", 2.0
        painter.fillPath(_rounded(rect), theme.color("accent", 0.10))
    elif look.state in _BORDERS:
        token, width = _BORDERS[look.state]
        if look.state is CardState.RUNNING and theme.reduced_motion:
            width = 3.0
    elif look.selected:
        token, width = "accent", 1.5
    elif look.hovered:
        token, width = "muted", 1.0
    else:
        token, width = ("line.control" if passive else "line.strong"), 1.0
    pen = QPen(theme.color(token), width)
    if (passive and look.state is CardState.IDLE) or look.state is CardState.STALE:
        pen.setDashPattern([4.0 / width, 3.0 / width])
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    inset = width / 2
    painter.drawRoundedRect(rect.adjusted(inset, inset, -inset, -inset), RADIUS - inset, RADIUS - inset)


def _paint_badge(painter: QPainter, layout: CardLayout) -> None:
    if not layout.badge.text:
        return
    text, tint = theme.category_tokens(layout.content.badge)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.color(tint))
    painter.drawRoundedRect(layout.badge_rect, 4.0, 4.0)
    _text(painter, layout.badge, text, 10, 700)


def _paint_chips(painter: QPainter, layout: CardLayout, color: str) -> None:
    for chip in layout.chips:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("bg.press"))
        painter.drawRoundedRect(chip.rect, 4.0, 4.0)
        if chip.icon:
            box = QRectF(chip.rect.left() + 6.0, chip.rect.center().y() - 6.0, 12.0, 12.0)
            theme.paint_icon(painter, chip.icon, box, color)
        _text(painter, chip.text, color, 11, 500)


def _paint_footer(painter: QPainter, card: QRectF, footer: Footer) -> None:
    band = QRectF(0.0, card.height() - FOOTER_HEIGHT, CARD_WIDTH, FOOTER_HEIGHT)
    _fill_band(painter, card, band, footer.tint)
    if footer.progress is None:
        painter.fillRect(QRectF(0.0, band.top(), CARD_WIDTH, 1.0), theme.color("line"))
    else:
        painter.fillRect(QRectF(0.0, band.top() - 1.0, CARD_WIDTH, 2.0), theme.color("bg.press"))
        painter.fillRect(QRectF(0.0, band.top() - 1.0, CARD_WIDTH * footer.progress, 2.0), theme.color("run"))
    middle = band.center().y() + 0.5
    if footer.icon != SPINNER:
        theme.paint_icon(painter, footer.icon, QRectF(10.0, middle - 7.0, 14.0, 14.0), footer.icon_color)
    left, right = 30.0, CARD_WIDTH - 10.0
    measure, strong = metrics(11), metrics(11, 600 if footer.strong else 400)
    wanted = strong.horizontalAdvance(footer.label)
    figures = list(footer.figures)
    while figures and measure.horizontalAdvance("  ".join(figures)) + wanted + 8.0 > right - left:
        figures.pop()
    shown = "  ".join(figures)
    width = measure.horizontalAdvance(shown)
    if shown:
        _text(painter, PlacedText(shown, QPointF(right - width, baseline(middle, 11))), "text2", 11)
    weight = 600 if footer.strong else 400
    label = elided(footer.label, right - left - (width + 8.0 if shown else 0.0), 11, weight)
    _text(painter, PlacedText(label, QPointF(left, baseline(middle, 11, weight))), footer.label_color, 11, weight)


def _paint_marks(painter: QPainter, content: CardContent, look: CardLook) -> None:
    if content.bypassed:
        path = QPainterPath(QPointF(0.0, PORT_Y))
        path.lineTo(0.0, 1.0)
        path.arcTo(QRectF(0.0, -10.0, 20.0, 20.0), 180.0, -90.0)
        path.lineTo(CARD_WIDTH - 10.0, -10.0)
        path.arcTo(QRectF(CARD_WIDTH - 20.0, -10.0, 20.0, 20.0), 90.0, -90.0)
        path.lineTo(CARD_WIDTH, PORT_Y)
        painter.setPen(QPen(theme.color("text2"), 1.5, Qt.PenStyle.CustomDashLine))
        pen = painter.pen()
        pen.setDashPattern([4.0, 2.5])
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(path)
    if content.breakpoint or look.state is CardState.PAUSED:
        painter.setPen(QPen(theme.color("bg.canvas"), 2.0))
        painter.setBrush(theme.color("breakpoint"))
        painter.drawEllipse(QPointF(4.0, 3.0), 7.0, 7.0)
        if look.state is CardState.PAUSED:
            for x in (1.5, 4.9):
                painter.fillRect(QRectF(x, 0.0, 1.6, 6.0), theme.color("on.fill"))
    marks = [("frozen", "ice")] if look.frozen else []
    if look.problem:
        marks.insert(0, _problem_icon(look.problem))
    for place, (icon, color) in enumerate(marks):
        center = QPointF(CARD_WIDTH - 5.0 - 22.0 * place, 0.0)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("bg.canvas"))
        painter.drawEllipse(center, 10.0, 10.0)
        theme.paint_icon(painter, icon, QRectF(center.x() - 8.0, center.y() - 8.0, 16.0, 16.0), color)


def _paint_ring(painter: QPainter, rect: QRectF, look: CardLook) -> None:
    if not (look.selected or look.current):
        return
    pen = QPen(theme.color("accent"), 2.0)
    if not look.selected:
        pen.setDashPattern([1.0, 1.5])
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(rect.adjusted(-4.0, -4.0, 4.0, 4.0), RADIUS + 4.0, RADIUS + 4.0)


def _problem_icon(severity: str) -> tuple[str, str]:
    return ("error", "err") if severity == "error" else ("warning", "warn")


def _text(
    painter: QPainter, placed: PlacedText, token: str, size: float, weight: int = 400, *, mono: bool = False
) -> None:
    painter.setFont(scene_font(size, weight, mono=mono))
    painter.setPen(theme.color(token))
    painter.drawText(placed.at, placed.text)


def _rounded(rect: QRectF) -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(rect, RADIUS, RADIUS)
    return path


def _box(rect: QRectF) -> QPainterPath:
    path = QPainterPath()
    path.addRect(rect)
    return path
