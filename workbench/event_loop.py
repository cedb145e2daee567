"""The event loop of the window: asyncio's queue, timers and selector inside Qt's loop.

``WorkbenchLoop`` is a ``qasync.QEventLoop`` in which Qt decides only *when* Python runs. *What* runs comes from the
structures that every asyncio loop has and that qasync leaves unused:

* ``_ready``, a deque of handles; a repeating zero timer is active while it is not empty;
* ``_scheduled``, a heap of timer handles; one precise single-shot timer stands for its head;
* ``_selector``, on Linux an epoll selector, seen by Qt through one notifier on its own descriptor. Elsewhere
  descriptors stay as qasync has them, and their callbacks come to the same queue.

One *turn* polls, moves due timers to the queue and runs handles for a few milliseconds; then Qt may paint.
"""

import asyncio
import contextvars
import heapq
import logging
import math
import selectors
import sys
import threading
import time
from asyncio import BaseEventLoop, events
from asyncio.base_events import _format_handle  # type: ignore[attr-defined]
from asyncio.tasks import _enter_task, _leave_task
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, final

from PySide6.QtCore import QCoreApplication, QEventLoop, QObject, QSocketNotifier, Qt, QThread, QTimer, Signal

from workbench.loop_signals import LoopSignals
from workbench.qasync_loop import Handle, QasyncLoop

T = TypeVar("T")
_Callback = Callable[..., object]
_Context = contextvars.Context | None

_logger = logging.getLogger("asyncio")
_FAR_MS = 500  # waits beyond this may end late by 0.1 % on Linux
_DAY_MS = 86_400_000  # a QTimer holds a 32-bit count of milliseconds
_MANY_CANCELLED = 100  # a smaller number of cancelled timers is not worth a new heap
_TICK_MS = 20  # for what can only be looked at from time to time


def _is_busy(context: contextvars.Context) -> bool:
    """Tell whether the context is entered further down the stack, which happens only under a nested Qt loop."""
    try:
        context.run(bool)
    except RuntimeError:
        return True
    return False


def _stop_when_done(future: asyncio.Future[Any]) -> None:
    if future.cancelled() or not isinstance(future.exception(), (SystemExit, KeyboardInterrupt)):
        future.get_loop().stop()  # with one of the two the loop is being left already


class _Waker(QObject):
    woken = Signal()  # emitted by any thread, received in the loop's


class PortableLoop(QasyncLoop):
    """Run asyncio on Qt with asyncio's own queue and timers; descriptors stay with qasync.

    ``app`` defaults to the existing application. With ``already_running`` the caller runs ``app.exec()`` and calls
    ``stop()`` and ``close()``; otherwise the loop runs the application.
    """

    budget = 0.004  # seconds of callbacks before Qt gets its turn
    quit_grace = 5.0  # seconds that a main coroutine may go on for after the application has quit and cancelled it

    # qasync ties these to timers, flags and handlers of its own: asyncio's again.
    is_running = BaseEventLoop.is_running
    get_debug = BaseEventLoop.get_debug
    call_later = BaseEventLoop.call_later
    set_exception_handler = BaseEventLoop.set_exception_handler
    default_exception_handler = BaseEventLoop.default_exception_handler
    call_exception_handler = BaseEventLoop.call_exception_handler
    # qasync drops a used QThreadExecutor when another default is set, and Qt then aborts the process.
    run_in_executor = BaseEventLoop.run_in_executor
    set_default_executor = BaseEventLoop.set_default_executor  # type: ignore[assignment]

    def __init__(self, app: QCoreApplication | None = None, *, already_running: bool = False) -> None:
        if (qt_app := app or QCoreApplication.instance()) is None:
            raise RuntimeError("WorkbenchLoop needs an application: create a QApplication first")
        self._qt_app: QCoreApplication = qt_app
        self._awake = True  # a turn runs or is sure to come: nobody needs to wake the loop
        self._depth = 0  # turns on the stack: more than one under dialog.exec() or processEvents()
        self._batch_left = 0  # handles of the present batch that are still in the queue
        self._nested_depth = 0  # depth of the last nested turn that ended
        self._deferred: deque[Handle] = deque()  # handles whose context is busy further down the stack
        self._error: BaseException | None = None  # left a turn, to be raised by run_forever
        self._hosted = False  # another has called app.exec()
        self._signals = LoopSignals(self)
        self.has_quit = False  # the application has quit while this loop ran it
        self._armed_for = math.inf  # loop time the deadline timer stands for
        super().__init__(qt_app)  # without already_running, which sets flags that only qasync's own methods read
        self._zero = QTimer(interval=0)
        self._zero.timeout.connect(self._turn)
        self._deadline = QTimer(singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        self._deadline.timeout.connect(self._on_deadline)
        self._waker = _Waker()
        self._waker.woken.connect(self._on_wake_up, Qt.ConnectionType.QueuedConnection)
        if already_running:
            self._hosted = True
            self._enter()
            qt_app.aboutToQuit.connect(self._leave)

    # Scheduling

    def call_soon(self, callback: _Callback, *args: Any, context: _Context = None) -> asyncio.Handle:  # type: ignore[override]
        """Queue a callback behind those that are ready."""
        self._check_closed()
        if self._debug:
            self._check_thread()
            self._check_callback(callback, "call_soon")
        handle = self._append(callback, args, context)
        if not self._awake:
            self._wake()
        return handle

    def call_soon_threadsafe(self, callback: _Callback, *args: Any, context: _Context = None) -> asyncio.Handle:  # type: ignore[override]
        """Queue a callback from any thread."""
        self._check_closed()
        if self._debug:
            self._check_callback(callback, "call_soon_threadsafe")
        handle = self._append(callback, args, context)
        if not self._awake:  # a turn looks at the queue once more after clearing the flag, so nothing is lost between
            self._awake = True
            self._wake_from_thread()
        return handle

    def call_at(self, when: float, callback: _Callback, *args: Any, context: _Context = None) -> asyncio.TimerHandle:  # type: ignore[override]
        """Queue a callback at a time of the loop's clock, in seconds."""
        timer = BaseEventLoop.call_at(self, when, callback, *args, context=context)
        self._purge_cancelled()
        if when < self._armed_for and not self._awake:
            self._arm()
        return timer

    def _append(self, callback: _Callback, args: tuple[Any, ...], context: _Context) -> asyncio.Handle:
        handle = Handle(callback, args, self, context)
        if handle._source_traceback:
            del handle._source_traceback[-2:]  # end with the caller
        self._ready.append(handle)
        return handle

    def _add_callback(self, handle: Handle, delay: float = 0) -> None:
        """Queue a handle of asyncio's: of a ready descriptor or a signal."""
        if handle._cancelled or (self._deferred and handle in self._deferred):  # put aside, its descriptor still ready
            return
        self._ready.append(handle)
        if not self._awake:
            self._wake()

    def _wake(self) -> None:
        self._awake = True
        if threading.get_ident() == self._thread_id:
            self._zero.start()
        else:  # the caller's fault; but Qt would refuse the timer and the flag would stay set for ever
            self._wake_from_thread()

    def _wake_from_thread(self) -> None:
        self._waker.woken.emit()

    def _on_wake_up(self) -> None:
        if not self._zero.isActive():  # else the turn it announces sees to everything
            self._turn()

    def _on_deadline(self) -> None:
        self._armed_for = math.inf
        self._on_wake_up()

    def _purge_cancelled(self) -> None:
        """Rebuild the heap if most of it is cancelled."""
        cancelled = self._timer_cancelled_count
        if cancelled <= _MANY_CANCELLED or cancelled * 2 <= len(self._scheduled):
            return
        kept = []
        for timer in self._scheduled:
            if timer._cancelled:
                timer._scheduled = False
            else:
                kept.append(timer)
        heapq.heapify(kept)
        self._scheduled[:] = kept
        self._timer_cancelled_count = 0

    def _arm(self) -> None:
        """Let the deadline timer stand for the head of the heap.

        Only an earlier deadline touches Qt: a timer armed too early fires, finds nothing due and is armed anew.
        """
        self._purge_cancelled()
        heap = self._scheduled
        while heap and heap[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(heap)._scheduled = False
        if heap and (when := heap[0].when()) < self._armed_for:
            self._armed_for = when
            ms = max((when - self.time()) * 1000, 0)
            if ms > _FAR_MS:
                ms *= 0.998  # and then wait for the rest
            self._deadline.start(min(math.ceil(ms), _DAY_MS))

    # The turn

    def _poll(self) -> None:
        """Queue the handles of ready descriptors."""

    def _turn(self) -> None:
        if self._thread_id is None:  # an event from before the loop stopped
            self._zero.stop()
            return
        depth = self._depth
        opener: asyncio.Task[Any] | None = None
        try:
            self._depth = depth + 1
            self._awake = True
            # Lets a nested Qt loop, should a callback open one, go on with the queue. Also if active: Qt does not fire
            # a timer again while its own slot runs, but it fires a newly started one.
            self._zero.start()
            if depth and (opener := asyncio.current_task(self)) is not None:
                _leave_task(self, opener)
            self._run_handles(depth)
        except BaseException as error:  # out of a slot PySide would print and drop it
            self._error = self._error or error
            self._stopping = True
        finally:
            if opener is not None:
                _enter_task(self, opener)
            self._depth = depth
            self._nested_depth = depth
        if self._stopping:
            self._qt_app.exit()
            if self._hosted and not depth:
                self._leave()
                self._raise_error()
        elif self._ready:
            self._wake()  # a nested turn may have stopped the timer
        else:
            self._zero.stop()
            self._awake = False
            self._arm()
            if self._ready or self._stopping:  # a thread came between
                self._wake()

    def _run_handles(self, depth: int) -> None:
        """Poll and run batches until nothing is ready or the budget is spent."""
        if self._deferred and not depth:
            self._take_back_deferred()
        end = time.perf_counter() + self.budget
        while True:
            if not self._batch_left:  # else a descriptor's handle may be queued still: polling would queue it twice
                self._poll()
                if self._scheduled:
                    self._take_due_timers()
                self._batch_left = len(self._ready)
                if not self._batch_left:
                    return
            self._run_batch(depth, end)
            if self._stopping or time.perf_counter() > end:
                return

    def _run_batch(self, depth: int, end: float) -> None:
        """Run what was ready when the batch began; the rest is left to the next turn when the budget is spent."""
        ready, deferred = self._ready, self._deferred
        while self._batch_left:
            self._batch_left -= 1
            handle = ready.popleft()
            if handle._cancelled:
                continue
            if depth and _is_busy(handle._context):
                deferred.append(handle)
                continue
            if self._debug:
                self._run_timed(handle)
            else:
                handle._run()
            if deferred and self._nested_depth > depth:  # the callback opened a Qt loop, which has ended
                self._take_back_deferred()
            if time.perf_counter() > end and not self._stopping:
                return

    def _take_due_timers(self) -> None:
        heap, now = self._scheduled, self.time() + self._clock_resolution
        while heap and heap[0].when() < now:
            timer = heapq.heappop(heap)
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(timer)

    def _take_back_deferred(self) -> None:
        self._nested_depth = 0
        self._batch_left += len(self._deferred)
        self._ready.extendleft(reversed(self._deferred))
        self._deferred.clear()

    def _run_timed(self, handle: asyncio.Handle) -> None:
        self._current_handle = handle
        try:
            start = self.time()
            handle._run()
            took = self.time() - start
            if took >= self.slow_callback_duration:
                _logger.warning("Executing %s took %.3f seconds", _format_handle(handle), took)
        finally:
            self._current_handle = None

    # Running and stopping

    def run_forever(self) -> int:  # type: ignore[override]
        """Run until stop() or until the application quits; return the exit code of Qt's loop."""
        return self._run(self._exec_after_quit if self.has_quit else self._exec)

    def run_until_complete(self, future: Awaitable[T]) -> T:  # type: ignore[override]
        """Run until the future is done and return its result.

        If the application quits first, the future is cancelled and has ``quit_grace`` seconds to end.

        Raises:
            RuntimeError: the loop stopped before the future was done.
        """
        self._check_closed()
        self._check_running()
        is_new = not asyncio.isfuture(future)
        task: Any = asyncio.ensure_future(future, loop=self)
        if is_new:
            task._log_destroy_pending = False  # the exception below says it
        task.add_done_callback(_stop_when_done)
        try:
            self.run_forever()
            if self.has_quit and not task.done():
                self._run(self._exec_ready)
                if not task.done():
                    task.cancel()
                    self.run_forever()
        except BaseException:
            if is_new and task.done() and not task.cancelled():
                task.exception()  # seen: it is being raised
            raise
        finally:
            task.remove_done_callback(_stop_when_done)
        if not task.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        result: T = task.result()
        return result

    def stop(self) -> None:
        """End the run after the present batch of callbacks; before a run, let it do one batch only."""
        self._stopping = True
        if self._hosted and self.is_running() and not self._depth:
            self._qt_app.exit()
            self._leave()
        elif not self._awake:
            self._wake()

    def close(self) -> None:
        """Free all resources; the loop cannot run again."""
        if self.is_running():
            raise RuntimeError("Cannot close a running event loop")
        if not self.is_closed():
            self._deferred.clear()
            super().close()

    def _run(self, spin: Callable[[], int]) -> int:
        self._check_closed()
        self._check_running()
        if QThread.currentThread().loopLevel():
            raise RuntimeError("The Qt event loop is already running: create the loop with already_running=True")
        self._enter()
        try:
            code = spin()
        finally:
            self._leave()
        self._raise_error()
        return code

    def _exec(self) -> int:
        code = self._qt_app.exec()
        self.has_quit = not self._stopping
        return code

    def _exec_after_quit(self) -> int:  # a second exec() would announce aboutToQuit once more
        return self._process_qt_events(self.quit_grace, lambda: True)

    def _exec_ready(self) -> int:  # what aboutToQuit has made ready: a main coroutine may wait for just that
        return self._process_qt_events(0.1, lambda: bool(self._ready) or self._zero.isActive())

    def _process_qt_events(self, seconds: float, is_wanted: Callable[[], bool]) -> int:
        loop, tick, end = QEventLoop(), QTimer(), time.monotonic() + seconds
        tick.start(_TICK_MS)
        while not self._stopping and time.monotonic() < end and is_wanted():
            loop.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
        return 0

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _enter(self) -> None:
        """Do what asyncio does before it runs, and let signals reach Python."""
        self._error = None
        self._set_coroutine_origin_tracking(self._debug)
        self._thread_id = threading.get_ident()
        self._old_hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._asyncgen_firstiter_hook, finalizer=self._asyncgen_finalizer_hook)
        events._set_running_loop(self)
        self._signals.enter()
        self._before_run_forever()  # qasync: starts its proactor's thread on Windows
        self._wake()

    def _leave(self) -> None:
        if self._thread_id is None:
            return
        self._zero.stop()
        self._deadline.stop()
        self._armed_for = math.inf
        self._awake = True
        self._stopping = False
        self._after_run_forever()
        self._signals.leave()
        self._thread_id = None
        events._set_running_loop(None)
        self._set_coroutine_origin_tracking(False)
        sys.set_asyncgen_hooks(*self._old_hooks)

    if sys.platform != "win32":

        def remove_signal_handler(self, sig: int) -> bool:
            """Remove the handler of a signal; False if there is none."""
            removed = super().remove_signal_handler(sig)
            self._signals.renew()
            return removed


@final
class EpollLoop(PortableLoop):
    """Linux: asyncio's selector in place of one Qt notifier per descriptor."""

    _add_reader = asyncio.SelectorEventLoop._add_reader  # type: ignore[attr-defined]
    _remove_reader = asyncio.SelectorEventLoop._remove_reader  # type: ignore[attr-defined]
    _add_writer = asyncio.SelectorEventLoop._add_writer  # type: ignore[attr-defined]
    _remove_writer = asyncio.SelectorEventLoop._remove_writer  # type: ignore[attr-defined]

    def _make_self_pipe(self) -> None:
        # asyncio's constructor calls this right after storing qasync's selector and before anything is registered.
        self._selector.close()
        self._selector = selectors.DefaultSelector()
        super()._make_self_pipe()
        self._notifier = QSocketNotifier(self._selector.fileno(), QSocketNotifier.Type.Read)
        self._notifier.setEnabled(False)
        self._notifier.activated.connect(self._on_descriptor)

    def _on_descriptor(self) -> None:
        if self._deferred:  # maybe a descriptor's, which then stays ready: look from time to time only
            self._notifier.setEnabled(False)
            QTimer.singleShot(_TICK_MS, lambda: self._notifier.setEnabled(self.is_running()))
        self._on_wake_up()

    def _poll(self) -> None:
        if ready := self._selector.select(0):
            self._process_events(ready)

    def _wake_from_thread(self) -> None:
        self._write_to_self()

    def _enter(self) -> None:
        super()._enter()
        self._notifier.setEnabled(True)

    def _leave(self) -> None:
        self._notifier.setEnabled(False)
        super()._leave()


WorkbenchLoop: type[PortableLoop] = EpollLoop if sys.platform == "linux" else PortableLoop


def run_application(app: QCoreApplication, main: Coroutine[Any, Any, int]) -> int:
    """Run the main coroutine of an application on a WorkbenchLoop, then end tasks, generators and executor.

    Returns what ``main`` returns, 0 if quitting the application has cancelled it, 130 after Ctrl-C.
    """
    loop = WorkbenchLoop(app)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(main)
        except KeyboardInterrupt:
            return 130
        except asyncio.CancelledError:
            if not loop.has_quit:
                raise
            return 0
