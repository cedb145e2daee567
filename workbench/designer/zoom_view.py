"""A view of a FlowScene that zooms, travels and keeps its place; mouse and keys are in `view`."""

from PySide6.QtCore import QEasingCurve, QPoint, QPointF, QRect, QRectF, QSizeF, Qt, QVariantAnimation, Signal
from PySide6.QtGui import QPainter, QPixmap, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QGraphicsView, QWidget

from workbench.designer.card_content import FOOTER_HEIGHT
from workbench.designer.level import Level
from workbench.designer.scene import FlowScene
from workbench.theme import theme

SMALLEST, LARGEST = 0.04, 4.0
"""Zoom limits, as parts of 100 %."""
OPENING_SMALLEST, OPENING_LARGEST = 0.75, 1.0
_BUTTON_STEP = 1.25
_FIT_MARGIN = 24.0
_FIT_MILLISECONDS = 250
_DOT_SPACING = 24.0


class ZoomView(QGraphicsView):
    """Shows a FlowScene at a zoom that is relative to the text zoom."""

    view_changed = Signal()
    """Zoom or visible part became another."""

    def __init__(self, scene: FlowScene, parent: QWidget | None = None) -> None:
        super().__init__(scene, parent)
        self._scene = scene
        self._zoom = 1.0
        self._travel: QVariantAnimation | None = None
        self._covered = 0
        self.is_as_opened = True
        """Whether the flow is still shown as it opened: nobody zoomed, moved the view or took hold of anything."""
        self._corners: tuple[QRect, QRect] = (QRect(), QRect())
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.setViewportUpdateMode(QGraphicsView.ViewportUpdateMode.MinimalViewportUpdate)
        self.setOptimizationFlag(QGraphicsView.OptimizationFlag.DontSavePainterState)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.NoAnchor)
        self.setResizeAnchor(QGraphicsView.ViewportAnchor.AnchorViewCenter)
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
        self.is_as_opened = False
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
        if area.isEmpty():
            return
        self.is_as_opened = False
        covered = self._covered
        for _ in range(2):
            zoom = self._fitting(area, smallest, largest, covered)
            center = area.center() + self._shift(zoom, covered)
            hidden = self._hidden_below(area, center, zoom)
            if hidden <= covered:
                break
            covered = hidden
        self._travel_to(center, zoom)

    def keep_free_below(self, pixels: int, zoom_bar: QRect, minimap: QRect) -> None:
        """Fit flows above something that covers the bottom, and beside or above what stands in its corners."""
        self._covered = pixels
        self._corners = zoom_bar, minimap

    def open_on(self, area: QRectF, start: QRectF) -> None:
        """Show a flow for the first time: whole if that stays readable, else from its start."""
        if area.isEmpty():
            return
        covered = self._covered
        for _ in range(2):
            self._set_zoom(self._fitting(area, OPENING_SMALLEST, OPENING_LARGEST, covered))
            visible, shift = self.visible_area(), self._shift(self._zoom, covered)
            margin = _FIT_MARGIN / self.transform().m11()
            x = area.center().x() if area.width() <= visible.width() else start.left() - margin + visible.width() / 2
            free = visible.height() - 2 * shift.y()
            y = (area if area.height() <= free else start).center().y() + shift.y()
            if start.height() > free:  # its head is worth more than the middle of it
                y = start.top() - margin / 2 + visible.height() / 2
            center = QPointF(x, y)
            hidden = self._hidden_below(area, center, self._zoom)
            if hidden <= covered:
                break
            covered = hidden
        self.centerOn(center)
        self.is_as_opened = True

    def look_at(self, place: QPointF) -> None:
        """Bring a point into the middle."""
        self._stop_travel()
        self.is_as_opened = False
        self.centerOn(place)

    def reveal(self, card: QRectF) -> None:
        """Scroll as little as needed to show a card."""
        if not self.visible_area().contains(card):
            self.is_as_opened = False
        self.ensureVisible(card.adjusted(-_FIT_MARGIN, -_FIT_MARGIN, _FIT_MARGIN, _FIT_MARGIN), 0, 0)

    def _fitting(self, area: QRectF, smallest: float, largest: float, covered: int) -> float:
        margin = 2 * _FIT_MARGIN * theme.zoom
        width, height = self.viewport().width() - margin, self.viewport().height() - covered - margin
        zoom = min(width / area.width(), height / area.height()) / theme.zoom
        return min(largest, max(smallest, zoom))

    def _shift(self, zoom: float, covered: int) -> QPointF:
        """From the middle of the free part of the canvas to the middle of all of it, in scene units."""
        return QPointF(0.0, covered / 2 / (zoom * theme.zoom))

    def _hidden_below(self, area: QRectF, center: QPointF, zoom: float) -> int:
        """Pixels from the bottom to keep free, for what stands in a corner would hide a card of the area."""
        scale, room = zoom * theme.zoom, self.viewport().rect()
        seen = QRectF(0.0, 0.0, room.width() / scale, room.height() / scale)
        seen.moveCenter(center)
        zoom_bar, minimap = self._corners
        corners = [zoom_bar] if seen.contains(self._scene.extent()) else [zoom_bar, minimap]
        cards = [rect for item in self._scene.agents.values() if (rect := item.card_rect()).intersects(area)]
        tops = []
        for corner in corners:
            place = QRectF(QPointF(corner.topLeft()) / scale + seen.topLeft(), QSizeF(corner.size()) / scale)
            if any(card.adjusted(0.0, 0.0, 0.0, FOOTER_HEIGHT).intersects(place) for card in cards):
                tops.append(corner.top())
        return room.height() - min(tops, default=room.height())

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

    # -- size -------------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Tell that the visible part is known."""
        super().showEvent(event)
        self.view_changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Tell that the visible part became another."""
        super().resizeEvent(event)
        self.view_changed.emit()
