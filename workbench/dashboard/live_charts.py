"""The run that goes on: tokens per second and cost so far of each branch."""

from collections.abc import Callable
from decimal import Decimal

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QWidget

from engine.statistics import CostProvenance
from workbench.branch_series import KEPT, OTHERS, BranchLine, BranchSeries
from workbench.dashboard.charts import Line, LineChart

UPDATE_MILLISECONDS = 500
SMOOTHED = 3
"""Seconds a rate is taken over."""


class LiveCharts(QObject):
    """Two cards that follow the newest run; they rest while nobody sees them."""

    began = Signal()
    """A run goes on that was not seen before."""
    ended = Signal()
    """The run that was followed has ended: there is more to be read."""

    def __init__(self, series: Callable[[], BranchSeries | None], clock: Callable[[], float], parent: QWidget) -> None:
        super().__init__(parent)
        self._series, self._clock = series, clock
        self._seen = self._told = ""
        """The run whose beginning, and whose end, was told."""
        nothing = self.tr("Run a flow: its branches are drawn here while they answer.")
        self.rate = LineChart(self.tr("Live: tokens per second of each branch"), self.tr("tok/s"), nothing, parent)
        self.cost = LineChart(self.tr("Live: cost of each branch"), "$", nothing, parent)
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.CoarseTimer)
        self._timer.setInterval(UPDATE_MILLISECONDS)
        self._timer.timeout.connect(self.refresh)

    def follow(self, on: bool) -> None:
        """Follow, or rest."""
        if on:
            series = self._series()
            if series is not None and series.ended is not None:
                self._told = series.run_id
                self._draw(series)
            self.refresh()
            self._timer.start()
        else:
            self._timer.stop()

    def refresh(self) -> None:
        """Draw how far the run has come; the end of one is drawn and told once."""
        series = self._series()
        if series is None or series.run_id == self._told:
            return
        if series.is_running and series.run_id != self._seen:
            self._seen = series.run_id
            self.began.emit()
        self._draw(series)
        if not series.is_running:
            self._told = series.run_id
            self.ended.emit()

    def _draw(self, series: BranchSeries) -> None:
        end = series.ended or self._clock()
        now = max(1.0, end - (series.started or end))
        span = max(0.0, now - KEPT), max(10.0, now)
        rates, costs = [], []
        for place, (branch, line) in enumerate(series.lines.items()):
            name = self.tr("later branches") if branch == OTHERS else branch or self.tr("whole")
            color = f"series.{place % 8 + 1}"
            rates.append(Line(name, color, rate_points(line, int(span[0]), int(now), ended=not series.is_running)))
            if line.cost or line.provenance not in (CostProvenance.UNKNOWN, CostProvenance.FREE):
                sign = "≥ " if line.provenance is CostProvenance.UNKNOWN else ""
                costs.append(Line(sign + name, color, cost_points(line, now)))
        self.rate.show_lines(rates, series.run_id, span)
        self.cost.show_lines(costs, series.run_id, (0.0, max(10.0, now)))


def rate_points(line: BranchLine, first: int, now: int, *, ended: bool) -> list[tuple[float, float]]:
    """Tokens per second over the last few whole seconds, from the first token of the branch to its last.

    They stand in the middle of their second; a line begins, and ends with its branch, at 0.
    """
    if not line.tokens:
        return []
    begin, last = max(first, min(line.tokens)), max(line.tokens)
    over = ended or now - last > SMOOTHED
    end = last + 1 if over else now
    window = range(SMOOTHED)
    points = [
        (second + 0.5, sum(line.tokens.get(second - back, 0) for back in window) / min(SMOOTHED, second - begin + 1))
        for second in range(begin, max(end, begin + 1))
    ]
    return [(float(begin), 0.0), *points, *([(float(end), 0.0)] if over else [])]


def cost_points(line: BranchLine, now: float) -> list[tuple[float, float]]:
    """Stairs: level until the next request is paid."""
    points, before = [(0.0, 0.0)], Decimal(0)
    for second, cost in sorted(line.costs.items()):
        points += [(float(second), float(before)), (float(second), float(cost))]
        before = cost
    return [*points, (now, float(before))]
