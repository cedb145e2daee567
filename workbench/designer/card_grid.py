"""Finds the cards near a place: agents in square cells, so that a link is routed without looking at every card."""

from collections.abc import Iterator

from PySide6.QtCore import QRectF

_CELL = 256.0


class CardGrid:
    """Rectangles of cards by name."""

    def __init__(self) -> None:
        self._rects: dict[str, QRectF] = {}
        self._cells: dict[tuple[int, int], set[str]] = {}
        self._pending: dict[str, QRectF] = {}

    def place(self, name: str, rect: QRectF) -> None:
        """Put a card somewhere, or somewhere else; sorted in only when somebody asks."""
        self._pending[name] = rect

    def remove(self, name: str) -> None:
        """Forget a card."""
        self._sort_in()
        rect = self._rects.pop(name, None)
        for cell in _cells(rect) if rect is not None else ():
            self._cells[cell].discard(name)

    def near(self, area: QRectF) -> list[QRectF]:
        """Cards that touch an area."""
        self._sort_in()
        names = {name for cell in _cells(area) for name in self._cells.get(cell, ())}
        return [rect for rect in (self._rects[name] for name in names) if rect.intersects(area)]

    def _sort_in(self) -> None:
        for name, rect in self._pending.items():
            if name in self._rects:
                for cell in _cells(self._rects[name]):
                    self._cells[cell].discard(name)
            self._rects[name] = rect
            for cell in _cells(rect):
                self._cells.setdefault(cell, set()).add(name)
        self._pending = {}


def _cells(rect: QRectF) -> Iterator[tuple[int, int]]:
    for column in range(int(rect.left() // _CELL), int(rect.right() // _CELL) + 1):
        for row in range(int(rect.top() // _CELL), int(rect.bottom() // _CELL) + 1):
            yield column, row
