"""The phase clock: queued, connecting, loading, reading, thinking, answering, each with its own time."""

from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.completion import Phase
from workbench.run_panel.labels import STATE_LOOKS
from workbench.run_panel.run_state import Attempt, State
from workbench.text_format import plain_rate_text, seconds_text
from workbench.theme import theme
from workbench.widgets.icon_label import paint_state_icon

SHORT_PHASE = 0.5
"""Seconds below which finished phases are joined when there is little room."""
ENDS = {State.FAILED: "broken", State.STOPPED: "stopped"}
"""How an attempt that broke off leaves its last phase."""
LOOKS = {
    "done": ("edge", "check", "text2", "text2"),
    "current": ("run", "spinner", "run", "text"),
    "broken": ("err", "cross", "err", "text"),
    "stopped": ("muted", *STATE_LOOKS[State.STOPPED], "text"),
    "future": ("line.strong", "", "", "muted"),
}
"""Segment state → colour token of the bar, icon, its colour token, colour token of the name."""
WIDEST_TIME = "88.8 s"
WIDEST_RATE = "~8,888/s"


@dataclass(slots=True)
class Segment:
    """One piece of the clock."""

    name: str
    time: str = ""
    rate: str = ""
    state: str = "future"
    """done, current, broken (where it failed), stopped or future."""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """As a screen reader says it."""
        return " ".join(part for part in (self.name, self.time, self.rate) if part)


class PhaseClock(QWidget):
    """Painted row of phases of one attempt."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._segments: list[Segment] = []
        self._spoken = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:
        """Bars, names and a little air."""
        return QSize(theme.px(400), theme.px(34))

    def minimumSizeHint(self) -> QSize:
        """Names are elided when there is no room."""
        return QSize(theme.px(120), theme.px(34))

    @property
    def segments(self) -> list[Segment]:
        """What is shown, for tests and screen readers."""
        return self._segments

    def show_attempt(self, attempt: Attempt | None, now: float) -> None:
        """Bring the times up to date."""
        self._segments = self._phases(attempt, now) if attempt is not None else []
        current = next((segment for segment in self._segments if segment.state == "current"), None)
        spoken = (
            self.tr("Now: %1").replace("%1", current.name)
            if current
            else ", ".join(segment.text for segment in self._segments if segment.state == "done")
        )
        if spoken != self._spoken:
            self._spoken = spoken
            self.setAccessibleName(self.tr("Phases. %1").replace("%1", spoken))
        self.setToolTip("\n".join(segment.text for segment in self._segments))
        self.update()

    def _names(self) -> dict[Phase, str]:
        return {
            Phase.QUEUED: self.tr("Queued"),
            Phase.CONNECTING: self.tr("Connecting"),
            Phase.LOADING_MODEL: self.tr("Loading model"),
            Phase.READING_PROMPT: self.tr("Reading prompt"),
            Phase.THINKING: self.tr("Thinking"),
            Phase.ANSWERING: self.tr("Answering"),
        }

    def _phases(self, attempt: Attempt, now: float) -> list[Segment]:
        order = list(Phase)
        reached = max((order.index(span.phase) for span in attempt.spans), default=-1)
        current = attempt.spans[-1].phase if attempt.spans and attempt.spans[-1].end is None else None
        segments = []
        for index, (phase, name) in enumerate(self._names().items()):
            seconds = attempt.phase_seconds(phase, now)
            met = any(span.phase is phase for span in attempt.spans)
            if phase is current:
                segment = Segment(name, seconds_text(seconds), self._rate(attempt, phase, seconds), "current", seconds)
            elif met:
                segment = Segment(name, seconds_text(seconds), self._rate(attempt, phase, seconds), "done", seconds)
            elif index < reached or attempt.ended is not None:
                segment = Segment(name, self.tr("none"), state="done" if index < reached else "future")
            else:
                segment = Segment(name)
            segments.append(segment)
        if reached >= 0:
            segments[reached].state = ENDS.get(attempt.state, segments[reached].state)
        return segments

    @staticmethod
    def _rate(attempt: Attempt, phase: Phase, seconds: float) -> str:
        if seconds < 0.05:
            return ""
        count, estimated = 0, False
        if phase is Phase.THINKING:
            count, estimated = attempt.reasoning_tokens()
        elif phase is Phase.ANSWERING:
            count, estimated = attempt.content_tokens()
        elif phase is Phase.READING_PROMPT and attempt.statistics is not None:
            count, estimated = attempt.statistics.in_tokens, attempt.statistics.estimated
        return f"{plain_rate_text(count / seconds, estimated)}/s" if count else ""

    # -- painting ---------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw bars, names, times."""
        if not self._segments:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        gap, margin = theme.px(4), theme.px(12)
        room = self.width() - 2 * margin
        segments, widths = self._fitting(room, gap)
        left = float(margin)
        for segment, width in zip(segments, widths, strict=True):
            self._paint_segment(painter, segment, QRectF(left, theme.px(6), width, self.height() - theme.px(6)))
            left += width + gap

    def _fitting(self, room: float, gap: float) -> tuple[list[Segment], list[float]]:
        """The segments that fit, joined where they are too many, and their widths; all room is used."""
        segments = self._segments
        widths = [self._wanted(segment) for segment in segments]
        if sum(widths) + gap * (len(widths) - 1) > room:
            segments = self._joined()
            widths = [self._wanted(segment) for segment in segments]
        if sum(widths) + gap * (len(widths) - 1) > room:
            segments = [segment for segment in segments if segment.state != "future"] or segments[-1:]
            widths = [self._wanted(segment) for segment in segments]
        scale = (room - gap * (len(widths) - 1)) / sum(widths)
        return segments, [width * scale for width in widths]

    def _joined(self) -> list[Segment]:
        """Short finished phases as one, phases that did not happen left out."""
        kept: list[Segment] = []
        short = [one for one in self._segments if one.state == "done" and one.seconds < SHORT_PHASE]
        if short:
            seconds = sum(one.seconds for one in short)
            kept.append(Segment(self.tr("Ready"), seconds_text(seconds), state="done", seconds=seconds))
        return kept + [one for one in self._segments if one not in short and one.time != self.tr("none")]

    def _wanted(self, segment: Segment) -> float:
        name = QFontMetricsF(theme.font(11, 600)).horizontalAdvance(segment.name)
        figures = QFontMetricsF(theme.font(11))
        width = name + theme.px(16)
        if segment.state != "future":
            width += theme.px(16)
        if segment.time:
            reserved = WIDEST_TIME if segment.seconds or segment.state == "current" else segment.time
            width += figures.horizontalAdvance(reserved)
        if segment.rate:
            width += figures.horizontalAdvance(WIDEST_RATE) + theme.px(6)
        return width

    def _paint_segment(self, painter: QPainter, segment: Segment, rect: QRectF) -> None:
        color, icon, icon_color, name_color = LOOKS[segment.state]
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color(color))
        bar = theme.px(3)
        painter.drawRoundedRect(QRectF(rect.left(), rect.top(), rect.width(), bar), bar / 2, bar / 2)
        top, height = rect.top() + theme.px(7), theme.px(16)
        left = rect.left()
        right = rect.right()
        if icon:
            place = QRectF(left, top + theme.px(2), theme.px(12), theme.px(12))
            paint_state_icon(painter, icon, place, icon_color)
            left += theme.px(15)
        weight = 600 if segment.state == "current" else 400
        figure_color = "run" if segment.state == "current" else "muted"
        parts = [(segment.name, weight, name_color), (segment.time, weight, figure_color)]
        if segment.rate:
            parts.append((segment.rate, weight, figure_color))
        for text, text_weight, token in parts:
            if not text or left >= right:
                continue
            font = theme.font(11, text_weight)
            metrics = QFontMetricsF(font)
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, right - left)
            painter.setFont(font)
            painter.setPen(theme.color(token))
            painter.drawText(QRectF(left, top, right - left, height), int(Qt.AlignmentFlag.AlignVCenter), shown)
            left += metrics.horizontalAdvance(shown) + theme.px(6)
