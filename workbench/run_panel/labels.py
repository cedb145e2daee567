"""Small parts of the panel's heads and rows: figures, and how each state looks."""

from datetime import datetime

from PySide6.QtCore import QCoreApplication, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QWidget

from engine.events import Graded, GradeOutcome
from workbench.run_panel.run_state import State, grade_outcome
from workbench.text_format import visible_text
from workbench.theme import theme

translate = QCoreApplication.translate

STATE_LOOKS = {
    State.QUEUED: ("pending", "muted"),
    State.RUNNING: ("spinner", "run"),
    State.ANSWERED: ("ok", "ok"),
    State.DONE: ("ok", "ok"),
    State.CACHED: ("cached", "text2"),
    State.FROZEN: ("frozen", "ice"),
    State.REJECTED: ("warning", "warn"),
    State.NO_ANSWER: ("warning", "warn"),
    State.CUT_OFF: ("cut-off", "warn"),
    State.STOPPED: ("stop", "muted"),
    State.FAILED: ("failed", "err"),
}
"""State → (icon, colour token)."""


GRADE_LOOKS = {
    GradeOutcome.PASSED: ("check", "ok"),
    GradeOutcome.FAILED: ("cross", "err"),
    GradeOutcome.UNPARSABLE: ("warning", "warn"),
    GradeOutcome.UNANSWERED: ("chat", "warn"),
}
"""What a grader made of an answer → (icon, colour token)."""


def grade_word(outcome: GradeOutcome) -> str:
    """What became of a grade, in a word of the window's language."""
    words = {
        GradeOutcome.PASSED: translate("RunPanel", "passed"),
        GradeOutcome.FAILED: translate("RunPanel", "failed"),
        GradeOutcome.UNPARSABLE: translate("RunPanel", "unparsable"),
        GradeOutcome.UNANSWERED: translate("RunPanel", "unanswered"),
    }
    return words[outcome]


def grade_text(graded: Graded) -> str:
    """`passed 88`; without a rating only the word, for no rating is not 0."""
    word = grade_word(grade_outcome(graded))
    return word if graded.rating is None else f"{word} {graded.rating:g}"


def grade_sentence(graded: Graded) -> str:
    """The grade with its round and what the grader says, for a tip."""
    parts = [grade_text(graded)]
    if graded.iteration:
        parts.append(translate("RunPanel", "round %1").replace("%1", str(graded.iteration)))
    text = ", ".join(parts)
    return f"{text}: {graded.explanation}" if graded.explanation.strip() else text


def state_look(state: State, warned: bool = False) -> tuple[str, str]:
    """Icon and colour token of a state; one that got over trouble, or is stale, shows the warning."""
    if warned and state is State.ANSWERED:
        return STATE_LOOKS[State.REJECTED]
    if warned and state is State.FROZEN:
        return "stale", "warn"
    return STATE_LOOKS[state]


def state_word(state: State) -> str:
    """The state in a word of the window's language."""
    words = {
        State.QUEUED: translate("RunPanel", "Queued"),
        State.RUNNING: translate("RunPanel", "Running"),
        State.ANSWERED: translate("RunPanel", "Answered"),
        State.DONE: translate("RunPanel", "Done"),
        State.CACHED: translate("RunPanel", "Cached"),
        State.FROZEN: translate("RunPanel", "Frozen"),
        State.REJECTED: translate("RunPanel", "Not usable"),
        State.NO_ANSWER: translate("RunPanel", "No answer"),
        State.CUT_OFF: translate("RunPanel", "Cut off"),
        State.STOPPED: translate("RunPanel", "Stopped"),
        State.FAILED: translate("RunPanel", "Failed"),
    }
    return words[state]


def run_title(flow: str, started: float | None) -> str:
    """What runs, and since when as far as that is known."""
    if started is None:
        return visible_text(flow)
    clock = datetime.fromtimestamp(started).astimezone().strftime("%H:%M:%S")
    text = translate("RunPanel", "%1, started %2")
    return text.replace("%2", clock).replace("%1", visible_text(flow))


class Figures(QLabel):
    """Text of a head: one line of plain text, its own font size and colour, elided rather than widening its pane."""

    def __init__(self, size: float, weight: int = 400, color: str = "muted", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._size, self._weight, self._color = size, weight, color
        self._fitted = ("", 0, "")
        """Text, width, and what of the text fits."""
        self.setTextFormat(Qt.TextFormat.PlainText)
        theme.changed.connect(self._restyle)
        self._restyle()

    def set_color(self, color: str) -> None:
        """Take another colour token."""
        if color != self._color:
            self._color = color
            self._restyle()

    def _restyle(self) -> None:
        self._fitted = ("", 0, "")
        self.setFont(theme.font(self._size, self._weight))
        palette = self.palette()
        palette.setColor(self.foregroundRole(), theme.color(self._color))
        self.setPalette(palette)

    def minimumSizeHint(self) -> QSize:
        """Allow eliding."""
        return QSize(theme.px(24), super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the text, elided at its end when there is no room."""
        painter = QPainter(self)
        place = self.contentsRect()
        painter.setFont(self.font())
        painter.setPen(theme.color(self._color))
        text, width = self.text(), place.width()
        if self._fitted[:2] != (text, width):
            self._fitted = (text, width, self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, width))
        painter.drawText(place, int(self.alignment() | Qt.TextFlag.TextSingleLine), self._fitted[2])
