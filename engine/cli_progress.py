"""How commands tell how far they are."""

import sys
import time
from collections.abc import Callable

from engine.cli_text import Terminal

TOLD_EVERY = 5.0
"""Seconds between lines of progress where there is no terminal."""


class ProgressLine:
    """The progress on stderr: one line that changes on a terminal, else a line every few seconds."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._live = sys.stderr.isatty() and not terminal.quiet
        self._shown = False
        self._next = time.monotonic() + TOLD_EVERY

    def show(self, text: Callable[[], str]) -> None:
        """Show how far the work is, if it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (0.2 if self._live else TOLD_EVERY)
        if self._live:
            print(f"\r\x1b[K{text()}", end="", file=sys.stderr, flush=True)  # noqa: T201
            self._shown = True
        else:
            self._terminal.note(text())

    def clear(self) -> None:
        """Make room for another line."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)  # noqa: T201
            self._shown = False


def duration_text(seconds: float) -> str:
    """A span of time for people: `45 s`, `12 min`, `3 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
