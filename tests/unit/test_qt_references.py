"""PySide6 must not drop references to True and None: 6.12.0 does on Python 3.11, and the process aborts in the end.

From Python 3.12 on these objects have no count, so there the test cannot fail.
"""

import sys
from collections.abc import Callable

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimerEvent, Signal


class _Sender(QObject):
    sent = Signal(object)
    """Anything."""

    def timerEvent(self, event: QTimerEvent) -> None:
        """Return None to Qt."""


class _Eater(QObject):
    def event(self, event: QEvent) -> bool:
        """Return True to Qt."""
        return True


def _emit() -> Callable[[], object]:
    sender = _Sender()
    return lambda: sender.sent.emit(1)


def _send(receiver: QObject) -> Callable[[], object]:
    event = QTimerEvent(1)
    return lambda: QCoreApplication.sendEvent(receiver, event)


@pytest.mark.parametrize(
    "make",
    [_emit, lambda: _send(_Sender()), lambda: _send(_Eater())],
    ids=["emit", "override that returns None", "override that returns True"],
)
def test_references_are_kept(make: Callable[[], Callable[[], object]], qapp: QCoreApplication) -> None:
    act = make()
    act()  # the first call fills caches
    before = sys.getrefcount(True), sys.getrefcount(None)
    for _ in range(50):
        act()
    after = sys.getrefcount(True), sys.getrefcount(None)
    # Other threads may hold a few; a dropped reference makes 50.
    assert [abs(now - then) < 25 for now, then in zip(after, before, strict=True)] == [True, True], (before, after)
