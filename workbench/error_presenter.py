"""Turns errors into banners, and catches those nobody else caught: each is told once and logged once."""

import logging
import re
import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, Signal

from engine.errors import EngineError
from workbench.widgets.banner import Banner, BannerButton, Message

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)
translate = QCoreApplication.translate

OVERRIDES = re.compile(r"^(Error calling Python override of [\w:]+\(\): )+")
"""What PySide writes before the message of an exception that passes through a method Qt called."""


def error_banner(error: BaseException, buttons: Sequence[BannerButton] = ()) -> Banner:
    """A banner for an error: its sentence, its hint, its facts below."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if not isinstance(error, EngineError):
        what = OVERRIDES.sub("", str(error)) or type(error).__name__
        title = translate("error_presenter", "Something went wrong: %1").replace("%1", what)
        text = translate("error_presenter", "The log has the details.")
        return Banner(Message(kind="err", title=title, text=text), buttons)
    details = [f"{name}: {value}" for name, value in error.facts.items()]
    details += [str(problem) for problem in error.problems]
    message = Message(kind="err", title=error.message, text=error.hint, details="\n".join(details))
    return Banner(message, buttons)


class LastResort(QObject):
    """Receives exceptions that nothing handled, from slots, callbacks, tasks and threads."""

    error_caught = Signal(object)
    """The exception; delivered on the window's thread."""

    def __init__(self) -> None:
        super().__init__()
        self._before: tuple[Callable[..., object], Callable[..., object]] | None = None
        self._telling = threading.local()

    def install(self) -> None:
        """Take over the hooks of the interpreter."""
        self._before = (sys.excepthook, threading.excepthook)
        sys.excepthook = self._unhandled
        threading.excepthook = self._unhandled_in_thread

    def remove(self) -> None:
        """Give the hooks back."""
        if self._before is not None:
            sys.excepthook, threading.excepthook = self._before
            self._before = None

    def follow(self, loop: "asyncio.AbstractEventLoop") -> None:
        """Take what tasks and callbacks of this loop let escape."""
        loop.set_exception_handler(self._unhandled_in_loop)

    def _unhandled(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt | SystemExit):
            return
        logger.error("Unhandled error", exc_info=(kind, error, trace))
        if getattr(self._telling, "now", False):
            # Telling the last error failed: to tell that in turn would never end.
            return
        self._telling.now = True
        try:
            self.error_caught.emit(error)
        finally:
            self._telling.now = False

    def _unhandled_in_thread(self, args: threading.ExceptHookArgs) -> None:
        error = args.exc_value
        if error is not None:
            self._unhandled(args.exc_type, error, args.exc_traceback)

    def _unhandled_in_loop(self, _loop: "asyncio.AbstractEventLoop", context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self._unhandled(type(error), error, error.__traceback__)
        else:
            logger.error("Event loop: %s", context.get("message"))
