"""Comment frames on the canvas: painted behind links and cards."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QGraphicsItem, QGraphicsScene, QStyleOptionGraphicsItem, QWidget

from workbench.designer.card_layout import baseline, elided, scene_font
from workbench.designer.frame_edits import TITLE_HEIGHT, Frame
from workbench.theme import theme

RADIUS = 8.0
_CORNER = 18.0
_Z_FRAME = -3.0
_PADDING = 12.0
_READABLE = 0.5
"""Scale below which the comment is not drawn, and the title larger."""


class FrameItem(QGraphicsItem):
    """One frame. It paints and tells geometry; it edits nothing."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self._rect = QRectF(*frame.rect)
        self._marked = False
        self.setZValue(_Z_FRAME)

    def rect(self) -> QRectF:
        """All of it, in scene coordinates."""
        return QRectF(self._rect)

    def title_rect(self) -> QRectF:
        """The strip that it is taken hold of by."""
        return QRectF(self._rect.left(), self._rect.top(), self._rect.width(), TITLE_HEIGHT)

    def at_corner(self, place: QPointF) -> bool:
        """Whether a point is on the corner that it is made larger by."""
        corner = QRectF(self._rect.right() - _CORNER, self._rect.bottom() - _CORNER, _CORNER + 4.0, _CORNER + 4.0)
        return corner.contains(place)

    def set_frame(self, frame: Frame) -> None:
        """Show other values."""
        self.frame = frame
        self.set_rect(QRectF(*frame.rect))
        self.update()

    def set_rect(self, rect: QRectF) -> None:
        """Show it elsewhere or in another size, while it is dragged."""
        if rect != self._rect:
            self.prepareGeometryChange()
            self._rect = rect

    def set_marked(self, marked: bool) -> None:
        """Show whether it is selected."""
        if marked != self._marked:
            self._marked = marked
            self.update()

    def boundingRect(self) -> QRectF:
        """The frame with its border."""
        return self._rect.adjusted(-6.0, -6.0, 6.0, 6.0)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Draw ground, title, comment and corner."""
        rect, color = self._rect, self.frame.color
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.color(color, 0.7), 1.0))
        painter.setBrush(theme.color(color, 0.08))
        painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)
        if self._marked:
            painter.setPen(QPen(theme.color("accent"), 2.0))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(-3.0, -3.0, 3.0, 3.0), RADIUS + 3.0, RADIUS + 3.0)
        small = painter.worldTransform().m11() < _READABLE
        size = 22 if small else 13
        width = rect.width() - 2 * _PADDING
        painter.setPen(theme.color(color))
        painter.setFont(scene_font(size, 600))
        middle = rect.top() + TITLE_HEIGHT / 2 + 1.0
        place = QPointF(rect.left() + _PADDING, baseline(middle, size, 600))
        painter.drawText(place, elided(self.frame.title, width, size, 600))
        if small:
            return
        if self.frame.comment:
            painter.setPen(theme.color("text2"))
            painter.setFont(scene_font(12))
            box = QRectF(rect.left() + _PADDING, rect.bottom() - 40.0, width - _CORNER, 36.0)
            painter.drawText(box, int(Qt.AlignmentFlag.AlignBottom | Qt.TextFlag.TextWordWrap), self.frame.comment)
        painter.setPen(QPen(theme.color(color), 1.5))
        for step in (5.0, 10.0):
            painter.drawLine(
                QPointF(rect.right() - step - 2.0, rect.bottom() - 4.0),
                QPointF(rect.right() - 4.0, rect.bottom() - step - 2.0),
            )


class FrameLayer:
    """The frames of a scene, in step with the flow."""

    def __init__(self, scene: QGraphicsScene) -> None:
        self._scene = scene
        self._items: dict[int, FrameItem] = {}

    def items(self) -> Sequence[FrameItem]:
        """All of them, the lowest first."""
        return list(self._items.values())

    def item(self, index: int) -> FrameItem | None:
        """The frame with this number."""
        return self._items.get(index)

    def show_frames(self, frames: Iterable[Frame]) -> None:
        """Show exactly these."""
        wanted = {frame.index: frame for frame in frames}
        for index in [index for index in self._items if index not in wanted]:
            self._scene.removeItem(self._items.pop(index))
        for index, frame in wanted.items():
            if index not in self._items:
                self._items[index] = FrameItem(frame)
                self._scene.addItem(self._items[index])
            else:
                self._items[index].set_frame(frame)

    def extent(self) -> QRectF:
        """What they cover."""
        rect = QRectF()
        for item in self._items.values():
            rect |= item.rect()
        return rect
