"""Two live charts of a run: tokens per second, and the cost so far. pyqtgraph is loaded when they are first seen."""

import os
import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from engine.events import AnyEvent, RunFinished, RunStarted
from engine.statistics import CostProvenance
from workbench.charts.run_series import RunSeries
from workbench.text_format import cost_text, rate_text
from workbench.theme import theme

UPDATE_MILLISECONDS = 200
SHORTEST_AXIS = 10.0
"""Seconds the time axis shows at least."""
AXIS_STEPS = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)
"""Lengths the time axis takes one after the other, so that it moves seldom."""


class LiveChart(QWidget):
    """Follows one run; draws only while it is visible."""

    def __init__(self, parent: QWidget | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(parent)
        self._clock = clock
        self.series = RunSeries()
        self._plots: list[Any] = []
        self._curves: dict[str, Any] = {}
        self._heads = {"rate": self._label(), "cost": self._label()}
        self._free = self._label()
        self._free.setText(self.tr("Free: nothing to draw"))
        self._free.setProperty("role", "muted")
        self._free.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._free.hide()
        self._timer = QTimer(self)
        self._timer.setInterval(UPDATE_MILLISECONDS)
        self._timer.timeout.connect(self.refresh)
        self._columns = QHBoxLayout(self)
        self._cells = {key: QVBoxLayout() for key in self._heads}
        for key, label in self._heads.items():
            self._cells[key].addWidget(label)
            self._columns.addLayout(self._cells[key], 1)
        self._cells["cost"].addWidget(self._free, 1)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _label(self) -> QLabel:
        label = QLabel(self)
        label.setTextFormat(Qt.TextFormat.PlainText)
        return label

    # -- the run ----------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Take the next event of the run."""
        self.series.apply(event)
        if isinstance(event, RunStarted | RunFinished):
            self._run_or_rest()

    def clear(self) -> None:
        """Forget the run."""
        self.series.clear()
        self._run_or_rest()

    def _run_or_rest(self) -> None:
        """Redraw once, and again and again only while a run is on and seen."""
        running = self.series.started is not None and self.series.ended is None
        if running and self.isVisible():
            self._timer.start()
        else:
            self._timer.stop()
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        """Load the plots at the first time, then catch up."""
        super().showEvent(event)
        if not self._plots:
            self._build()
        self._run_or_rest()

    def hideEvent(self, event: QHideEvent) -> None:
        """Rest."""
        super().hideEvent(event)
        self._timer.stop()

    # -- drawing ----------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        os.environ.setdefault("PYQTGRAPH_QT_LIB", "PySide6")
        import pyqtgraph

        for key in self._heads:
            plot = pyqtgraph.PlotWidget(self)
            item = plot.getPlotItem()
            item.setMenuEnabled(False)
            item.hideButtons()
            item.setMouseEnabled(x=False, y=False)
            item.setDownsampling(auto=True, mode="peak")
            item.setClipToView(True)
            item.showGrid(x=False, y=True, alpha=0.25)
            for side in ("left", "bottom"):
                item.getAxis(side).enableAutoSIPrefix(False)
            plot.setAccessibleName(self._heads[key].text())
            self._cells[key].addWidget(plot, 1)
            self._plots.append(plot)
        rate, cost = (plot.getPlotItem() for plot in self._plots)
        self._curves = {
            "both": rate.plot([], []),
            "thinking": rate.plot([], []),
            "cost": cost.plot([], []),
        }
        self._restyle()

    def _restyle(self) -> None:
        self._columns.setContentsMargins(theme.px(12), theme.px(8), theme.px(12), theme.px(8))
        self._columns.setSpacing(theme.px(16))
        for label in self._heads.values():
            label.setFont(theme.font(12, 600))
        self._free.setFont(theme.font(12))
        if not self._plots:
            return
        import pyqtgraph

        names = (self.tr("tokens per second"), self.tr("cost in $"))
        for plot, name in zip(self._plots, names, strict=True):
            plot.setBackground(theme.color("bg.dock"))
            for side in ("left", "bottom"):
                axis = plot.getPlotItem().getAxis(side)
                axis.setPen(pyqtgraph.mkPen(theme.color("line.strong"), width=1))
                axis.setTextPen(theme.color("text2"))
                axis.setTickFont(theme.font(11))
                text = name if side == "left" else self.tr("seconds since the start")
                axis.setLabel(text, color=theme.hex("text2"), **{"font-size": f"{theme.px(11)}px"})
            plot.getPlotItem().getAxis("left").setWidth(theme.px(64))
        pens = {
            "both": pyqtgraph.mkPen(theme.color("series.1"), width=1),
            "thinking": pyqtgraph.mkPen(theme.color("series.4"), width=1, style=Qt.PenStyle.DashLine),
            "cost": pyqtgraph.mkPen(theme.color("series.3"), width=1),
        }
        for key, pen in pens.items():
            self._curves[key].setPen(pen)
        self.refresh()

    def refresh(self) -> None:
        """Bring heads and curves up to date."""
        series = self.series
        running = series.started is not None and series.ended is None
        now = self._clock() if running else (series.ended or series.started or 0.0)
        times, both, thinking = series.rates(now if running else None)
        self._show_heads(both, thinking, running=running)
        if not self._plots or not self.isVisible():
            return
        seconds = max(SHORTEST_AXIS, now - (series.started or now))
        axis = next((length for length in AXIS_STEPS if seconds <= length), seconds)
        self._curves["both"].setData(times, both)
        self._curves["thinking"].setData(times, thinking if any(thinking) else [0.0] * len(times))
        self._curves["thinking"].setVisible(any(thinking))
        free = bool(series.provenances) and series.provenance is CostProvenance.FREE and not series.cost
        self._free.setVisible(free)
        self._plots[1].setVisible(not free)
        unknown = series.provenance is CostProvenance.UNKNOWN and not series.cost
        steps = [] if unknown else _stairs(series.costs, now - (series.started or now))
        self._curves["cost"].setData([moment for moment, _ in steps], [cost for _, cost in steps])
        tops = ((max(both, default=0.0), 10.0), (float(series.cost), 0.01))
        for plot, (top, least) in zip(self._plots, tops, strict=True):
            plot.setXRange(0, axis, padding=0)
            plot.setYRange(0, top * 1.15 or least, padding=0)

    def _show_heads(self, both: list[float], thinking: list[float], *, running: bool) -> None:
        last = both[-4:]
        rate = sum(last) / len(last) if last else 0.0
        if running:
            text = self.tr("Now %1").replace("%1", rate_text(rate, estimated=True))
        elif both:
            text = self.tr("Peak %1").replace("%1", rate_text(max(both), estimated=True))
        else:
            text = self.tr("Tokens per second")
        if any(thinking):
            text = self.tr("%1, thinking dashed").replace("%1", text)
        self._heads["rate"].setText(text)
        self._heads["cost"].setText(self._cost_head())
        self.setAccessibleName(f"{text}; {self._heads['cost'].text()}")

    def _cost_head(self) -> str:
        series = self.series
        if not series.provenances:
            return self.tr("Cost")
        unknown = series.provenance is CostProvenance.UNKNOWN
        text = self.tr("Cost %1").replace("%1", cost_text(series.cost, series.provenance))
        return self.tr("%1: a price is missing in the profile").replace("%1", text) if unknown else text


def _stairs(costs: list[tuple[float, float]], until: float) -> list[tuple[float, float]]:
    """The cost as steps: level until the next request is paid."""
    points = [(0.0, 0.0)]
    for moment, cost in costs:
        points.append((moment, points[-1][1]))
        points.append((moment, cost))
    points.append((max(until, points[-1][0]), points[-1][1]))
    return points
