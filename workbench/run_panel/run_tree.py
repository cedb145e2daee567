"""The tree of a run."""

from PySide6.QtCore import QModelIndex, QObject, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeView,
    QWidget,
)

from workbench.run_panel.labels import paint_state_icon, state_look
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_rows import Column, Index, Row, RunRows
from workbench.theme import theme


class _RowDelegate(QStyledItemDelegate):
    """Paints rows of 24 px with the state's icon before the name; selection is the view's."""

    def __init__(self, rows: RunRows, parent: QObject) -> None:
        super().__init__(parent)
        self._rows = rows

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """One row."""
        return QSize(theme.px(60), theme.px(24))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw icon and text."""
        row = self._rows.row_of(index)
        rect = option.rect
        font = self._rows.data(index, Qt.ItemDataRole.FontRole)
        color = self._rows.data(index, Qt.ItemDataRole.ForegroundRole)
        painter.save()
        painter.setFont(font if isinstance(font, QFont) else theme.font(13))
        painter.setPen(color if isinstance(color, QColor) else theme.color("text"))
        text = str(self._rows.data(index))
        gap = theme.px(6)
        if index.column() == Column.STEP:
            size = theme.px(14)
            icon, token = state_look(row.state, row.warned)
            if row.waiting:
                icon, token = "pending", "muted"
            place = QRect(rect.left() + theme.px(2), rect.center().y() - size // 2 + 1, size, size)
            paint_state_icon(painter, icon, place.toRectF(), token)
            area = rect.adjusted(size + theme.px(2) + gap, 0, -gap, 0)
            align = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        else:
            area = rect.adjusted(0, 0, -gap, 0)
            align = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, int(align | Qt.TextFlag.TextSingleLine), shown)
        painter.restore()


class RunTree(QTreeView):
    """The view of the run's rows; narrow, it hides tokens, then cost."""

    row_chosen = Signal()
    """The person, not the program, chose the current row."""

    def __init__(self, run: RunModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows = RunRows(run, self)
        self.setModel(self.rows)
        self.setItemDelegate(_RowDelegate(self.rows, self))
        self.setUniformRowHeights(True)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Highlight, Qt.GlobalColor.transparent)  # drawRow fills the selected row
        self.setPalette(palette)
        self.setAccessibleName(self.tr("Steps of the run"))
        header = self.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(Column.STEP, QHeaderView.ResizeMode.Stretch)
        header.setSectionsClickable(False)
        header.setMinimumSectionSize(10)
        self.rows.rowsInserted.connect(self._expand)
        theme.changed.connect(self._resize_columns)
        self._resize_columns()

    def _expand(self, parent: QModelIndex) -> None:
        if parent.isValid() and self.rows.rowCount(parent) <= 2:
            self.expand(parent)

    def choose(self, row: Row) -> None:
        """Make a row the current one without telling it was a person."""
        index = self.rows.index_of(row)
        if index != self.currentIndex():
            self.setCurrentIndex(index)

    @property
    def current(self) -> Row | None:
        """The current row."""
        index = self.currentIndex()
        return self.rows.row_of(index) if index.isValid() else None

    def _resize_columns(self) -> None:
        self.setIndentation(theme.px(16))
        self.header().setFont(theme.font(11))
        self.header().setFixedHeight(theme.px(26))
        metrics = QFontMetrics(theme.font(12))
        samples = {Column.TIME: "8 min 88 s", Column.TOKENS: "8,888 → ~888", Column.COST: "~$0.00888"}
        widths = {}
        for column, sample in samples.items():
            widths[column] = metrics.horizontalAdvance(sample) + theme.px(10)
            self.setColumnWidth(column, widths[column])
        free = self.viewport().width() - theme.px(160) - widths[Column.TIME]
        self.setColumnHidden(Column.COST, free < widths[Column.COST])
        self.setColumnHidden(Column.TOKENS, free < widths[Column.COST] + widths[Column.TOKENS])
        self.doItemsLayout()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show the columns that fit."""
        super().resizeEvent(event)
        self._resize_columns()

    def drawRow(self, painter: QPainter, options: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Fill the whole selected row, with a bar at its left edge when the tree has the focus."""
        rect = options.rect
        if self.selectionModel().isRowSelected(index.row(), index.parent()):
            focused = self.hasFocus()
            painter.fillRect(0, rect.top(), self.viewport().width(), rect.height(), _selected(focused))
            if focused:
                painter.fillRect(0, rect.top(), theme.px(2), rect.height(), theme.color("accent"))
        super().drawRow(painter, options, index)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take the row under the mouse."""
        super().mousePressEvent(event)
        if self.indexAt(event.position().toPoint()).isValid():
            self.row_chosen.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk through the rows."""
        before = self.currentIndex()
        super().keyPressEvent(event)
        if self.currentIndex() != before:
            self.row_chosen.emit()


def _selected(focused: bool) -> QColor:
    return theme.color("bg.selected" if focused else "bg.selected.idle")
