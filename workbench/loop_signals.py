"""Signals while Qt waits: they wake Qt, so that Python runs their handlers, and Ctrl-C leaves the loop."""

import os
import signal
import threading
from types import FrameType

from workbench.qasync_loop import QasyncLoop

_UNIX = os.name != "nt"


class LoopSignals:
    """Between enter() and leave(), in the main thread, let signals reach Python through the self-pipe of a loop."""

    def __init__(self, loop: QasyncLoop) -> None:
        self._loop = loop
        self._old_wakeup_fd = -1
        self._owns_wakeup_fd = False
        self._owns_sigint = False
        self._interrupted = False

    def enter(self) -> None:
        """Set the wake-up descriptor and, unless asyncio.Runner or another has done so, a handler of Ctrl-C."""
        self._interrupted = False
        in_main_thread = threading.current_thread() is threading.main_thread()
        self._owns_wakeup_fd = _UNIX and in_main_thread
        if self._owns_wakeup_fd and (old := self._set_wakeup_fd()) != self._loop._csock.fileno():
            self._old_wakeup_fd = old  # else the descriptor has stayed there for a signal handler of an earlier run
        # Python's own handler raises KeyboardInterrupt anywhere; in a slot of another object PySide would drop it.
        self._owns_sigint = in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._owns_sigint:
            signal.signal(signal.SIGINT, self._on_sigint)

    def leave(self) -> None:
        """Restore what enter() has found, as far as nobody else has changed it."""
        if self._owns_wakeup_fd and not self._loop._signal_handlers:
            signal.set_wakeup_fd(self._old_wakeup_fd)
        if self._owns_sigint and signal.getsignal(signal.SIGINT) == self._on_sigint:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._owns_wakeup_fd = self._owns_sigint = False

    def renew(self) -> None:
        """Set the wake-up descriptor again; asyncio switches it off with its last signal handler."""
        if self._owns_wakeup_fd:
            self._set_wakeup_fd()

    def _set_wakeup_fd(self) -> int:
        return signal.set_wakeup_fd(self._loop._csock.fileno(), warn_on_full_buffer=False)

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        if self._interrupted:  # the second time at once, wherever Python is
            raise KeyboardInterrupt
        self._interrupted = True
        self._loop.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        raise KeyboardInterrupt
