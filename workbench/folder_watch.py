"""Notices changed files of the person, so that lists and checks follow what is done elsewhere."""

import asyncio
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

from workbench.tasks import Tasks

QUIET_MILLISECONDS = 1100
"""After the last change; the store of profiles looks at its files once a second."""


class FolderWatch(QObject):
    """Watches a folder and the files of a kind in it; the folder may come later."""

    changed = Signal()
    """Some file may be another one now."""

    def __init__(self, folder: Path, pattern: str, tasks: Tasks, parent: QObject) -> None:
        """Watch the files that fit `pattern`, once `begin` was called."""
        super().__init__(parent)
        self._folder = folder
        self._pattern = pattern
        self._tasks = tasks
        self._closed = False
        self._watcher = QFileSystemWatcher(self)
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(QUIET_MILLISECONDS)
        self._quiet.timeout.connect(self._tell)
        for noticed in (self._watcher.directoryChanged, self._watcher.fileChanged):
            noticed.connect(self._noticed)

    def begin(self) -> None:
        """Watch from now on."""
        self._follow_soon()

    def close(self) -> None:
        """Watch no more."""
        self._closed = True
        self._quiet.stop()
        watched = [*self._watcher.directories(), *self._watcher.files()]
        if watched:
            self._watcher.removePaths(watched)

    def _noticed(self) -> None:
        # A file that was replaced is no longer watched, a folder may be there only now.
        self._follow_soon()
        self._quiet.start()

    def _follow_soon(self) -> None:
        if not self._closed:
            self._tasks.start(self._follow())

    async def _follow(self) -> None:
        """Watch what is there now; the disk may be slow."""
        wanted = await asyncio.to_thread(self._wanted)
        if self._closed:
            return
        watched = {*self._watcher.directories(), *self._watcher.files()}
        if gone := watched - wanted:
            self._watcher.removePaths(sorted(gone))
        if new := wanted - watched:
            self._watcher.addPaths(sorted(new))

    def _wanted(self) -> set[str]:
        if not self._folder.is_dir():
            return {str(self._folder.parent)}
        return {str(self._folder), *(str(path) for path in self._folder.glob(self._pattern))}

    def _tell(self) -> None:
        self._follow_soon()
        self.changed.emit()
