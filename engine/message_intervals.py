"""When pieces of a streamed message are passed on: after the first few, then every few (`messageInterval`)."""

from collections.abc import Callable
from time import monotonic

LONGEST_SILENCE = 0.2
"""Seconds after which text is passed on whatever the count says."""
LEAST_FIRST_OF_FENCED = 3
"""Pieces to wait for where calls are fenced in the text."""


class MessageIntervals:
    """Collects pieces; what was given out, joined, is the whole text.

    Args:
        first: Number of the piece that text is first passed on with.
        send: Later it is passed on with every piece whose number is a multiple of this.
        silence: Seconds after which it is passed on in any case; None = never.
    """

    def __init__(
        self,
        first: int,
        send: int,
        *,
        fenced: bool = False,
        silence: float | None = LONGEST_SILENCE,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._first = max(LEAST_FIRST_OF_FENCED, first) if fenced else first
        self._send = send
        self._silence = silence
        self._clock = clock
        self._count = 0
        self._held: list[str] = []
        self._emitted = clock()

    def feed(self, piece: str) -> str:
        """Take a piece; give what is to be passed on now, empty when nothing is."""
        if not piece:
            return ""
        self._count += 1
        self._held.append(piece)
        if self._count == self._first or self._count % self._send == 0 or self._is_late():
            return self.close()
        return ""

    def close(self) -> str:
        """Give all that is held back."""
        text = "".join(self._held)
        self._held.clear()
        self._emitted = self._clock()
        return text

    def _is_late(self) -> bool:
        return self._silence is not None and self._clock() - self._emitted >= self._silence
