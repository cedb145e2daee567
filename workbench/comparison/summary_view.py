"""The figures of each profile as a table that sorts, with the best of each column in bold."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QRectF, QSortFilterProxyModel, Qt
from PySide6.QtGui import QPainter, QPixmap
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from engine.comparison_summary import ProfileFigures
from engine.statistics import CostProvenance
from workbench.comparison.board import Board
from workbench.text_format import cost_text, plain_rate_text, seconds_text
from workbench.theme import theme

SORT_ROLE = Qt.ItemDataRole.UserRole + 1
ROW_HEIGHT = 28
Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    title: str
    value: Callable[[ProfileFigures], float | None]
    text: Callable[[ProfileFigures], str]
    best: Callable[[list[float]], float] | None = None


def _money(figures: ProfileFigures) -> float | None:
    return None if figures.provenance is CostProvenance.UNKNOWN else float(figures.cost)


def _seconds(value: float | None) -> str:
    return "–" if value is None else seconds_text(value)


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _rate(value: float | None) -> str:
    return "–" if value is None else plain_rate_text(value)


class SummaryModel(QAbstractTableModel):
    """Profiles by figures."""

    def __init__(self, board: Board, parent: QWidget) -> None:
        super().__init__(parent)
        self._board = board
        self._rows: list[ProfileFigures] = []
        self._same: dict[str, tuple[int, int]] = {}
        self.columns = (
            Column(self.tr("Profile"), lambda _: None, lambda one: one.name),
            Column(
                self.tr("Score"),
                lambda one: one.score,
                lambda one: "–" if one.score is None else f"{one.score:.1f}",
                max,
            ),
            Column(self.tr("Cost"), _money, lambda one: cost_text(one.cost, one.provenance), min),
            Column("p50", lambda one: one.latency_p50, lambda one: _seconds(one.latency_p50), min),
            Column("p95", lambda one: one.latency_p95, lambda one: _seconds(one.latency_p95), min),
            Column(
                "tok/s",
                lambda one: one.out_tps,
                lambda one: "–" if one.out_tps is None else plain_rate_text(one.out_tps),
                max,
            ),
            Column(self.tr("Errors"), lambda one: float(one.errors), lambda one: str(one.errors), min),
            Column(self.tr("Marks"), lambda one: float(one.thumbs), self._marks, max),
            Column(self.tr("Same"), lambda one: float(self._same.get(one.name, (0, 0))[0]), self._same_text),
        )

    @staticmethod
    def _marks(figures: ProfileFigures) -> str:
        stars = "" if figures.stars is None else f"  ★ {figures.stars:.1f}"
        return f"{figures.thumbs:+d}{stars}" if figures.thumbs or stars else "–"

    def _same_text(self, figures: ProfileFigures) -> str:
        same, count = self._same.get(figures.name, (0, 0))
        return f"{same}/{count}"

    def refresh(self) -> None:
        """Take the figures as they are now."""
        rows = self._board.figures()
        same = {one.name: self._board.same(one.name) for one in rows}
        if len(rows) != len(self._rows):
            self.beginResetModel()
            self._rows, self._same = rows, same
            self.endResetModel()
            return
        self._rows, self._same = rows, same
        if rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, len(self.columns) - 1))

    def figures(self, row: int) -> ProfileFigures:
        """The figures of one row."""
        return self._rows[row]

    def rowCount(self, parent: Index | None = None) -> int:
        """Profiles."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        """Figures."""
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Titles."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.columns[section].title
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignLeft if section == 0 else Qt.AlignmentFlag.AlignRight
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Texts, and how they look."""
        one, column = self._rows[index.row()], self.columns[index.column()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return column.text(one)
            case Qt.ItemDataRole.TextAlignmentRole:
                side = Qt.AlignmentFlag.AlignLeft if index.column() == 0 else Qt.AlignmentFlag.AlignRight
                return int(side | Qt.AlignmentFlag.AlignVCenter)
            case Qt.ItemDataRole.FontRole:
                return theme.font(12, 600 if self._is_best(one, column) else 400)
            case Qt.ItemDataRole.ForegroundRole:
                return theme.color("err" if column.title == self.tr("Errors") and one.errors else "text")
            case Qt.ItemDataRole.DecorationRole if index.column() == 0:
                number = self._board.job.profiles.index(one.name) % 8 + 1
                return _disc(number)
            case _ if role == SORT_ROLE:
                value = column.value(one)
                return one.name if index.column() == 0 else (float("inf") if value is None else value)
        return None

    def _is_best(self, one: ProfileFigures, column: Column) -> bool:
        values = [value for row in self._rows if (value := column.value(row)) is not None]
        return column.best is not None and len(set(values)) > 1 and column.value(one) == column.best(values)


def _disc(number: int) -> QPixmap:
    size = theme.px(10)
    pixmap = QPixmap(size * 2, size * 2)
    pixmap.setDevicePixelRatio(2)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.color(f"series.{number}"))
    painter.drawEllipse(QRectF(1, 1, size - 2, size - 2))
    painter.end()
    return pixmap


class SummaryTable(QTableView):
    """Shows the figures; a click on a head sorts."""

    def __init__(self, board: Board, parent: QWidget) -> None:
        super().__init__(parent)
        self.figures = SummaryModel(board, self)
        self._sorted = QSortFilterProxyModel(self)
        self._sorted.setSourceModel(self.figures)
        self._sorted.setSortRole(SORT_ROLE)
        self.setModel(self._sorted)
        self.setSortingEnabled(True)
        self._sorted.sort(-1)
        self.setAccessibleName(self.tr("Figures of the profiles"))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        theme.changed.connect(self._restyle)
        self._restyle()

    @property
    def chosen(self) -> str:
        """The selected profile; empty when none is."""
        rows = self.selectionModel().selectedRows()
        return self.figures.figures(self._sorted.mapToSource(rows[0]).row()).name if rows else ""

    def _restyle(self) -> None:
        self.horizontalHeader().setFont(theme.font(11))
        self.verticalHeader().setDefaultSectionSize(theme.px(ROW_HEIGHT))
        self.verticalHeader().setMinimumSectionSize(theme.px(ROW_HEIGHT))


def winner(figures: list[ProfileFigures]) -> str:
    """The profile with the best score, then marks, then the lower cost; empty while nothing tells them apart."""

    def rank(one: ProfileFigures) -> tuple[float, int, float, Decimal]:
        return (one.score if one.score is not None else -1.0, one.thumbs, one.stars or 0.0, -one.cost)

    judged = [one for one in figures if one.score is not None or one.thumbs or one.stars]
    return max(judged, key=rank).name if judged else ""
