"""What a person sets about the engine: holds at once, is kept in the data folder for the command line, too."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine import Engine, EngineSettings, StorageError
from workbench.tasks import Tasks

logger = logging.getLogger(__name__)


class EngineOptions(QObject):
    """The settings of the running engine and their file."""

    changed = Signal()
    """Look at `current`."""
    environment_changed = Signal()
    """Other profiles may hold now."""

    def __init__(self, engine: Engine, path: Path, tasks: Tasks, parent: QObject) -> None:
        super().__init__(parent)
        self._engine = engine
        self._path = path
        self._tasks = tasks
        self._writing = asyncio.Lock()
        self._unsaved = False

    @property
    def current(self) -> EngineSettings:
        """What holds now."""
        return self._engine.settings

    @property
    def has_cache(self) -> bool:
        """Whether there is anything that answers could be kept in."""
        return self._engine.cache is not None

    def change(self, **fields: object) -> None:
        """Change fields of the settings; they hold from the next request on and are written soon.

        Raises ValueError for a value that cannot be; a disk that refuses is told by `Tasks.failed`.
        """
        settings = replace(self.current, **fields)  # type: ignore[arg-type]
        if repr(settings) == repr(self.current):  # patterns in another order are equal, but not the same
            return
        moved = settings.environment != self.current.environment
        self._engine.apply(settings)
        self._unsaved = True
        self.changed.emit()
        if moved:
            self.environment_changed.emit()
        self._tasks.start(self._save())

    async def close(self) -> None:
        """Write what is not written yet; a disk that refuses is noted in the log."""
        try:
            await self._save()
        except StorageError as error:
            logger.warning("%s", error)

    async def _save(self) -> None:
        """Write what holds by then; several changes in a row end with the last one in the file."""
        async with self._writing:
            if not self._unsaved:
                return
            self._unsaved = False  # what changes during the writing is written next
            try:
                await asyncio.to_thread(self.current.save, self._path)
            except BaseException:
                self._unsaved = True
                raise
