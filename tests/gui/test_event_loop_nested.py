"""The loop under Qt's own: dialogs, slots, qasync's decorators, an application that runs already. On both classes."""

import asyncio
import contextvars
import os
import socket
import threading
import time

import pytest
import qasync
from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication, QDialog

from tests.helpers.qt_loop import both_loops, count_turns, on_both_loops, run_qt, until
from workbench.event_loop import PortableLoop

Accepted = QDialog.DialogCode.Accepted


@on_both_loops
async def test_other_tasks_go_on_while_a_coroutine_is_in_exec() -> None:
    loop, ticks, calls = asyncio.get_running_loop(), [0], set[str]()
    dialog = QDialog()

    async def tick() -> None:
        while True:
            ticks[0] += 1
            await asyncio.sleep(0.001)

    async def accept_later() -> None:
        start = ticks[0]
        QTimer.singleShot(1, lambda: loop.call_soon(calls.add, "slot"))
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(calls.add, "thread"))
        thread.start()
        await until(lambda: ticks[0] > start + 10 and calls == {"slot", "thread"})
        thread.join()
        dialog.accept()

    ticking = asyncio.create_task(tick())
    accepting = asyncio.create_task(accept_later())
    me = asyncio.current_task()
    assert dialog.exec() == Accepted
    assert asyncio.current_task() is me
    before = ticks[0]
    await until(lambda: ticks[0] > before)
    await accepting
    ticking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ticking


@on_both_loops
async def test_two_dialogs_from_two_tasks_close_in_the_order_of_a_stack() -> None:
    log: list[str] = []
    dialogs = {"a": QDialog(), "b": QDialog()}

    async def ask(name: str) -> None:
        log.append(f"{name} opens")
        dialogs[name].exec()
        log.append(f"{name} closed")
        await asyncio.sleep(0)
        log.append(f"{name} goes on")

    async def close_both() -> None:
        await until(lambda: "b opens" in log)
        dialogs["a"].accept()  # has to wait for b, which was opened inside
        await asyncio.sleep(0.01)
        dialogs["b"].accept()

    await asyncio.gather(ask("a"), ask("b"), close_both())
    assert log[:3] == ["a opens", "b opens", "b closed"]
    assert sorted(log[3:]) == ["a closed", "a goes on", "b goes on"]


@on_both_loops
async def test_a_callback_with_a_busy_context_waits_for_the_dialog() -> None:
    loop, log = asyncio.get_running_loop(), list[str]()
    shared = contextvars.copy_context()

    async def opener() -> None:
        dialog = QDialog()

        def own() -> None:
            log.append("own")
            loop.call_later(0.001, dialog.accept)

        loop.call_soon(lambda: log.append("shared 1"), context=shared)
        loop.call_soon(lambda: log.append("shared 2"), context=shared)
        loop.call_soon(own, context=contextvars.Context())
        dialog.finished.connect(lambda: log.append("accepted"))
        dialog.exec()
        log.append("closed")

    await loop.create_task(opener(), context=shared)
    await until(lambda: len(log) == 5)
    assert log == ["own", "accepted", "closed", "shared 1", "shared 2"]


@on_both_loops
async def test_a_callback_put_aside_runs_as_soon_as_the_inner_dialog_closes() -> None:
    loop, log = asyncio.get_running_loop(), list[str]()
    outer, inner, shared = QDialog(), QDialog(), contextvars.copy_context()

    def open_inner() -> None:
        loop.call_soon(log.append, "put aside", context=shared)
        loop.call_soon(lambda: loop.call_later(0.001, inner.accept), context=contextvars.Context())
        inner.exec()
        log.append("inner closed")

    async def close_outer() -> None:
        await until(lambda: "put aside" in log)
        outer.accept()

    loop.call_soon(open_inner, context=shared)
    closing = asyncio.create_task(close_outer())
    outer.exec()
    log.append("outer closed")
    await closing
    assert log == ["inner closed", "put aside", "outer closed"]


@pytest.mark.skipif(os.name == "nt", reason="add_reader is not on Windows")
@on_both_loops
async def test_a_dialog_opened_by_a_descriptors_callback_blocks_this_descriptor_only() -> None:
    loop, log, dialog = asyncio.get_running_loop(), list[str](), QDialog()
    near, far = socket.socketpair()
    other_near, other_far = socket.socketpair()
    with near, far, other_near, other_far:
        far.setblocking(False)
        other_far.setblocking(False)
        turns = count_turns(loop)

        def read() -> None:
            log.append(far.recv(1).decode())
            if log == ["1"]:
                near.send(b"2")  # ready all the time that the dialog is open
                QTimer.singleShot(100, lambda: other_near.send(b"o"))
                dialog.exec()
                log.append("closed")

        def read_other() -> None:
            log.append(other_far.recv(1).decode())
            dialog.accept()

        loop.add_reader(far, read)
        contextvars.Context().run(loop.add_reader, other_far, read_other)
        near.send(b"1")
        while "2" not in log:
            await asyncio.sleep(0.03)
        loop.remove_reader(far)
        loop.remove_reader(other_far)
        assert log == ["1", "o", "closed", "2"]
        assert turns[0] < 50


@both_loops
def test_stop_ends_open_dialogs(qapp: QApplication, loop_class: type[PortableLoop]) -> None:
    loop = loop_class(qapp)

    async def open_dialog() -> str:
        QDialog().exec()  # nobody closes it
        return "returned"

    async def main() -> asyncio.Task[str]:
        task = asyncio.create_task(open_dialog())
        await asyncio.sleep(0.01)  # goes on inside exec()
        return task

    task = loop.run_until_complete(main())
    assert loop.run_until_complete(asyncio.wait_for(task, 10)) == "returned"
    loop.close()


@on_both_loops
async def test_exec_in_a_slot() -> None:
    ticks, dialog, closed = [0], QDialog(), asyncio.Event()

    async def tick() -> None:
        while not closed.is_set():
            ticks[0] += 1
            if ticks[0] == 20:
                dialog.accept()
            await asyncio.sleep(0.001)

    def slot() -> None:
        assert dialog.exec() == Accepted
        closed.set()

    QTimer.singleShot(0, slot)
    await asyncio.wait_for(tick(), 10)


@on_both_loops
async def test_an_idle_nested_loop_sleeps() -> None:
    dialog, turns = QDialog(), count_turns(asyncio.get_running_loop())
    QTimer.singleShot(300, dialog.accept)
    cpu = time.process_time()
    dialog.exec()
    assert turns[0] <= 10
    assert time.process_time() - cpu < 0.2


@on_both_loops
async def test_async_slot_async_close_and_async_wrap() -> None:
    class Box(QObject):
        fired = Signal(int)

        def __init__(self) -> None:
            super().__init__()
            self.got: list[int] = []
            self.closed = 0
            self.fired.connect(self.on_fired)

        @qasync.asyncSlot(int)
        async def on_fired(self, number: int) -> None:
            await asyncio.sleep(0.001)
            self.got.append(number)

        @qasync.asyncClose
        async def close(self) -> None:
            await asyncio.sleep(0.01)
            self.closed += 1

    box = Box()
    for number in range(3):
        box.fired.emit(number)
    await until(lambda: len(box.got) == 3)
    assert box.got == [0, 1, 2]
    box.close()  # waits in processEvents(), inside this very coroutine
    assert box.closed == 1
    QTimer.singleShot(1, box.close)
    await until(lambda: box.closed == 2)
    assert await qasync.asyncWrap(lambda: 5) == 5


@both_loops
def test_a_running_qt_loop_is_refused(qapp: QApplication, loop_class: type[PortableLoop]) -> None:
    refused: list[str] = []

    def slot() -> None:
        loop, future = loop_class(qapp), asyncio.sleep(0)
        try:
            loop.run_forever()
        except RuntimeError as error:
            refused.append(str(error))
        future.close()
        loop.close()
        qapp.exit()

    QTimer.singleShot(1, slot)
    qapp.exec()
    assert refused == ["The Qt event loop is already running: create the loop with already_running=True"]


@both_loops
def test_a_loop_in_an_application_that_runs_already(qapp: QApplication, loop_class: type[PortableLoop]) -> None:
    qapp.setQuitOnLastWindowClosed(False)
    seen: list[object] = []

    async def work(loop: PortableLoop) -> None:
        await asyncio.sleep(0.001)
        seen.append(asyncio.get_running_loop() is loop)
        loop.stop()

    loop = loop_class(qapp, already_running=True)
    with loop:
        task = loop.create_task(work(loop))
        qapp.exec()
    assert seen == [True]
    assert task.done()
    assert loop.is_closed()
    loop = loop_class(qapp, already_running=True)  # ended by the application, not by stop()
    QTimer.singleShot(1, qapp.exit)
    qapp.exec()
    assert not loop.is_running()
    loop.stop()
    loop.close()
    assert run_qt(asyncio.sleep(0, "the next loop works"), loop_class=loop_class) == "the next loop works"
