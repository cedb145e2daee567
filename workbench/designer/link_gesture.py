"""Dragging a link: from a port, or from the end of a link that is there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QPen
from PySide6.QtWidgets import QGraphicsPathItem, QGraphicsView

from workbench.designer.gestures import Gesture
from workbench.designer.items import AgentItem
from workbench.designer.link_edits import may_connect
from workbench.designer.links import curve
from workbench.designer.scene import FlowScene
from workbench.theme import theme

_Z_DRAWN = 4.0
_DASHES = (4.0, 3.0)
_WIDTH = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLink:
    """A link of which one end is fixed."""

    agent: str
    port: int | None
    """The out-port where it begins, or None: it ends at the agent."""
    moved: tuple[str, int] | None = None
    """The link whose other end is being dragged; None for a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLink:
    """A link that was dragged to its end."""

    fixed: OpenLink
    agent: str
    """What it was dropped on, empty for nothing."""
    port: int
    """The out-port of that agent, if the link is to begin there."""
    place: QPointF
    """Where it was dropped, in the scene."""


class DrawLink(Gesture):
    """Shows a link from its fixed end to the mouse; what it cannot lead to is dimmed."""

    def __init__(
        self, view: QGraphicsView, scene: FlowScene, fixed: OpenLink, done: Callable[[DrawnLink], None]
    ) -> None:
        self._view, self._scene, self._fixed, self._done = view, scene, fixed, done
        self._line = QGraphicsPathItem()
        self._line.setZValue(_Z_DRAWN)
        pen = QPen(theme.color("accent"), _WIDTH)
        pen.setDashPattern([length / _WIDTH for length in _DASHES])
        self._line.setPen(pen)
        scene.addItem(self._line)
        self._target = ""
        self._over_card = False
        self._drawn = DrawnLink(fixed=fixed, agent="", port=0, place=QPointF())
        visible = view.mapToScene(view.viewport().rect()).boundingRect()
        self._dimmed = [
            item
            for item in scene.items(visible, Qt.ItemSelectionMode.IntersectsItemBoundingRect)
            if isinstance(item, AgentItem) and not any(self._may_join(item, port) for port in self._ports(item))
        ]
        for item in self._dimmed:
            item.set_drop(dimmed=True)
        if fixed.moved is not None:
            scene.show_link(*fixed.moved, shown=False)

    def move(self, place: QPoint, *, free: bool) -> None:
        """Lead the link to the mouse, or into the port of the card under it."""
        at = self._view.mapToScene(place)
        item = self._scene.agent_at(at)
        port = self._nearest_port(item, at) if item is not None else 0
        joins = item is not None and self._may_join(item, port)
        self._highlight(item.name if item is not None and joins else "")
        self._drawn = replace(self._drawn, agent=self._target, port=port, place=at)
        self._line.setPath(curve(*self._ends(item if joins else None, port, at)))
        # Over a card that it cannot join it is dropped on nothing, and not into the void.
        self._over_card = item is not None

    def finish(self) -> None:
        """Make the link, or ask what to add in the void."""
        self._clear()
        if self._target or not self._over_card:
            self._done(self._drawn)

    def cancel(self) -> None:
        """Leave all links as they were."""
        self._clear()

    def _clear(self) -> None:
        self._scene.removeItem(self._line)
        for item in self._dimmed:
            item.set_drop()
        if self._target in self._scene.agents:
            self._scene.agents[self._target].set_drop()
        if self._fixed.moved is not None:
            self._scene.show_link(*self._fixed.moved, shown=True)

    def _ports(self, item: AgentItem) -> range:
        return range(len(item.content.ports)) if self._fixed.port is None else range(1)

    def _nearest_port(self, item: AgentItem, at: QPointF) -> int:
        if self._fixed.port is not None:
            return 0
        return min(self._ports(item), key=lambda port: abs(item.out_port(port).y() - at.y()), default=0)

    def _may_join(self, item: AgentItem, port: int) -> bool:
        if self._fixed.port is None:
            return may_connect(self._scene.spec, item.name, port, self._fixed.agent)
        return may_connect(self._scene.spec, self._fixed.agent, self._fixed.port, item.name)

    def _highlight(self, name: str) -> None:
        if name != self._target:
            agents: Mapping[str, AgentItem] = self._scene.agents
            if self._target in agents:
                agents[self._target].set_drop()
            if name:
                agents[name].set_drop(target=True)
            self._target = name

    def _ends(self, joined: AgentItem | None, port: int, at: QPointF) -> tuple[QPointF, QPointF]:
        fixed = self._scene.agents[self._fixed.agent]
        if self._fixed.port is not None:
            return fixed.out_port(self._fixed.port), joined.in_port() if joined is not None else at
        return joined.out_port(port) if joined is not None else at, fixed.in_port()
