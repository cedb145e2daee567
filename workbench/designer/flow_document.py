"""The flow under edit: its value, its file, and whether the two differ."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from engine import EngineError, LoadedFlow, Problem, StorageError, flow_text, save_flow
from engine.flow.flow_spec import FlowSpec
from engine.recovery_files import RecoveryFiles
from engine.saved_versions import SavedVersions

logger = logging.getLogger(__name__)

QUIET_MS = 1500
"""Unsaved changes are kept this long after the last edit …"""
BUSY_SECONDS = 10.0
"""… and at most this often while the editing goes on."""

_disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="documents")
"""Writes flows and recovery files, one after the other: a slow disk must not hold the window, and what comes last must
be the last word."""


class ChangedOnDisk(StorageError):
    """The file is not as it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """A flow on its way to the disk."""

    spec: FlowSpec
    path: Path
    kept_name: str
    """Under which its unsaved changes are kept until then."""
    written: Future[None] | None
    """None: it is refused."""


class FlowDocument(QObject):
    """Holds an immutable FlowSpec that only commands replace."""

    spec_changed = Signal(object, object)
    """The flow before and after an edit."""
    path_changed = Signal()
    """The file it is saved to became another."""
    modified_changed = Signal(bool)
    """Whether it differs from its file."""
    problems_changed = Signal()
    """The list of faults became another."""

    recovery_failed = Signal(object)
    """Unsaved changes cannot be kept; the EngineError. Told once until it works again."""
    _kept = Signal(object)
    """The keeper's thread is done; the exception or None."""

    def __init__(
        self,
        spec: FlowSpec,
        path: Path | None = None,
        parent: QObject | None = None,
        *,
        name: str = "",
        digest: str = "",
        recovery: RecoveryFiles | None = None,
        versions: SavedVersions | None = None,
        read_only: bool = False,
    ) -> None:
        """Hold a flow.

        Args:
            path: its file; None before the first save.
            name: what it is called in the recovery folder while it has no path.
            digest: SHA-256 of the file as it was read.
            recovery: where unsaved changes are kept; None = nowhere.
            versions: where what a save replaces is kept; None = nowhere.
            read_only: the file is of a newer version, which saving would lose.
        """
        super().__init__(parent)
        self._spec = spec
        self._saved: FlowSpec | None = spec
        self._path = path
        self._name = name or spec.name
        self._digest = digest
        self._recovery = recovery
        self._versions = versions
        self.read_only = read_only
        self._kept_at = 0.0
        self._recovery_works = True
        self._keep_timer = QTimer(self)
        self._keep_timer.setSingleShot(True)
        self._keep_timer.timeout.connect(self._start_keeping)
        self._kept.connect(self._keeping_ended)
        self._problems: tuple[Problem, ...] = ()
        self._was_modified = False

    @property
    def spec(self) -> FlowSpec:
        """The flow as it is now."""
        return self._spec

    @property
    def path(self) -> Path | None:
        """The file, None before the first save."""
        return self._path

    @property
    def origin(self) -> str:
        """Where the files of sub-flows are looked for; empty before the first save."""
        return str(self._path) if self._path else ""

    @property
    def title(self) -> str:
        """What a tab shows."""
        return self._spec.name or (self._path.name.removesuffix(".flow.json") if self._path else self.tr("Untitled"))

    @property
    def is_modified(self) -> bool:
        """Whether there is something to save."""
        return self._spec is not self._saved and self._spec != self._saved

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Faults of the flow as it is now."""
        return self._problems

    def set_problems(self, problems: Sequence[Problem]) -> None:
        """Keep what validation found."""
        if tuple(problems) != self._problems:
            self._problems = tuple(problems)
            self.problems_changed.emit()

    @classmethod
    def of(
        cls,
        loaded: LoadedFlow,
        path: Path | None,
        name: str,
        recovery: RecoveryFiles,
        versions: SavedVersions | None = None,
    ) -> "FlowDocument":
        """The document of a flow that was read."""
        return cls(
            loaded.spec,
            path,
            name=name,
            digest=loaded.digest,
            recovery=recovery,
            versions=versions,
            read_only=loaded.read_only,
        )

    def begin_save(self, path: Path, *, overwrite: bool = False) -> Saving:
        """Begin to write the flow, as it is now, to a file; `finish_save` waits for it.

        Without `overwrite` it fails when the document's own file was changed by someone else.
        """
        refused = self.read_only and path == self._path
        watched = path == self._path and not overwrite
        return Saving(
            spec=self._spec,
            path=path,
            kept_name=self._kept_name,
            written=None if refused else _disk.submit(self._write, self._spec, path, watched),
        )

    async def finish_save(self, saving: Saving) -> None:
        """Wait until a flow is written; what it was written to is the document's file from now on.

        Raises StorageError, then nothing has changed: the file cannot be written, is of a newer version, or was changed
        by someone else (then it is a ChangedOnDisk).
        """
        if saving.written is None:
            newer = self.tr("%1 is of a newer version of the workbench: saving here would lose what only that knows.")
            raise StorageError(
                newer.replace("%1", saving.path.name),
                hint=self.tr("Save it under another name, or use the newer version."),
                facts={"path": str(saving.path)},
            )
        await asyncio.wrap_future(saving.written)
        self._saved, self.read_only = saving.spec, False
        if self._recovery is not None:
            _disk.submit(_discard, self._recovery, saving.kept_name)
        if saving.path != self._path:
            self._path = saving.path
            self.path_changed.emit()
        self._tell_modified()
        self._plan_keeping()

    def _write(self, spec: FlowSpec, path: Path, watched: bool) -> None:
        """On the disk's thread: so the digest is that of the write before, also while several wait."""
        if watched and self._changed_on_disk(path):
            raise ChangedOnDisk(
                self.tr("%1 was changed on disk since it was opened here.").replace("%1", path.name),
                hint=self.tr("Save under another name, reload the file, or overwrite what was changed there."),
                facts={"path": str(path)},
            )
        if self._versions is not None:
            try:
                self._versions.keep(path)
            except StorageError as error:  # what is saved now matters more than what was saved before
                logger.warning("%s", error)
        self._digest = save_flow(spec, path)

    def _changed_on_disk(self, path: Path) -> bool:
        try:
            return bool(self._digest) and hashlib.sha256(path.read_bytes()).hexdigest() != self._digest
        except OSError:
            # It is gone, or cannot be read: writing it anew loses nothing, or fails by itself.
            return False

    def saved_as_read(self, loaded: LoadedFlow) -> None:
        """Count as saved: the flow is what was read from its file just now."""
        self._saved, self._digest, self.read_only = self._spec, loaded.digest, loaded.read_only
        self.discard_recovery()
        self._tell_modified()

    def forget_saved(self) -> None:
        """Count as never saved: its file is gone."""
        self._saved = None
        self._tell_modified()

    async def close(self) -> None:
        """Keep what is unsaved, and wait until the disk has it; the document is about to go."""
        self.keep_now()
        await self.settled()

    async def settled(self) -> None:
        """Wait until the disk has all it was given."""
        await asyncio.wrap_future(_disk.submit(lambda: None))

    def keep_now(self) -> None:
        """Keep what is unsaved without waiting for a pause."""
        unkept = self._keep_timer.isActive()
        self._keep_timer.stop()
        if unkept:
            self._start_keeping()

    def discard_recovery(self) -> None:
        """Forget what was kept of unsaved changes."""
        self._keep_timer.stop()
        if self._recovery is not None:
            _disk.submit(_discard, self._recovery, self._kept_name)

    @property
    def _kept_name(self) -> str:
        return str(self._path or self._name)

    def _plan_keeping(self) -> None:
        """Wait for a pause in the editing, but not longer than the busy limit."""
        if self._recovery is None:
            return
        if not self.is_modified:
            self.discard_recovery()
            return
        if not self._keep_timer.isActive():
            self._kept_at = time.monotonic()
        left = BUSY_SECONDS - (time.monotonic() - self._kept_at)
        self._keep_timer.start(max(0, min(QUIET_MS, round(left * 1000))))

    def _start_keeping(self) -> None:
        if self._recovery is None or not self.is_modified:
            return
        path = str(self._path) if self._path else ""
        keeping = _disk.submit(self._keep, self._recovery, self._spec, self._kept_name, path)
        keeping.add_done_callback(lambda done: self._kept.emit(done.exception()))

    def _keep(self, recovery: RecoveryFiles, spec: FlowSpec, name: str, path: str) -> None:
        recovery.keep(name, flow_text(spec), path=path, base_digest=self._digest)

    def _keeping_ended(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, EngineError):
            logger.error("unsaved changes could not be kept", exc_info=error)
        elif error is not None and self._recovery_works:
            self.recovery_failed.emit(error)
        self._recovery_works = error is None

    def replace(self, spec: FlowSpec) -> None:
        """Set the flow; only commands call this."""
        if spec is self._spec:
            return
        before, self._spec = self._spec, spec
        self._plan_keeping()
        self.spec_changed.emit(before, spec)
        self._tell_modified()

    def _tell_modified(self) -> None:
        if self.is_modified != self._was_modified:
            self._was_modified = self.is_modified
            self.modified_changed.emit(self._was_modified)


def _discard(recovery: RecoveryFiles, name: str) -> None:
    try:
        recovery.discard(name)
    except StorageError as error:
        logger.warning("%s", error)
