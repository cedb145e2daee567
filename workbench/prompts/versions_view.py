"""The texts a prompt had before, compared with the one in the editor, and brought back."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from workbench.theme import theme
from workbench.widgets.difference_view import DifferenceView
from workbench.widgets.row_delegate import RowDelegate


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownText:
    """A text the prompt has or had."""

    name: str
    icon: str
    text: str
    tip: str = ""


class VersionsView(QWidget):
    """A list of texts; the chosen one beside what is in the editor."""

    wanted = Signal(str)
    """The person wants this text in the editor."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._known: Sequence[KnownText] = ()
        self._text = ""
        self.list = QListWidget(self)
        self.list.setAccessibleName(self.tr("Texts of this prompt"))
        self.list.setItemDelegate(RowDelegate(28, self.list))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.currentRowChanged.connect(lambda _row: self._show())
        self.difference = DifferenceView(self)
        self._said = QLabel(self)
        self._said.setWordWrap(True)
        self.take = QPushButton(self.tr("&Put into the editor"), self)
        self.take.clicked.connect(self._take)
        right = QWidget(self)
        foot = QHBoxLayout()
        foot.addWidget(self._said, 1)
        foot.addWidget(self.take)
        column = QVBoxLayout(right)
        column.setContentsMargins(theme.px(12), 0, 0, 0)
        column.addLayout(foot)
        column.addWidget(self.difference, 1)
        splitter = QSplitter(Qt.Orientation.Horizontal, self)
        splitter.setHandleWidth(1)
        splitter.setChildrenCollapsible(False)
        splitter.addWidget(self.list)
        splitter.addWidget(right)
        splitter.setSizes([theme.px(200), theme.px(460)])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(splitter)
        self.setFocusProxy(self.list)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_texts(self, known: Sequence[KnownText], text: str) -> None:
        """List these and compare them with the text in the editor; what was chosen stays so."""
        self._text = text
        if known != self._known:
            chosen = self.list.currentItem().text() if self.list.currentItem() is not None else ""
            self._known = known
            self.list.clear()
            for one in known:
                item = QListWidgetItem(theme.icon(one.icon, 16), one.name, self.list)
                item.setToolTip(one.tip or one.name)
            names = [one.name for one in known]
            self.list.setCurrentRow(names.index(chosen) if chosen in names else 0 if known else -1)
        self._show()

    def _chosen(self) -> KnownText | None:
        row = self.list.currentRow()
        return self._known[row] if 0 <= row < len(self._known) else None

    def _show(self) -> None:
        chosen = self._chosen()
        self.difference.setEnabled(chosen is not None)
        self.take.setEnabled(chosen is not None and chosen.text != self._text)
        if chosen is None:
            return
        self.difference.show_texts(chosen.text, self._text)
        same = self.tr("“%1” is the text in the editor.")
        other = self.tr("First “%1”, second the text in the editor.")
        self._said.setText((same if chosen.text == self._text else other).replace("%1", chosen.name))

    def _take(self) -> None:
        chosen = self._chosen()
        if chosen is not None:
            self.wanted.emit(chosen.text)

    def _restyle(self) -> None:
        self._said.setFont(theme.font(12))
        self.list.setFont(theme.font(12))
        for row, one in enumerate(self._known):
            self.list.item(row).setIcon(theme.icon(one.icon, 16))
