"""One row of a dataset as the inputs of a run: a file, the number of the row, and what it holds."""

import asyncio
from itertools import islice
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLabel, QPushButton, QSpinBox, QWidget

from engine import EngineError
from engine.dataset import Dataset, Row
from engine.errors import DatasetInvalid
from engine.flow.context import text_of
from workbench.tasks import Tasks
from workbench.theme import theme
from workbench.widgets.elided import ElidedLabel

LAST = 1_000_000
"""Number of the last row that can be chosen."""


class DatasetRow(QWidget):
    """A button that asks for a file; once there is one, the number of the row."""

    chosen = Signal(object)
    """The values of the row: text by column."""
    failed = Signal(str)
    """Why a row cannot be read; empty once one could."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._path = ""
        self._tasks = Tasks(self)
        self._asked = 0
        self.file = QPushButton(self.tr("Row of a dataset…"), self)
        self.file.setToolTip(self.tr("Take the inputs from a row of a CSV or JSONL file"))
        self.file.setAutoDefault(False)
        self.file.clicked.connect(self._choose)
        self.number = QSpinBox(self)
        self.number.setRange(1, LAST)
        self.number.setAccessibleName(self.tr("Row of the dataset"))
        self.number.valueChanged.connect(self._read)
        self._label = QLabel(self.tr("&Row"), self)
        self._label.setBuddy(self.number)
        self._name = ElidedLabel("", self)
        self._name.setProperty("role", "muted")
        self._name.setFont(theme.font(12))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.px(8))
        for widget in (self.file, self._label, self.number):
            layout.addWidget(widget)
        layout.addWidget(self._name, 1)
        self._show()

    def _show(self) -> None:
        for widget in (self._label, self.number):
            widget.setVisible(bool(self._path))
        self._name.setText(self.tr("of %1").replace("%1", Path(self._path).name) if self._path else "")
        self._name.setToolTip(self._path)

    def _choose(self) -> None:
        folder = Path(self._path).parent if self._path else Path.home()
        dialog = QFileDialog(self, self.tr("Choose a dataset"), str(folder))
        dialog.setNameFilter(self.tr("Datasets (*.csv *.jsonl *.ndjson)"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(self.take)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def take(self, path: str) -> None:
        """Offer the rows of another file, from its first."""
        self._path = path
        self._show()
        if self.number.value() == 1:
            self._read()
        else:
            self.number.setValue(1)

    def _read(self) -> None:
        self._asked += 1
        self._tasks.start(self._take_row(self._asked, self._path, self.number.value()), self)

    async def _take_row(self, asked: int, path: str, number: int) -> None:
        try:
            row = await asyncio.to_thread(read_row, path, number)
            fault = row.fault
        except EngineError as error:
            row, fault = None, error.message
        if asked != self._asked:
            return  # another one was chosen meanwhile
        self.failed.emit(fault)
        if row is not None and not fault:
            self.chosen.emit({column: text_of(value) for column, value in row.values.items()})


def read_row(path: str, number: int) -> Row:
    """A row of a dataset, from 1. Reads what is before it; raises DatasetInvalid, also when there is no such row."""
    dataset = Dataset(Path(path))
    with dataset.rows() as rows:
        count = 0
        for row in islice(rows, number):
            count += 1
            if count == number:
                return row
    raise DatasetInvalid(f"{dataset.path.name} has {count:,} rows, row {number:,} is none of them.")
