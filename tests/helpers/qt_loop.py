"""Run a coroutine of a GUI test on the loop that the application uses."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from PySide6.QtWidgets import QApplication

from workbench.event_loop import PortableLoop, WorkbenchLoop

T = TypeVar("T")


def run_qt(
    main: Coroutine[Any, Any, T],
    timeout: float = 20,
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

    async def supervised() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: escaped.append(context))
        async with asyncio.timeout(timeout):
            return await main

    with asyncio.Runner(loop_factory=lambda: loop_class(app), debug=debug) as runner:
        result = runner.run(supervised())
    for context in escaped:
        raise AssertionError(f"escaped in the loop: {context['message']}") from context.get("exception")
    return result
