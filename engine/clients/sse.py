"""Splits the bytes of a stream into events: server-sent events and lines of JSON.

Source: WHATWG HTML, server-sent events. The result does not depend on how the bytes are cut into pieces.
"""

MAX_EVENT = 8 * 1024 * 1024
"""Bytes of one event; a longer one raises EventTooLong."""

BOM = b"\xef\xbb\xbf"


class EventTooLong(Exception):
    """One event is longer than MAX_EVENT."""


class SseSplitter:
    """Yields the data of each event; several `data` lines are joined with LF. Comments and other fields are dropped."""

    __slots__ = ("_after_cr", "_fresh", "_head", "_rest", "_size")

    def __init__(self) -> None:
        self._fresh = True
        self._head = b""
        self._after_cr = False
        self._rest: list[bytes] = []
        """Bytes of the event under way, in the pieces they came in: joining them for each piece would be quadratic."""
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes, give the events they complete."""
        if self._fresh:
            data = self._without_bom(data)
        if self._after_cr or b"\r" in data:
            data = self._with_lf(data)
        rest = self._rest
        if b"\n" not in data:
            if data:
                rest.append(data)
                self._grow(len(data))
            return []
        if rest:
            rest.append(data)
            data = b"".join(rest)
            rest.clear()
        blocks = data.split(b"\n\n")
        tail = blocks.pop()
        self._size = 0
        if tail:
            rest.append(tail)
            self._grow(len(tail))
        if len(data) > MAX_EVENT and any(len(block) > MAX_EVENT for block in blocks):
            raise EventTooLong
        events = []
        for block in blocks:
            if block[:6] == b"data: " and b"\n" not in block:  # what nearly every event looks like
                events.append(block[6:])
            elif (event := _data(block)) is not None:
                events.append(event)
        return events

    def close(self) -> list[bytes]:
        """Give the event that the end of the stream completes, if one is pending."""
        block = b"".join(self._rest) if self._rest else self._head
        self._rest.clear()
        self._head = b""
        event = _data(block)
        return [] if event is None else [event]

    def _grow(self, count: int) -> None:
        self._size += count
        if self._size > MAX_EVENT:
            raise EventTooLong

    def _without_bom(self, data: bytes) -> bytes:
        data = self._head + data
        if len(data) < len(BOM) and BOM.startswith(data):
            self._head = data
            return b""
        self._fresh, self._head = False, b""
        return data.removeprefix(BOM)

    def _with_lf(self, data: bytes) -> bytes:
        """Write every line end as LF. A CR ends its line at once; an LF behind it, maybe in the next piece, goes."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if data:
            self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data(block: bytes) -> bytes | None:
    """The joined data lines of an event, None when it has none."""
    lines = []
    for line in block.split(b"\n"):
        name, colon, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" ") if colon else b"")
    return b"\n".join(lines) if lines else None


class LineSplitter:
    """Yields the lines that are not blank, for streams of one JSON object a line."""

    __slots__ = ("_rest", "_size")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes, give the lines they complete."""
        rest = self._rest
        if b"\n" not in data:
            rest.append(data)
            self._grow(len(data))
            return []
        rest.append(data)
        *lines, tail = b"".join(rest).split(b"\n")
        self._rest = [tail]
        self._size = 0
        self._grow(len(tail))
        if any(len(line) > MAX_EVENT for line in lines):
            raise EventTooLong
        return [text for line in lines if (text := line.strip())]

    def close(self) -> list[bytes]:
        """Give the line that the end of the stream completes, if one is pending."""
        line = b"".join(self._rest).strip()
        self._rest = []
        return [line] if line else []

    def _grow(self, count: int) -> None:
        self._size += count
        if self._size > MAX_EVENT:
            raise EventTooLong
