"""The last saved versions of files, kept in the data folder, so that a save can be taken back days later."""

import contextlib
import hashlib
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engine.atomic_file import read_limited, write_atomically
from engine.errors import StorageError

log = logging.getLogger(__name__)

KEPT = 5
"""Versions of one file, beside the one in it, unless said otherwise."""
SIZE_LIMIT = 25_000_000
"""Bytes; a little more than a flow may have."""
_SUFFIX = ".version"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedVersion:
    """One version that was saved before the one in the file."""

    saved: datetime
    """When it was saved; aware, UTC."""
    file: Path
    """Where it is kept."""

    def read(self) -> bytes:
        """The file as it was; raises StorageError."""
        return read_limited(self.file, SIZE_LIMIT)


class SavedVersions:
    """The kept versions in one folder, for files by their paths."""

    def __init__(self, folder: Path, kept: int = KEPT, *, root: Path | None = None) -> None:
        """Keep so many of each file; those below `root` are known by their place in it, which may move."""
        self._folder = folder
        self._kept = kept
        self._root = root

    def keep(self, path: Path) -> None:
        """Keep what is in the file, which is about to be replaced; raises StorageError.

        A file that is not there, or that holds what was kept last, is nothing to keep. The oldest beyond the limit go.
        """
        if not path.exists():
            return
        data = read_limited(path, SIZE_LIMIT)
        kept = self.of(path)
        if kept and kept[0].read() == data:
            return
        folder = self._place(path)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            moment = path.stat().st_mtime_ns
        except OSError as error:
            message = f"Cannot make the folder for saved versions {folder}: {error.strerror}."
            raise StorageError(message, facts={"path": str(folder)}) from error
        if kept:  # a file of which the time was set back is the newest all the same
            moment = max(moment, int(kept[0].file.stem) + 1)
        write_atomically(folder / f"{moment}{_SUFFIX}", data, mode=0o600)
        for version in self.of(path)[self._kept :]:
            with contextlib.suppress(OSError):
                version.file.unlink()

    def of(self, path: Path) -> list[SavedVersion]:
        """The versions of a file, newest first; it never fails."""
        try:
            files = [file for file in self._place(path).glob(f"*{_SUFFIX}") if file.stem.isdecimal()]
        except OSError as error:
            log.warning("cannot look for saved versions of %s: %s", path, error)
            return []
        files.sort(key=lambda file: int(file.stem), reverse=True)
        return [SavedVersion(saved=datetime.fromtimestamp(int(file.stem) / 1e9, UTC), file=file) for file in files]

    def _place(self, path: Path) -> Path:
        # A digest: paths hold anything, and may be longer than a file name.
        inside = self._root is not None and path.is_relative_to(self._root)
        place = path.relative_to(self._root) if self._root is not None and inside else path.absolute()
        name = hashlib.sha256(str(place).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / name
