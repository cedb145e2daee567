"""The Explorer dock: flows, saved agents, recorded runs, profiles and pages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import (
    QEvent,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QSize,
    QSortFilterProxyModel,
    Qt,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QLineEdit, QStyleOptionViewItem, QTreeView, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.dragged_flow import AGENT, FLOW, dragged
from workbench.widgets.row_delegate import RowDelegate

ITEM_ROLE = Qt.ItemDataRole.UserRole + 1
KIND_ROLE = Qt.ItemDataRole.UserRole + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerItem:
    """One row."""

    kind: str
    """`flow`, `saved_agent`, `run`, `profile` or `page`."""
    id: str
    """Path or sample name, file, run id, profile name, page id."""
    text: str
    tip: str = ""
    icon: str = ""
    color: str = "text2"
    status: str = ""
    """Of a run."""
    ends_matter: bool = False
    """Where there is no room the middle of the text goes, not its end."""


KINDS = ("flow", "saved_agent", "run", "profile", "page")
"""The groups, in order."""
DRAGGED = {"flow": FLOW, "saved_agent": AGENT}
"""Kinds of rows that can be dragged onto a canvas, and what they are then."""


class ExplorerRows(RowDelegate):
    """Cuts each text where it says least."""

    def initStyleOption(  # noqa: N802
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Choose where the text is cut."""
        super().initStyleOption(option, index)
        item = index.data(ITEM_ROLE)
        if item is not None and item.ends_matter:
            option.textElideMode = Qt.TextElideMode.ElideMiddle


class ExplorerModel(QStandardItemModel):
    """Rows of which flows and saved agents can be dragged onto a canvas."""

    def mimeTypes(self) -> list[str]:  # noqa: N802
        """What is dragged."""
        return [*DRAGGED.values()]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:  # noqa: N802
        """The first among some rows that can be dragged."""
        items = (index.data(ITEM_ROLE) for index in indexes)
        first = next((item for item in items if item is not None and item.kind in DRAGGED), None)
        return dragged(DRAGGED[first.kind], first.id) if first is not None else QMimeData()


class Explorer(QWidget):
    """A filterable tree with one group per kind."""

    item_activated = Signal(object)
    """The ExplorerItem that was double-clicked or entered."""
    menu_wanted = Signal(object, QPoint)
    """A context menu is wanted for this ExplorerItem, or None beside all of them; where on the screen."""
    rename_wanted = Signal(object)
    """F2 was pressed on this ExplorerItem."""
    delete_wanted = Signal(object)
    """Del was pressed on this ExplorerItem."""
    folds_changed = Signal(list)
    """The kinds of the groups that the person folded."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._items: dict[str, Sequence[ExplorerItem]] = {}
        """Rows by kind; a kind that was never shown is not known yet, which is not the same as empty."""
        self._folded: set[str] = set()
        self._filter = QLineEdit(self)
        self._filter.setPlaceholderText(self.tr("Filter"))
        self._filter.setClearButtonEnabled(True)
        self._filter.setAccessibleName(self.tr("Filter the explorer"))
        self._filter_icon = self._filter.addAction(theme.icon("search", 14), QLineEdit.ActionPosition.LeadingPosition)
        self._current = ("", "")
        """Kind and id of the row that was current before the rows were made anew."""
        self._model = ExplorerModel(self)
        self._proxy = QSortFilterProxyModel(self)
        self._proxy.setSourceModel(self._model)
        self._proxy.setRecursiveFilteringEnabled(True)
        self._proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self._tree = QTreeView(self)
        self._tree.setModel(self._proxy)
        self._tree.setHeaderHidden(True)
        self._tree.setUniformRowHeights(True)
        self._tree.setIndentation(theme.px(14))
        self._tree.setEditTriggers(QTreeView.EditTrigger.NoEditTriggers)
        self._tree.setSelectionMode(QTreeView.SelectionMode.ExtendedSelection)
        self._tree.setTextElideMode(Qt.TextElideMode.ElideRight)
        self._tree.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._tree.setDragDropMode(QTreeView.DragDropMode.DragOnly)
        self._tree.setAccessibleName(self.tr("Explorer"))
        self._tree.setItemDelegate(ExplorerRows(24, self))
        self._tree.activated.connect(self._activate)
        self._tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._tree.customContextMenuRequested.connect(self._want_menu)
        self._tree.collapsed.connect(lambda index: self._fold(index, True))
        self._tree.expanded.connect(lambda index: self._fold(index, False))
        self._tree.installEventFilter(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.px(8), theme.px(8), theme.px(8), 0)
        layout.setSpacing(theme.px(6))
        layout.addWidget(self._filter)
        layout.addWidget(self._tree)
        self._filter.textChanged.connect(self._filter_changed)
        theme.changed.connect(self._fill)
        self._fill()

    def show_items(self, kind: str, items: Sequence[ExplorerItem]) -> None:
        """Replace the rows of one group."""
        if self._items.get(kind) != items:
            self._items[kind] = items
            self._fill()

    def items(self, kind: str) -> Sequence[ExplorerItem]:
        """The rows of one group."""
        return self._items.get(kind, ())

    def chosen(self) -> list[ExplorerItem]:
        """The selected rows, from the top."""
        rows = sorted(
            self._tree.selectionModel().selectedIndexes(), key=lambda index: (index.parent().row(), index.row())
        )
        return [item for index in rows if (item := index.data(ITEM_ROLE)) is not None]

    def set_current(self, kind: str, item_id: str) -> None:
        """Make a row the current one, if it is listed; nothing is opened."""
        self._current = kind, item_id
        self._show_current()

    def _show_current(self) -> None:
        for row in range(self._model.rowCount()):
            head = self._model.item(row)
            if head.data(KIND_ROLE) in self._folded:
                continue  # to make a row the current one would unfold its group
            for line in range(head.rowCount()):
                item = head.child(line).data(ITEM_ROLE)
                if item is not None and (item.kind, item.id) == self._current:
                    self._tree.setCurrentIndex(self._proxy.mapFromSource(head.child(line).index()))
                    return
        self._tree.setCurrentIndex(QModelIndex())

    def _keep_current(self) -> None:
        item = self._tree.currentIndex().data(ITEM_ROLE)
        if item is not None:
            self._current = item.kind, item.id

    def set_folded(self, kinds: Iterable[str]) -> None:
        """Fold exactly the groups of these kinds."""
        self._folded = set(kinds) & set(KINDS)
        self._show_folds()

    def _fold(self, index: QModelIndex, folded: bool) -> None:
        kind = index.data(KIND_ROLE)
        # A filter opens groups for as long as it is there.
        if kind is None or self._filter.text() or (kind in self._folded) is folded:
            return
        self._folded ^= {kind}
        self.folds_changed.emit(sorted(self._folded))

    def _show_folds(self) -> None:
        for row in range(self._proxy.rowCount()):
            index = self._proxy.index(row, 0)
            self._tree.setExpanded(index, bool(self._filter.text()) or index.data(KIND_ROLE) not in self._folded)

    def _fill(self) -> None:
        self._tree.setIconSize(QSize(theme.px(16), theme.px(16)))
        self._filter_icon.setIcon(theme.icon("search", 14))
        self._keep_current()
        self._model.clear()
        titles = {
            "flow": (self.tr("Flows"), self.tr("No flow yet")),
            "saved_agent": (self.tr("Saved agents"), self.tr("None yet: Flow > Save agent…")),
            "profile": (self.tr("Profiles"), self.tr("No profile")),
            "run": (self.tr("Runs"), self.tr("None yet")),
            "page": (self.tr("Pages"), self.tr("No page")),
        }
        for kind in KINDS:
            title, empty = titles[kind]
            head = QStandardItem(title.upper())
            head.setFont(theme.font(11, 600))
            head.setForeground(theme.color("muted"))
            head.setFlags(Qt.ItemFlag.ItemIsEnabled)
            head.setData(kind, KIND_ROLE)
            for item in self.items(kind):
                row = QStandardItem(item.text)
                row.setIcon(theme.icon(item.icon, 16, item.color, checked=None))
                row.setToolTip(item.tip or item.text)
                row.setData(item, ITEM_ROLE)
                row.setDragEnabled(kind in DRAGGED)
                head.appendRow(row)
            if kind in self._items and not self._items[kind]:
                row = QStandardItem(empty)
                row.setForeground(theme.color("muted"))
                row.setFlags(Qt.ItemFlag.NoItemFlags)
                head.appendRow(row)
            head.setSizeHint(QSize(0, theme.px(28)))
            self._model.appendRow(head)
        self._show_folds()
        self._show_current()

    def _filter_changed(self, text: str) -> None:
        self._proxy.setFilterFixedString(text)
        self._show_folds()

    def _want_menu(self, place: QPoint) -> None:
        index = self._tree.indexAt(place)
        self.menu_wanted.emit(
            index.data(ITEM_ROLE) if index.isValid() else None, self._tree.viewport().mapToGlobal(place)
        )

    def _activate(self, index: QModelIndex) -> None:
        item = index.data(ITEM_ROLE)
        if item is not None:
            self.item_activated.emit(item)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take F2 and Del on a row before the canvas does."""
        if watched is self._tree and isinstance(event, QKeyEvent):
            wanted = {Qt.Key.Key_F2: self.rename_wanted, Qt.Key.Key_Delete: self.delete_wanted}.get(Qt.Key(event.key()))
            item = self._tree.currentIndex().data(ITEM_ROLE)
            if wanted is not None and item is not None:
                if event.type() is QEvent.Type.KeyPress:
                    wanted.emit(item)
                event.accept()
                return True
        return super().eventFilter(watched, event)
