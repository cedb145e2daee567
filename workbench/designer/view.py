"""The canvas: zoom, pan, mouse and keyboard over the scene. What a person wants changed is told by signals."""

from collections.abc import Iterable

from PySide6.QtCore import QEasingCurve, QEvent, QPoint, QPointF, QRectF, Qt, QVariantAnimation, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPixmap,
    QResizeEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QGraphicsView, QWidget

from workbench.designer.gestures import GRID, Gesture, Move, Pan, RubberBand
from workbench.designer.level import Level
from workbench.designer.scene import FlowScene
from workbench.theme import theme

SMALLEST, LARGEST = 0.04, 4.0
"""Zoom limits, as parts of 100 %."""
OPENING_SMALLEST, OPENING_LARGEST = 0.75, 1.0
_WHEEL_STEP = 1.15
_BUTTON_STEP = 1.25
_FIT_MARGIN = 24.0
_FIT_MILLISECONDS = 250
_DRAG_AFTER = 4
_DOT_SPACING = 24.0
_LARGE_STEP = 10

_ARROWS = {
    Qt.Key.Key_Left: (-GRID, 0.0),
    Qt.Key.Key_Right: (GRID, 0.0),
    Qt.Key.Key_Up: (0.0, -GRID),
    Qt.Key.Key_Down: (0.0, GRID),
}


class FlowView(QGraphicsView):
    """Shows a FlowScene at a zoom that is relative to the text zoom."""

    selection_wanted = Signal(object, str)
    """Names to select, and the one that gets the keyboard."""
    agents_moved = Signal(object, bool)
    """New places by name; whether by arrow keys (steps that may be joined)."""
    next_wanted = Signal(int)
    """Step along the flow: 1 or -1."""
    hover_changed = Signal(str)
    """Name of the agent under the mouse, empty for none."""
    view_changed = Signal()
    """Zoom or visible part became another."""

    def __init__(self, scene: FlowScene, parent: QWidget | None = None) -> None:
        super().__init__(scene, parent)
        self._scene = scene
        self._zoom = 1.0
        self._gesture: Gesture | None = None
        self._press: tuple[QPoint, str] | None = None
        self._space_held = False
        self._hovered = ""
        self._travel: QVariantAnimation | None = None
        self._covered = 0
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.setViewportUpdateMode(QGraphicsView.ViewportUpdateMode.MinimalViewportUpdate)
        self.setOptimizationFlag(QGraphicsView.OptimizationFlag.DontSavePainterState)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.NoAnchor)
        self.setResizeAnchor(QGraphicsView.ViewportAnchor.AnchorViewCenter)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.horizontalScrollBar().valueChanged.connect(self.view_changed)
        self.verticalScrollBar().valueChanged.connect(self.view_changed)
        theme.changed.connect(self._theme_changed)

    # -- zoom and place ---------------------------------------------------------------------------------------------

    @property
    def zoom(self) -> float:
        """1.0 is 100 %, which follows the text zoom."""
        return self._zoom

    def visible_area(self) -> QRectF:
        """What is seen, in scene units."""
        return self.mapToScene(self.viewport().rect()).boundingRect()

    def zoom_to(self, zoom: float, anchor: QPoint | None = None) -> None:
        """Set the zoom, keeping the point under `anchor` (missing: the middle) where it is."""
        self._stop_travel()
        at = anchor if anchor is not None else self.viewport().rect().center()
        fixed = self.mapToScene(at)
        self._set_zoom(zoom)
        self.centerOn(fixed + (self.mapToScene(self.viewport().rect().center()) - self.mapToScene(at)))

    def zoom_in(self) -> None:
        """Show the flow larger."""
        self.zoom_to(self._zoom * _BUTTON_STEP)

    def zoom_out(self) -> None:
        """Show the flow smaller."""
        self.zoom_to(self._zoom / _BUTTON_STEP)

    def fit(self, area: QRectF, *, smallest: float = SMALLEST, largest: float = OPENING_LARGEST) -> None:
        """Bring an area into view, travelling there unless motion is reduced."""
        if not area.isEmpty():
            zoom = self._fitting(area, smallest, largest)
            self._travel_to(area.center() + self._shift(zoom), zoom)

    def keep_free_below(self, pixels: int) -> None:
        """Fit flows above something that covers the bottom."""
        self._covered = pixels

    def open_on(self, area: QRectF, start: QRectF) -> None:
        """Show a flow for the first time: whole if that stays readable, else from its start."""
        if area.isEmpty():
            return
        self._set_zoom(self._fitting(area, OPENING_SMALLEST, OPENING_LARGEST))
        visible, shift = self.visible_area(), self._shift(self._zoom)
        margin = _FIT_MARGIN / self.transform().m11()
        x = area.center().x() if area.width() <= visible.width() else start.left() - margin + visible.width() / 2
        y = area.center().y() if area.height() <= visible.height() - 2 * shift.y() else start.center().y()
        self.centerOn(x, y + shift.y())

    def reveal(self, card: QRectF) -> None:
        """Scroll as little as needed to show a card."""
        self.ensureVisible(card.adjusted(-_FIT_MARGIN, -_FIT_MARGIN, _FIT_MARGIN, _FIT_MARGIN), 0, 0)

    def _fitting(self, area: QRectF, smallest: float, largest: float) -> float:
        margin = 2 * _FIT_MARGIN * theme.zoom
        width, height = self.viewport().width() - margin, self.viewport().height() - self._covered - margin
        zoom = min(width / area.width(), height / area.height()) / theme.zoom
        return min(largest, max(smallest, zoom))

    def _shift(self, zoom: float) -> QPointF:
        """From the middle of the free part of the canvas to the middle of all of it, in scene units."""
        return QPointF(0.0, self._covered / 2 / (zoom * theme.zoom))

    def _set_zoom(self, zoom: float) -> None:
        self._zoom = min(LARGEST, max(SMALLEST, zoom))
        scale = self._zoom * theme.zoom
        self.resetTransform()
        self.scale(scale, scale)
        self._scene.set_level(Level.of(scale))
        shown = self._scene.overview if self._scene.level is Level.BOXES else self._scene
        if self.scene() is not shown:
            self.setScene(shown)
        self.view_changed.emit()

    def _travel_to(self, center: QPointF, zoom: float) -> None:
        self._stop_travel()
        from_center, from_zoom = self.mapToScene(self.viewport().rect().center()), self._zoom
        if theme.reduced_motion or not self.isVisible():
            self._set_zoom(zoom)
            self.centerOn(center)
            return
        travel = QVariantAnimation(self)
        travel.setDuration(_FIT_MILLISECONDS)
        travel.setEasingCurve(QEasingCurve.Type.InOutQuad)
        travel.setStartValue(0.0)
        travel.setEndValue(1.0)

        def step(share: float) -> None:
            self._set_zoom(from_zoom + (zoom - from_zoom) * share)
            self.centerOn(from_center + (center - from_center) * share)

        travel.valueChanged.connect(step)
        self._travel = travel
        travel.start()

    def _stop_travel(self) -> None:
        if self._travel is not None:
            self._travel.stop()
            self._travel.deleteLater()
            self._travel = None

    def _theme_changed(self) -> None:
        if self.transform().m11() != self._zoom * theme.zoom:
            center = self.mapToScene(self.viewport().rect().center())
            self._set_zoom(self._zoom)
            self.centerOn(center)
        self.viewport().update()

    # -- background -------------------------------------------------------------------------------------------------

    def drawBackground(self, painter: QPainter, rect: QRectF | object) -> None:
        """Fill the canvas and its faint dots, at whole device pixels."""
        spacing = _DOT_SPACING * self.transform().m11()
        while spacing < 16.0:
            spacing *= 2.0
        side = round(spacing)
        origin = self.mapFromScene(QPointF(0.0, 0.0))
        area = painter.worldTransform().mapRect(QRectF(rect)).toAlignedRect()  # type: ignore[arg-type]
        painter.save()
        painter.resetTransform()
        painter.drawTiledPixmap(
            area, self._dots(side), QPoint((area.x() - origin.x()) % side, (area.y() - origin.y()) % side)
        )
        painter.restore()

    def _dots(self, side: int) -> QPixmap:
        ratio = self.devicePixelRatioF()
        tile = QPixmap(round(side * ratio), round(side * ratio))
        tile.setDevicePixelRatio(ratio)
        tile.fill(theme.color("bg.canvas"))
        painter = QPainter(tile)
        painter.fillRect(QRectF(0.0, 0.0, 1.5, 1.5), theme.color("line"))
        painter.end()
        return tile

    # -- mouse ------------------------------------------------------------------------------------------------------

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom at the cursor; with Shift or a sideways wheel, scroll."""
        turn = event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier or abs(turn.x()) > abs(turn.y()):
            amount = turn.x() or turn.y()
            self.horizontalScrollBar().setValue(self.horizontalScrollBar().value() - amount)
        elif turn.y():
            self.zoom_to(self._zoom * _WHEEL_STEP ** (turn.y() / 120.0), event.position().toPoint())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a gesture, or select."""
        self._stop_travel()
        place = event.position().toPoint()
        if event.button() is Qt.MouseButton.MiddleButton or (
            event.button() is Qt.MouseButton.LeftButton and self._space_held
        ):
            self._gesture = Pan(self, place)
            self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
        elif event.button() is Qt.MouseButton.LeftButton:
            item = self._scene.agent_at(self.mapToScene(place))
            name = item.name if item is not None else ""
            self._press = (place, name)
            if name:
                self._press_agent(name, _adds(event))
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Feed the gesture, or follow the mouse's hovering."""
        place = event.position().toPoint()
        free = bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        if self._gesture is None and self._press is not None:
            start, name = self._press
            if (place - start).manhattanLength() < _DRAG_AFTER:
                return
            if name and name in self._scene.selection:
                self._gesture = Move(self, self._scene, start, name, self._moved)
            else:
                kept = self._scene.selection if _adds(event) else frozenset()
                self._gesture = RubberBand(self, self._scene, start, kept, self._select)
        if self._gesture is not None:
            self._gesture.move(place, free=free)
            return
        item = None if self._scene.level is Level.BOXES else self._scene.agent_at(self.mapToScene(place))
        self._hover(item.name if item is not None else "")

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the gesture; a click into the void selects nothing."""
        if self._gesture is not None:
            gesture, self._gesture = self._gesture, None
            gesture.finish()
            self._show_cursor()
        elif self._press is not None and not self._press[1] and not _adds(event):
            self._select(frozenset())
        self._press = None
        event.accept()

    def leaveEvent(self, event: QEvent) -> None:
        """Forget the hovering."""
        self._hover("")
        super().leaveEvent(event)

    def _press_agent(self, name: str, adds: bool) -> None:
        selection = self._scene.selection
        if adds:
            self.selection_wanted.emit(selection ^ {name}, name)
        elif name not in selection:
            self.selection_wanted.emit(frozenset({name}), name)
        else:
            self.selection_wanted.emit(selection, name)

    def _select(self, names: Iterable[str]) -> None:
        self.selection_wanted.emit(frozenset(names), "")

    def _moved(self, places: object) -> None:
        self.agents_moved.emit(places, False)

    def _hover(self, name: str) -> None:
        if name == self._hovered:
            return
        for one, hovered in ((self._hovered, False), (name, True)):
            if one in self._scene.agents:
                self._scene.agents[one].set_hovered(hovered)
        self._hovered = name
        self.hover_changed.emit(name)

    def _show_cursor(self) -> None:
        shape = Qt.CursorShape.OpenHandCursor if self._space_held else Qt.CursorShape.ArrowCursor
        self.viewport().setCursor(shape)

    # -- keyboard ---------------------------------------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Take Tab for walking along the flow, except from its ends."""
        if event.type() is QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            step = {Qt.Key.Key_Tab: 1, Qt.Key.Key_Backtab: -1}.get(Qt.Key(event.key()), 0)
            if step and self._can_step(step):
                self.next_wanted.emit(step)
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move the selection by arrow keys, cancel by Esc, pan while Space is held."""
        key = Qt.Key(event.key())
        if key is Qt.Key.Key_Escape:
            self._escape(event)
        elif key is Qt.Key.Key_Space:
            if not event.isAutoRepeat():
                self._space_held = True
                self._show_cursor()
        elif key in _ARROWS and self._scene.selection and not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            steps = _LARGE_STEP if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1
            x, y = (part * steps for part in _ARROWS[key])
            items = [self._scene.agents[name] for name in self._scene.selection]
            self.agents_moved.emit({item.name: (item.x() + x, item.y() + y) for item in items}, True)
        else:
            super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """End panning by Space."""
        if event.key() == Qt.Key.Key_Space and not event.isAutoRepeat():
            self._space_held = False
            self._show_cursor()
        super().keyReleaseEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Entered by Tab: begin at the first or last agent."""
        super().focusInEvent(event)
        step = {Qt.FocusReason.TabFocusReason: 1, Qt.FocusReason.BacktabFocusReason: -1}.get(event.reason(), 0)
        if step and not self._scene.current:
            self.next_wanted.emit(step)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Forget a held Space."""
        self._space_held = False
        self._show_cursor()
        super().focusOutEvent(event)

    def _escape(self, event: QKeyEvent) -> None:
        if self._gesture is not None:
            gesture, self._gesture = self._gesture, None
            self._press = None
            gesture.cancel()
            self._show_cursor()
        elif self._scene.selection:
            self._select(frozenset())
        else:
            event.ignore()

    def _can_step(self, step: int) -> bool:
        """Whether there is an agent before or after the current one; else Tab leaves the canvas."""
        return bool(self._scene.agents) and self._scene.next_agent(step) is not None

    # -- size -------------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Tell that the visible part is known."""
        super().showEvent(event)
        self.view_changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Tell that the visible part became another."""
        super().resizeEvent(event)
        self.view_changed.emit()


def _adds(event: QMouseEvent) -> bool:
    modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    return bool(event.modifiers() & modifiers)
