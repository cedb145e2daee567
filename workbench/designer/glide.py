"""Agents on their way from where they were to where a layout put them; who is taken hold of follows the mouse."""

from collections.abc import Mapping

from PySide6.QtCore import QAbstractAnimation, QEasingCurve, QObject, QVariantAnimation

from workbench.designer.placement import placed
from workbench.designer.scene import FlowScene
from workbench.theme import theme

_MILLISECONDS = 250
_MOST = 150
"""Agents that move at once in an animation; more jump."""


class Glide(QObject):
    """At most one movement of a scene at a time."""

    def __init__(self, scene: FlowScene, parent: QObject) -> None:
        super().__init__(parent)
        self._scene = scene
        self._ways: dict[str, tuple[float, float, float, float]] = {}
        """Agents on their way, from where to where."""
        self._held: frozenset[str] = frozenset()
        """Agents that were taken hold of on their way."""
        self._clock = QVariantAnimation(self)
        self._clock.setDuration(_MILLISECONDS)
        self._clock.setEasingCurve(QEasingCurve.Type.InOutQuad)
        self._clock.setStartValue(0.0)
        self._clock.setEndValue(1.0)
        self._clock.valueChanged.connect(self._step)
        self._clock.finished.connect(self._arrived)

    def start(self, before: Mapping[str, tuple[float, float]]) -> None:
        """Show agents on their way from `before` to where they are now."""
        items = {name: item for name in before if (item := self._scene.agents.get(name)) is not None}
        moved = {
            name: (*before[name], item.x(), item.y())
            for name, item in items.items()
            if (item.x(), item.y()) != before[name]
        }
        if theme.reduced_motion or not moved or len(moved) > _MOST:
            return
        self._ways.update(moved)
        self._step(0.0)
        self._clock.start(QAbstractAnimation.DeletionPolicy.KeepWhenStopped)

    def end(self) -> None:
        """Be where the agents are at once: something else happens."""
        self._clock.stop()
        self._step(1.0)
        self._ways.clear()

    def grab(self, names: frozenset[str]) -> None:
        """Let agents follow the mouse from where they are seen."""
        self._held = names & self._ways.keys()
        for name in self._held:
            del self._ways[name]

    def let_go(self) -> None:
        """Bring those that were not moved after all to where they belong."""
        held, self._held = self._held, frozenset()
        if held:
            places = placed(self._scene.spec)
            self._scene.move_for_now({name: places[name] for name in held & places.keys()})

    def _arrived(self) -> None:
        self._ways.clear()

    def _step(self, share: float) -> None:
        if self._ways:
            ways = self._ways.items()
            self._scene.move_for_now(
                {name: (x + (to_x - x) * share, y + (to_y - y) * share) for name, (x, y, to_x, to_y) in ways}
            )
