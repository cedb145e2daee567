"""The cache: whether answers are kept, how many, and which."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from PySide6.QtCore import QAbstractTableModel, QCoreApplication, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMessageBox, QPushButton, QTableView, QWidget
from shiboken6 import isValid

from engine import CachedAnswer, CacheInfo, CompletionCache
from workbench.engine_options import EngineOptions
from workbench.settings_dialog.numbers import whole_number
from workbench.settings_dialog.page import NumberField, Page
from workbench.tasks import Tasks
from workbench.text_format import cost_text, tokens_text, visible_text
from workbench.theme import theme
from workbench.widgets.row_delegate import RowDelegate

MOST_SHOWN = 500
"""Answers in the table, the newest."""
MOST_MEGABYTES = 100_000
MOST_DAYS = 36_500
QUESTION, PROFILE, MODEL, TOKENS, CREATED, HITS = range(6)

Index = QModelIndex | QPersistentModelIndex


class KeptAnswers(QAbstractTableModel):
    """Kept answers, one a row."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.answers: Sequence[CachedAnswer] = ()
        self._heads = (
            self.tr("Question"),
            self.tr("Profile"),
            self.tr("Model"),
            self.tr("Tokens"),
            self.tr("Kept since"),
            self.tr("Given again"),
        )
        theme.changed.connect(self._restyle)

    def show_answers(self, answers: Sequence[CachedAnswer]) -> None:
        """Replace all rows."""
        self.beginResetModel()
        self.answers = answers
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """Qt: number of rows."""
        return 0 if parent.isValid() else len(self.answers)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """Qt: number of columns."""
        return len(self._heads)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Qt: names of the columns."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._heads[section]
        return self._side(section) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Qt: what to show."""
        column = index.column()
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            text = self.text(self.answers[index.row()], column)
            return text if role == Qt.ItemDataRole.DisplayRole or column in (QUESTION, PROFILE, MODEL) else None
        if role == Qt.ItemDataRole.ForegroundRole:
            return theme.color("text" if column == QUESTION else "text2")
        if role == Qt.ItemDataRole.FontRole:
            return theme.font(12)
        return self._side(column) if role == Qt.ItemDataRole.TextAlignmentRole else None

    @staticmethod
    def text(answer: CachedAnswer, column: int) -> str:
        """Text of a cell."""
        entry = answer.entry
        given, out = entry.in_tokens + entry.cached_in_tokens, entry.out_tokens + entry.reasoning_out_tokens
        texts = {
            QUESTION: visible_text(entry.words),
            PROFILE: visible_text(entry.profile),
            MODEL: visible_text(entry.model),
            TOKENS: f"{tokens_text(given, entry.estimated)} → {tokens_text(out)}",
            CREATED: datetime.fromtimestamp(entry.created).astimezone().strftime("%d %b %H:%M"),
            HITS: f"{answer.hits:,}",
        }
        return texts[column]

    @staticmethod
    def _side(column: int) -> Qt.AlignmentFlag:
        side = Qt.AlignmentFlag.AlignRight if column in (TOKENS, CREATED, HITS) else Qt.AlignmentFlag.AlignLeft
        return side | Qt.AlignmentFlag.AlignVCenter

    def _restyle(self) -> None:
        if self.answers:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self.answers) - 1, len(self._heads) - 1))


class CachePage(Page):
    """Switch, limits, how much is kept, and the answers themselves."""

    def __init__(self, options: EngineOptions, cache: CompletionCache | None, tasks: Tasks, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("CachePage", "Cache"), parent)
        self._options = options
        self._cache = cache
        self._tasks = tasks
        self.use = self.add_box(
            self.tr("Use the cache"),
            lambda on: options.change(cache=on),
            self.tr("An answer is kept, and given again at once and for nothing when the very same is asked."),
        )
        name = self.tr("Size")
        self.size_limit = NumberField(name, partial(self._take_size, name), self)
        self.add_row(name, self.size_limit, unit=self.tr("MB at most; what was not used for longest goes first"))
        name = self.tr("Age")
        self.age_limit = NumberField(name, partial(self._take_age, name), self)
        self.add_row(name, self.age_limit, unit=self.tr("days at most; empty: any age"))
        self.add_head(self.tr("Kept answers"))
        self.summary = self.hint("")
        self.add_wide(self.summary)
        self.answers = KeptAnswers(self)
        self.table = self._table()
        self.add_wide(self.table, 1)
        self.delete, self.clear = QPushButton(self.tr("Forget"), self), QPushButton(self.tr("Forget all…"), self)
        self.delete.setToolTip(self.tr("Forget the chosen answer (Del)"))
        self.delete.clicked.connect(self._delete_chosen)
        self.clear.clicked.connect(self._ask_to_clear)
        for button in (self.delete, self.clear):
            button.setAutoDefault(False)
        self.add_buttons(self.delete, self.clear)
        options.changed.connect(self._show)
        self.finish(stretch=False)
        self._show()
        self._show_chosen()

    def _table(self) -> QTableView:
        table = QTableView(self)
        table.setModel(self.answers)
        table.setAccessibleName(self.tr("Kept answers"))
        table.setShowGrid(False)
        table.setTabKeyNavigation(False)
        table.setWordWrap(False)
        table.setItemDelegate(RowDelegate(28, self))
        table.verticalHeader().hide()
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(QUESTION, QHeaderView.ResizeMode.Stretch)
        table.selectionModel().selectionChanged.connect(self._show_chosen)
        QShortcut(QKeySequence.StandardKey.Delete, table, self._delete_chosen).setContext(
            Qt.ShortcutContext.WidgetShortcut
        )
        return table

    # -- taking -------------------------------------------------------------------------------------------------------

    def _take_size(self, name: str, text: str) -> str:
        megabytes = whole_number(name, text, 1, MOST_MEGABYTES)
        self._options.change(cache_megabytes=megabytes)
        return f"{megabytes:,}"

    def _take_age(self, name: str, text: str) -> str:
        days = whole_number(name, text, 0, MOST_DAYS, empty=self.tr("any age"))
        self._options.change(cache_days=days or 0)
        return f"{days:,}" if days else ""

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        settings = self._options.current
        self.use.setEnabled(self._options.has_cache)
        self.use.setChecked(self._options.has_cache and settings.cache)
        self.size_limit.show_setting(f"{settings.cache_megabytes:,}")
        self.age_limit.show_setting(f"{settings.cache_days:,}" if settings.cache_days else "")

    def showEvent(self, event: QShowEvent) -> None:
        """Read what is kept now."""
        super().showEvent(event)
        self.read()

    def read(self) -> None:
        """Read what is kept now."""
        self._tasks.start(self._read(), self)

    async def _read(self) -> None:
        if self._cache is None:
            self.summary.setText(self.tr("This window keeps no answers."))
            self.clear.setEnabled(False)
            return
        info, answers = await self._cache.info(), await self._cache.entries(MOST_SHOWN)
        chosen = self._chosen()
        self.answers.show_answers(answers)
        self.summary.setText(self._summary(info))
        self.clear.setEnabled(info.entries > 0)
        for row, answer in enumerate(answers):
            if chosen is not None and answer.key == chosen.key:
                self.table.selectRow(row)
        self._fit_columns()
        self._show_chosen()

    def _summary(self, info: CacheInfo) -> str:
        if not info.entries:
            return self.tr("None yet: run a flow, and its answers appear here.")
        text = self.tr("%1 answers, %2 MB (%3 MB on disk), given again %4 times, which saved %5.")
        if info.entries == 1:
            text = self.tr("1 answer, %2 MB (%3 MB on disk), given again %4 times, which saved %5.")
        for mark, value in (
            ("%1", f"{info.entries:,}"),
            ("%2", f"{info.stored_bytes / 1e6:.1f}"),
            ("%3", f"{info.disk_bytes / 1e6:.1f}"),
            ("%4", f"{info.hits:,}"),
            ("%5", cost_text(info.saved, info.provenance)),
        ):
            text = text.replace(mark, value)
        if info.entries > MOST_SHOWN:
            text += " " + self.tr("The newest %1 are listed.").replace("%1", str(MOST_SHOWN))
        return text

    def _chosen(self) -> CachedAnswer | None:
        rows = self.table.selectionModel().selectedRows()
        return self.answers.answers[rows[0].row()] if rows else None

    def _show_chosen(self) -> None:
        self.delete.setEnabled(self._chosen() is not None)

    # -- forgetting ---------------------------------------------------------------------------------------------------

    def _delete_chosen(self) -> None:
        chosen = self._chosen()
        if chosen is not None:
            self._tasks.start(self._delete(chosen))

    async def _delete(self, answer: CachedAnswer) -> None:
        if self._cache is not None:
            row = self.table.currentIndex().row()
            await self._cache.delete(answer.key)
            await self._read()
            if isValid(self) and self.answers.answers:
                self.table.selectRow(min(row, len(self.answers.answers) - 1))

    def _ask_to_clear(self) -> None:
        question = QMessageBox(self)
        question.setIcon(QMessageBox.Icon.NoIcon)
        question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        question.setText(self.tr("Forget all kept answers?"))
        question.setInformativeText(self.tr("The next runs ask and pay for them again. Recorded runs stay."))
        forget = question.addButton(self.tr("Forget all"), QMessageBox.ButtonRole.DestructiveRole)
        cancel = question.addButton(QMessageBox.StandardButton.Cancel)
        question.setDefaultButton(cancel)
        question.setEscapeButton(cancel)
        forget.clicked.connect(lambda: self._tasks.start(self._clear()))
        question.open()

    async def _clear(self) -> None:
        if self._cache is not None:
            await self._cache.clear()
            await self._read()

    # -- looks --------------------------------------------------------------------------------------------------------

    def _fit_columns(self) -> None:
        """Leave out what there is no room for, so that the questions can be read."""
        needed = theme.px(180)
        for column in (TOKENS, CREATED, PROFILE, HITS, MODEL):
            hint = max(self.table.sizeHintForColumn(column), self.table.horizontalHeader().sectionSizeHint(column))
            needed += hint
            self.table.setColumnHidden(column, needed > self.table.width())

    def restyle(self) -> None:
        """Take the present text zoom."""
        self.table.horizontalHeader().setFont(theme.font(11))
        self.table.verticalHeader().setDefaultSectionSize(theme.px(28))
        self.table.setMinimumHeight(theme.px(150))
