"""Run coroutines of GUI tests on the loop that the application uses."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from PySide6.QtWidgets import QApplication

from workbench.event_loop import PortableLoop, WorkbenchLoop

T = TypeVar("T")
LOOP_CLASSES = list(dict.fromkeys([WorkbenchLoop, PortableLoop]))
both_loops = pytest.mark.parametrize("loop_class", LOOP_CLASSES, ids=lambda loop_class: loop_class.__name__)


def run_qt(
    main: Coroutine[Any, Any, T],
    timeout: float = 60,
    *,
    loop_class: type[PortableLoop] = WorkbenchLoop,
    debug: bool = False,
) -> T:
    """Run a coroutine to its end on a WorkbenchLoop over the application (fixture ``qapp`` or ``qtbot``).

    Leftover tasks are cancelled, generators and the executor ended and the loop closed. An exception that a task or
    callback let escape fails the test, as does the timeout (seconds).
    """
    app = QApplication.instance()
    assert isinstance(app, QApplication), "use the fixture qapp or qtbot"
    app.setQuitOnLastWindowClosed(False)
    escaped: list[dict[str, Any]] = []

    def note(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), asyncio.CancelledError):  # of a stream server's leftover tasks
            escaped.append(context)

    async def supervised() -> T:
        asyncio.get_running_loop().set_exception_handler(note)
        async with asyncio.timeout(timeout):
            return await main

    with asyncio.Runner(loop_factory=lambda: loop_class(app), debug=debug) as runner:
        result = runner.run(supervised())
    for context in escaped:
        raise AssertionError(f"escaped in the loop: {context['message']}") from context.get("exception")
    return result


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turn an asynchronous test into one that runs on each class of loop."""

    @pytest.mark.usefixtures("qapp")
    @both_loops
    @functools.wraps(test)
    def run(loop_class: type[PortableLoop], **fixtures: Any) -> None:
        run_qt(test(**fixtures), loop_class=loop_class)

    del run.__wrapped__  # else pytest looks at the coroutine
    own = inspect.Parameter("loop_class", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = inspect.Signature([*inspect.signature(test).parameters.values(), own])  # type: ignore[attr-defined]
    return run


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait until the condition holds; TimeoutError after so many seconds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


def count_turns(loop: Any) -> list[int]:
    """Count in its only item how often the loop polls."""
    turns, poll = [0], loop._poll

    def counting() -> None:
        turns[0] += 1
        poll()

    loop._poll = counting
    return turns
