"""The charts of the dashboard: stacked bars by day, spreads, the cost of runs, and lines of the branches of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QBrush

from engine.dashboard_queries import Figure, Measured
from engine.history_queries import RunRow
from engine.statistics import CostProvenance
from workbench.dashboard.chart_card import ChartCard
from workbench.dashboard.chart_data import Bars, Series, Steps, day_text, figure_text
from workbench.text_format import cost_text, when_text
from workbench.theme import theme

WIDTH = 0.62
"""Of a bar, in days."""
FAR = 3
"""How many times as high as the highest bar a limit may be to be drawn as a line; else the legend names it."""
NAMED_DAYS = 6
"""Days named on an axis at most."""


@dataclass(frozen=True, slots=True)
class DayChosen:
    """A bar."""

    day: date
    series: str


def ticks(count: int, name: Any) -> list[list[tuple[float, str]]]:
    """Names of some places of an axis that has room for a few."""
    step = max(1, -(-count // NAMED_DAYS))
    return [[(float(place), name(place)) for place in range(0, count, step)]]


class BarChart(ChartCard):
    """Stacked bars, one a day."""

    data = Bars([], [])

    def show_bars(self, data: Bars) -> None:
        """Draw others."""
        self.data = data
        self.refresh()

    def has_data(self) -> bool:
        """Whether any day has a bar."""
        return bool(self.data.series)

    def legend(self) -> list[tuple[str, str]]:
        """The series; a single one is named by the head."""
        series = self.data.series
        names = [(one.name, one.color) for one in series] if len(series) > 1 else []
        return names if self._shows_limit() else [*names, (self.data.limit_text, "warn")]

    def _shows_limit(self) -> bool:
        """Whether a limit, if there is one, is near enough to be drawn without making the bars too small to be read."""
        stacks = zip(*(one.values for one in self.data.series), strict=True)
        return self.data.limit is None or self.data.limit <= FAR * max(map(sum, stacks), default=0.0)

    def draw(self) -> None:
        """Stack the series."""
        import pyqtgraph as pg

        data, count = self.data, len(self.data.days)
        places, bottoms = list(range(count)), [0.0] * count
        pen = pg.mkPen(theme.color("bg.card"), width=1)
        for one in data.series:
            brush = QBrush(theme.color(one.color, 0.85))
            if one.hatched:
                brush.setStyle(Qt.BrushStyle.BDiagPattern)
                self._stack(places, bottoms, one, QBrush(theme.color(one.color, 0.3)), pen)
            self._stack(places, bottoms, one, brush, pen)
            bottoms = [bottom + value for bottom, value in zip(bottoms, one.values, strict=True)]
        limit = data.limit if self._shows_limit() else None
        top = max([*bottoms, limit or 0.0]) or 1.0
        for place, unsure in enumerate(data.bounds):
            if unsure:
                mark = pg.TextItem("≥", color=theme.color("text2"), anchor=(0.5, 1.0))
                mark.setFont(theme.font(11))
                mark.setPos(place, bottoms[place])
                self.add(mark)
        if limit is not None:
            self.add_line(limit, data.limit_text, across=True)
        self.plot.setXRange(-0.6, count - 0.4, padding=0)
        self.plot.setYRange(0, top * 1.18, padding=0)
        self.plot.getAxis("bottom").setTicks(ticks(count, lambda place: day_text(data.days[place])))

    def _stack(self, places: list[int], bottoms: list[float], one: Series, brush: QBrush, pen: Any) -> None:
        import pyqtgraph as pg

        self.add(pg.BarGraphItem(x=places, y0=bottoms, height=one.values, width=WIDTH, brush=brush, pen=pen))

    def at(self, place: QPointF) -> tuple[object, str] | None:
        """The part of a bar; above it its day."""
        number = round(place.x())
        if not 0 <= number < len(self.data.days) or not any(one.values[number] for one in self.data.series):
            return None
        day, bottom = self.data.days[number], 0.0
        for one in self.data.series:
            if bottom <= place.y() < bottom + one.values[number]:
                return DayChosen(day, one.name), f"{day_text(day)}, {one.name}: {one.texts[number]}"
            bottom += one.values[number]
        told = [f"{one.name}: {one.texts[number]}" for one in self.data.series if one.values[number]]
        return DayChosen(day, ""), "\n".join([day_text(day), *told])

    def in_words(self) -> str:
        """Each day with its parts."""
        told = []
        for number, day in enumerate(self.data.days):
            parts = [f"{one.name} {one.texts[number]}" for one in self.data.series if one.values[number]]
            if parts:
                told.append(f"{day_text(day)}: {', '.join(parts)}")
        return "; ".join(told[-31:])


class SpreadChart(ChartCard):
    """How a figure is spread, an outline a profile, on a logarithmic axis."""

    data = Steps([], [], [])
    figure = Figure.FIRST_TOKEN

    def show_steps(self, data: Steps, figure: Figure) -> None:
        """Draw others."""
        self.data, self.figure = data, figure
        self.refresh()

    def has_data(self) -> bool:
        """Whether anything was measured."""
        return bool(self.data.series)

    def legend(self) -> list[tuple[str, str]]:
        """The profiles."""
        return [(one.name, one.color) for one in self.data.series]

    def draw(self) -> None:
        """Outlines over buckets of the same width."""
        import pyqtgraph as pg

        data, count = self.data, len(self.data.edges) - 1
        for one, median in zip(data.series, data.medians, strict=True):
            pen, fill = pg.mkPen(theme.color(one.color), width=1), theme.color(one.color, 0.28)
            edges = list(range(count + 1))
            self.add(
                pg.PlotCurveItem(edges, one.values, stepMode="center", fillLevel=0, brush=pg.mkBrush(fill), pen=pen)
            )
            if median is not None and len(data.series) <= 2:
                self.add_line(self._position(median), f"p50 ~{figure_text(median)}", across=False, color=one.color)
        self.plot.setXRange(0, count, padding=0.02)
        self.plot.setYRange(0, max(max(one.values) for one in data.series) * 1.25, padding=0)
        self.plot.getAxis("bottom").setTicks(ticks(count + 1, lambda place: figure_text(data.edges[place])))

    def _position(self, value: float) -> float:
        edges = self.data.edges
        number = max(place for place, edge in enumerate(edges) if edge <= value or place == 0)
        if number >= len(edges) - 1:
            return float(number)
        return number + (value - edges[number]) / (edges[number + 1] - edges[number])

    def at(self, place: QPointF) -> tuple[object, str] | None:
        """The bucket."""
        number, edges = int(place.x()), self.data.edges
        if not 0 <= number < len(edges) - 1 or not any(one.values[number] for one in self.data.series):
            return None
        head = f"{figure_text(edges[number])} – {figure_text(edges[number + 1])}"
        told = [f"{one.name}: {one.values[number]:.0f}" for one in self.data.series if one.values[number]]
        return Measured(self.figure, edges[number], edges[number + 1]), "\n".join([head, *told])

    def in_words(self) -> str:
        """The medians."""
        pairs = zip(self.data.series, self.data.medians, strict=True)
        return "; ".join(f"{one.name}: p50 ~{figure_text(median)}" for one, median in pairs if median is not None)


class RunChart(ChartCard):
    """What runs cost, oldest first; runs of unknown cost have no point."""

    rows: Sequence[RunRow] = ()
    limit: float | None = None
    limit_text = ""

    def show_runs(self, rows: Sequence[RunRow], limit: float | None, limit_text: str) -> None:
        """Draw others; `rows` newest first."""
        known = [row for row in rows if row.cost or row.provenance is not CostProvenance.UNKNOWN]
        self.rows = known[::-1]
        self.limit, self.limit_text = limit, limit_text
        self.refresh()

    def has_data(self) -> bool:
        """Whether any run cost something."""
        return any(row.cost for row in self.rows)

    def draw(self) -> None:
        """A point a run."""
        import pyqtgraph as pg

        costs = [float(row.cost) for row in self.rows]
        pen, brush = pg.mkPen(theme.color("series.1"), width=1), pg.mkBrush(theme.color("bg.card"))
        size = theme.px(6 if len(costs) <= 60 else 3)
        places = list(range(len(costs)))
        self.add(pg.PlotDataItem(places, costs, pen=pen, symbol="o", symbolSize=size, symbolPen=pen, symbolBrush=brush))
        if self.limit is not None:
            self.add_line(self.limit, self.limit_text, across=True)
        self.plot.setXRange(-0.5, max(len(costs) - 0.5, 0.5), padding=0.02)
        self.plot.setYRange(0, max([*costs, self.limit or 0.0]) * 1.18 or 1.0, padding=0)
        names = ticks(len(costs), lambda place: day_text(self.rows[place].started.astimezone().date()))
        self.plot.getAxis("bottom").setTicks(names)

    def at(self, place: QPointF) -> tuple[object, str] | None:
        """The run next to the place."""
        number = round(place.x())
        if not 0 <= number < len(self.rows):
            return None
        row = self.rows[number]
        return row, f"{row.flow}, {when_text(row.started.timestamp())}\n{cost_text(row.cost, row.provenance)}"

    def in_words(self) -> str:
        """The newest and the dearest."""
        newest, dearest = self.rows[-1], max(self.rows, key=lambda row: row.cost)
        told = self.tr("%1 runs; the newest %2, the dearest %3").replace("%1", str(len(self.rows)))
        told = told.replace("%2", cost_text(newest.cost, newest.provenance))
        return told.replace("%3", cost_text(dearest.cost, dearest.provenance))


@dataclass(frozen=True, slots=True)
class Line:
    """A branch of a run."""

    name: str
    color: str
    points: list[tuple[float, float]]


class LineChart(ChartCard):
    """Lines over the seconds of a run."""

    lines: Sequence[Line] = ()
    run_id = ""
    span = (0.0, 10.0)

    def show_lines(self, lines: Sequence[Line], run_id: str, span: tuple[float, float]) -> None:
        """Draw others, over this span of seconds."""
        self.lines, self.run_id, self.span = lines, run_id, span
        self.refresh()

    def has_data(self) -> bool:
        """Whether any line has a point."""
        return any(one.points for one in self.lines)

    def legend(self) -> list[tuple[str, str]]:
        """The branches."""
        return [(one.name, one.color) for one in self.lines] if len(self.lines) > 1 else []

    def draw(self) -> None:
        """A line a branch."""
        import pyqtgraph as pg

        top = 0.0
        for one in self.lines:
            times, values = [point[0] for point in one.points], [point[1] for point in one.points]
            self.add(pg.PlotCurveItem(times, values, pen=pg.mkPen(theme.color(one.color), width=1)))
            top = max([top, *values])
        self.plot.setXRange(*self.span, padding=0)
        self.plot.setYRange(0, top * 1.18 or 1.0, padding=0)

    def at(self, place: QPointF) -> tuple[object, str] | None:
        """The run, wherever it is clicked."""
        return (self.run_id, self.tr("Show this run")) if self.run_id else None

    def in_words(self) -> str:
        """The last value of each line."""
        return "; ".join(f"{one.name}: {one.points[-1][1]:.4g}" for one in self.lines if one.points)
