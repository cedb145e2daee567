"""P6: a pane that takes 200,000 characters in small pieces, beside inserting every piece; 100 KB of Markdown streamed.

Usage: python benchmarks/panes.py [--quick]
"""

import argparse
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from table import Table

from workbench.run_panel.error_guard import ErrorGuard
from workbench.run_panel.run_state import StreamedText
from workbench.run_panel.stream_text import RENDER_LIMIT, PaneFlusher, StreamText, View
from workbench.theme import theme

PIECE = "word"
LINE = 100
"""Pieces in a line."""
UPDATE = 400
"""Characters of Markdown that come between two updates: 12,000 a second."""
BURST = 500
"""Pieces that come between two looks at Qt's events."""
PART = (
    "## Heading\n\nSome **bold words** and `code` in a paragraph that goes on for a while, so that it wraps a few "
    "times in a pane of the usual width.\n\n- one point\n- another *point*\n\n"
    "```python\ndef f(x):\n    return x\n```\n\n"
)


def pieces(count: int) -> list[str]:
    """Pieces of text with a line feed now and then."""
    return ["\n" if number % LINE == LINE - 1 else PIECE for number in range(count)]


def naive(app: QApplication, text: list[str]) -> float:
    """Microseconds a piece when each is inserted and scrolled to as it comes."""
    edit = QPlainTextEdit()
    edit.resize(600, 400)
    edit.show()
    app.processEvents()
    start = time.process_time()
    for number, piece in enumerate(text):
        cursor = QTextCursor(edit.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(piece)
        edit.verticalScrollBar().setValue(edit.verticalScrollBar().maximum())
        if number % BURST == 0:
            app.processEvents()
    app.processEvents()
    return (time.process_time() - start) / len(text) * 1e6


class Pane:
    """The product's pane in a window of its own."""

    def __init__(self, app: QApplication, view: View | None) -> None:
        self.app = app
        self.flusher = PaneFlusher(ErrorGuard())
        self.text = StreamText(self.flusher)
        self.source = StreamedText()
        self.text.choose_view(view)
        self.text.resize(600, 400)
        self.text.bind(self.source, live=True)
        self.text.show()
        self.settle()

    def settle(self) -> None:
        while self.flusher.active:
            self.app.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)


def coalesced(app: QApplication, text: list[str]) -> tuple[float, bool]:
    """Microseconds a piece in the product's pane, and whether every character is shown."""
    pane = Pane(app, View.RAW)
    start = time.process_time()
    for number, piece in enumerate(text):
        pane.source.append(piece)
        pane.flusher.wake()
        if number % BURST == 0:
            app.processEvents()
    pane.settle()
    seconds = time.process_time() - start
    return seconds / len(text) * 1e6, pane.text.toPlainText() == "".join(text)


def streamed_markdown(app: QApplication, size: int) -> list[float]:
    """CPU milliseconds of every update, painting included, while Markdown comes and is rendered at its end."""
    pane = Pane(app, None)
    text = PART * (size // len(PART))
    updates = []

    def update() -> None:
        start = time.process_time()
        pane.flusher.flush()
        app.processEvents()
        updates.append((time.process_time() - start) * 1e3)

    for place in range(0, len(text), UPDATE):
        pane.source.append(text[place : place + UPDATE])
        update()
    pane.text.bind(pane.source, live=False)
    while pane.flusher.active:
        update()
    return updates


def best(measure: Callable[[], float], repeats: int) -> float:
    """The smallest of some measurements."""
    return min(measure() for _ in range(repeats))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the text, once")
    quick = parser.parse_args().quick
    app = QApplication([])
    theme.install("dark")
    count, repeats = (5_000, 1) if quick else (50_000, 3)
    text = pieces(count)
    table = Table(f"P6: a pane that takes {count:,} pieces of 4 characters, and Markdown")
    whole = coalesced(app, text)[1]
    ours, peer = best(lambda: coalesced(app, text)[0], repeats), best(lambda: naive(app, text), repeats)
    ratio = ours / peer
    table.row("time a piece", f"{ours:.2f} us", f"insert each {peer:.1f} us", ratio, "<= 1/50", ratio <= 1 / 50)
    table.row("every character shown", "yes" if whole else "no", "", None, "yes", whole)
    for size, what in ((10_000 if quick else 100_000, "streamed"), (RENDER_LIMIT, "streamed and rendered")):
        updates = streamed_markdown(app, size)
        mean, worst = sum(updates) / len(updates), max(updates)
        what = f"{size // 1000} KB of Markdown {what}"
        table.row(f"{what}: mean", f"{mean:.2f} ms", "", None, "<= 3 ms", mean <= 3)
        table.row(f"{what}: worst", f"{worst:.1f} ms", "", None, "<= 30 ms", worst <= 30)
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
