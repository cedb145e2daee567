"""The table that every benchmark prints: what was measured, ours, the peer, their ratio, the target."""

import platform
import sys
from datetime import UTC, datetime

_WIDTHS = (44, 14, 26, 8, 16, 3)
_HEADINGS = ("what", "ours", "peer", "ratio", "target", "ok")


class Table:
    """Print rows as they are measured; remember whether each met its target."""

    def __init__(self, title: str) -> None:
        self._missed: list[str] = []
        print(
            f"{title}\n{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, {platform.machine()}"
        )
        self._print(_HEADINGS)
        self._print(tuple("-" * width for width in _WIDTHS))

    def row(self, what: str, ours: str, peer: str, ratio: float | None, target: str, ok: bool | None) -> None:
        """Print one row.

        ``ours`` and ``peer`` are figures with their unit, ``ratio`` is ours to the peer's (None: it makes no sense),
        ``ok`` is None for a figure without a target.
        """
        if ok is False:
            self._missed.append(what)
        mark = {True: "yes", False: "NO", None: ""}[ok]
        self._print((what, ours, peer, "" if ratio is None else f"{ratio:.3g}x", target, mark))

    def finish(self) -> int:
        """Name the missed targets; the exit status: 1 if there are any, else 0."""
        print(f"missed: {', '.join(self._missed)}" if self._missed else "all targets met")
        sys.stdout.flush()
        return 1 if self._missed else 0

    def _print(self, cells: tuple[str, ...]) -> None:
        print(" | ".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip(), flush=True)
