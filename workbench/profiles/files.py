"""The files of profiles: those of the person, and the bundled ones below them."""

from pathlib import Path

from PySide6.QtCore import QCoreApplication

from engine import bundled
from engine.atomic_file import read_limited, write_atomically
from engine.errors import StorageError
from engine.profile_file import SIZE_LIMIT
from engine.profile_store import SUFFIX

translate = QCoreApplication.translate

DELETED = "deleted"
"""The folder for files of deleted profiles."""


class ProfileFiles:
    """Reads, writes and deletes by name; every method uses the disk and raises StorageError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def read(self, name: str) -> tuple[bytes, bool]:
        """The file of a profile, and whether it is a bundled one; empty when there is none any more."""
        if (path := self._path(name)).exists():
            return read_limited(path, SIZE_LIMIT), False
        if name in bundled.names("profiles", suffix=SUFFIX):
            return bundled.read_bytes("profiles", name + SUFFIX), True
        return b"", False

    def write(self, name: str, data: bytes) -> None:
        """Write the person's own file of a profile."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            text = translate("profiles", "The folder %1 cannot be made: %2.")
            raise StorageError(_filled(text, self._folder, error)) from error
        write_atomically(self._path(name), data)

    def set_aside(self, name: str) -> None:
        """Move the person's own file of a profile into the folder of deleted ones."""
        path, kept = self._path(name), self._folder / DELETED
        try:
            kept.mkdir(exist_ok=True, mode=0o700)
            path.replace(kept / path.name)
        except OSError as error:
            raise StorageError(_filled(translate("profiles", "%1 cannot be deleted: %2."), path, error)) from error


def _filled(text: str, path: Path, error: OSError) -> str:
    return text.replace("%2", error.strerror or str(error)).replace("%1", str(path))
