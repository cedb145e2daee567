"""What the page *Compare* looks like: tool row, figures and chart, the grid below."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from workbench.comparison.board import Board
from workbench.comparison.grid import AnswerGrid
from workbench.comparison.scatter import CostQuality
from workbench.comparison.summary_view import SummaryTable
from workbench.theme import theme
from workbench.widgets.banner_stack import BannerStack
from workbench.widgets.elided import ElidedComboBox, ElidedLabel
from workbench.widgets.empty_place import EmptyPlace
from workbench.widgets.icon_label import IconLabel


class CompareView(QWidget):
    """Fills its page."""

    def __init__(self, page: QWidget, board: Board) -> None:
        super().__init__(page)
        self.banners = BannerStack(self)
        self.run, self.stop, self.new = QPushButton(self), QToolButton(self), QPushButton(self)
        self.choice, self.filter = ElidedComboBox(self), QLineEdit(self)
        self.different, self.blind = QToolButton(self), QToolButton(self)
        self.reasoning, self.lock = QToolButton(self), QToolButton(self)
        self.export, self.more = QToolButton(self), QToolButton(self)
        self.progress, self.agree = ElidedLabel(self), ElidedLabel(self)
        self.winner = QToolButton(self)
        self.table, self.chart = SummaryTable(board, self), CostQuality(board, self)
        self.grid = AnswerGrid(board, self)
        self.reveal = QPushButton(self.tr("Reveal names"), self)
        self._blind_bar, self._blind_text = QWidget(self), QLabel(self)
        self._summary_title = QLabel(self.tr("Summary"), self)
        self._nothing = EmptyPlace(
            "compare",
            self.tr("Nothing compared yet"),
            self.tr("Ask two to eight profiles the same: a prompt or a whole flow, over one or many rows."),
            self,
        )
        self.first = self._nothing.add_button(self.tr("New comparison"), "plus", primary=True)
        self._stack = QStackedWidget(self)
        self._figures = QSplitter(Qt.Orientation.Horizontal, self)
        self._name()
        self._lay_out()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self)
        page.setFocusProxy(self.grid)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _name(self) -> None:
        texts = {
            self.stop: (self.tr("Stop"), self.tr("End what runs and keep what came (Shift+F5)")),
            self.different: (self.tr("Only different"), self.tr("Show only rows with different answers")),
            self.blind: (self.tr("Blind"), self.tr("Hide who answered until you have judged")),
            self.reasoning: (self.tr("Reasoning"), self.tr("Show the reasoning of all answers")),
            self.lock: (self.tr("Lock scrolling"), self.tr("Scroll all answers of a row together")),
            self.export: (self.tr("Export"), self.tr("Write all answers and figures to a file")),
            self.winner: (self.tr("Use winner for…"), self.tr("Let the best profile answer for a category")),
            self.more: (self.tr("More"), self.tr("What else can be done with this comparison")),
        }
        for button, (text, tip) in texts.items():
            button.setText(text)
            button.setToolTip(tip)
            button.setAccessibleName(text)
        for button in (self.different, self.blind, self.reasoning, self.lock):
            button.setCheckable(True)
        for button in (self.export, self.winner, self.more):
            button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
            button.setStyleSheet("QToolButton::menu-indicator { image: none; }")
        self.lock.setChecked(True)
        self.run.setProperty("primary", True)
        self.new.setText(self.tr("New…"))
        self.new.setToolTip(self.tr("Compare something else"))
        self.choice.setAccessibleName(self.tr("Comparison on show"))
        self.filter.setPlaceholderText(self.tr("Filter rows"))
        self.filter.setAccessibleName(self.tr("Filter rows"))
        self.filter.setClearButtonEnabled(True)
        self._glass = self.filter.addAction(theme.icon("search", 14), QLineEdit.ActionPosition.LeadingPosition)

    def _lay_out(self) -> None:
        tools = QHBoxLayout()
        tools.setContentsMargins(theme.px(10), theme.px(5), theme.px(10), theme.px(5))
        tools.setSpacing(theme.px(6))
        for widget, stretch in (
            (self.run, 0), (self.stop, 0), (self.new, 0), (self.choice, 2), (self.filter, 1), (self.different, 0),
            (self.blind, 0), (self.reasoning, 0), (self.lock, 0), (self.export, 0), (self.more, 0),
        ):  # fmt: skip
            tools.addWidget(widget, stretch)
        work = QSplitter(Qt.Orientation.Vertical, self)
        work.addWidget(self._build_figures())
        work.addWidget(self.grid)
        work.setStretchFactor(1, 1)
        work.setSizes([theme.px(190), theme.px(600)])
        whole = QWidget(self)
        column = QVBoxLayout(whole)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(tools)
        column.addWidget(self._build_blind_bar())
        column.addWidget(work, 1)
        for splitter in (work, self._figures):
            splitter.setHandleWidth(1)
            splitter.setChildrenCollapsible(False)
        self._stack.addWidget(self._nothing)
        self._stack.addWidget(whole)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.banners)
        layout.addWidget(self._stack, 1)

    def _build_figures(self) -> QWidget:
        left = QWidget(self)
        head, foot = QHBoxLayout(), QHBoxLayout()
        for row in (head, foot):
            row.setContentsMargins(theme.px(12), theme.px(4), theme.px(12), theme.px(4))
            row.setSpacing(theme.px(12))
        head.addWidget(self._summary_title)
        head.addWidget(self.progress, 1)
        head.addWidget(self.winner)
        self._agree_icon = IconLabel("check", "ok", 14, self)
        foot.addWidget(self._agree_icon)
        foot.addWidget(self.agree, 1)
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(head)
        column.addWidget(self.table, 1)
        column.addLayout(foot)
        self._figures.addWidget(left)
        self._figures.addWidget(self.chart)
        self._figures.setSizes([theme.px(900), theme.px(500)])
        return self._figures

    def _build_blind_bar(self) -> QWidget:
        row = QHBoxLayout(self._blind_bar)
        row.setContentsMargins(theme.px(12), theme.px(6), theme.px(12), theme.px(6))
        row.addWidget(IconLabel("eye-off", "reason", 16, self._blind_bar))
        row.addWidget(self._blind_text, 1)
        row.addWidget(self.reveal)
        self._blind_text.setWordWrap(True)
        self._blind_bar.hide()
        return self._blind_bar

    # -- showing ------------------------------------------------------------------------------------------------------

    def show_work(self, shown: bool) -> None:
        """Show the comparison, or what to do without one."""
        self._stack.setCurrentIndex(1 if shown else 0)

    def show_blind(self, blind: bool, voted: int, lines: int) -> None:
        """Hide names, prices and speeds, or show them."""
        self._figures.setVisible(not blind)
        self._blind_bar.setVisible(blind)
        text = self.tr("Names, prices and speeds are hidden until you have judged. Columns are shuffled for every row.")
        judged = self.tr("%1 of %2 rows judged.").replace("%1", str(voted)).replace("%2", str(lines))
        self._blind_text.setText(f"{text} {judged}")

    def show_agreement(self, agree: bool | None) -> None:
        """Say whether all were asked the same."""
        texts = {
            None: "",
            True: self.tr("All prompts are identical across profiles"),
            False: self.tr("Prompts differ: an agent was given what another profile had answered"),
        }
        self.agree.setText(texts[agree])
        self._agree_icon.setVisible(agree is not None)
        self._agree_icon.show_icon(*(("check", "ok") if agree else ("warning", "warn")))

    def _restyle(self) -> None:
        self._summary_title.setFont(theme.font(12, 600))
        self.run.setIcon(theme.icon("run", 14, "on.fill", checked=None))
        self.new.setIcon(theme.icon("plus", 14, "text"))
        self.stop.setIcon(theme.icon("stop", 16, "err", checked=None))
        self._glass.setIcon(theme.icon("search", 14))
        icons = {
            self.different: "filter",
            self.blind: "eye-off",
            self.reasoning: "reasoning",
            self.lock: "lock",
            self.export: "export",
            self.more: "more",
        }
        narrow = theme.zoom > 1.25
        beside, alone = Qt.ToolButtonStyle.ToolButtonTextBesideIcon, Qt.ToolButtonStyle.ToolButtonIconOnly
        for button, icon in icons.items():
            button.setIcon(theme.icon(icon, 16))
            button.setIconSize(QSize(theme.px(16), theme.px(16)))
            button.setToolButtonStyle(alone if narrow or button is self.more else beside)
        for label in (self.progress, self.agree):
            label.setFont(theme.font(12))
            label.setProperty("role", "secondary")
