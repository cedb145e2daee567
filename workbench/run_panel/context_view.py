"""The Context tab: every key after a step, what changed since the step before, and the words that did."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon, QPixmap
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QSplitter,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from workbench.run_panel.context_changes import (
    Change,
    KeyChange,
    StepContext,
    changes,
    short_text,
    step_contexts,
    values_text,
)
from workbench.run_panel.labels import Figures
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import Branch, Step
from workbench.text_format import visible_text
from workbench.theme import theme
from workbench.widgets.difference_view import DifferenceView
from workbench.widgets.row_delegate import RowDelegate

MOST_ROWS = 2000
"""Keys with a row; the filter finds the others."""
LOOKS = {
    Change.ADDED: ("plus", "ok"),
    Change.CHANGED: ("edit", "warn"),
    Change.REMOVED: ("minus", "err"),
}
"""What became of a key → icon and its colour token."""


class ContextView(QWidget):
    """A table of keys above the difference of the chosen one."""

    def __init__(self, model: RunModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._step: Step | None = None
        self._branch = ""
        self._contexts: list[StepContext] = []
        self._rows: list[KeyChange] = []
        self._shown: tuple[object, ...] = ()
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText(self.tr("Filter keys"))
        self.filter.setAccessibleName(self.tr("Filter keys"))
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(self._fill)
        self.only_changed = QCheckBox(self.tr("Only changed"), self)
        self.only_changed.toggled.connect(self._fill)
        self.branches = QComboBox(self)
        self.branches.setAccessibleName(self.tr("Branch"))
        self.branches.currentIndexChanged.connect(self._fill)
        self.note = Figures(11, 400, "text2", self)
        self.table = self._make_table()
        self.difference = DifferenceView(self)
        self._head = QWidget(self)
        head = QHBoxLayout(self._head)
        for widget in (self.filter, self.only_changed, self.branches):
            head.addWidget(widget)
        head.addWidget(self.note, 1)
        self.note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setHandleWidth(1)
        self._splitter.addWidget(self.table)
        self._splitter.addWidget(self.difference)
        self._splitter.setSizes([1400, 1000])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._head)
        layout.addWidget(self._splitter, 1)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _make_table(self) -> QTableWidget:
        table = QTableWidget(0, 3, self)
        table.setHorizontalHeaderLabels([self.tr("Key"), self.tr("Before this step"), self.tr("After this step")])
        table.setAccessibleName(self.tr("Keys of the context"))
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.verticalHeader().hide()
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setTabKeyNavigation(False)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        table.setItemDelegate(RowDelegate(28, table))
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        table.itemSelectionChanged.connect(self._show_difference)
        return table

    def _restyle(self) -> None:
        layout = self._head.layout()
        if layout is not None:
            layout.setContentsMargins(theme.px(12), theme.px(4), theme.px(12), theme.px(4))
            layout.setSpacing(theme.px(8))
        self.filter.setFixedWidth(theme.px(160))
        blank = QPixmap(theme.px(14), theme.px(14))
        blank.fill(Qt.GlobalColor.transparent)
        self._no_icon = QIcon(blank)  # so that all keys stand in line
        self.table.setFont(theme.font(12))
        self.table.horizontalHeader().setFont(theme.font(11))
        self.table.horizontalHeader().setFixedHeight(theme.px(26))
        self.table.verticalHeader().setDefaultSectionSize(theme.px(28))
        self._fill()

    # -- what is shown ----------------------------------------------------------------------------------------------

    def show_step(self, step: Step | None, branch: Branch | None) -> None:
        """Show the context of this step, of one branch if there is one."""
        self._step, self._branch = step, branch.path if branch is not None else ""
        self.refresh()

    def refresh(self) -> None:
        """Take what the run has now, if somebody can see it."""
        if not self.isVisible():
            return
        step = self._step
        state = (step, self._branch, len(step.left) if step is not None else 0, self._model.status)
        if state == self._shown:
            return
        self._shown = state
        self._contexts = step_contexts(self._model, step) if step is not None else []
        names = [one.branch or self.tr("the only one") for one in self._contexts]
        self.branches.blockSignals(True)
        self.branches.clear()
        self.branches.addItems(names)
        place = next((at for at, one in enumerate(self._contexts) if one.branch == self._branch), 0)
        self.branches.setCurrentIndex(place)
        self.branches.setVisible(len(names) > 1)
        self.branches.blockSignals(False)
        self._fill()

    @property
    def context(self) -> StepContext | None:
        """The context on show."""
        place = self.branches.currentIndex()
        return self._contexts[place] if 0 <= place < len(self._contexts) else None

    def _fill(self) -> None:
        context = self.context
        everything = changes(context) if context is not None else []
        wanted = self.filter.text().casefold()
        self._rows = [
            row
            for row in everything
            if wanted in row.key.casefold() and not (self.only_changed.isChecked() and row.change is Change.SAME)
        ][:MOST_ROWS]
        self.note.setText(self._note(context, everything))
        chosen = self._chosen_key()
        self.table.blockSignals(True)
        self.table.setRowCount(len(self._rows))
        for number, row in enumerate(self._rows):
            self._fill_row(number, row)
        self.table.blockSignals(False)
        keys = [row.key for row in self._rows]
        if keys:
            self.table.selectRow(keys.index(chosen) if chosen in keys else 0)
        self._show_difference()

    def _note(self, context: StepContext | None, rows: list[KeyChange]) -> str:
        if context is None:
            return ""
        if context.after is None:
            return self.tr("The step has not ended: this is what it began with.")
        if context.before is None:
            return self.tr("What it had before is not known.")
        counts = [
            (self.tr("%1 added"), Change.ADDED),
            (self.tr("%1 changed"), Change.CHANGED),
            (self.tr("%1 removed"), Change.REMOVED),
        ]
        found = [(text, sum(row.change is change for row in rows)) for text, change in counts]
        said = [text.replace("%1", str(count)) for text, count in found if count]
        return ", ".join(said) or self.tr("Nothing changed")

    def _fill_row(self, number: int, row: KeyChange) -> None:
        same = row.change is Change.SAME
        after = self.tr("unchanged") if same and row.before is not None and row.after is not None else None
        texts = (row.key, short_text(row.before), after or short_text(row.after))
        for column, text in enumerate(texts):
            item = QTableWidgetItem(visible_text(text))
            item.setFont(theme.font(12, mono=True) if not (column == 2 and after) else theme.font(12))
            item.setForeground(theme.color("muted" if same and column else "text"))
            if column == 0 and same:
                item.setIcon(self._no_icon)
            elif column == 0:
                icon, token = LOOKS[row.change]
                item.setIcon(theme.icon(icon, 14, token))
                item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{visible_text(row.key)}, {self._word(row.change)}")
            if column == 1 and row.change in (Change.CHANGED, Change.REMOVED):
                item.setBackground(theme.color("diff.remove"))
            if column == 2 and row.change in (Change.CHANGED, Change.ADDED):
                item.setBackground(theme.color("diff.add"))
            self.table.setItem(number, column, item)

    def _word(self, change: Change) -> str:
        words = {
            Change.ADDED: self.tr("added"),
            Change.CHANGED: self.tr("changed"),
            Change.REMOVED: self.tr("removed"),
            Change.SAME: self.tr("unchanged"),
        }
        return words[change]

    def _chosen_key(self) -> str:
        item = self.table.item(self.table.currentRow(), 0)
        return item.text() if item is not None else ""

    def _show_difference(self) -> None:
        number = self.table.currentRow()
        row = self._rows[number] if 0 <= number < len(self._rows) else None
        if row is None:
            self.difference.show_texts("", "")
            return
        before, after = values_text(row.before), values_text(row.after)
        if row.before is None or row.after is None:
            only_one_side = row.change is Change.SAME
            before = (after or before) if only_one_side else before
            after = before if only_one_side else after
        self.difference.show_texts(before, after)

    @property
    def text(self) -> str:
        """The keys after the step with their values, whole, for the clipboard."""
        context = self.context
        values = None if context is None else context.before if context.after is None else context.after
        return "\n\n".join(f"{key}\n{values_text(each)}" for key, each in (values or {}).items())
