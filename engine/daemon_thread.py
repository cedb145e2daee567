"""Calls in threads that nobody waits for at the end of the program: a function that hangs cannot be ended."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def call_in_thread(function: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Call in a thread of this name; the future has what it returns or raises, unless nobody waits any more.

    What a future refuses, and what would end more than the thread, becomes a RuntimeError.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    variables = contextvars.copy_context()

    def settle(result: T) -> None:
        if done.done():
            forget(result)  # it came too late
        else:
            done.set_result(result)

    def fail(error: BaseException) -> None:
        if not done.done():
            done.set_exception(error)

    def work() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            try:
                result = variables.run(function)
            except BaseException as error:
                if not isinstance(error, Exception) or isinstance(error, StopIteration):
                    said = [str(part) for part in error.args if part is not None]
                    error = RuntimeError(": ".join([type(error).__name__, *said]))
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=work, name=name, daemon=True).start()
    return done


def forget(result: object) -> None:
    """Let go of a result that nobody waits for."""
    if inspect.iscoroutine(result):
        result.close()
