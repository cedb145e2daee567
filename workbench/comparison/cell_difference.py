"""Two answers of a row, word by word."""

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.difference_view import DifferenceView
from workbench.widgets.elided import ElidedComboBox


class CellDifference(QDialog):
    """Both can be chosen among the answers of the row."""

    def __init__(self, texts: Mapping[str, str], first: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("Compare answers"))
        self._texts = texts
        self.choices = ElidedComboBox(self), ElidedComboBox(self)
        self.difference = DifferenceView(self)
        for choice, name in zip(self.choices, (self.tr("First answer"), self.tr("Second answer")), strict=True):
            choice.setAccessibleName(name)
            choice.addItems(list(texts))
        names = list(texts)
        own = names.index(first) if first in names else 0
        self.choices[0].setCurrentIndex(own)
        self.choices[1].setCurrentIndex(0 if own else 1)
        for choice in self.choices:
            choice.currentIndexChanged.connect(self._show)
        row = QHBoxLayout()
        row.addWidget(self.choices[0], 1)
        row.addWidget(QLabel("→", self))
        row.addWidget(self.choices[1], 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addLayout(row)
        layout.addWidget(self.difference, 1)
        layout.addWidget(buttons)
        self.resize(theme.px(760), theme.px(520))
        self._show()

    def _show(self) -> None:
        first, second = (choice.currentText() for choice in self.choices)
        self.difference.show_texts(self._texts[first], self._texts[second])
