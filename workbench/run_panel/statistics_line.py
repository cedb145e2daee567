"""The line below a stream: first token, speed, tokens, cost, how it ended."""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.completion import FinishReason
from engine.events import Graded, StopProof, StopProved
from workbench.run_panel.labels import GRADE_LOOKS, grade_text, state_word
from workbench.run_panel.run_state import Attempt, Branch, State, Step, grade_outcome
from workbench.text_format import cost_text, rate_text, seconds_text, tokens_text
from workbench.theme import theme

translate = QCoreApplication.translate


@dataclass(slots=True)
class Figure:
    """One label with its value; higher `drop` goes first when there is no room."""

    label: str
    value: str
    color: str = "text"
    drop: int = 0


def attempt_figures(branch: Branch, attempt: Attempt, now: float) -> list[Figure]:
    """The figures of one attempt, live or final."""
    live = attempt.statistics is None
    first = attempt.first_token()
    rate = attempt.tokens_per_second(now)
    out, out_estimated = attempt.content_tokens()
    thought, thought_estimated = attempt.reasoning_tokens()
    done = attempt.statistics
    estimated = done is not None and done.estimated
    asked_again = sum(not one.tools for one in branch.attempts[:-1])  # a request with the results of tools is none
    grade = branch.grade
    graded = [] if grade is None else [_grade_figure(grade)]
    return [
        *graded,
        Figure(translate("StatisticsLine", "First token"), seconds_text(first) if first is not None else "–"),
        Figure(
            translate("StatisticsLine", "Speed"),
            rate_text(rate, live or estimated) if rate else "–",
            "run" if live and branch.state is State.RUNNING else "text",
        ),
        Figure(translate("StatisticsLine", "In"), tokens_text(done.in_tokens, estimated) if done else "–"),
        Figure(translate("StatisticsLine", "Cached"), tokens_text(done.cached_in_tokens) if done else "–", drop=1),
        Figure(translate("StatisticsLine", "Out"), tokens_text(out, out_estimated)),
        Figure(translate("StatisticsLine", "Reasoning"), tokens_text(thought, thought_estimated and thought > 0)),
        Figure(translate("StatisticsLine", "Cost"), cost_of_attempt(attempt)),
        Figure(translate("StatisticsLine", "Finish"), finish_text(attempt), drop=2),
        *([] if attempt.proof is None else [_proof_figure(attempt.proof)]),
        Figure(translate("StatisticsLine", "Retries"), str(len(attempt.retries) + asked_again), drop=3),
    ]


def _grade_figure(grade: Graded) -> Figure:
    return Figure(translate("StatisticsLine", "Grade"), grade_text(grade), GRADE_LOOKS[grade_outcome(grade)][1])


def _proof_figure(told: StopProved) -> Figure:
    """What the server of a stopped call does."""
    color = "warn" if told.proof is StopProof.WORKING else "text"
    return Figure(translate("StatisticsLine", "Server"), proof_text(told), color)


def proof_text(told: StopProved) -> str:
    """Whether the server stopped, in words."""
    words = {
        StopProof.STOPPED: translate("StatisticsLine", "stopped"),
        StopProof.WORKING: translate("StatisticsLine", "still works (%1 of %2 slots)"),
        StopProof.CLOSED: translate("StatisticsLine", "connection closed"),
        StopProof.SILENT: translate("StatisticsLine", "connection closed, does not answer"),
    }
    return words[told.proof].replace("%1", str(told.busy)).replace("%2", str(told.slots))


def cost_of_attempt(attempt: Attempt) -> str:
    """Money of one attempt; a dash before it is known, `cached` or `frozen` when nothing was paid."""
    if attempt.frozen_from:
        return translate("StatisticsLine", "frozen")
    if attempt.cached:
        return translate("StatisticsLine", "cached")
    if attempt.statistics is None:
        return "–"
    return cost_text(attempt.statistics.cost, attempt.statistics.provenance)


def finish_text(attempt: Attempt) -> str:
    """Why the model stopped, in words."""
    if attempt.state is State.RUNNING:
        return (
            translate("StatisticsLine", "streaming")
            if attempt.content.length or attempt.reasoning.length
            else translate("StatisticsLine", "waiting")
        )
    words = {
        FinishReason.DONE: translate("StatisticsLine", "done"),
        FinishReason.TOKEN_LIMIT_REACHED: translate("StatisticsLine", "token limit"),
        FinishReason.CONTENT_FILTERED: translate("StatisticsLine", "filtered"),
        FinishReason.TOOL_CALLS: translate("StatisticsLine", "tool calls"),
        FinishReason.ERROR: translate("StatisticsLine", "error"),
        FinishReason.STOPPED: translate("StatisticsLine", "stopped"),
    }
    if attempt.from_thinking:
        return translate("StatisticsLine", "thinking taken as answer")
    if attempt.finish_reason is None:
        return state_word(attempt.state).lower()
    return words[attempt.finish_reason]


def step_figures(step: Step, now: float) -> list[Figure]:
    """The figures of all branches of an agent execution together."""
    total = step.totals.statistics()
    live = bool(step.open_attempts)
    out = total.out_tokens + sum(one.content_tokens()[0] for one in step.open_attempts)
    thought = total.reasoning_out_tokens + sum(one.reasoning_tokens()[0] for one in step.open_attempts)
    seconds = step.seconds(now)
    cost = "–"
    if total.requests or total.cached_prompts:
        cost = cost_text(total.cost, total.provenance, lower_bound=live)
    return [
        Figure(translate("StatisticsLine", "Branches"), f"{step.done_count}/{max(step.splits, len(step.branches))}"),
        Figure(
            translate("StatisticsLine", "Speed"),
            rate_text((out + thought) / seconds, live or total.estimated) if seconds > 0 else "–",
        ),
        Figure(translate("StatisticsLine", "In"), tokens_text(total.in_tokens, total.estimated)),
        Figure(translate("StatisticsLine", "Cached"), tokens_text(total.cached_in_tokens), drop=1),
        Figure(translate("StatisticsLine", "Out"), tokens_text(out, live or total.estimated)),
        Figure(
            translate("StatisticsLine", "Reasoning"), tokens_text(thought, (live or total.estimated) and thought > 0)
        ),
        Figure(translate("StatisticsLine", "Cost"), cost),
        Figure(translate("StatisticsLine", "Time"), seconds_text(seconds), drop=2),
    ]


class StatisticsLine(QWidget):
    """Painted line of figures; what has no room is dropped in a fixed order."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures: list[Figure] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:
        """One line."""
        return QSize(theme.px(300), theme.px(26))

    def minimumSizeHint(self) -> QSize:
        """May drop nearly everything."""
        return QSize(theme.px(60), theme.px(26))

    def show_figures(self, figures: list[Figure]) -> None:
        """Show these, and say them to a screen reader."""
        if figures != self._figures:
            self._figures = figures
            self.setAccessibleName(self.text())
            self.setToolTip(self.text())
            self.update()

    def text(self) -> str:
        """The whole line as text."""
        return ", ".join(f"{figure.label} {figure.value}" for figure in self._figures)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the figures that fit."""
        painter = QPainter(self)
        painter.setPen(theme.color("line"))
        painter.drawLine(0, 0, self.width(), 0)
        label_font, value_font = theme.font(11), theme.font(11, 500)
        label_metrics, value_metrics = QFontMetricsF(label_font), QFontMetricsF(value_font)
        gap, inner, margin = theme.px(16), theme.px(6), theme.px(12)
        least = value_metrics.horizontalAdvance("888")
        shown = []
        for figure in self._figures:
            label = label_metrics.horizontalAdvance(figure.label) + inner
            shown.append((figure, label, label + max(value_metrics.horizontalAdvance(figure.value), least) + gap))
        room = self.width() - 2 * margin + gap - sum(width for _, _, width in shown)
        while len(shown) > 1 and room < 0:
            dropped = max(range(len(shown)), key=lambda number: (shown[number][0].drop, number))
            room += shown.pop(dropped)[2]
        left = float(margin)
        for figure, label, width in shown:
            painter.setFont(label_font)
            painter.setPen(theme.color("muted"))
            rect = QRectF(left, 0, self.width() - left, self.height())
            painter.drawText(rect, int(Qt.AlignmentFlag.AlignVCenter), figure.label)
            painter.setFont(value_font)
            painter.setPen(theme.color(figure.color))
            painter.drawText(rect.adjusted(label, 0, 0, 0), int(Qt.AlignmentFlag.AlignVCenter), figure.value)
            left += width
