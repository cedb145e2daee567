"""The Trace tab: the symbol traces of the results above a timeline of the requests."""

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QSizePolicy, QSplitter, QToolButton, QVBoxLayout, QWidget

from workbench.run_panel.labels import Figures
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import Branch
from workbench.run_panel.timeline import ANSWER, READ, THINK, WAIT, Timeline, paint_bar
from workbench.run_panel.trace_entries import live_trace, parse_trace, trace_text, with_grades
from workbench.run_panel.trace_line import TraceLine
from workbench.theme import theme

MAX_LINES = 100
"""Traces shown; a run without merges may have thousands."""


class Legend(QWidget):
    """What the pieces of a bar mean."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names = {
            WAIT: self.tr("wait"),
            READ: self.tr("reading"),
            THINK: self.tr("thinking"),
            ANSWER: self.tr("answering"),
        }
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(", ".join(self._names.values()))

    def minimumSizeHint(self) -> QSize:
        """May be cut by a narrow panel."""
        return QSize(theme.px(40), theme.px(20))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw samples and names while there is room."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(theme.font(11))
        metrics = QFontMetricsF(painter.font())
        left = 0.0
        for kind, name in self._names.items():
            width = theme.px(20) + theme.px(6) + metrics.horizontalAdvance(name)
            if left + width > self.width():
                break
            paint_bar(painter, kind, QRectF(left, (self.height() - theme.px(8)) / 2, theme.px(20), theme.px(8)))
            painter.setPen(theme.color("text2"))
            place = QRectF(left + theme.px(26), 0, width, self.height())
            painter.drawText(place, int(Qt.AlignmentFlag.AlignVCenter), name)
            left += width + theme.px(12)


class TraceView(QWidget):
    """Traces and timeline of the run."""

    agent_chosen = Signal(str)
    branch_chosen = Signal(int, str)
    """Step number, branch path."""

    def __init__(self, model: RunModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._lines: list[TraceLine] = []
        self._more = Figures(11, parent=self)
        self._more.setContentsMargins(theme.px(12), 0, 0, 0)
        self._more.hide()
        inside = QWidget(self)
        self._traces = QVBoxLayout(inside)
        self._traces.setContentsMargins(0, theme.px(4), 0, theme.px(4))
        self._traces.setSpacing(0)
        self._traces.addWidget(self._more)
        self._traces.addStretch(1)
        self._area = QScrollArea(self)
        self._area.setAccessibleName(self.tr("Symbol traces"))
        self._area.setWidgetResizable(True)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setWidget(inside)
        self.timeline = Timeline(model, self)
        self.timeline.branch_chosen.connect(self.branch_chosen)
        below = QWidget(self)
        lower = QVBoxLayout(below)
        lower.setContentsMargins(0, 0, 0, 0)
        lower.setSpacing(0)
        lower.addWidget(self._head())
        lower.addWidget(self.timeline, 1)
        self._splitter = QSplitter(Qt.Orientation.Vertical, self)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setHandleWidth(1)
        self._splitter.addWidget(self._area)
        self._splitter.addWidget(below)
        self._splitter.setStretchFactor(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._splitter)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _head(self) -> QWidget:
        self._bar = QWidget(self)
        row = QHBoxLayout(self._bar)
        name = Figures(12, 600, "text", self)
        name.setText(self.tr("Timeline"))
        name.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        row.addWidget(name)
        row.addWidget(Legend(self), 1)
        self._buttons = []
        actions = (
            ("zoom-out", self.tr("Narrow the time axis (Ctrl+wheel)"), lambda: self.timeline.zoom_by(0.8)),
            ("zoom-in", self.tr("Widen the time axis (Ctrl+wheel)"), lambda: self.timeline.zoom_by(1.25)),
            ("fit", self.tr("Show the whole run"), self.timeline.fit),
        )
        for icon, tip, action in actions:
            button = QToolButton(self)
            button.setToolTip(tip)
            button.setAccessibleName(tip)
            button.clicked.connect(action)
            row.addWidget(button)
            self._buttons.append((button, icon))
        return self._bar

    def _restyle(self) -> None:
        self._bar.setFixedHeight(theme.px(30))
        layout = self._bar.layout()
        if layout is not None:
            layout.setContentsMargins(theme.px(12), 0, theme.px(8), 0)
            layout.setSpacing(theme.px(12))
        for button, icon in self._buttons:
            button.setIcon(theme.icon(icon, 16))
            button.setIconSize(QSize(theme.px(16), theme.px(16)))
        self._splitter.setSizes([theme.px(76), theme.px(400)])

    @property
    def lines(self) -> list[TraceLine]:
        """The traces on show."""
        return [line for line in self._lines if line.entries]

    @property
    def text(self) -> str:
        """The traces as text, one a line, with the symbols."""
        return "\n".join(trace_text(line.entries) for line in self.lines)

    def refresh(self) -> None:
        """Take what the run has now."""
        results = self._model.results
        if results:
            traces = [
                with_grades(parse_trace(result.trace_timed or result.trace), self._model)
                for result in results[:MAX_LINES]
            ]
        else:
            traces = [live_trace(self._model)]
        while len(self._lines) < len(traces):
            line = TraceLine(self)
            line.agent_clicked.connect(self.agent_chosen)
            self._traces.insertWidget(len(self._lines), line)
            self._lines.append(line)
        for number, line in enumerate(self._lines):
            line.show_entries(traces[number] if number < len(traces) else [])
            line.setVisible(number < len(traces))
        hidden = len(results) - MAX_LINES
        self._more.setVisible(hidden > 0)
        self._more.setText(self.tr("and %1 more results").replace("%1", f"{max(0, hidden):,}"))
        self.timeline.refresh()

    def select(self, branch: Branch | None) -> None:
        """Mark a branch in the timeline."""
        self.timeline.select(branch)
