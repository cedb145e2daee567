"""Files that are whole or not there: atomic saving and reading within a limit."""

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import BinaryIO

from engine.errors import StorageError

if sys.platform != "win32":
    import fcntl

_TEMPORARY_SUFFIX = ".tmp"
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def write_atomically(path: str | os.PathLike[str], data: bytes, *, mode: int | None = None) -> None:
    """Replace the file by `data`, durably and at once; a symbolic link is written through.

    Without `mode` the new file has the mode of the old one, or that of any new file. Raises StorageError that names
    path and cause; then the old file is whole and nothing else was left in the folder.
    """
    with _told(path), _replacing(path, mode) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file.fileno(), rest) :]


@contextlib.contextmanager
def written_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write piece by piece, which takes the place of the old one when the block ends without an exception.

    As write_atomically otherwise, for what is too large for memory.
    """
    with _told(path), _replacing(path, None) as file:
        buffer = BufferedWriter(file, 1 << 18)
        try:
            yield buffer
            buffer.flush()
        finally:
            with contextlib.suppress(OSError):  # after a failure there are bytes left that nobody wants
                buffer.detach()


@contextlib.contextmanager
def _told(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"Cannot save {os.fspath(path)}: {_reason(error)}.",
            hint="Check the free space and the permissions of the folder, or save under another name.",
            facts={"path": os.fspath(path), "cause": _reason(error)},
        ) from error


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file of any size for reading; anything else is refused before it is opened (StorageError)."""
    return open(_opened(os.fspath(path), None), "rb")


def read_limited(path: str | os.PathLike[str], limit_bytes: int) -> bytes:
    """Read a regular file of at most `limit_bytes`; anything else is refused before reading (StorageError)."""
    name = os.fspath(path)
    descriptor = _opened(name, limit_bytes)
    try:
        with open(descriptor, "rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise _unreadable(name, error) from error
    if len(data) > limit_bytes:
        raise _too_large(name, len(data), limit_bytes)
    return data


def _opened(name: str, limit_bytes: int | None) -> int:
    try:
        # Looking first: opening a device or the end of a pipe may already act, or wait.
        _check_readable(name, os.stat(name), limit_bytes)
        descriptor = os.open(name, os.O_RDONLY | _CLOSE_ON_EXEC | _NEVER_WAIT)
        try:
            _check_readable(name, os.fstat(descriptor), limit_bytes)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise _unreadable(name, error) from error
    except ValueError as error:  # a NUL in the name
        raise StorageError(f"Cannot read {name!r}: {error}.", facts={"path": name}) from error
    return descriptor


def _unreadable(name: str, error: OSError) -> StorageError:
    return StorageError(f"Cannot read {name}: {_reason(error)}.", facts={"path": name, "cause": _reason(error)})


@contextlib.contextmanager
def _replacing(path: str | os.PathLike[str], mode: int | None) -> Iterator[FileIO]:
    """A new file beside the old one, which replaces it when the block ends without an exception."""
    target = _target(Path(path))
    _remove_abandoned(target)
    old_mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    new, old = _beside(target), _beside(target)
    try:
        with _create(new, old_mode if mode is None else mode) as file:
            yield file
            os.fsync(file.fileno())
            if old_mode is not None:
                # A second name for the old file, to go back to if the folder cannot be made durable.
                with contextlib.suppress(OSError):
                    os.link(target, old)
            if sys.platform == "win32":
                file.close()  # an open file cannot be renamed there; elsewhere the lock lasts until it has its name
            os.replace(new, target)
        _sync_or_go_back(target, old, existed=old_mode is not None)
    finally:
        for leftover in (new, old):
            with contextlib.suppress(OSError):
                leftover.unlink()


def _sync_or_go_back(target: Path, old: Path, *, existed: bool) -> None:
    try:
        _sync_folder(target.parent)
    except OSError:
        if old.exists():
            os.replace(old, target)
        elif not existed:
            target.unlink()
        raise


def _create(path: Path, mode: int | None) -> FileIO:
    """A new file, locked so that _remove_abandoned sees that its writer lives."""
    while True:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSE_ON_EXEC
        file = FileIO(os.open(path, flags, 0o666 if mode is None else mode), "wb")
        try:
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_EX)
                if mode is not None:
                    os.fchmod(file.fileno(), mode)  # the umask may have taken bits away
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # another process removed it before it was locked
        except BaseException:
            file.close()
            raise


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return  # a rename is durable there, folders cannot be opened
    descriptor = os.open(folder, os.O_RDONLY | _CLOSE_ON_EXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _target(path: Path) -> Path:
    """The file behind symbolic links, which may not exist yet."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError("its symbolic links lead in a circle")
    if target.exists() and not target.is_file():
        raise OSError("it is not a regular file")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError("the file is read-only")
    return target


def _beside(target: Path) -> Path:
    # Shortened: a name near the limit of the file system must leave room for the rest.
    return target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}{_TEMPORARY_SUFFIX}")


def _prefix(target: Path) -> str:
    return f".{target.name[:60]}."


def _remove_abandoned(target: Path) -> None:
    """Remove what a killed process left of an earlier save of this file."""
    prefix = _prefix(target)
    with os.scandir(target.parent) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(prefix)]
    for name in names:
        if len(name) == len(prefix) + 12 + len(_TEMPORARY_SUFFIX) and name.endswith(_TEMPORARY_SUFFIX):
            with contextlib.suppress(OSError):
                _remove_unless_locked(target.with_name(name))


def _remove_unless_locked(path: Path) -> None:
    if sys.platform != "win32":  # Windows itself refuses to remove a file that is open
        descriptor = os.open(path, os.O_RDONLY | _CLOSE_ON_EXEC | _NEVER_WAIT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)
    else:
        path.unlink()


def _check_readable(name: str, status: os.stat_result, limit_bytes: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StorageError(f"{name} is {_kind(status.st_mode)}, not a regular file.", facts={"path": name})
    if limit_bytes is not None and status.st_size > limit_bytes:
        raise _too_large(name, status.st_size, limit_bytes)


def _too_large(name: str, size: int, limit_bytes: int) -> StorageError:
    return StorageError(
        f"{name} is too large: {size:,} bytes, at most {limit_bytes:,} are allowed.",
        facts={"path": name, "size": str(size), "limit": str(limit_bytes)},
    )


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((kind for is_kind, kind in kinds if is_kind(mode)), "a device")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).rstrip(".")
