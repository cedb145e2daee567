"""How a recorded run looks in lists: its icon, its name, how it ended and where it came from, in words."""

from PySide6.QtCore import QCoreApplication

from engine import RunRow
from engine.events import REPLAY
from workbench.text_format import when_text

translate = QCoreApplication.translate

STATUS_LOOKS = {
    "finished": ("ok", "ok"),
    "failed": ("failed", "err"),
    "stopped": ("stop", "warn"),
    "budget": ("warning", "warn"),
    "crashed": ("error", "err"),
    "running": ("spinner", "run"),
}
"""Status of a run → icon, colour."""


def run_look(row: RunRow) -> tuple[str, str]:
    """Icon and colour of a run."""
    icon, color = STATUS_LOOKS.get(row.status, STATUS_LOOKS["failed"])
    return ("tape" if row.origin == REPLAY else icon), color


def status_word(status: str) -> str:
    """How a run ended, in words."""
    words = {
        "finished": translate("overview", "Finished"),
        "failed": translate("overview", "Failed"),
        "stopped": translate("overview", "Stopped"),
        "budget": translate("overview", "Stopped at a limit"),
        "crashed": translate("overview", "Crashed"),
        "running": translate("overview", "Running"),
    }
    return words.get(status, words["failed"])


def origin_word(row: RunRow) -> str:
    """Where a run came from, and whether its context was edited; empty for one of its own."""
    words = {
        "resume": translate("overview", "resumed"),
        "from": translate("overview", "run from an agent"),
        "repeat": translate("overview", "repeated"),
        "replay": translate("overview", "replay"),
    }
    parts = [words[row.origin]] if row.origin in words else []
    if row.edited:
        parts.append(translate("overview", "edited"))
    return ", ".join(parts)


def run_text(row: RunRow) -> str:
    """A run in one line: when, which flow, and where it came from."""
    text = f"{when_text(row.started.timestamp())}  {row.flow}"
    origin = origin_word(row)
    return f"{text} · {origin}" if origin else text
