"""What lies under a point of the canvas besides cards: ports, links, frames."""

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainterPathStroker

from workbench.designer.frame_item import FrameItem
from workbench.designer.items import AgentItem
from workbench.designer.level import Level
from workbench.designer.link_gesture import OpenLink
from workbench.designer.links import LinkPicture
from workbench.designer.scene import FlowScene

PORT_REACH = 12.0
"""Scene units around the middle of a port that count as the port."""
_LINK_REACH = 6.0
_END_REACH = 56.0
"""How much of a link, from its end, is its end."""


def port_at(scene: FlowScene, place: QPointF) -> OpenLink | None:
    """The port under a point, as the fixed end of a link that begins there."""
    if scene.level is Level.BOXES:
        return None
    best: tuple[float, OpenLink] | None = None
    for item in scene.items(_around(place, PORT_REACH), Qt.ItemSelectionMode.IntersectsItemBoundingRect):
        if not isinstance(item, AgentItem):
            continue
        ports: list[tuple[QPointF, int | None]] = [(item.in_port(), None)]
        ports += [(item.out_port(index), index) for index in range(len(item.content.ports))]
        for at, index in ports:
            away = _distance(at, place)
            if away <= PORT_REACH and (best is None or away < best[0]):
                best = away, OpenLink(agent=item.name, port=index)
    return best[1] if best is not None else None


def link_at(scene: FlowScene, place: QPointF) -> LinkPicture | None:
    """The link under a point."""
    if scene.level is Level.BOXES:
        return None
    area = _around(place, _LINK_REACH)
    for item in scene.items(area, Qt.ItemSelectionMode.IntersectsItemBoundingRect):
        link = scene.link_of_line(item)
        if link is not None and link.line is not None:
            stroker = QPainterPathStroker()
            stroker.setWidth(2 * _LINK_REACH)
            if stroker.createStroke(link.line.path()).contains(place):
                return link
    return None


def link_end_at(scene: FlowScene, place: QPointF) -> OpenLink | None:
    """The end of a link under a point, as what stays fixed when it is dragged elsewhere."""
    link = link_at(scene, place)
    if link is None:
        return None
    start = scene.agents[link.source].out_port(link.index)
    end = scene.agents[link.target].in_port()
    from_start, from_end = _distance(start, place), _distance(end, place)
    moved = (link.source, link.index)
    if from_end <= min(_END_REACH, from_start):
        return OpenLink(agent=link.source, port=link.index, moved=moved)
    if from_start <= _END_REACH:
        return OpenLink(agent=link.target, port=None, moved=moved)
    return None


def frame_at(scene: FlowScene, place: QPointF) -> FrameItem | None:
    """The frame whose title or corner is under a point; its inside belongs to the canvas."""
    if scene.level is Level.BOXES:
        return None
    found = [item for item in scene.frames.items() if item.title_rect().contains(place) or item.at_corner(place)]
    return found[-1] if found else None


def _around(place: QPointF, reach: float) -> QRectF:
    return QRectF(place.x() - reach, place.y() - reach, 2 * reach, 2 * reach)


def _distance(one: QPointF, other: QPointF) -> float:
    away = one - other
    return float((away.x() ** 2 + away.y() ** 2) ** 0.5)
