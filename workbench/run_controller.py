"""The one place that starts and stops engine work for a document: at most one run at a time."""

import asyncio
import logging

from PySide6.QtCore import QObject, Signal

from engine import Engine, Run
from engine.flow.context import Context
from engine.flow.flow import Flow

logger = logging.getLogger(__name__)


class RunController(QObject):
    """Runs a flow as a task and passes its events on."""

    event_received = Signal(object)
    """Each event of the run, in order."""
    running_changed = Signal(bool)
    """A run began, or is over and everything of it is closed."""
    stopping = Signal()
    """Stop was asked for; the last events follow."""
    failed = Signal(object)
    """The run could not start, or broke; the exception."""

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._task: asyncio.Task[None] | None = None
        self._run: Run | None = None

    @property
    def is_running(self) -> bool:
        """Whether a run is going on or ending."""
        return self._task is not None

    def start(self, flow: Flow, context: Context, flow_text: str) -> None:
        """Begin a run; there must be none."""
        if self._task is not None:
            raise RuntimeError("a run is going on")
        self._task = asyncio.get_running_loop().create_task(self._follow(flow, context, flow_text))
        self.running_changed.emit(True)

    def stop(self) -> None:
        """Cancel all requests at once and keep what came; the run then ends with the status `stopped`."""
        if self._run is not None:
            self.stopping.emit()
            self._run.stop()
        elif self._task is not None:
            self.stopping.emit()
            self._task.cancel()

    async def close(self) -> None:
        """Stop and wait until everything of the run is closed."""
        task = self._task
        if task is not None:
            self.stop()
            done, _ = await asyncio.wait([task], timeout=2.0)
            if not done:
                task.cancel()
                await asyncio.wait([task], timeout=1.0)

    async def _follow(self, flow: Flow, context: Context, flow_text: str) -> None:
        try:
            async with self._engine.run(flow, context, flow_text=flow_text) as run:
                self._run = run
                async for event in run:
                    self.event_received.emit(event)
        except Exception as error:
            logger.warning("The run of %s broke: %s", flow.name, error)
            self.failed.emit(error)
        finally:
            self._run = None
            self._task = None
            self.running_changed.emit(False)
