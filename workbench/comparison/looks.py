"""How the states of answers look and what they are called."""

from PySide6.QtCore import QCoreApplication

from engine.comparison_values import CellResult, CellStatus
from engine.completion import Phase

translate = QCoreApplication.translate

LOOKS = {
    CellStatus.ANSWERED: ("ok", "ok"),
    CellStatus.NO_ANSWER: ("warning", "warn"),
    CellStatus.CUT_OFF: ("cut-off", "warn"),
    CellStatus.FAILED: ("failed", "err"),
    CellStatus.BUDGET: ("cost", "warn"),
    CellStatus.INVALID: ("error", "err"),
}
"""Status → (icon, colour token)."""


def status_text(result: CellResult) -> str:
    """What became of an answer, in words."""
    words = {
        CellStatus.ANSWERED: translate("Comparison", "Answered"),
        CellStatus.NO_ANSWER: translate("Comparison", "No answer"),
        CellStatus.CUT_OFF: translate("Comparison", "Cut off"),
        CellStatus.FAILED: translate("Comparison", "Failed"),
        CellStatus.BUDGET: translate("Comparison", "Limit reached"),
        CellStatus.INVALID: translate("Comparison", "Faulty row"),
    }
    tokens = result.statistics.out_tokens + result.statistics.reasoning_out_tokens
    if result.status is CellStatus.CUT_OFF and result.finish == "TOKEN_LIMIT_REACHED" and tokens:
        return translate("Comparison", "Cut off at %1 tokens").replace("%1", f"{tokens:,}")
    return words[result.status]


def phase_text(phase: Phase) -> str:
    """Where an answer is that is on its way."""
    words = {
        Phase.QUEUED: translate("Comparison", "Queued"),
        Phase.CONNECTING: translate("Comparison", "Connecting"),
        Phase.LOADING_MODEL: translate("Comparison", "Loading model"),
        Phase.READING_PROMPT: translate("Comparison", "Reading prompt"),
        Phase.THINKING: translate("Comparison", "Thinking"),
        Phase.ANSWERING: translate("Comparison", "Answering"),
    }
    return words.get(phase, translate("Comparison", "Under way"))


def score_look(result: CellResult) -> tuple[str, str, str] | None:
    """Icon, colour and text of a cell's score; None while nothing was judged. A verdict that is missing is `?`."""
    if not result.grades:
        return None
    score = result.score
    if score is None:
        return "warning", "warn", "?"
    icon, color = ("check", "ok") if score > 60 else ("cross", "err")
    return icon, color, f"{score:.0f}"
