"""The page *Dashboard*: asks the history, shows the answer, and leads from each figure to its runs."""

import asyncio
import io
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFileDialog, QVBoxLayout

from engine import Engine, EngineError, Spending
from engine.atomic_file import write_atomically
from engine.csv_text import Cell, CsvWriter
from engine.dashboard_queries import Dashboard, Figure, Measured, Question
from engine.history_queries import RunRow
from engine.statistics import CostProvenance, RequestStatistic
from workbench.branch_series import BranchSeries
from workbench.dashboard.budget_card import alarms_of, used_of
from workbench.dashboard.chart_card import load_plots
from workbench.dashboard.chart_data import (
    cost_bars,
    day_text,
    error_bars,
    figure_text,
    shown_days,
    slow_bars,
    spread_steps,
    token_bars,
)
from workbench.dashboard.charts import DayChosen
from workbench.dashboard.page_view import DashboardView
from workbench.dashboard.table import CSV_HEADS, ROWS, Row, Shown, run_rows
from workbench.engine_options import EngineOptions
from workbench.error_presenter import error_banner
from workbench.page import Page
from workbench.tasks import Tasks
from workbench.text_format import cost_text, visible_text
from workbench.theme import theme

EARLIEST = datetime(1970, 1, 2).astimezone()


class DashboardPage(Page):
    """Reads when it is shown, when a filter changes and when a run has ended."""

    run_wanted = Signal(str)
    """Show a recorded run."""
    settings_wanted = Signal(str)
    """Show a page of the settings."""

    def __init__(
        self,
        engine: Engine,
        options: EngineOptions,
        tasks: Tasks,
        series: Callable[[], BranchSeries | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`series` gives the newest run of the open flows."""
        super().__init__()
        self._engine, self._options, self._tasks = engine, options, tasks
        self._series, self._clock = series, clock
        self._asking: asyncio.Future[tuple[Dashboard, RequestStatistic]] | None = None
        self._listing: asyncio.Future[list[RunRow]] | None = None
        self._closed = False
        self.is_reading = False
        """Whether an answer is awaited, or not all of it is drawn."""
        self.found = Dashboard()
        self._today = RequestStatistic()
        self._runs: list[RunRow] | None = None
        """Those of a bar that was chosen; None: all."""
        self.view = DashboardView(series, clock, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.view)
        self.setFocusProxy(self.view)
        self.view.show_cards(False)
        self._connect()

    def _connect(self) -> None:
        view = self.view
        view.filters_changed.connect(self.refresh)
        view.rows.currentChanged.connect(self._show_rows)
        view.back.clicked.connect(self._show_all_runs)
        view.export.clicked.connect(self._ask_file)
        for chart in (view.cost, view.tokens, view.first, view.speed, view.runs, view.errors, view.slow):
            chart.chosen.connect(self._follow)
        for live in (view.live.rate, view.live.cost):
            live.chosen.connect(self._follow)
        view.live.began.connect(self._show)
        view.live.ended.connect(self.refresh)
        view.table.chosen.connect(self._follow)
        view.budgets.settings_wanted.connect(self.settings_wanted)
        self._options.changed.connect(self._show)
        theme.changed.connect(self._show)

    # -- reading ------------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Read when somebody looks, and follow the run that goes on."""
        super().showEvent(event)
        self.view.live.follow(True)
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Rest."""
        super().hideEvent(event)
        self.view.live.follow(False)

    def refresh(self) -> None:
        """Ask again; a question that is under way is given up."""
        if not self._closed and self.isVisible():
            self.is_reading = True
            self._tasks.start(self._read(self._ask_about()), self)

    def _first_day(self) -> date | None:
        today = datetime.fromtimestamp(self._clock()).astimezone().date()
        return today - timedelta(days=self.view.days - 1) if self.view.days else None

    def _ask_about(self) -> Question:
        first = self._first_day()
        return Question(
            since=EARLIEST if first is None else datetime.combine(first, time_of_day()).astimezone(),
            until=datetime.fromtimestamp(self._clock()).astimezone() + timedelta(seconds=1),
            flow=self.view.flow.currentData(),
            profile=self.view.profile.currentData(),
            agent=self.view.agent.currentData(),
        )

    async def _answer(self, question: Question) -> tuple[Dashboard, RequestStatistic]:
        history = self._engine.history
        if history is None:
            return Dashboard(), RequestStatistic()
        await asyncio.to_thread(load_plots)
        return await history.dashboard(question), await history.today()

    async def _read(self, question: Question) -> None:
        if self._asking is not None:
            self._asking.cancel()
        asking = self._asking = asyncio.ensure_future(self._answer(question))
        self.view.state.setText(self.tr("reading…"))
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()
        if asking.cancelled() or self._closed:
            return
        try:
            self.found, self._today = asking.result()
        except EngineError as error:
            self.view.banners.push(error_banner(error))
        else:
            self._runs = None
            for step in self._steps():
                step()
                await asyncio.sleep(0)  # making all plots at once would hold the window up
        if self._asking is asking:
            self._asking = None
            self.view.state.setText("")
            self.is_reading = False

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Draw what was found."""
        for step in self._steps():
            step()

    def _steps(self) -> list[Callable[[], object]]:
        """What there is to be drawn, piece by piece."""
        view, found = self.view, self.found
        for choice, names in ((view.flow, found.flows), (view.profile, found.profiles), (view.agent, found.agents)):
            view.offer(choice, names)
        series = self._series()
        there = bool(found.shares or found.runs) or (series is not None and series.is_running)
        view.show_cards(there)
        if not there:
            view.empty.say(self._why_empty())
            return []
        limits, alarms = self._options.current, self._options.current.alarms
        last = datetime.fromtimestamp(self._clock()).astimezone().date()
        days = shown_days(found, self._first_day(), max([last, *found.days[-1:]]))
        return [
            lambda: view.figures.show_figures(found),
            self._show_budgets,
            self._show_rows,
            lambda: view.cost.show_bars(cost_bars(found, days, limits.day_budget.cost)),
            lambda: view.tokens.show_bars(token_bars(found, days)),
            lambda: view.first.show_steps(spread_steps(found, lambda one: one.first_token), Figure.FIRST_TOKEN),
            lambda: view.speed.show_steps(spread_steps(found, lambda one: one.speed), Figure.SPEED),
            self._show_run_costs,
            lambda: view.errors.show_bars(error_bars(found, days, alarms.error_percent)),
            lambda: view.slow.show_bars(slow_bars(found, days, alarms.slow_seconds)),
        ]

    def _why_empty(self) -> str:
        if self._engine.history is None:
            return self.tr("Runs are not recorded.")
        if self.view.flow.currentData() or self.view.profile.currentData() or self.view.agent.currentData():
            return self.tr("No request fits the filters: choose a longer time, or all flows, profiles and agents.")
        return self.tr("Run a flow (F5): what its requests cost, how long they took and what failed is shown here.")

    def _show_run_costs(self) -> None:
        limit = self._options.current.run_budget.cost
        text = ""
        if limit is not None:
            text = self.tr("limit %1 a run").replace("%1", cost_text(limit, CostProvenance.MEASURED))
        self.view.runs.show_runs(self.found.runs, None if limit is None else float(limit), text)

    def _show_budgets(self) -> None:
        settings, today = self._options.current, self._today
        tokens = today.in_tokens + today.cached_in_tokens + today.out_tokens + today.reasoning_out_tokens
        used = Spending(cost=today.cost, tokens=tokens, requests=today.requests)
        unknown = today.cost_provenance is CostProvenance.UNKNOWN
        names = self.tr("Money today"), self.tr("Tokens today"), self.tr("Calls today")
        budgets = used_of(used, settings.day_budget, names, unknown=unknown)
        series = self._series()
        if series is not None and series.run_id:
            names = self.tr("Money, newest run"), self.tr("Tokens, newest run"), self.tr("Calls, newest run")
            unknown = any(line.provenance is CostProvenance.UNKNOWN for line in series.lines.values())
            spent = self._engine.spent(series.run_id)
            budgets += used_of(spent, settings.run_budget, names, unknown=unknown)
        self.view.budgets.show_state(budgets, alarms_of(self.found, settings.alarms))

    def _table_rows(self) -> list[Row]:
        shown = self.view.shown
        return run_rows(self._runs) if shown is Shown.RUNS and self._runs is not None else ROWS[shown](self.found)

    def _show_rows(self) -> None:
        narrowed = self._runs is not None and self.view.shown is Shown.RUNS
        self.view.back.setVisible(narrowed)
        self.view.note.setVisible(narrowed)
        self.view.table.show_rows(self.view.shown, self._table_rows())

    # -- from figures to runs -----------------------------------------------------------------------------------------

    def _follow(self, key: object) -> None:
        """Open a run, or list the runs behind a bar."""
        question = self._ask_about()
        match key:
            case RunRow(id=run_id) | str(run_id):
                self.run_wanted.emit(run_id)
            case DayChosen():
                begin = datetime.combine(key.day, time_of_day()).astimezone()
                end = datetime.combine(key.day + timedelta(days=1), time_of_day()).astimezone()
                profile = key.series if key.series in self.found.profiles else question.profile
                what = day_text(key.day) + (f", {visible_text(profile)}" if profile else "")
                self._list(replace(question, since=begin, until=end, profile=profile), None, what)
            case Measured():
                self._list(question, key, f"{figure_text(key.least)} – {figure_text(key.most)}")
            case (str() as profile, Measured() as measured):
                what = f"{visible_text(profile)}, {figure_text(measured.least)} – {figure_text(measured.most)}"
                self._list(replace(question, profile=profile), measured, what)

    def _list(self, question: Question, measured: Measured | None, what: str) -> None:
        self._tasks.start(self._list_runs(question, measured, what), self)

    async def _list_runs(self, question: Question, measured: Measured | None, what: str) -> None:
        history = self._engine.history
        if history is None:
            return
        if self._listing is not None:
            self._listing.cancel()
        listing = self._listing = asyncio.ensure_future(history.runs_of(question, measured))
        try:
            await asyncio.wait({listing})
        finally:
            listing.cancel()
        if listing.cancelled() or self._closed:
            return
        try:
            self._runs = listing.result()
        except EngineError as error:
            self.view.banners.push(error_banner(error))
            return
        text = self.tr("Runs of %1") if self._runs else self.tr("No run of %1 is kept")
        self.view.note.setText(text.replace("%1", what))
        self.view.list_rows(Shown.RUNS)
        self._show_rows()
        self.view.reveal_table()

    def _show_all_runs(self) -> None:
        self._runs = None
        self._show_rows()
        self.view.table.setFocus()

    # -- export -------------------------------------------------------------------------------------------------------

    def _ask_file(self) -> None:
        dialog = QFileDialog(self, self.tr("Export the table"))
        dialog.setObjectName("export_table")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter(self.tr("CSV (*.csv)"))
        dialog.setDefaultSuffix("csv")
        dialog.selectFile(f"{self.view.shown.value}.csv")
        dialog.fileSelected.connect(self.export)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def export(self, name: str) -> None:
        """Write the table as it is shown."""
        shown, rows = self.view.shown, [row.values for row in self._table_rows()]
        self._tasks.start(self._write(Path(name), shown, rows), saves=True)

    async def _write(self, path: Path, shown: Shown, rows: list[list[Cell]]) -> None:
        def write() -> None:
            sink = io.BytesIO()
            writer = CsvWriter(sink)
            for row in (CSV_HEADS[shown], *rows):
                writer.row(row)
            write_atomically(path, sink.getvalue())

        try:
            await asyncio.to_thread(write)
        except EngineError as error:
            self.view.banners.push(error_banner(error))
        else:
            self.view.state.setText(self.tr("%1 written").replace("%1", path.name))

    async def close_page(self) -> None:
        """Give up what is asked."""
        self._closed = True
        self.view.live.follow(False)
        for one in (self._asking, self._listing):
            if one is not None:
                one.cancel()
