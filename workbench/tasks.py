"""Owned tasks: every coroutine the window starts is kept, and what it raises is told."""

import asyncio
from collections.abc import Coroutine

from PySide6.QtCore import QObject, Signal

from engine import EngineError


class Tasks(QObject):
    """Starts coroutines from slots."""

    failed = Signal(object)
    """An EngineError of a task. Other errors go to the loop's handler."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tasks: set[asyncio.Task[None]] = set()
        self._saving: set[asyncio.Task[None]] = set()

    def start(
        self, work: Coroutine[object, object, object], owner: QObject | None = None, *, saves: bool = False
    ) -> None:
        """Run a coroutine as a task; with its owner, a dialog for instance, it ends. What saves may end by itself."""
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        if saves:
            self._saving.add(task)
        task.add_done_callback(self._done)
        # Cancelled before its first step, the task never came to the work.
        task.add_done_callback(lambda _task: work.close())
        if owner is not None:
            owner.destroyed.connect(lambda: task.cancel())

    async def _guarded(self, work: Coroutine[object, object, object]) -> None:
        try:
            await work
        except EngineError as error:
            self.failed.emit(error)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._saving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "A task of the window failed", "exception": error})

    async def close(self) -> None:
        """Cancel what is under way and wait for it, at most 2 s; what saves has as long before."""
        for task in self._tasks - self._saving:
            task.cancel()
        if self._saving:
            await asyncio.wait(self._saving, timeout=2.0)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)
