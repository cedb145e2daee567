"""Finds the cards near a place: agents in square cells, so that a link is routed without looking at every card."""

from PySide6.QtCore import QRectF

_CELL = 256.0


class CardGrid:
    """Rectangles of cards by name."""

    def __init__(self) -> None:
        self._rects: dict[str, QRectF] = {}
        self._cells: dict[tuple[int, int], set[str]] = {}
        self._places: dict[str, list[tuple[int, int]]] = {}
        """The cells of each card."""
        self._pending: dict[str, QRectF] = {}

    def place(self, name: str, rect: QRectF) -> None:
        """Put a card somewhere, or somewhere else; sorted in only when somebody asks."""
        self._pending[name] = rect

    def remove(self, name: str) -> None:
        """Forget a card."""
        self._sort_in()
        self._rects.pop(name, None)
        for cell in self._places.pop(name, ()):
            self._cells[cell].discard(name)

    def near(self, area: QRectF) -> list[QRectF]:
        """Cards that touch an area."""
        self._sort_in()
        names = {name for cell in _cells(area) for name in self._cells.get(cell, ())}
        return [rect for rect in (self._rects[name] for name in names) if rect.intersects(area)]

    def _sort_in(self) -> None:
        for name, rect in self._pending.items():
            self._rects[name] = rect
            before, cells = self._places.get(name), _cells(rect)
            if before == cells:
                continue
            for cell in before or ():
                self._cells[cell].discard(name)
            self._places[name] = cells
            for cell in cells:
                self._cells.setdefault(cell, set()).add(name)
        self._pending = {}


def _cells(rect: QRectF) -> list[tuple[int, int]]:
    columns = range(int(rect.left() // _CELL), int(rect.right() // _CELL) + 1)
    rows = range(int(rect.top() // _CELL), int(rect.bottom() // _CELL) + 1)
    return [(column, row) for column in columns for row in rows]
