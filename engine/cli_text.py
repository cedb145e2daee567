"""Plain text for terminals: results on stdout, notes on stderr, nothing that acts on the terminal from outside text."""

import re
import sys
from collections.abc import Sequence

from engine.number_text import cost_text

__all__ = ["Terminal", "cost_text", "harmless"]

ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0020-\U000e007f]")
"""Characters in outside text that could move the cursor, ring, set titles or reorder what is shown."""


def harmless(text: str) -> str:
    """Text of a model or file with acting characters made visible as `␛`-like marks."""
    return ACTING.sub(lambda found: chr(0x2400 + ord(found.group())) if ord(found.group()) < 32 else "\ufffd", text)


class Terminal:
    """The two streams of a command."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    def result(self, text: str, *, end: str = "\n") -> None:
        """A part of the result, on stdout."""
        print(text, end=end, flush=True)  # noqa: T201

    def note(self, text: str) -> None:
        """Progress or a message, on stderr; nothing with `--quiet`."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)  # noqa: T201

    def error(self, text: str) -> None:
        """An error, on stderr."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows in aligned columns, on stdout."""
        if not rows:
            return
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            self.result("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
