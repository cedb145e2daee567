"""Timers: start, end with milliseconds, or the error, of a piece of work, in the log and for who listens."""

import functools
import inspect
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.interceptors import current_run

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One piece of work that is over."""

    key: str
    milliseconds: float
    run_id: str
    """Of the run it belongs to; empty outside of runs."""
    within: str = ""
    """The timer around it."""
    error: str = ""
    """The type of what it raised; empty: it ended well."""


_around: ContextVar[str] = ContextVar("timer_around", default="")
_listeners: list[Callable[[Timing], None]] = []


@contextmanager
def listening(listener: Callable[[Timing], None]) -> Iterator[None]:
    """Tell a listener of every timer that ends meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def _timing(key: str) -> Iterator[None]:
    within, run_id = _around.get(), current_run.get()
    _around.set(key)
    log.debug("%s: begins", key)
    begin, error = time.perf_counter(), ""
    try:
        yield
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        _around.set(within)
        spent = (time.perf_counter() - begin) * 1000
        log.debug("%s: %s after %.1f ms%s", key, error or "ends", spent, f" (run {run_id})" if run_id else "")
        timing = Timing(key=key, milliseconds=spent, run_id=run_id, within=within, error=error)
        for listener in _listeners:
            listener(timing)


@asynccontextmanager
async def timer(key: str) -> AsyncIterator[None]:
    """Time the block."""
    with _timing(key):
        yield


def timed(key: str) -> Callable[[F], F]:
    """Time each call of a function; a generator until it is exhausted or closed."""

    def decorate(function: F) -> F:
        wrapped: F = _wrapped(key, function)
        return wrapped

    return decorate


def _wrapped(key: str, function: Any) -> Any:
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def generate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            with _timing(key):
                items = function(*args, **kwargs)
                try:
                    async for item in items:
                        yield item
                finally:
                    await items.aclose()

        return generate
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            with _timing(key):
                return await function(*args, **kwargs)

        return wait

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _timing(key):
            return function(*args, **kwargs)

    return call
