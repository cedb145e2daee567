"""The flow as a tree beside the canvas, always in step with it; walked by keyboard and screen reader."""

from collections.abc import Iterable

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QLabel, QStackedLayout, QTreeView, QWidget

from engine.flow.flow_spec import FlowSpec
from workbench.designer.editor import FlowEditor
from workbench.designer.outline_model import ROW_ROLE, OutlineModel
from workbench.designer.outline_rows import OutlineRow, outline_rows
from workbench.theme import theme
from workbench.widgets.row_delegate import RowDelegate


class Outline(QWidget):
    """Belongs to one editor: shows its flow, selects and edits through it."""

    def __init__(self, editor: FlowEditor, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._editor = editor
        self._shown: FlowSpec | None = None
        """The flow whose lines are shown."""
        self._following = False
        """Whether the selection is being taken over from the canvas."""
        self._model = OutlineModel(self)
        self.tree = QTreeView(self)
        self.tree.setModel(self._model)
        self.tree.setHeaderHidden(True)
        self.tree.setUniformRowHeights(True)
        self.tree.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.tree.setExpandsOnDoubleClick(False)
        self.tree.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.tree.setAccessibleName(self.tr("Outline"))
        self.tree.setItemDelegate(RowDelegate(24, self))
        self.tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.tree.customContextMenuRequested.connect(self._want_menu)
        self.tree.activated.connect(self._open)
        self.tree.selectionModel().selectionChanged.connect(self._select)
        self._empty = QLabel(self.tr("No agents. Add one with Shift+A."), self)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setWordWrap(True)
        self._empty.setProperty("role", "secondary")
        self._layout = QStackedLayout(self)
        self._layout.addWidget(self._empty)
        self._layout.addWidget(self.tree)
        self.setFocusProxy(self.tree)
        editor.document.spec_changed.connect(self._spec_changed)
        editor.selection_changed.connect(self._follow)
        self._wait = QTimer(self)
        self._wait.setSingleShot(True)
        self._wait.setInterval(0)
        self._wait.timeout.connect(self._refresh)
        theme.changed.connect(self._restyle)
        self._restyle()

    def texts(self) -> list[str]:
        """What a screen reader says about each line, from the top."""
        self._refresh()
        return [self._model.spoken(row) for row in self._model.rows]

    def agents(self) -> list[str]:
        """The agents in the tree, from the top, each once."""
        self._refresh()
        return [row.agent for row in self._model.rows if not row.again]

    def _spec_changed(self, before: FlowSpec, after: FlowSpec) -> None:
        # The canvas comes first; what nobody sees waits until it is shown.
        if (before.agents is not after.agents or before.start != after.start) and self.isVisible():
            self._wait.start()

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with the flow."""
        super().showEvent(event)
        self._refresh()

    def _refresh(self) -> None:
        self._wait.stop()
        spec = self._editor.document.spec
        if spec is self._shown:
            return
        self._shown = spec
        rows = outline_rows(spec)
        if rows != self._model.rows:
            self._show(rows)
        self._follow(self._editor.selected())

    def _show(self, rows: tuple[OutlineRow, ...]) -> None:
        before = (row.agent for row in self._model.rows if not row.again)
        folded = {name for name in before if self._is_folded(self._model.index_of(name))}
        self._following = True
        self._model.show_rows(rows)
        self.tree.expandAll()
        for name in folded:
            self.tree.collapse(self._model.index_of(name))
        self._following = False
        self._layout.setCurrentWidget(self.tree if rows else self._empty)

    def _is_folded(self, index: QModelIndex) -> bool:
        return self._model.rowCount(index) > 0 and not self.tree.isExpanded(index)

    def _restyle(self) -> None:
        self.tree.setIndentation(theme.px(14))
        self.tree.setIconSize(QSize(theme.px(16), theme.px(16)))
        self.tree.viewport().update()

    # -- selection ----------------------------------------------------------------------------------------------------

    def _select(self) -> None:
        if self._following:
            return
        chosen = [index.data(ROW_ROLE).agent for index in self.tree.selectionModel().selectedRows()]
        self._following = True
        if len(chosen) == 1:
            self._editor.reveal(chosen[0])
        else:
            self._editor.select(chosen)
        self._following = False

    def _follow(self, names: Iterable[str]) -> None:
        """Take over what is selected on the canvas."""
        if self._following:
            return
        wanted = [index for name in names if (index := self._model.index_of(name)).isValid()]
        selection = QItemSelection()
        for index in wanted:
            selection.select(index, index)
        self._following = True
        self.tree.selectionModel().select(selection, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        if wanted:
            self.tree.selectionModel().setCurrentIndex(wanted[0], QItemSelectionModel.SelectionFlag.NoUpdate)
            self.tree.scrollTo(wanted[0])
        self._following = False

    # -- editing ------------------------------------------------------------------------------------------------------

    def _open(self, index: QModelIndex) -> None:
        row = index.data(ROW_ROLE)
        if row is not None:
            self._editor.commands.prompt_wanted.emit(row.agent)

    def _want_menu(self, place: QPoint) -> None:
        row = self.tree.indexAt(place).data(ROW_ROLE)
        at = self.tree.viewport().mapToGlobal(place)
        self._editor.view.menu_wanted.emit(row.agent if row is not None else "", at)
