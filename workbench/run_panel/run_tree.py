"""The tree of a run."""

from PySide6.QtCore import QModelIndex, QPoint, QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QContextMenuEvent, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyleOptionViewItem,
    QTreeView,
    QWidget,
)

from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_rows import Column, Index, Row, RunRows
from workbench.text_format import visible_text
from workbench.theme import theme
from workbench.widgets.icon_label import paint_state_icon
from workbench.widgets.row_delegate import paint_selection

SAMPLES = {Column.TIME: "8 min 88 s", Column.TOKENS: "8,888 → ~888", Column.COST: "~$0.00888"}
"""The widest figures that must fit."""
NAME_WIDTH = 160
"""Design px of a name that figures make room for: tokens go first, then cost."""
ICON, ICON_GAP, GAP = 14, 8, 6
LEAST_NOTE = 20
"""Design px; less room is not worth half a letter."""
KEPT_NAMES = 2000
MANY_ROWS = 12
REPAINT_FEW, REPAINT_FULL = 60, 300
"""Milliseconds from a change to its repaint, with few and with more than `MANY_ROWS` rows."""
LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine)
RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine)


class RunTree(QTreeView):
    """The view of the run's rows; narrow, it hides tokens, then cost."""

    row_chosen = Signal()
    """The person, not the program, chose the current row."""

    menu_wanted = Signal(object, QPoint)
    """A context menu is wanted for this Row; where on the screen."""

    def __init__(self, run: RunModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows = RunRows(run, self)
        self._places: list[tuple[Column, int, int]] = []
        self._chosen: Row | None = None
        self._elided: dict[tuple[str, int, int], str] = {}
        self._names_width = 0
        """What the names need, up to their share."""
        self._repaint = QTimer(self)
        self._repaint.setSingleShot(True)
        self._repaint.timeout.connect(self.viewport().update)
        self.setModel(self.rows)
        self.setUniformRowHeights(True)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(self.tr("Steps of the run"))
        header = self.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(Column.STEP, QHeaderView.ResizeMode.Stretch)
        header.setSectionsClickable(False)
        header.setMinimumSectionSize(10)
        self.rows.rowsInserted.connect(self._rows_added)
        self.rows.dataChanged.connect(self._names_changed)
        self.rows.modelReset.connect(self._restyle)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _rows_added(self, parent: QModelIndex, first: int, last: int) -> None:
        rows = self.rows.row_of(parent)
        if parent.isValid():
            if self.rows.rowCount(parent) <= 2:
                self.expand(parent)
            self._make_room([rows])  # it counts its branches now
        self._make_room(rows.rows[first : last + 1])

    def _names_changed(self, first: QModelIndex, last: QModelIndex) -> None:
        self._make_room([self.rows.row_of(first), self.rows.row_of(last)])

    def _make_room(self, rows: list[Row]) -> None:
        """Give the names of these lines their share of the width."""
        metrics = QFontMetrics(theme.font(13, 600))
        before = self._names_width
        for row in rows:
            wanted = metrics.horizontalAdvance(self.rows.text(row, Column.STEP))
            if row.grade is not None:
                wanted += theme.px(GAP) + QFontMetrics(theme.font(11)).horizontalAdvance(row.note[0])
            beside = self.indentation() * row.depth + theme.px(ICON + ICON_GAP) + theme.px(GAP)
            self._names_width = max(self._names_width, beside + min(theme.px(NAME_WIDTH), wanted))
        if self._names_width != before:
            self._resize_columns()

    def choose(self, row: Row) -> None:
        """Make a row the current one without telling it was a person."""
        index = self.rows.index_of(row)
        if index != self.currentIndex():
            self.setCurrentIndex(index)

    def choose_nothing(self) -> None:
        """Have no current row."""
        self.clearSelection()
        self.setCurrentIndex(QModelIndex())

    @property
    def current(self) -> Row | None:
        """The current row."""
        index = self.currentIndex()
        return self.rows.row_of(index) if index.isValid() else None

    def _restyle(self) -> None:
        self.setIndentation(theme.px(16))
        self.header().setFont(theme.font(11))
        self.header().setFixedHeight(theme.px(26))
        self._names_width = 0
        self._resize_columns()
        rows = list(self.rows.row_of(QModelIndex()).rows)
        for row in rows:
            rows.extend(row.rows)
        self._make_room(rows)

    def _resize_columns(self) -> None:
        self._elided.clear()
        metrics = QFontMetrics(theme.font(12))
        widths = {}
        for column, sample in SAMPLES.items():
            widths[column] = metrics.horizontalAdvance(sample) + theme.px(10)
            self.setColumnWidth(column, widths[column])
        free = self.viewport().width() - self._names_width - widths[Column.TIME]
        self.setColumnHidden(Column.COST, free < widths[Column.COST])
        self.setColumnHidden(Column.TOKENS, free < widths[Column.COST] + widths[Column.TOKENS])
        self.doItemsLayout()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show the columns that fit."""
        super().resizeEvent(event)
        self._resize_columns()

    def figures_changed(self) -> None:
        """States or figures have moved on: repaint soon, a full view less often, since every row costs."""
        if not self._repaint.isActive():
            full = self.rows.rowCount() + self.rows.branch_count > MANY_ROWS
            self._repaint.start(REPAINT_FULL if full else REPAINT_FEW)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Look up once what all rows need."""
        self._places = [
            (column, self.columnViewportPosition(column), self.columnWidth(column))
            for column in Column
            if not self.isColumnHidden(column)
        ]
        self._chosen = self.current
        super().paintEvent(event)

    def drawRow(self, painter: QPainter, options: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Paint one row by hand: with many branches the delegate's way takes several times as long."""
        row = self.rows.row_of(index)
        rect = options.rect
        top, height = rect.top(), rect.height()
        if row is self._chosen:
            paint_selection(painter, QRect(0, top, self.viewport().width(), height), focused=self.hasFocus())
        indent = self.indentation() * row.depth
        if row.rows:
            self.drawBranches(painter, QRect(0, top, indent, height), index)
        gap = theme.px(GAP)
        for column, left, width in self._places:
            text = self.rows.text(row, column)
            painter.setFont(self.rows.font(row, column))
            painter.setPen(self.rows.color(row, column))
            if column == Column.STEP:
                taken = self._paint_icon(painter, row, left + indent, top, height)
                room = width - indent - taken - gap
                name = self._fitting(text, painter, room)
                painter.drawText(left + indent + taken, top, room, height, LEFT, name)
                note, token = row.note
                if note:
                    used = painter.fontMetrics().horizontalAdvance(name) + gap
                    self._paint_note(
                        painter, note, token, QRect(left + indent + taken + used, top, room - used, height)
                    )
            else:
                fits = len(text) <= len(SAMPLES[column])
                shown = text if fits else self._fitting(text, painter, width - gap)
                painter.drawText(left, top, width - gap, height, RIGHT, shown)

    def _paint_note(self, painter: QPainter, note: str, token: str, place: QRect) -> None:
        if place.width() < theme.px(LEAST_NOTE):
            return
        painter.setFont(theme.font(11))
        painter.setPen(theme.color(token))
        painter.drawText(place, LEFT, self._fitting(visible_text(note), painter, place.width(), 11))

    def _fitting(self, text: str, painter: QPainter, width: int, size: int = 13) -> str:
        """The text, elided to the width; remembered, for the names stay while the figures move."""
        key = (text, width, painter.font().weight() * 100 + size)
        shown = self._elided.get(key)
        if shown is None:
            if len(self._elided) > KEPT_NAMES:
                self._elided.clear()
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, width)
            self._elided[key] = shown
        return shown

    @staticmethod
    def _paint_icon(painter: QPainter, row: Row, left: int, top: int, height: int) -> int:
        size = theme.px(ICON)
        icon, token = row.look
        place = QRectF(left + theme.px(2), top + (height - size) // 2, size, size)
        paint_state_icon(painter, icon, place, token)
        return theme.px(ICON + ICON_GAP)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take the row under the mouse."""
        super().mousePressEvent(event)
        if self.indexAt(event.position().toPoint()).isValid():
            self.row_chosen.emit()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of the line under the mouse, or for a key of the current one."""
        by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        if index.isValid():
            place = self.visualRect(index).center() if by_key else event.pos()
            self.menu_wanted.emit(self.rows.row_of(index), self.viewport().mapToGlobal(place))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk through the rows."""
        before = self.currentIndex()
        super().keyPressEvent(event)
        if self.currentIndex() != before:
            self.row_chosen.emit()
