"""A card with a chart: head, legend, plot, or why there is none; the plot is made when there is something to draw."""

import html
import os
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy, QVBoxLayout, QWidget

from workbench.text_format import plain_tip, visible_text
from workbench.theme import theme

HEIGHT = 190
"""Design px of a plot at least."""
NAMES = 6
"""Names a legend has at most."""


def load_plots() -> Any:
    """Load pyqtgraph, which takes a while: at first in a thread."""
    os.environ.setdefault("PYQTGRAPH_QT_LIB", "PySide6")
    import pyqtgraph

    return pyqtgraph


class ChartCard(QFrame):
    """What all charts of the dashboard have in common; `draw` is theirs."""

    chosen = Signal(object)
    """A bar or point was clicked: what it stands for."""

    def __init__(self, title: str, unit: str, nothing: str, parent: QWidget) -> None:
        """`nothing` is said while there is nothing to draw."""
        super().__init__(parent)
        self.setProperty("card", True)
        self.title = title
        self._unit = unit
        self._plot: Any = None
        self._items: list[Any] = []
        self._head, self._legend, self.nothing = QLabel(title, self), QLabel(self), QLabel(nothing, self)
        self._legend.setTextFormat(Qt.TextFormat.RichText)
        self._legend.setWordWrap(True)
        self._legend.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.nothing.setProperty("role", "muted")
        self.nothing.setWordWrap(True)
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._layout = QVBoxLayout(self)
        self._layout.addWidget(self._head)
        self._layout.addWidget(self._legend)
        self._layout.addWidget(self.nothing, 1)
        theme.changed.connect(self._restyle)
        self._restyle()

    def showEvent(self, event: QShowEvent) -> None:
        """Draw what came meanwhile."""
        super().showEvent(event)
        self.refresh()

    def _build(self) -> None:
        pg = load_plots()

        plot = self._plot = pg.PlotWidget(self, background=None)
        plot.setMenuEnabled(False)
        plot.setMouseEnabled(x=False, y=False)
        plot.hideButtons()
        plot.showGrid(x=False, y=True, alpha=0.15)
        plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        plot.setAccessibleName(self.title)
        for side in ("left", "bottom"):
            plot.getAxis(side).enableAutoSIPrefix(False)
        plot.scene().sigMouseClicked.connect(self._clicked)
        plot.scene().sigMouseMoved.connect(self._moved)
        self._layout.addWidget(plot, 1)
        self._style_plot()

    def refresh(self) -> None:
        """Draw anew what there is."""
        if not self.isVisible():
            return
        if self._plot is None:
            if not self.has_data():
                return
            self._build()
        for item in self._items:
            self._plot.removeItem(item)
        self._items = []
        there = self.has_data()
        self._plot.setVisible(there)
        self.nothing.setVisible(not there)
        self._legend.setText(self._legend_text(self.legend()) if there else "")
        self._legend.setVisible(bool(self._legend.text()))
        if there:
            self.draw()
            self._plot.setAccessibleDescription(self.in_words())

    def add(self, item: Any) -> None:
        """Put something into the plot until it is drawn anew."""
        self._plot.addItem(item, ignoreBounds=True)
        self._items.append(item)

    def add_line(self, value: float, text: str, *, across: bool, color: str = "warn") -> None:
        """A dashed line with its name: a limit across, or a median upwards."""
        import pyqtgraph as pg

        pen = pg.mkPen(theme.color(color), width=1, style=Qt.PenStyle.DashLine)
        place = {"position": 0.96 if not across else 0.04, "color": theme.color(color), "anchors": [(0, 1), (0, 1)]}
        place["fill"] = theme.color("bg.card", 0.8)
        if not across:
            place["anchors"] = [(0, 0), (0, 0)]
        line = pg.InfiniteLine(value, angle=0 if across else 90, pen=pen, label=text, labelOpts=place)
        line.label.setFont(theme.font(11))
        self.add(line)

    @property
    def plot(self) -> Any:
        """The plot, once it was seen."""
        return self._plot

    def _legend_text(self, names: Sequence[tuple[str, str]]) -> str:
        def entry(name: str, color: str) -> str:
            shown = html.escape(visible_text(name if len(name) <= 24 else f"{name[:11]}…{name[-12:]}"))
            # A name keeps together, whatever it has between its words.
            shown = shown.replace(" ", "&nbsp;").replace("-", "&#8209;")
            return f"<span style='color:{theme.hex(color)}'>●</span>&nbsp;{shown}"

        shown = [entry(*one) for one in names[:NAMES]]
        if len(names) > NAMES:
            shown.append(self.tr("and %1 more").replace("%1", str(len(names) - NAMES)))
        return "&nbsp;&nbsp; ".join(shown)

    def _place(self, position: QPointF) -> QPointF | None:
        """Where in the figures a place of the scene is; None outside of the plot."""
        view = self._plot.getViewBox()
        if not self.has_data() or not view.sceneBoundingRect().contains(position):
            return None
        place: QPointF = view.mapSceneToView(position)
        return place

    def _clicked(self, event: Any) -> None:
        place = self._place(event.scenePos())
        found = self.at(place) if place is not None and event.button() == Qt.MouseButton.LeftButton else None
        if found is not None:
            self.chosen.emit(found[0])

    def _moved(self, position: QPointF) -> None:
        place = self._place(position)
        found = self.at(place) if place is not None else None
        self._plot.setToolTip(plain_tip(found[1]) if found is not None else "")
        self._plot.setCursor(Qt.CursorShape.PointingHandCursor if found is not None else Qt.CursorShape.ArrowCursor)

    def _restyle(self) -> None:
        self._layout.setContentsMargins(theme.px(12), theme.px(8), theme.px(12), theme.px(8))
        self._layout.setSpacing(theme.px(4))
        self._head.setFont(theme.font(13, 600))
        self._legend.setFont(theme.font(11))
        self.nothing.setFont(theme.font(12))
        self.setMinimumHeight(theme.px(HEIGHT) + theme.px(52))
        if self._plot is not None:
            self._style_plot()
            self.refresh()

    def _style_plot(self) -> None:
        self._plot.setBackground(theme.color("bg.card"))
        for side, text in (("left", self._unit), ("bottom", "")):
            axis = self._plot.getAxis(side)
            axis.setPen(theme.color("line.strong"))
            axis.setTextPen(theme.color("text2"))
            axis.setTickFont(theme.font(11))
            if text:
                axis.setLabel(text, **{"color": theme.hex("muted"), "font-size": f"{theme.px(11)}px"})
        self._plot.getAxis("left").setWidth(theme.px(64))
        self._plot.getAxis("bottom").setHeight(theme.px(24))

    # -- what a chart says of itself ----------------------------------------------------------------------------------

    def has_data(self) -> bool:
        """Whether there is anything to draw."""
        raise NotImplementedError

    def legend(self) -> list[tuple[str, str]]:
        """Names with their colours."""
        return []

    def draw(self) -> None:
        """Add what is to be seen."""
        raise NotImplementedError

    def at(self, place: QPointF) -> tuple[object, str] | None:
        """What is at a place of the plot, and that in words."""
        raise NotImplementedError

    def in_words(self) -> str:
        """What the chart shows, for who does not see it."""
        raise NotImplementedError
