"""The loop as asyncio knows it: queue, timers, tasks, threads, errors, stopping, on both classes of loop."""

import asyncio
import contextvars
import gc
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import qasync
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication

from tests.helpers.qt_loop import both_loops, count_turns, on_both_loops, run_qt, until
from workbench.event_loop import PortableLoop

LoopClass = type[PortableLoop]

# Queue and timers


@both_loops
def test_is_a_qasync_loop_and_refuses_work_once_closed(qapp: QApplication, loop_class: LoopClass) -> None:
    loop = loop_class(qapp)
    assert isinstance(loop, qasync.QEventLoop)
    assert isinstance(loop, asyncio.AbstractEventLoop)
    loop.close()
    assert loop.is_closed()
    loop.close()
    calls: list[Callable[[], object]] = [
        lambda: loop.call_soon(print),
        lambda: loop.call_later(1, print),
        lambda: loop.call_soon_threadsafe(print),
        loop.run_forever,
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="closed"):
            call()


@on_both_loops
async def test_call_soon_is_first_in_first_out_over_several_budgets() -> None:
    loop, out = asyncio.get_running_loop(), list[int]()
    for i in range(20_000):
        loop.call_soon(out.append, i)
    await until(lambda: len(out) == 20_000)
    assert out == list(range(20_000))


@on_both_loops
async def test_a_callback_of_a_callback_runs_in_the_next_batch() -> None:
    loop, out = asyncio.get_running_loop(), list[int]()

    def first() -> None:
        out.append(1)
        loop.call_soon(out.append, 3)

    loop.call_soon(first)
    loop.call_soon(out.append, 2)
    await until(lambda: len(out) == 3)
    assert out == [1, 2, 3]


@on_both_loops
async def test_timers_keep_their_order_and_cancelled_ones_do_not_run() -> None:
    loop, out = asyncio.get_running_loop(), list[int | str]()
    base = loop.time() + 0.03
    handles = [loop.call_at(base + i * 0.001, out.append, i) for i in range(100)]
    assert isinstance(handles[0], asyncio.TimerHandle)
    assert handles[7].when() == base + 0.007
    for handle in handles[::2]:
        handle.cancel()
    loop.call_at(loop.time() - 5, out.append, "past")
    await until(lambda: 99 in out)
    assert out == ["past", *range(1, 100, 2)]


@on_both_loops
async def test_a_deadline_beyond_qts_range_neither_fires_early_nor_blocks_others() -> None:
    loop, out = asyncio.get_running_loop(), list[str]()
    far = loop.call_later(40 * 86_400, out.append, "far")
    await asyncio.sleep(0.02)
    assert out == []
    far.cancel()


@on_both_loops
async def test_slots_schedule_and_an_earlier_deadline_rearms_the_timer() -> None:
    loop, order = asyncio.get_running_loop(), list[str]()
    loop.call_later(3600, print)

    def slot() -> None:
        loop.call_later(0.02, order.append, "later")
        loop.call_soon(order.append, "soon")

    QTimer.singleShot(5, slot)
    await asyncio.sleep(0.01)  # the loop is idle when the slot runs
    await until(lambda: len(order) == 2)
    assert order == ["soon", "later"]


@on_both_loops
async def test_an_idle_loop_wakes_for_a_slot_and_for_its_timer() -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    QTimer.singleShot(5, lambda: loop.call_later(0.005, done.set_result, None))
    await done


@on_both_loops
async def test_sleep_is_never_early() -> None:
    loop = asyncio.get_running_loop()
    resolution = time.get_clock_info("monotonic").resolution
    for delay in (0, 0.0005, 0.002, 0.0105, 0.1, 0.75):
        start = loop.time()
        await asyncio.sleep(delay)
        assert loop.time() - start >= delay - resolution


@on_both_loops
async def test_cancelled_timers_are_dropped() -> None:
    loop: Any = asyncio.get_running_loop()
    for _ in range(20_000):
        async with asyncio.timeout(600):  # noqa: ASYNC100
            pass
    assert len(loop._scheduled) < 500
    for handle in [loop.call_later(600, print) for _ in range(20_000)]:
        handle.cancel()
    await asyncio.sleep(0.001)
    await asyncio.sleep(0.001)
    assert len(loop._scheduled) < 500
    assert loop._timer_cancelled_count <= len(loop._scheduled)


@on_both_loops
async def test_busy_tasks_leave_qt_its_turn() -> None:
    ticks: list[int] = []
    timer = QTimer()
    timer.setTimerType(Qt.TimerType.PreciseTimer)
    timer.timeout.connect(lambda: ticks.append(1))
    timer.start(5)

    async def hog() -> None:
        while len(ticks) < 20:
            await asyncio.sleep(0)

    await asyncio.gather(*(hog() for _ in range(50)))  # for ever if Qt is starved
    timer.stop()


@on_both_loops
async def test_an_idle_loop_sleeps() -> None:
    await asyncio.sleep(0.01)
    turns, cpu = count_turns(asyncio.get_running_loop()), time.process_time()
    await asyncio.sleep(0.3)
    assert turns[0] <= 10
    assert time.process_time() - cpu < 0.15


# Tasks, contexts, generators


@on_both_loops
async def test_a_failing_task_group_cancels_its_tasks() -> None:
    cancelled: list[int] = []

    async def worker(i: int) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(i)
            raise
        finally:
            await asyncio.sleep(0)

    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("x")

    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012
        async with asyncio.TaskGroup() as group:
            for i in range(50):
                group.create_task(worker(i))
            group.create_task(fail())
    assert [str(error) for error in caught.value.exceptions] == ["x"]
    assert sorted(cancelled) == list(range(50))


# In a task of its own: after a failed group, Python 3.11.2 takes the next timeout for a cancellation.
@on_both_loops
async def test_timeout_and_wait_for() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.01)


@on_both_loops
async def test_a_thousand_tasks_are_cancelled() -> None:
    tasks = [asyncio.create_task(asyncio.sleep(60)) for _ in range(1000)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)


@on_both_loops
async def test_every_way_of_calling_keeps_the_context() -> None:
    var = contextvars.ContextVar("var", default="lost")
    context = contextvars.copy_context()
    context.run(var.set, "kept")
    loop, got = asyncio.get_running_loop(), list[str]()

    def note() -> None:
        got.append(var.get())

    loop.call_soon(note, context=context)
    loop.call_later(0.001, note, context=context)
    loop.call_at(loop.time(), note, context=context)
    loop.call_soon_threadsafe(note, context=context)
    thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(note, context=context))
    thread.start()
    await until(lambda: len(got) == 5)
    thread.join()
    assert got == ["kept"] * 5
    var.set("mine")
    assert await asyncio.to_thread(var.get) == "mine"


@both_loops
def test_dropped_and_open_async_generators_are_closed(qapp: QApplication, loop_class: LoopClass) -> None:
    closed: list[str] = []

    async def numbers(name: str) -> AsyncGenerator[int, None]:
        try:
            for i in range(10):
                yield i
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)
            closed.append(name)

    kept = numbers("open")

    async def main() -> None:
        async for _ in numbers("dropped"):
            break
        gc.collect()
        await until(lambda: closed)
        assert closed == ["dropped"]
        await anext(kept)

    run_qt(main(), loop_class=loop_class)
    assert closed == ["dropped", "open"]


# Threads and executors


@on_both_loops
async def test_threads_never_lose_a_wake_up_of_an_idle_loop() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(300):
        done = loop.create_future()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(done.set_result, None))
        thread.start()
        await asyncio.wait_for(done, 10)
        thread.join()


@on_both_loops
async def test_a_burst_from_four_threads_arrives_whole() -> None:
    loop, count = asyncio.get_running_loop(), [0]

    def bump() -> None:
        count[0] += 1

    def burst() -> None:
        for _ in range(10_000):
            loop.call_soon_threadsafe(bump)

    threads = [threading.Thread(target=burst) for _ in range(4)]
    for thread in threads:
        thread.start()
    await until(lambda: count[0] == 40_000, 20)
    for thread in threads:
        thread.join()


@both_loops
def test_call_soon_in_a_wrong_thread_does_not_stall_the_loop(qapp: QApplication, loop_class: LoopClass) -> None:
    async def main() -> None:
        loop, ran = asyncio.get_running_loop(), list[str]()
        await asyncio.sleep(0.01)
        thread = threading.Thread(target=loop.call_soon, args=(ran.append, "thread"))
        QTimer.singleShot(5, thread.start)  # the loop is idle
        await asyncio.sleep(0.02)
        thread.join()
        done = loop.create_future()
        QTimer.singleShot(5, lambda: loop.call_soon(done.set_result, None))
        await done
        assert ran == ["thread"]

    run_qt(main(), loop_class=loop_class, debug=False)


@on_both_loops
async def test_executors() -> None:
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, lambda: 6 * 7) == 42
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(None, lambda: 1 / 0)
    with qasync.QThreadExecutor(2) as pool:
        with pytest.raises(TypeError):
            loop.set_default_executor(pool)
        texts = await asyncio.gather(*(loop.run_in_executor(pool, str, i) for i in range(50)))
        assert texts == [str(i) for i in range(50)]
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as mine:
        loop.set_default_executor(mine)
        assert (await asyncio.to_thread(threading.current_thread)).name.startswith("mine")


# Errors


@on_both_loops
async def test_the_loops_exception_handler_is_called() -> None:
    loop, seen = asyncio.get_running_loop(), list[str]()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _loop, context: seen.append(repr(context["exception"])))
    loop.call_soon(lambda: 1 / 0)
    loop.call_later(0.001, lambda: int("x"))
    await until(lambda: len(seen) == 2)
    loop.set_exception_handler(before)
    assert seen == [
        "ZeroDivisionError('division by zero')",
        "ValueError(\"invalid literal for int() with base 10: 'x'\")",
    ]


@on_both_loops
async def test_the_default_handler_logs(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(None)
    loop.call_soon(lambda: 1 / 0)
    await until(lambda: caplog.records)
    loop.set_exception_handler(before)
    assert "Exception in callback" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@both_loops
def test_debug_mode(qapp: QApplication, loop_class: LoopClass, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        assert loop.get_debug()
        with caplog.at_level(logging.WARNING, "asyncio"):
            loop.call_soon(time.sleep, 0.12)
            await until(lambda: "took 0." in caplog.text)
        assert "sleep" in caplog.text
        with pytest.raises(TypeError):
            loop.call_soon("not callable")
        handle = loop.call_soon(bool)
        assert handle._source_traceback[-1].filename == __file__
        refused = await asyncio.gather(asyncio.to_thread(loop.call_soon, bool), return_exceptions=True)
        assert "Non-thread-safe" in str(refused[0])

    run_qt(main(), loop_class=loop_class, debug=True)


@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize("where", ["callback", "task", "main"])
@both_loops
def test_base_exceptions_leave_the_loop(
    qapp: QApplication, loop_class: LoopClass, error: BaseException, where: str
) -> None:
    loop, tasks = loop_class(qapp), list[asyncio.Task[None]]()

    def throw() -> None:
        raise error

    async def throw_async() -> None:
        throw()

    async def main() -> None:
        if where == "main":
            throw()
        elif where == "task":
            tasks.append(asyncio.create_task(throw_async()))
        else:
            asyncio.get_running_loop().call_soon(throw)
        await asyncio.sleep(60)

    with pytest.raises(type(error)) as caught:
        loop.run_until_complete(main())
    assert caught.value is error
    assert all(task.exception() is error for task in tasks)
    assert not loop.is_running()
    assert loop.run_until_complete(asyncio.sleep(0.001, "usable afterwards")) == "usable afterwards"
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


# Stopping


@both_loops
def test_stop_before_a_run_means_one_batch(qapp: QApplication, loop_class: LoopClass) -> None:
    loop, out = loop_class(qapp), list[int]()

    def first() -> None:
        out.append(1)
        loop.call_soon(out.append, 2)

    loop.call_soon(first)
    loop.stop()
    loop.run_forever()
    assert out == [1]
    assert not loop.is_running()
    loop.close()


@both_loops
def test_stop_in_a_callback_ends_the_present_batch(qapp: QApplication, loop_class: LoopClass) -> None:
    loop, out = loop_class(qapp), list[str]()

    def stop() -> None:
        loop.stop()
        loop.call_soon(out.append, "next run")

    loop.call_soon(stop)
    loop.call_soon(out.append, "same batch")
    loop.run_forever()
    assert out == ["same batch"]
    QTimer.singleShot(5, loop.stop)  # from a slot, the loop being idle
    loop.run_forever()
    assert out == ["same batch", "next run"]
    loop.close()


@both_loops
def test_stop_from_a_thread(qapp: QApplication, loop_class: LoopClass) -> None:
    loop = loop_class(qapp)
    for stop in (lambda: loop.call_soon_threadsafe(loop.stop), loop.stop):
        thread = threading.Timer(0.01, stop)
        thread.start()
        loop.run_forever()
        thread.join()
    loop.call_soon(loop.stop)
    with pytest.raises(RuntimeError, match="stopped before"):
        loop.run_until_complete(loop.create_future())
    assert loop.run_until_complete(asyncio.sleep(0.001, "ok")) == "ok"
    loop.close()


@on_both_loops
async def test_re_entrance_is_refused(qapp: QApplication) -> None:
    loop: Any = asyncio.get_running_loop()
    with pytest.raises(RuntimeError, match="already running"):
        loop.run_forever()
    sleeping = asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="already running"):
        loop.run_until_complete(sleeping)
    sleeping.close()
    with pytest.raises(RuntimeError, match="running"):
        loop.close()
    other = type(loop)(qapp)
    with pytest.raises(RuntimeError, match="another loop"):
        other.run_forever()
    other.close()
