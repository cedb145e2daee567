"""A timer of 10 ms on the window's thread that records how late it is, and where the thread was meanwhile."""

import _thread
import signal
import threading
import time
import traceback
from types import FrameType

from PySide6.QtCore import Qt, QTimer

BEAT = 0.01
LATE = 0.1
"""Seconds above which the stack is dumped."""
SIGNAL = getattr(signal, "SIGUSR2", signal.SIGTERM)
"""Tells the window's thread to dump its stack; it is never sent to the process."""


class Heartbeat:
    """Beats from its making until `stop`; make it on the window's thread, with its loop running afterwards."""

    def __init__(self) -> None:
        self.late: list[float] = []
        """Seconds each beat was late."""
        self.dumps: list[str] = []
        """Stacks of the thread while a beat was more than `LATE` overdue, one for each."""
        self._last = time.monotonic()
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(round(BEAT * 1000))
        self._timer.timeout.connect(self._beat)
        self._timer.start()
        self._over = threading.Event()
        self._before = signal.signal(SIGNAL, self._dump)
        self._watcher = threading.Thread(target=self._watch, name="heartbeat", daemon=True)
        self._watcher.start()

    def _beat(self) -> None:
        now = time.monotonic()
        self.late.append(max(0.0, now - self._last - BEAT))
        self._last = now

    def _watch(self) -> None:
        """Have the window's thread dump its own stack: to look at it from here may crash Python 3.11."""
        seen = 0.0
        while not self._over.wait(LATE / 4):
            last = self._last
            if last != seen and time.monotonic() - last - BEAT > LATE:
                seen = last
                _thread.interrupt_main(SIGNAL)

    def _dump(self, _number: int, frame: FrameType | None) -> None:
        overdue = time.monotonic() - self._last - BEAT
        if overdue > LATE:
            stack = "".join(traceback.format_stack(frame)[-8:])
            self.dumps.append(f"{overdue * 1000:.0f} ms late in\n{stack}")

    def percentile(self, part: float) -> float:
        """The lateness in seconds that this part of the beats kept, 1 for the worst."""
        ordered = sorted(self.late)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0

    def stop(self) -> None:
        """End it; a beat that is overdue counts."""
        if self._timer.isActive():
            self._timer.stop()
            self._beat()
            self._over.set()
            self._watcher.join()
            signal.signal(SIGNAL, self._before)
