"""Lines that show with which cards a dragged one lines up."""

from collections.abc import Sequence

from PySide6.QtCore import QLineF
from PySide6.QtGui import QPen
from PySide6.QtWidgets import QGraphicsLineItem, QGraphicsScene

from workbench.theme import theme

_Z = 5.0


class Guides:
    """The lines of one scene, made when they are first wanted."""

    def __init__(self, scene: QGraphicsScene) -> None:
        self._scene = scene
        self._items: list[QGraphicsLineItem] = []

    def show(self, lines: Sequence[QLineF]) -> None:
        """Show exactly these."""
        while len(self._items) < len(lines):
            guide = QGraphicsLineItem()
            guide.setZValue(_Z)
            self._scene.addItem(guide)
            self._items.append(guide)
        for index, guide in enumerate(self._items):
            guide.setVisible(index < len(lines))
            if index < len(lines):
                pen = QPen(theme.color("accent"), 1.0)
                pen.setCosmetic(True)
                guide.setPen(pen)
                guide.setLine(lines[index])
