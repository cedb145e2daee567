"""Dragging a frame by its title, with the agents in it, or by its corner."""

from collections.abc import Callable, Mapping

from PySide6.QtCore import QPoint, QPointF, QRectF
from PySide6.QtWidgets import QGraphicsView

from workbench.designer.frame_edits import agents_inside
from workbench.designer.frame_item import FrameItem
from workbench.designer.gestures import Gesture, on_grid
from workbench.designer.scene import FlowScene

Done = Callable[[int, QRectF, Mapping[str, tuple[float, float]]], None]


class MoveFrame(Gesture):
    """Moves a frame and the agents that begin inside it."""

    def __init__(self, view: QGraphicsView, scene: FlowScene, start: QPoint, frame: FrameItem, done: Done) -> None:
        self._view, self._scene, self._frame, self._done = view, scene, frame, done
        self._start = view.mapToScene(start)
        self._rect = frame.rect()
        names = agents_inside(scene.spec, frame.frame)
        self._places = {name: scene.agents[name].pos() for name in names if name in scene.agents}
        self._step = QPointF()

    def move(self, place: QPoint, *, free: bool) -> None:
        """Show all where they would land."""
        step = self._view.mapToScene(place) - self._start
        self._step = step if free else QPointF(on_grid(step.x()), on_grid(step.y()))
        self._show()

    def finish(self) -> None:
        """Report the new places, if they are new."""
        if not self._step.isNull():
            self._done(self._frame.frame.index, self._rect.translated(self._step), self._moved())

    def cancel(self) -> None:
        """Put all back."""
        self._step = QPointF()
        self._show()

    def _show(self) -> None:
        self._frame.set_rect(self._rect.translated(self._step))
        self._scene.move_for_now(self._moved())

    def _moved(self) -> dict[str, tuple[float, float]]:
        return {name: (at.x() + self._step.x(), at.y() + self._step.y()) for name, at in self._places.items()}


class ResizeFrame(Gesture):
    """Makes a frame larger or smaller."""

    def __init__(self, view: QGraphicsView, start: QPoint, frame: FrameItem, done: Done) -> None:
        self._view, self._frame, self._done = view, frame, done
        self._start = view.mapToScene(start)
        self._rect = frame.rect()

    def move(self, place: QPoint, *, free: bool) -> None:
        """Show the new size."""
        step = self._view.mapToScene(place) - self._start
        if not free:
            step = QPointF(on_grid(step.x()), on_grid(step.y()))
        rect = QRectF(self._rect)
        rect.setWidth(max(120.0, rect.width() + step.x()))
        rect.setHeight(max(60.0, rect.height() + step.y()))
        self._frame.set_rect(rect)

    def finish(self) -> None:
        """Report the new size, if it is new."""
        if self._frame.rect() != self._rect:
            self._done(self._frame.frame.index, self._frame.rect(), {})

    def cancel(self) -> None:
        """Bring the size back."""
        self._frame.set_rect(self._rect)
