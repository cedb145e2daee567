"""How the dashboard is laid out: filters, figures, cards with charts, and the table below."""

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QTabBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from workbench.branch_series import BranchSeries
from workbench.dashboard.budget_card import BudgetCard
from workbench.dashboard.charts import BarChart, RunChart, SpreadChart
from workbench.dashboard.figure_cards import FigureCards
from workbench.dashboard.live_charts import LiveCharts
from workbench.dashboard.table import FigureTable, Shown
from workbench.theme import theme
from workbench.widgets.banner_stack import BannerStack
from workbench.widgets.elided import ElidedComboBox
from workbench.widgets.empty_place import EmptyPlace
from workbench.widgets.tab_order import walk

TABLE_ROWS = 10
"""Lines of the table that are seen at once."""
COLUMNS = 12
NARROW = 1000
"""Design px from which on three cards stand beside each other."""
SPANS = (1, 7, 14, 30, 0)
"""Days; 0 is all."""


class DashboardView(QWidget):
    """The widgets; knows nothing of where figures come from."""

    filters_changed = Signal()

    def __init__(self, series: Callable[[], BranchSeries | None], clock: Callable[[], float], parent: QWidget) -> None:
        super().__init__(parent)
        self._narrow: bool | None = None
        self.banners = BannerStack(self)
        self._title = QLabel(self.tr("Dashboard"), self)
        self.state = QLabel(self)
        self.state.setProperty("role", "muted")
        self.span = self._tabs(
            self.tr("Time"),
            [self.tr("Today"), self.tr("7 days"), self.tr("14 days"), self.tr("30 days"), self.tr("All")],
        )
        self.span.setCurrentIndex(SPANS.index(14))
        self.flow, self.profile, self.agent = (self._choice(name) for name in self._names())
        self.export = QPushButton(self.tr("Export CSV…"), self)
        self.export.setToolTip(self.tr("Write the table below as a CSV file"))
        self._pages = QStackedWidget(self)
        self.empty = EmptyPlace("dashboard", self.tr("Nothing recorded yet"), "", self)
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._cards = QWidget(self._scroll)
        self._cards.setObjectName("cards")
        self._make_cards(series, clock)
        self._lay_out()
        self.span.currentChanged.connect(self.filters_changed)
        for choice in (self.flow, self.profile, self.agent):
            choice.currentIndexChanged.connect(self.filters_changed)
        walk([self.span, self.flow, self.profile, self.agent, self.export, self.budgets.edit,
              self.budgets.edit_alarms, self.rows, self.back, self.table])  # fmt: skip
        self.setFocusProxy(self.span)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _names(self) -> tuple[str, str, str]:
        return self.tr("All flows"), self.tr("All profiles"), self.tr("All agents")

    def _tabs(self, name: str, texts: list[str]) -> QTabBar:
        bar = QTabBar(self)
        bar.setProperty("flat", True)
        bar.setDrawBase(False)
        bar.setExpanding(False)
        bar.setAccessibleName(name)
        for text in texts:
            bar.addTab(text)
        return bar

    def _choice(self, name: str) -> ElidedComboBox:
        choice = ElidedComboBox(self)
        choice.setAccessibleName(name)
        choice.addItem(name, "")
        choice.setSizeAdjustPolicy(ElidedComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        choice.setMinimumContentsLength(8)
        return choice

    def _make_cards(self, series: Callable[[], BranchSeries | None], clock: Callable[[], float]) -> None:
        home = self._cards
        self.figures = FigureCards(home)
        self.cost = BarChart(
            self.tr("Cost per day"), self.tr("$ per day"), self.tr("Nothing with a known price was paid."), home
        )
        self.tokens = BarChart(
            self.tr("Tokens per day"), self.tr("thousand tokens"), self.tr("No tokens were counted."), home
        )
        self.budgets = BudgetCard(home)
        measured = self.tr("Nothing was measured.")
        self.first = SpreadChart(self.tr("Time to first token, seconds"), self.tr("calls"), measured, home)
        self.speed = SpreadChart(self.tr("Tokens per second"), self.tr("calls"), measured, home)
        self.runs = RunChart(self.tr("Cost per run"), self.tr("$ per run"), self.tr("No run had a known cost."), home)
        self.errors = BarChart(self.tr("Failed requests per day"), "%", self.tr("No request failed."), home)
        self.slow = BarChart(self.tr("Slow answers per day, p95"), self.tr("seconds"), measured, home)
        self.live = LiveCharts(series, clock, home)
        self.rows = self._tabs(self.tr("Rows"), [self.tr("Days"), self.tr("Spreads"), self.tr("Runs")])
        self.rows.setParent(home)
        self.note = QLabel(home)
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        self.back = QToolButton(home)
        self.back.setText(self.tr("All runs"))
        self.table = FigureTable(home)

    def _lay_out(self) -> None:
        what, which = QHBoxLayout(), QHBoxLayout()
        what.addWidget(self._title)
        what.addWidget(self.state, 1)
        what.addWidget(self.span)
        for choice in (self.flow, self.profile, self.agent):
            which.addWidget(choice)
        which.addWidget(self.export)
        self._head = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._head.addLayout(what, 1)
        self._head.addLayout(which)
        self._grid = QGridLayout(self._cards)
        self._above = QHBoxLayout()
        self._above.addWidget(self.rows)
        self._above.addWidget(self.note, 1)
        self._above.addWidget(self.back)
        self._grid.addLayout(self._above, 8, 0, 1, COLUMNS)
        self._grid.addWidget(self.table, 9, 0, 1, COLUMNS)
        for column in range(COLUMNS):
            self._grid.setColumnStretch(column, 1)
        self._scroll.setWidget(self._cards)
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self._scroll)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.banners)
        layout.addLayout(self._head)
        layout.addWidget(self._pages, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Two cards beside each other where three have no room."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        narrow = self.width() < theme.px(NARROW)
        if narrow is self._narrow:
            return
        self._narrow = narrow
        directions = QBoxLayout.Direction
        self._head.setDirection(directions.TopToBottom if narrow else directions.LeftToRight)
        self.figures.arrange(3 if narrow else 5)
        self._grid.addWidget(self.figures, 0, 0, 1, COLUMNS)
        cards = (
            (self.cost, 5), (self.tokens, 4), (self.budgets, 3), (self.first, 4), (self.speed, 4), (self.runs, 4),
            (self.errors, 3), (self.slow, 3), (self.live.rate, 3), (self.live.cost, 3),
        )  # fmt: skip
        row, place = 1, 0
        for card, share in cards:
            width = COLUMNS // 2 if narrow else share
            self._grid.addWidget(card, row, place, 1, width)
            place += width
            if place == COLUMNS:
                row, place = row + 1, 0

    @property
    def days(self) -> int:
        """The time that is chosen, in days; 0 is all."""
        return SPANS[self.span.currentIndex()]

    @property
    def shown(self) -> Shown:
        """What the table lists."""
        return list(Shown)[self.rows.currentIndex()]

    def list_rows(self, shown: Shown) -> None:
        """List something else."""
        self.rows.setCurrentIndex(list(Shown).index(shown))

    def offer(self, choice: ElidedComboBox, names: tuple[str, ...]) -> None:
        """Have these names to choose from; the chosen one stays."""
        chosen = choice.currentData()
        wanted = ["", *names] if not chosen or chosen in names else ["", chosen, *names]
        if [choice.itemData(place) for place in range(choice.count())] == wanted:
            return
        choice.blockSignals(True)
        first = choice.itemText(0)
        choice.clear()
        for name in wanted:
            choice.addItem(name or first, name)
        choice.setCurrentIndex(wanted.index(chosen or ""))
        choice.blockSignals(False)

    def show_cards(self, there: bool) -> None:
        """Show the cards, or the empty place."""
        self._pages.setCurrentWidget(self._scroll if there else self.empty)
        self.export.setEnabled(there)

    def reveal_table(self) -> None:
        """Scroll down to the table and let the keys go there."""
        bar = self._scroll.verticalScrollBar()
        bar.setValue(bar.maximum())
        self.table.setFocus()

    def _restyle(self) -> None:
        self._title.setFont(theme.font(15, 600))
        for widget in (self.state, self.span, self.rows, self.note, self.back, self.export):
            widget.setFont(theme.font(12))
        for choice in (self.flow, self.profile, self.agent):
            choice.setFont(theme.font(12))
        self.export.setIcon(theme.icon("export", 14))
        self.export.setIconSize(QSize(theme.px(14), theme.px(14)))
        self._grid.setContentsMargins(*[theme.px(12)] * 4)
        self._grid.setSpacing(theme.px(12))
        self._head.setContentsMargins(theme.px(16), theme.px(6), theme.px(12), theme.px(6))
        self._head.setSpacing(theme.px(8))
        self._arrange()
        self.table.setMinimumHeight(theme.px(26) * (TABLE_ROWS + 1))
        self._cards.setStyleSheet(
            f"QWidget#cards {{ background: {theme.hex('bg.canvas')}; }}"
            f'QFrame[card="true"] {{ background: {theme.hex("bg.card")}; border: 1px solid {theme.hex("line")};'
            " border-radius: 6px; }"
        )
