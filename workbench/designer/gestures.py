"""What a mouse drag on the canvas does: one class per gesture. The view starts, feeds and ends them."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QLineF, QPoint, QPointF, QRectF
from PySide6.QtWidgets import QGraphicsView, QRubberBand

from workbench.designer.placement import placed
from workbench.designer.scene import FlowScene

GRID = 10.0
"""Scene units agents snap to."""
_ALIGN_WITHIN = 6.0


class Gesture(ABC):
    """A drag from press to release; positions are in the viewport."""

    @abstractmethod
    def move(self, place: QPoint, *, free: bool) -> None:
        """Follow the mouse; `free` switches snapping off."""

    @abstractmethod
    def finish(self) -> None:
        """Make it count."""

    @abstractmethod
    def cancel(self) -> None:
        """Leave everything as it was."""


class Pan(Gesture):
    """Moves the view."""

    def __init__(self, view: QGraphicsView, start: QPoint) -> None:
        self._view, self._last = view, start

    def move(self, place: QPoint, *, free: bool) -> None:
        """Scroll by what the mouse moved."""
        step, self._last = place - self._last, place
        horizontal, vertical = self._view.horizontalScrollBar(), self._view.verticalScrollBar()
        horizontal.setValue(horizontal.value() - step.x())
        vertical.setValue(vertical.value() - step.y())

    def finish(self) -> None:
        """Stay where the view is."""

    def cancel(self) -> None:
        """Stay where the view is."""


class RubberBand(Gesture):
    """Selects what a rectangle touches."""

    def __init__(
        self,
        view: QGraphicsView,
        scene: FlowScene,
        start: QPoint,
        kept: frozenset[str],
        done: Callable[[frozenset[str]], None],
    ) -> None:
        self._view, self._scene, self._start, self._kept, self._done = view, scene, start, kept, done
        self._before = scene.selection
        self._band = QRubberBand(QRubberBand.Shape.Rectangle, view.viewport())

    def move(self, place: QPoint, *, free: bool) -> None:
        """Stretch the rectangle and select what it touches."""
        area = QRectF(QPointF(self._start), QPointF(place)).normalized()
        self._band.setGeometry(area.toAlignedRect())
        self._band.show()
        touched = self._scene.agents_in(self._view.mapToScene(area.toAlignedRect()).boundingRect())
        self._done(self._kept | touched)

    def finish(self) -> None:
        """Keep the selection."""
        self._band.hide()
        self._band.deleteLater()

    def cancel(self) -> None:
        """Bring the selection back."""
        self.finish()
        self._done(self._before)


class Move(Gesture):
    """Drags agents, snapping them to the grid and to the edges of other agents."""

    def __init__(
        self,
        view: QGraphicsView,
        scene: FlowScene,
        start: QPoint,
        anchor: str,
        done: Callable[[Mapping[str, tuple[float, float]]], None],
    ) -> None:
        self._view, self._scene, self._done = view, scene, done
        self._start = view.mapToScene(start)
        self._places = {name: scene.agents[name].pos() for name in scene.selection}
        self._anchor = self._places[anchor]
        # Where the others will be: they may still be on their way there.
        still = [place for name, place in placed(scene.spec).items() if name not in self._places]
        self._xs = sorted({x for x, _ in still})
        self._ys = sorted({y for _, y in still})
        self._step = QPointF()

    def move(self, place: QPoint, *, free: bool) -> None:
        """Show the agents where they would land."""
        step = self._view.mapToScene(place) - self._start
        guides: list[QLineF] = []
        if not free:
            step, guides = self._snapped(step)
        self._step = step
        self._scene.move_for_now(self._moved())
        self._scene.guides.show(guides)

    def finish(self) -> None:
        """Report the new places, if they are new."""
        self._scene.guides.show([])
        if not self._step.isNull():
            self._done(self._moved())

    def cancel(self) -> None:
        """Put the agents back."""
        self._scene.guides.show([])
        self._step = QPointF()
        self._scene.move_for_now(self._moved())

    def _moved(self) -> dict[str, tuple[float, float]]:
        return {name: (at.x() + self._step.x(), at.y() + self._step.y()) for name, at in self._places.items()}

    def _snapped(self, step: QPointF) -> tuple[QPointF, list[QLineF]]:
        wanted = self._anchor + step
        x, y = nearest(self._xs, wanted.x()), nearest(self._ys, wanted.y())
        landed = QPointF(on_grid(wanted.x()) if x is None else x, on_grid(wanted.y()) if y is None else y)
        area = self._view.mapToScene(self._view.viewport().rect()).boundingRect()
        guides = []
        if x is not None:
            guides.append(QLineF(x, area.top(), x, area.bottom()))
        if y is not None:
            guides.append(QLineF(area.left(), y, area.right(), y))
        return landed - self._anchor, guides


def nearest(sorted_values: Sequence[float], value: float) -> float | None:
    """The value to align with, None when none is near."""
    index = bisect_left(sorted_values, value)
    near = [one for one in sorted_values[max(0, index - 1) : index + 1] if abs(one - value) <= _ALIGN_WITHIN]
    return min(near, key=lambda one: abs(one - value), default=None)


def on_grid(value: float) -> float:
    """The nearest place on the grid."""
    return round(value / GRID) * GRID
