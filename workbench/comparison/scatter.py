"""Cost against quality, one disc a profile; the faster, the larger. pyqtgraph is loaded when it is first seen."""

import os
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from engine.comparison_summary import ProfileFigures
from engine.number_text import money_text
from engine.statistics import CostProvenance
from workbench.comparison.board import Board
from workbench.theme import theme

SMALLEST, LARGEST = 10.0, 30.0
"""Design px of the discs."""


class CostQuality(QWidget):
    """The chart, or why there is none."""

    def __init__(self, board: Board, parent: QWidget) -> None:
        super().__init__(parent)
        self._board = board
        self._plot: Any = None
        self._discs: Any = None
        self._names: list[Any] = []
        self._head, self._nothing = QLabel(self), QLabel(self)
        self._head.setText(self.tr("Cost and quality") + "   " + self.tr("disc size: tokens/s"))
        self._nothing.setText(self.tr("Graders or marks give the quality"))
        self._nothing.setProperty("role", "muted")
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        layout = self._layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.px(12), theme.px(6), theme.px(12), theme.px(6))
        layout.addWidget(self._head)
        layout.addWidget(self._nothing, 1)
        theme.changed.connect(self._restyle)
        self._restyle()

    def showEvent(self, event: QShowEvent) -> None:
        """Load the plot at the first time."""
        super().showEvent(event)
        if self._plot is None:
            self._build()
        self.refresh()

    def _build(self) -> None:
        os.environ.setdefault("PYQTGRAPH_QT_LIB", "PySide6")
        import pyqtgraph as pg

        self._plot = pg.PlotWidget(self, background=None)
        self._plot.setMenuEnabled(False)
        self._plot.setMouseEnabled(x=False, y=False)
        self._plot.hideButtons()
        self._plot.showGrid(x=False, y=True, alpha=0.15)
        for side in ("left", "bottom"):
            self._plot.getAxis(side).enableAutoSIPrefix(False)
        self._plot.getAxis("bottom").tickStrings = _money_ticks
        self._plot.setAccessibleName(self.tr("Cost and quality of the profiles"))
        self._plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._discs = pg.ScatterPlotItem()
        self._plot.addItem(self._discs)
        self._layout.addWidget(self._plot)
        self._restyle()

    def refresh(self) -> None:
        """Draw the figures as they are now."""
        if self._plot is None or not self.isVisible():
            return
        shown = [one for one in self._board.figures() if quality(one) is not None and _is_priced(one)]
        self._plot.setVisible(bool(shown))
        self._nothing.setVisible(not shown)
        for name in self._names:
            self._plot.removeItem(name)
        self._names = []
        if shown:
            self._draw(shown)

    def _draw(self, shown: list[ProfileFigures]) -> None:
        import pyqtgraph as pg

        fastest = max((one.out_tps or 0.0 for one in shown), default=0.0)
        spots = []
        names: dict[tuple[float, float], list[str]] = {}
        for one in shown:
            share = (one.out_tps or 0.0) / fastest if fastest else 0.0
            color = theme.color(f"series.{self._board.job.profiles.index(one.name) % 8 + 1}")
            fill = theme.color(f"series.{self._board.job.profiles.index(one.name) % 8 + 1}", 0.45)
            place = float(one.cost), quality(one) or 0.0
            size = theme.px(SMALLEST + (LARGEST - SMALLEST) * share)
            spots.append({"pos": place, "size": size, "pen": pg.mkPen(color, width=1.5), "brush": pg.mkBrush(fill)})
            names.setdefault(place, []).append(one.name)
        self._discs.setData(spots)
        for place, here in names.items():
            name = pg.TextItem(", ".join(here), color=theme.color("text2"), anchor=(0.5, 1.6))
            name.setFont(theme.font(11))
            name.setPos(*place)
            self._plot.addItem(name)
            self._names.append(name)
        costs, scores = [float(one.cost) for one in shown], [quality(one) or 0.0 for one in shown]
        wide = max(max(costs) - min(costs), max(costs) * 0.2, 0.001)
        high = max(max(scores) - min(scores), 10.0)
        self._plot.setXRange(max(0.0, min(costs) - wide * 0.2) - wide * 0.05, max(costs) + wide * 0.2, padding=0)
        self._plot.setYRange(min(scores) - high * 0.3, max(scores) + high * 0.45, padding=0)
        # Where nothing costs anything there is one place on the axis.
        self._plot.getAxis("bottom").setTicks(None if any(costs) else [[(0.0, self.tr("free"))]])
        told = (f"{one.name}: {quality(one):.0f}, {one.cost}" for one in shown)
        self._plot.setAccessibleDescription("; ".join(told))

    def _restyle(self) -> None:
        self._head.setFont(theme.font(12, 600))
        if self._plot is None:
            return
        for side, title in (("left", self.tr("score")), ("bottom", self.tr("cost of all rows"))):
            axis = self._plot.getAxis(side)
            axis.setPen(theme.color("line.strong"))
            axis.setTextPen(theme.color("muted"))
            axis.setTickFont(theme.font(11))
            axis.setLabel(title, **{"color": theme.hex("muted"), "font-size": f"{theme.px(11)}px"})
        self.refresh()


def _money_ticks(values: Sequence[float], scale: float, _spacing: float) -> list[str]:
    """The costs at the ticks of an axis, as pyqtgraph asks for them."""
    return [money_text(Decimal(str(round(value * scale, 12)))) if value >= 0 else "" for value in values]


def quality(figures: ProfileFigures) -> float | None:
    """The score, else what stars give out of 100; None without either."""
    if figures.score is not None:
        return figures.score
    return None if figures.stars is None else figures.stars * 20


def _is_priced(figures: ProfileFigures) -> bool:
    return figures.provenance is not CostProvenance.UNKNOWN
