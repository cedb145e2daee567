"""The flow under edit: its value, its file, and whether the two differ."""

import hashlib
import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from engine import EngineError, LoadedFlow, Problem, StorageError, flow_text, save_flow
from engine.flow.flow_spec import FlowSpec
from engine.recovery_files import RecoveryFiles

logger = logging.getLogger(__name__)

QUIET_MS = 1500
"""Unsaved changes are kept this long after the last edit …"""
BUSY_SECONDS = 10.0
"""… and at most this often while the editing goes on."""

_keeper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recovery")
"""Writes recovery files: waiting for a slow disk must not hold the window. Its thread starts with the first file."""


class ChangedOnDisk(StorageError):
    """The file is not as it was read."""


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
        read_only: bool = False,
    ) -> None:
        """Hold a flow.

        Args:
            path: its file; None before the first save.
            name: what it is called in the recovery folder while it has no path.
            digest: SHA-256 of the file as it was read.
            recovery: where unsaved changes are kept; None = nowhere.
            read_only: the file is of a newer version, which saving would lose.
        """
        super().__init__(parent)
        self._spec = spec
        self._saved: FlowSpec | None = spec
        self._path = path
        self._name = name or spec.name
        self._digest = digest
        self._recovery = recovery
        self.read_only = read_only
        self._kept_at = 0.0
        self._recovery_works = True
        self._keep_timer = QTimer(self)
        self._keep_timer.setSingleShot(True)
        self._keep_timer.timeout.connect(self._start_keeping)
        self._keeping: Future[None] | None = None
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
    def of(cls, loaded: LoadedFlow, path: Path | None, name: str, recovery: RecoveryFiles) -> "FlowDocument":
        """The document of a flow that was read."""
        return cls(loaded.spec, path, name=name, digest=loaded.digest, recovery=recovery, read_only=loaded.read_only)

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write the flow to a file, which is its file from now on.

        Raises StorageError, then nothing has changed: the file cannot be written, is of a newer version, or was changed
        by someone else meanwhile and `overwrite` is not set (then it is a ChangedOnDisk).
        """
        if self.read_only and path == self._path:
            newer = self.tr("%1 is of a newer version of the workbench: saving here would lose what only that knows.")
            raise StorageError(
                newer.replace("%1", path.name),
                hint=self.tr("Save it under another name, or use the newer version."),
                facts={"path": str(path)},
            )
        if path == self._path and not overwrite and self._changed_on_disk(path):
            raise ChangedOnDisk(
                self.tr("%1 was changed on disk since it was opened here.").replace("%1", path.name),
                hint=self.tr("Save under another name, reload the file, or overwrite what was changed there."),
                facts={"path": str(path)},
            )
        self.read_only = False
        self._digest = save_flow(self._spec, path)
        self.discard_recovery()
        self._saved = self._spec
        if path != self._path:
            self._path = path
            self.path_changed.emit()
        self._tell_modified()

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

    def close(self) -> None:
        """Keep what is unsaved; the document is about to go."""
        self.keep_now()

    def keep_now(self) -> None:
        """Keep what is unsaved at once, without waiting for a pause."""
        unkept = self._keep_timer.isActive()
        self._keep_timer.stop()
        self._await_keeper()
        if unkept and self._recovery is not None and self.is_modified:
            try:
                self._keep(self._recovery, self._spec)
            except EngineError as error:
                logger.warning("%s", error)

    def discard_recovery(self) -> None:
        """Forget what was kept of unsaved changes."""
        self._keep_timer.stop()
        if self._recovery is not None:
            self._await_keeper()
            try:
                self._recovery.discard(self._kept_name)
            except StorageError as error:
                logger.warning("%s", error)

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
        self._keeping = _keeper.submit(self._keep, self._recovery, self._spec)
        self._keeping.add_done_callback(lambda done: self._kept.emit(done.exception()))

    def _keep(self, recovery: RecoveryFiles, spec: FlowSpec) -> None:
        path = str(self._path) if self._path else ""
        recovery.keep(self._kept_name, flow_text(spec), path=path, base_digest=self._digest)

    def _await_keeper(self) -> None:
        """Let a write under way end first: what comes next must be the last word."""
        if self._keeping is not None:
            self._keeping.exception()
            self._keeping = None

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
