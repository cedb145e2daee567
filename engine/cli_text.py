"""Plain text for terminals: results on stdout, notes on stderr, nothing that acts on the terminal from outside text."""

import logging
import os
import re
import sys
from collections.abc import Sequence

from engine.redaction import RedactingFilter

DONE, FAILED, INVALID, NO_SERVER, INTERRUPTED = 0, 1, 2, 3, 130
"""The exit statuses."""

ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0020-\U000e007f]")
"""Characters in outside text that could move the cursor, ring, set titles, reorder what is shown, or not be printed."""


def harmless(text: str) -> str:
    """Text of a model or file with acting characters made visible as `␛`-like marks."""
    return ACTING.sub(lambda found: chr(0x2400 + ord(found.group())) if ord(found.group()) < 32 else "\ufffd", text)


def with_hint(message: str, hint: str) -> str:
    """What is wrong, then what to do about it, as two sentences."""
    return f"{message if message.endswith(('.', '!', '?')) else f'{message}.'} {hint}" if hint else message


class Terminal:
    """The two streams of a command. All text is made harmless but that of documents."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._color = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def result(self, text: str, *, end: str = "\n", style: str = "") -> None:
        """A part of the result, on stdout; `style` is the code of an ANSI style, for terminals."""
        text = harmless(text)
        print(f"\x1b[{style}m{text}\x1b[0m" if style and self._color else text, end=end, flush=True)  # noqa: T201

    def document(self, text: str) -> None:
        """A text for programs, on stdout, as it is."""
        print(text, flush=True)  # noqa: T201

    def note(self, text: str) -> None:
        """Progress or a message, on stderr; nothing with `--quiet`."""
        if not self.quiet:
            self.error(text)

    def error(self, text: str) -> None:
        """An error, on stderr."""
        print(harmless(text), file=sys.stderr, flush=True)  # noqa: T201

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows in aligned columns, on stdout."""
        if not rows:
            return
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            self.result("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


class TerminalLog(logging.Handler):
    """Shows what the engine logs as a warning or worse, in one line and without a traceback."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.WARNING)
        self._terminal = terminal
        self.addFilter(RedactingFilter())

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record."""
        self._terminal.note(f"{record.levelname.lower()}: {record.getMessage()}")
