"""Two of several texts, word by word."""

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.difference_view import DifferenceView
from workbench.widgets.elided import ElidedComboBox


class DifferenceDialog(QDialog):
    """Both can be chosen among the texts."""

    def __init__(self, title: str, texts: Mapping[str, str], first: str, parent: QWidget, second: str = "") -> None:
        """Compare texts by their names, at least two; `first` is chosen, with `second` or the next."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self._texts = texts
        self.choices = ElidedComboBox(self), ElidedComboBox(self)
        self.difference = DifferenceView(self)
        for choice, name in zip(self.choices, (self.tr("First"), self.tr("Second")), strict=True):
            choice.setAccessibleName(name)
            choice.addItems(list(texts))
        names = list(texts)
        own = names.index(first) if first in names else 0
        self.choices[0].setCurrentIndex(own)
        self.choices[1].setCurrentIndex(names.index(second) if second in names else 0 if own else 1)
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
