"""A small table to type rows into; what a spreadsheet copied can be pasted."""

from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from workbench.theme import theme


class RowTable(QTableWidget):
    """Always has an empty row at the end."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(1, 0, parent)
        self._keys: tuple[str, ...] = ()
        self.setAccessibleName(self.tr("Rows"))
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.horizontalHeader().setHighlightSections(False)
        self.setTabKeyNavigation(False)
        self.itemChanged.connect(self._grow)
        theme.changed.connect(self._restyle)
        self._restyle()

    def set_columns(self, keys: tuple[str, ...]) -> None:
        """Have these columns; what stands in columns of the same name stays."""
        if keys == self._keys:
            return
        before = self.values()
        self._keys = keys
        self.blockSignals(True)
        self.setColumnCount(len(keys))
        self.setHorizontalHeaderLabels(keys)
        self.blockSignals(False)
        self._put(before)

    def _put(self, rows: tuple[dict[str, object], ...]) -> None:
        self.blockSignals(True)
        self.setRowCount(len(rows) + 1)
        for number in range(self.rowCount()):
            for column, key in enumerate(self._keys):
                text = str(rows[number].get(key, "")) if number < len(rows) else ""
                self.setItem(number, column, QTableWidgetItem(text))
        self.blockSignals(False)

    def values(self) -> tuple[dict[str, object], ...]:
        """The rows in which something stands; one without values when there are no columns."""
        if not self._keys:
            return ({},)
        rows: list[dict[str, object]] = []
        for number in range(self.rowCount()):
            texts = [self._text(number, column) for column in range(len(self._keys))]
            if any(texts):
                rows.append(dict(zip(self._keys, texts, strict=True)))
        return tuple(rows)

    def _text(self, row: int, column: int) -> str:
        item = self.item(row, column)
        return "" if item is None else item.text()

    def _grow(self, item: QTableWidgetItem) -> None:
        if item.text() and item.row() == self.rowCount() - 1:
            self.insertRow(self.rowCount())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Paste lines and cells; delete what is selected."""
        if event.matches(QKeySequence.StandardKey.Paste):
            self._paste(QGuiApplication.clipboard().text())
        elif event.matches(QKeySequence.StandardKey.Delete):
            for item in self.selectedItems():
                item.setText("")
        else:
            super().keyPressEvent(event)

    def _paste(self, text: str) -> None:
        top, left = max(0, self.currentRow()), max(0, self.currentColumn())
        for down, line in enumerate(text.replace("\r\n", "\n").rstrip("\n").split("\n")):
            while top + down >= self.rowCount():
                self.insertRow(self.rowCount())
            for across, cell in enumerate(line.split("\t")):
                if left + across < len(self._keys):
                    self.setItem(top + down, left + across, QTableWidgetItem(cell))

    def _restyle(self) -> None:
        self.verticalHeader().setDefaultSectionSize(theme.px(26))
        self.horizontalHeader().setFont(theme.font(11))
