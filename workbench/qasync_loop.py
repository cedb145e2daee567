"""The loop of qasync, which has no annotations, as a typed base class.

The class below declares every name of asyncio's and qasync's loops that `event_loop` uses beyond their documentation,
so a type checker refuses any other. A test looks for each of them in the installed versions.
"""

import asyncio
import contextvars
import selectors
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PySide6.QtCore import QCoreApplication

    class Handle(asyncio.Handle):
        """A callback with its context."""

        _context: contextvars.Context
        _source_traceback: list[object]

    class TimerHandle(asyncio.TimerHandle, Handle):
        """A callback with its context and time."""

        _scheduled: bool

    class QasyncLoop(asyncio.SelectorEventLoop):
        """`qasync.QEventLoop`."""

        _ready: deque[Handle]
        _scheduled: list[TimerHandle]
        _timer_cancelled_count: int
        _clock_resolution: float
        _stopping: bool
        _thread_id: int | None
        _debug: bool
        _current_handle: asyncio.Handle | None
        _selector: selectors.BaseSelector
        _csock: Any
        _signal_handlers: dict[int, object]
        _add_reader: Callable[..., Any]
        _remove_reader: Callable[..., Any]
        _add_writer: Callable[..., Any]
        _remove_writer: Callable[..., Any]

        def __init__(self, app: QCoreApplication) -> None: ...
        def _check_closed(self) -> None: ...
        def _check_running(self) -> None: ...
        def _check_thread(self) -> None: ...
        def _check_callback(self, callback: object, method: str) -> None: ...
        def _set_coroutine_origin_tracking(self, enabled: bool) -> None: ...
        def _asyncgen_firstiter_hook(self, generator: Any) -> None: ...
        def _asyncgen_finalizer_hook(self, generator: Any) -> None: ...
        def _make_self_pipe(self) -> None: ...
        def _write_to_self(self) -> None: ...
        def _process_events(self, event_list: list[tuple[selectors.SelectorKey, int]]) -> None: ...
        def _before_run_forever(self) -> None: ...
        def _after_run_forever(self) -> None: ...

else:
    from qasync import QEventLoop as QasyncLoop

    Handle = asyncio.Handle

__all__ = ["Handle", "QasyncLoop"]
