"""The same figures as a table: days and profiles, spreads, runs. Enter or a double click leads on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QAbstractTableModel, QCoreApplication, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from engine.csv_text import Cell
from engine.dashboard_queries import Dashboard, Figure, Measured
from engine.history_answers import Spread, lower_edge
from engine.history_queries import RunRow
from engine.statistics import CostProvenance
from workbench.dashboard.chart_data import figure_text, share_cost
from workbench.dashboard.charts import DayChosen
from workbench.text_format import cost_text, seconds_text, visible_text, when_text
from workbench.theme import theme

translate = QCoreApplication.translate
Index = QModelIndex | QPersistentModelIndex
ROW_HEIGHT = 26
NOWHERE = QModelIndex()


class Shown(StrEnum):
    """What the rows are."""

    DAYS = "days"
    SPREADS = "spreads"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    texts: list[str]
    values: list[Cell]
    """The same, exact, for other programs; what is unknown is empty."""
    key: object
    """What it stands for."""


def day_rows(found: Dashboard) -> list[Row]:
    """One line for each profile on each day, the newest day first."""
    rows = []
    for (day, profile), share in sorted(found.shares.items(), key=lambda item: (-item[0][0].toordinal(), item[0][1])):
        used, answers = share.used, share.answers
        counts = [
            used.requests, answers.failed, answers.reused, used.in_tokens, used.cached_in_tokens,
            used.out_tokens, used.reasoning_out_tokens,
        ]  # fmt: skip
        measured = [answers.first_token.quantile(0.5), answers.speed.quantile(0.5), answers.seconds.quantile(0.95)]
        known = bool(used.provenances) and bool(used.cost or used.cost_provenance is not CostProvenance.UNKNOWN)
        texts = [day.isoformat(), visible_text(profile), *(f"{one:,}" for one in counts), share_cost(share)]
        values: list[Cell] = [day.isoformat(), profile, *counts, used.cost if known else ""]
        provenance = used.cost_provenance.value if used.provenances else ""
        rows.append(
            Row(
                texts + ["" if one is None else f"~{figure_text(one)}" for one in measured],
                [*values, provenance, *("" if one is None else round(one, 4) for one in measured)],
                DayChosen(day, profile),
            )
        )
    return rows


def spread_rows(found: Dashboard) -> list[Row]:
    """One line for each bucket of each figure with requests in it."""
    words = {
        Figure.FIRST_TOKEN: translate("Dashboard", "Time to first token, s"),
        Figure.SPEED: translate("Dashboard", "Tokens per second"),
    }
    rows = []
    for profile, share in found.by_profile.items():
        spreads: dict[Figure, Spread] = {
            Figure.FIRST_TOKEN: share.answers.first_token,
            Figure.SPEED: share.answers.speed,
        }
        for figure, spread in spreads.items():
            for number, count in enumerate(spread.counts):
                if count:
                    least, most = lower_edge(number, spread.least), lower_edge(number + 1, spread.least)
                    texts = [words[figure], visible_text(profile), figure_text(least), figure_text(most), f"{count:,}"]
                    values: list[Cell] = [figure.value, profile, round(least, 5), round(most, 5), count]
                    rows.append(Row(texts, values, (profile, Measured(figure, least, most))))
    return rows


def run_rows(runs: Sequence[RunRow]) -> list[Row]:
    """One line a run, the newest first."""
    rows = []
    for run in runs:
        seconds = "" if run.seconds is None else seconds_text(run.seconds)
        counts = [run.requests, run.in_tokens + run.cached_in_tokens, run.out_tokens + run.reasoning_out_tokens]
        known = bool(run.cost) or run.provenance is not CostProvenance.UNKNOWN
        texts = [when_text(run.started.timestamp()), visible_text(run.flow), run.status, seconds]
        values: list[Cell] = [run.started.isoformat(), run.flow, run.status, run.seconds or "", *counts]
        rows.append(
            Row(
                [*texts, *(f"{one:,}" for one in counts), cost_text(run.cost, run.provenance)],
                [*values, run.cost if known else "", run.provenance.value, run.id],
                run,
            )
        )
    return rows


def heads(shown: Shown) -> list[str]:
    """The names of the columns."""
    day = [
        translate("Dashboard", "Day"), translate("Dashboard", "Profile"), translate("Dashboard", "Calls"),
        translate("Dashboard", "Failed"), translate("Dashboard", "Reused"), translate("Dashboard", "In"),
        translate("Dashboard", "Cached"), translate("Dashboard", "Out"), translate("Dashboard", "Thinking"),
        translate("Dashboard", "Cost"), translate("Dashboard", "First s, p50"), translate("Dashboard", "Tok/s, p50"),
        translate("Dashboard", "Seconds, p95"),
    ]  # fmt: skip
    spread = [
        translate("Dashboard", "Figure"), translate("Dashboard", "Profile"), translate("Dashboard", "From"),
        translate("Dashboard", "To"), translate("Dashboard", "Calls"),
    ]  # fmt: skip
    run = [
        translate("Dashboard", "Started"), translate("Dashboard", "Flow"), translate("Dashboard", "Status"),
        translate("Dashboard", "Time"), translate("Dashboard", "Calls"), translate("Dashboard", "Tokens in"),
        translate("Dashboard", "Out"), translate("Dashboard", "Cost"),
    ]  # fmt: skip
    return {Shown.DAYS: day, Shown.SPREADS: spread, Shown.RUNS: run}[shown]


CSV_HEADS = {
    Shown.DAYS: (
        "day", "profile", "requests", "failed", "reused", "in_tokens", "cached_in_tokens", "out_tokens",
        "reasoning_out_tokens", "cost", "cost_provenance", "first_token_p50", "tokens_per_second_p50", "seconds_p95",
    ),
    Shown.SPREADS: ("figure", "profile", "from", "to", "requests"),
    Shown.RUNS: (
        "started", "flow", "status", "seconds", "requests", "in_tokens", "out_tokens", "cost", "cost_provenance",
        "run_id",
    ),
}  # fmt: skip


class TableModel(QAbstractTableModel):
    """Rows as they are."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.rows: list[Row] = []
        self._heads: list[str] = []
        self._texts = 2

    def show(self, shown: Shown, rows: list[Row]) -> None:
        """Have other rows."""
        self.beginResetModel()
        self.rows, self._heads = rows, heads(shown)
        self._texts = 3 if shown is Shown.RUNS else 2
        self.endResetModel()

    def rowCount(self, parent: Index = NOWHERE) -> int:
        """Lines."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        """Columns."""
        return 0 if parent.isValid() else len(self._heads)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The texts; figures at the right."""
        if role == Qt.ItemDataRole.DisplayRole:
            return self.rows[index.row()].texts[index.column()]
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() >= self._texts:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The names of the columns, where their figures are."""
        if orientation is Qt.Orientation.Vertical:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._heads[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if section >= self._texts else Qt.AlignmentFlag.AlignLeft
            return side | Qt.AlignmentFlag.AlignVCenter
        return None


class FigureTable(QTableView):
    """Chooses whole lines."""

    chosen = Signal(object)
    """A line was opened: its key."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.figures = TableModel(self)
        self.setModel(self.figures)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setAccessibleName(self.tr("Figures"))
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.doubleClicked.connect(lambda index: self._choose(index.row()))
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_rows(self, shown: Shown, rows: list[Row]) -> None:
        """Show others, the first one chosen."""
        self.figures.show(shown, rows)
        if rows:
            self.selectRow(0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens the line."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self._choose(self.currentIndex().row())
        else:
            super().keyPressEvent(event)

    def _choose(self, row: int) -> None:
        self.chosen.emit(self.figures.rows[row].key)

    def _restyle(self) -> None:
        self.setFont(theme.font(12))
        self.horizontalHeader().setFont(theme.font(11))
        self.verticalHeader().setDefaultSectionSize(theme.px(ROW_HEIGHT))


ROWS: dict[Shown, Callable[[Dashboard], list[Row]]] = {
    Shown.DAYS: day_rows,
    Shown.SPREADS: spread_rows,
    Shown.RUNS: lambda found: run_rows(found.runs),
}
"""What makes the rows."""
