"""The one place that starts and stops engine work for a document: at most one run at a time."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine import Engine, RecordedTape, Run, StorageError
from engine.flow.breakpoints import Breakpoints
from engine.flow.context import Context
from engine.flow.flow import Flow
from engine.flow.frozen import Frozen
from engine.flow.restart import Restart
from engine.flow.tools import AllowTool, refuse

logger = logging.getLogger(__name__)

GATHERING = 0.01
"""Seconds in which events are gathered: to pass on thousands a second one by one costs more than to make them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Playing:
    """A wire tape that answers instead of servers."""

    engine: Engine
    """Made for it; closed when the run is over."""
    tape: RecordedTape


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What a run begins with."""

    flow: Flow
    context: Context
    flow_text: str
    """For the record."""
    fresh: bool = False
    """No answer is taken from the cache."""
    restart: Restart | None = None
    """Where a recorded run goes on."""
    frozen: Sequence[Frozen] = ()
    """The agents that are not asked."""
    breakpoints: Breakpoints | None = None
    """Where branches wait."""
    allow_tool: AllowTool = refuse
    """Asked before a tool with side effects runs."""
    tapes: Path | None = None
    """The folder in which its calls are recorded."""
    playing: Playing | None = None
    """It only plays a tape."""


class RunController(QObject):
    """Runs a flow as a task and passes its events on."""

    events_received = Signal(object)
    """The next events of the run, in order: a list of all that came meanwhile."""
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
        self._playing = False
        self.run_id = ""
        """Of the run that is going on, from before it is recorded; else empty."""

    @property
    def is_playing(self) -> bool:
        """Whether a run is going on that only plays a tape."""
        return self._task is not None and self._playing

    @property
    def is_running(self) -> bool:
        """Whether a run is going on or ending."""
        return self._task is not None

    def start(self, beginning: Beginning) -> None:
        """Begin a run; there must be none."""
        if self._task is not None:
            raise RuntimeError("a run is going on")
        self._playing = beginning.playing is not None
        self._engine.try_again()  # a person asks: perhaps key or address are right by now
        self._task = asyncio.get_running_loop().create_task(self._follow(beginning))
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

    async def _follow(self, beginning: Beginning) -> None:
        try:
            starting = self._made(beginning)
            self.run_id = starting.id
            async with starting as run:
                self._run = run
                while events := await run.take(GATHERING):
                    self.events_received.emit(events)
        except Exception as error:
            logger.warning("The run of %s broke: %s", beginning.flow.name, error)
            self.failed.emit(error)
        finally:
            if beginning.playing is not None:
                await beginning.playing.engine.close()
            self._run = None
            self._task = None
            self.run_id = ""
            self.running_changed.emit(False)

    def _made(self, beginning: Beginning) -> Run:
        """The run that is to begin; a tape that cannot be written does not keep it from it."""
        if beginning.playing is not None:
            return beginning.playing.engine.replay(
                beginning.flow, flow_text=beginning.flow_text, breakpoints=beginning.breakpoints
            )
        make = partial(
            self._engine.run,
            beginning.flow,
            beginning.context,
            flow_text=beginning.flow_text,
            skip_cache=beginning.fresh,
            restart=beginning.restart,
            frozen=beginning.frozen,
            breakpoints=beginning.breakpoints,
            allow_tool=beginning.allow_tool,
        )
        try:
            return make(tape=beginning.tapes)
        except StorageError as error:
            logger.warning("The run has no wire tape: %s", error)
            return make()
