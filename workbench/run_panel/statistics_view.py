"""The Statistics tab: what each agent used, and the run in total."""

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from engine.events import Statistics
from workbench.run_panel.run_model import RunModel
from workbench.text_format import cost_text, rate_text, seconds_text, tokens_text, visible_text
from workbench.theme import theme
from workbench.widgets.row_delegate import paint_selection

FROM_CACHE, SPEED, TIME = 2, 7, 8
LEAST_NEEDED = (4, SPEED, 6, 1, 3, TIME)
"""Columns that go when there is no room, in this order: cached in, speed, reasoning, requests, in, time; before them
*From cache*, unless there is something in it."""
NAME_WIDTH = 130
"""Design px the agents' names keep."""


class FigureDelegate(QStyledItemDelegate):
    """Paints a cell with the same margins as the header, in the font its model gives."""

    def __init__(self, table: QTableView) -> None:
        super().__init__(table)
        self._table = table

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """The text and its margins."""
        size = super().sizeHint(option, index)
        return QSize(size.width() + 2 * theme.px(10), size.height())

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Fill the selected row, then draw the text."""
        if option.state & QStyle.StateFlag.State_Selected:
            paint_selection(painter, option.rect, focused=self._table.hasFocus())
        painter.save()
        painter.setFont(index.data(Qt.ItemDataRole.FontRole))
        painter.setPen(index.data(Qt.ItemDataRole.ForegroundRole).color())
        area = option.rect.adjusted(theme.px(10), 0, -theme.px(10), 0)
        align = Qt.AlignmentFlag(index.data(Qt.ItemDataRole.TextAlignmentRole)) | Qt.TextFlag.TextSingleLine
        shown = painter.fontMetrics().elidedText(str(index.data()), Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, int(align), shown)
        painter.restore()


class StatisticsView(QWidget):
    """A table: a row an agent, the total last."""

    def __init__(self, model: RunModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._names = (
            self.tr("Agent"),
            self.tr("Requests"),
            self.tr("From cache"),
            self.tr("In"),
            self.tr("Cached in"),
            self.tr("Out"),
            self.tr("Reasoning"),
            self.tr("Speed"),
            self.tr("Time"),
            self.tr("Cost"),
        )
        self.table = QTableWidget(0, len(self._names), self)
        self.table.setHorizontalHeaderLabels(self._names)
        tips = {
            SPEED: self.tr("Tokens out with reasoning, by the time in the next column"),
            TIME: self.tr(
                "Of an agent: how long it was at work, branches side by side counted once.\n"
                "Of the total: from the start of the run to its end. Agents at work at the same time make it less than "
                "their sum."
            ),
        }
        for column, tip in tips.items():
            head = self.table.horizontalHeaderItem(column)
            if head is not None:
                head.setToolTip(tip)
        self.table.setShowGrid(False)
        self.table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.table.setItemDelegate(FigureDelegate(self.table))
        self.table.verticalHeader().hide()
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setAccessibleName(self.tr("Statistics by agent"))
        header = self.table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        first = self.table.horizontalHeaderItem(0)
        if first is not None:
            first.setTextAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.table)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self.table.setFont(theme.font(12))
        self.table.horizontalHeader().setFont(theme.font(11))
        header = self.table.horizontalHeader()
        header.setFixedHeight(theme.px(26))
        header.setStyleSheet(f"QHeaderView::section {{ padding: 0 {theme.px(10)}px; }}")
        self.table.verticalHeader().setDefaultSectionSize(theme.px(28))
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out what has no room."""
        super().resizeEvent(event)
        self._hide_columns()

    def _hide_columns(self) -> None:
        """Hide figures, the least needed first, until the names keep their width."""
        header = self.table.horizontalHeader()
        order = LEAST_NEEDED if self._model.statistics().cached_prompts else (FROM_CACHE, *LEAST_NEEDED)
        for column in (FROM_CACHE, *LEAST_NEEDED):
            self.table.setColumnHidden(column, False)
        wanted = theme.px(NAME_WIDTH) + sum(
            max(self.table.sizeHintForColumn(column), header.sectionSizeHint(column))
            for column in range(1, self.table.columnCount())
        )
        for column in order:
            if wanted <= self.width():
                return
            wanted -= max(self.table.sizeHintForColumn(column), header.sectionSizeHint(column))
            self.table.setColumnHidden(column, True)

    def refresh(self) -> None:
        """Take what the run has now."""
        agents = self._model.agent_statistics()
        rows = [(visible_text(name), done) for name, done in agents.items()]
        if rows:
            rows.append((self.tr("Total"), self._model.statistics()))
        total = len(rows) - 1
        if self._model.before is not None:
            # What a resumed run was spared; no part of its total.
            rows.append((self.tr("Before, not in the total"), self._model.before))
        self.table.setRowCount(len(rows))
        for number, (name, done) in enumerate(rows):
            self._fill(number, [name, *self._figures(done)], total=number == total)
        self._hide_columns()

    @staticmethod
    def _figures(done: Statistics) -> list[str]:
        seconds = done.effective_seconds or done.seconds
        produced = done.out_tokens + done.reasoning_out_tokens
        money = cost_text(done.cost, done.provenance) if done.requests else "$0"
        return [
            f"{done.requests:,}",
            f"{done.cached_prompts:,}",
            tokens_text(done.in_tokens, done.estimated),
            tokens_text(done.cached_in_tokens),
            tokens_text(done.out_tokens, done.estimated),
            tokens_text(done.reasoning_out_tokens, done.estimated and done.reasoning_out_tokens > 0),
            rate_text(produced / seconds, done.estimated) if produced and seconds > 0 else "–",
            seconds_text(seconds) if done.requests else "–",
            money if done.requests or done.cached_prompts else "–",
        ]

    def _fill(self, row: int, texts: list[str], *, total: bool) -> None:
        for column, text in enumerate(texts):
            item = self.table.item(row, column)
            if item is None:
                item = QTableWidgetItem()
                self.table.setItem(row, column, item)
                side = Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft
                item.setTextAlignment(side | Qt.AlignmentFlag.AlignVCenter)
            item.setText(text)
            item.setFont(theme.font(12, 600 if total else 400))
            item.setForeground(theme.color("text" if total or not column else "text2"))

    @property
    def text(self) -> str:
        """The table as lines with tabs, for the clipboard."""
        lines = ["\t".join(self._names)]
        for row in range(self.table.rowCount()):
            items = (self.table.item(row, column) for column in range(self.table.columnCount()))
            lines.append("\t".join(item.text() if item is not None else "" for item in items))
        return "\n".join(lines)
