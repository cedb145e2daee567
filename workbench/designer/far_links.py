"""Draws the links that lead far, a few at a time, after many agents moved: all at once would hold the window up."""

from collections.abc import Callable, Iterable
from time import perf_counter

from PySide6.QtCore import QObject, QTimer

from workbench.designer.links import LinkPicture

_SLICE_SECONDS = 0.008


class FarLinks(QObject):
    """Links that wait to be drawn."""

    def __init__(self, draw: Callable[[LinkPicture], None], done: Callable[[], None], parent: QObject) -> None:
        """`draw` draws one; `done` is called when none waits any more."""
        super().__init__(parent)
        self._draw, self._done = draw, done
        self._waiting: dict[LinkPicture, None] = {}
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._draw_some)

    def start(self, links: Iterable[LinkPicture]) -> None:
        """Draw these soon, and no others."""
        self._waiting = dict.fromkeys(links)
        self._timer.start()

    def drop(self, link: LinkPicture) -> None:
        """It is gone."""
        self._waiting.pop(link, None)

    def _draw_some(self) -> None:
        until = perf_counter() + _SLICE_SECONDS
        while self._waiting and perf_counter() < until:
            self._draw(self._waiting.popitem()[0])
        if not self._waiting:
            self._timer.stop()
            self._done()
