"""The lines of an outline as a model for a tree; what is shown of a line is made when it is seen."""

from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from workbench.designer.outline_rows import OutlineRow
from workbench.theme import theme

ROW_ROLE = Qt.ItemDataRole.UserRole + 1
Index = QModelIndex | QPersistentModelIndex
_NO_INDEX = QModelIndex()


class OutlineModel(QAbstractItemModel):
    """Lines by number; each knows its parent and its place in it."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.rows: Sequence[OutlineRow] = ()
        self._children: list[list[int]] = [[]]
        """Numbers of the lines in a line; the last entry is that of the root."""
        self._parents: list[int] = []
        self._places: list[int] = []
        self._lines: dict[str, int] = {}

    def show_rows(self, rows: Sequence[OutlineRow]) -> None:
        """Replace all lines."""
        self.beginResetModel()
        self.rows = rows
        self._children = [[] for _ in range(len(rows) + 1)]
        self._parents, self._places, self._lines = [], [], {}
        above = [-1]
        for number, row in enumerate(rows):
            del above[row.depth + 1 :]
            parent = above[-1]
            self._parents.append(parent)
            self._places.append(len(self._children[parent]))
            self._children[parent].append(number)
            above.append(number)
            if not row.again:
                self._lines[row.agent] = number
        self.endResetModel()

    def index_of(self, agent: str) -> QModelIndex:
        """The line that stands for an agent; invalid when there is none."""
        return self._index(self._lines.get(agent, -1))

    def row_of(self, index: Index) -> OutlineRow | None:
        """The line at an index."""
        return self.rows[index.internalId()] if index.isValid() else None

    def spoken(self, row: OutlineRow) -> str:
        """What a screen reader says about a line."""
        text = self.tr("%1, if %2").replace("%2", row.route).replace("%1", row.agent) if row.route else row.agent
        return self.tr("%1, again").replace("%1", text) if row.again else text

    def _index(self, number: int) -> QModelIndex:
        return self.createIndex(self._places[number], 0, number) if number >= 0 else QModelIndex()

    def index(self, row: int, column: int, parent: Index = _NO_INDEX) -> QModelIndex:
        """The index of a line in a line."""
        children = self._children[parent.internalId() if parent.isValid() else -1]
        return self._index(children[row]) if 0 <= row < len(children) and column == 0 else QModelIndex()

    def parent(self, child: Index = _NO_INDEX) -> QModelIndex:  # type: ignore[override]
        """The line that holds a line."""
        return self._index(self._parents[child.internalId()]) if child.isValid() else QModelIndex()

    def rowCount(self, parent: Index = _NO_INDEX) -> int:
        """How many lines a line holds."""
        return len(self._children[parent.internalId() if parent.isValid() else -1])

    def columnCount(self, parent: Index = _NO_INDEX) -> int:
        """One."""
        return 1

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """What is shown and said."""
        row = self.row_of(index)
        if row is None:
            return None
        if role == ROW_ROLE:
            return row
        if role == Qt.ItemDataRole.DisplayRole:
            return f"{row.agent}  ·  {row.route}" if row.route else row.agent
        if role == Qt.ItemDataRole.DecorationRole:
            return theme.icon("loop" if row.again else row.icon, 16, "muted" if row.again else "text2", checked=None)
        if role == Qt.ItemDataRole.ForegroundRole and row.again:
            return theme.color("muted")
        if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
            return self.spoken(row)
        return None
