"""PySide6 6.12.0 drops references to None, True and False, which ends the process on Python < 3.12: never use it."""

import sys
from collections.abc import Callable
from importlib.metadata import version

import PySide6
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication, QWidget


class Emitter(QObject):
    plain = Signal()
    with_number = Signal(int)

    def event(self, event: QEvent) -> bool:
        return super().event(event)


def drift(call: Callable[[], object], times: int, constant: object) -> int:
    """By how much the reference count of the constant changes over the calls."""
    call()
    before = sys.getrefcount(constant)
    for _ in range(times):
        call()
    return abs(sys.getrefcount(constant) - before)


@pytest.mark.parametrize("times", [100, pytest.param(10_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("constant", [None, True, False], ids=str)
def test_calls_into_qt_keep_the_reference_counts(qapp: QApplication, constant: object, times: int) -> None:
    head_room = [constant] * 10_000  # so that a bad version fails here instead of ending the process
    widget, emitter, received = QWidget(), Emitter(), list[int]()
    emitter.plain.connect(lambda: None)
    emitter.with_number.connect(received.append)
    timer = QTimer()
    timer.setSingleShot(True)
    timer.timeout.connect(lambda: None)

    def restart() -> None:
        timer.start(0)
        timer.stop()

    def fire() -> None:
        timer.start(0)
        qapp.processEvents()

    drifts = {
        "update": drift(widget.update, 3 * times, constant),
        "isHidden": drift(widget.isHidden, 3 * times, constant),
        "emit": drift(emitter.plain.emit, times, constant),
        "emit with argument": drift(lambda: emitter.with_number.emit(1), times, constant),
        "timer started and stopped": drift(restart, times, constant),
        "timer fired": drift(fire, times, constant),
        "event": drift(lambda: QCoreApplication.sendEvent(emitter, QEvent(QEvent.Type.User)), times, constant),
    }
    assert {what: change for what, change in drifts.items() if change >= 50} == {}
    assert len(received) == times + 1
    assert len(head_room) == 10_000


def test_the_installed_versions_are_allowed() -> None:
    pyside = tuple(int(part) for part in PySide6.__version__.split(".")[:2])
    assert pyside >= (6, 8)
    assert sys.version_info >= (3, 12) or pyside < (6, 12)
    assert version("qasync").startswith("0.28.")
