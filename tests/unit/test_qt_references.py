"""PySide6 must not drop references to True and None: 6.12.0 does on Python 3.11, and the process aborts in the end.

From Python 3.12 on these objects have no count, so there the test cannot fail.
"""

import sys

from PySide6.QtCore import QObject, QTimerEvent, Signal


class _Sender(QObject):
    sent = Signal(object)
    """Anything."""

    def timerEvent(self, event: QTimerEvent) -> None:
        """Return None to Qt."""


def test_emitting_and_overriding_keep_references() -> None:
    sender = _Sender()
    sender.sent.connect(lambda value: None)
    counts = sys.getrefcount(True), sys.getrefcount(None)
    for _ in range(50):
        sender.sent.emit(1)
        QObject.event(sender, QTimerEvent(1))
    after = sys.getrefcount(True), sys.getrefcount(None)
    assert all(abs(now - before) < 20 for now, before in zip(after, counts, strict=True)), (counts, after)
