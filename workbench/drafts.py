"""Edits of prompts and profiles that are not saved yet; each is in a recovery file soon after it was typed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from engine.recovery_files import RecoveryFiles
from workbench.tasks import Tasks

KEEP_MILLISECONDS = 500
"""After the last change."""

Place = tuple[str, str]
"""Key and language of a prompt; name of a profile and `profile`."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An unsaved text, and the version of the text it was made from."""

    text: str
    base: str


class Drafts(QObject):
    """The unsaved texts by place."""

    changed = Signal()
    """There is one more, or one less."""

    def __init__(self, files: RecoveryFiles, tasks: Tasks, parent: QObject) -> None:
        super().__init__(parent)
        self._files = files
        self._tasks = tasks
        self.written: Callable[[str], str] = lambda text: text
        """What of a text goes into its recovery file."""
        self._drafts: dict[Place, Draft] = {}
        self._due: set[Place] = set()
        self._writing = asyncio.Lock()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(KEEP_MILLISECONDS)
        self._timer.timeout.connect(lambda: tasks.start(self.settle()))

    def __contains__(self, place: object) -> bool:
        return place in self._drafts

    def __len__(self) -> int:
        return len(self._drafts)

    @property
    def places(self) -> list[Place]:
        """What has unsaved changes."""
        return list(self._drafts)

    def get(self, place: Place) -> Draft | None:
        """The unsaved text of a place, None when it has none."""
        return self._drafts.get(place)

    def set(self, place: Place, draft: Draft | None) -> None:
        """Take an unsaved text, or none."""
        if draft == self._drafts.get(place):
            return
        is_news = (draft is None) is (place in self._drafts)
        if draft is None:
            del self._drafts[place]
        else:
            self._drafts[place] = draft
        self._due.add(place)
        self._timer.start()
        if is_news:
            self.changed.emit()

    def forget_all(self) -> None:
        """The person wants none of them."""
        for place in self.places:
            self.set(place, None)

    async def recover(self) -> int:
        """Take what the last time left; how many texts that were."""
        found = await asyncio.to_thread(self._files.found)
        for kept in found:
            key, _, language = kept.document.rpartition(".")
            if (key, language) not in self._drafts:
                self._drafts[key, language] = Draft(kept.text, kept.base_digest)
        if found:
            self.changed.emit()
        return len(found)

    async def settle(self) -> None:
        """Write now what is not in its recovery file yet; raises StorageError."""
        self._timer.stop()
        async with self._writing:
            due, self._due = self._due, set()
            for place in due:
                await asyncio.to_thread(self._keep, place, self._drafts.get(place))

    def _keep(self, place: Place, draft: Draft | None) -> None:
        document = ".".join(place)
        if draft is None:
            self._files.discard(document)
        else:
            self._files.keep(document, self.written(draft.text), base_digest=draft.base)
