"""Opens databases and brings them up to date with numbered migrations.

The version is SQLite's `user_version`; migration n leads from version n-1 to n and is never changed once released. An
old database is copied before it is changed. Creating, migrating and moving aside happen under a lock file, whose lock
ends with its process.
"""

import contextlib
import os
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from engine.errors import DatabaseDamaged, StorageError
from engine.network_folders import is_on_network

if sys.platform != "win32":
    import fcntl

BUSY_TIMEOUT = 5.0
"""Seconds to wait for the lock of another process."""
CHECKED_AT_ONCE = 64_000_000
"""Bytes up to which a database is checked whole when it is opened; a larger one shows its faults when it is used."""

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What `sqlite3` raises; the second when its message quotes a damaged schema."""

_DAMAGE = ("malformed", "not a database", "disk image", "unsupported file format")

CACHE: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE answers (
            number INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,        -- SHA-256 of the request
            created REAL NOT NULL,           -- seconds since the epoch
            used REAL NOT NULL,              -- when it was stored or last given
            hits INTEGER NOT NULL DEFAULT 0,
            size INTEGER NOT NULL,           -- bytes it counts
            cost TEXT NOT NULL,              -- exact decimal: what it cost when it was paid
            provenance TEXT NOT NULL,
            entry BLOB NOT NULL              -- JSON
        )""",
        "CREATE INDEX answers_by_use ON answers (used, size)",
        "CREATE INDEX answers_by_age ON answers (created)",
        # Kept by triggers, so that every program knows the size at once.
        "CREATE TABLE totals (entries INTEGER NOT NULL, bytes INTEGER NOT NULL)",
        "INSERT INTO totals VALUES (0, 0)",
        """CREATE TRIGGER answer_added AFTER INSERT ON answers BEGIN
            UPDATE totals SET entries = entries + 1, bytes = bytes + new.size; END""",
        """CREATE TRIGGER answer_removed AFTER DELETE ON answers BEGIN
            UPDATE totals SET entries = entries - 1, bytes = bytes - old.size; END""",
        """CREATE TRIGGER answer_changed AFTER UPDATE OF size ON answers BEGIN
            UPDATE totals SET bytes = bytes - old.size + new.size; END""",
    ),
)
"""The database of kept answers."""


def open_for_writing(path: Path, migrations: Sequence[Sequence[str]]) -> sqlite3.Connection:
    """Open a database with a write-ahead log, create or migrate it; the caller begins and ends transactions.

    Raises StorageError: the folder or file cannot be used, or a newer version has written it; DatabaseDamaged: it is
    none, or not a whole one.
    """
    if (kind := is_on_network(path)) is not None:
        raise StorageError(
            f"The database {path.name} is in a network folder ({kind}), where its locks do not hold.",
            hint="Choose a data folder on this machine, with --data-dir or WORKBENCH_HOME.",
            facts={"path": str(path)},
        )
    _refuse_folder(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            return _opened(path, migrations)
    except (OSError, *FAULTS) as error:
        raise storage_error(path, error) from error


def _opened(path: Path, migrations: Sequence[Sequence[str]]) -> sqlite3.Connection:
    # Prompts and answers are private; log and index get the mode of the database.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        _refuse_newer(connection, len(migrations))
        _refuse_damaged(path, connection, migrations)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        found = _version(connection)
        if 0 < found < len(migrations):
            _back_up(path, connection, found)
        _migrate(connection, migrations)
        _refuse_newer(connection, len(migrations))
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection | None:
    """Open a database of this or a newer version read-only; None when there is none yet. Raises StorageError."""
    if not path.exists():
        return None
    _refuse_folder(path)
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None)
    except FAULTS as error:
        raise storage_error(path, error) from error
    try:
        if _version(connection) == 0:  # just being created
            connection.close()
            return None
    except FAULTS as error:
        connection.close()
        raise storage_error(path, error) from error
    return connection


def _refuse_folder(path: Path) -> None:
    """Reading and writing would each meet it with a word of their own."""
    if path.is_dir():
        raise storage_error(path, IsADirectoryError(f"found a folder named {path.name}"))


def set_aside(path: Path, migrations: Sequence[Sequence[str]]) -> Path | None:
    """Move a damaged database out of the way, with its log, under a name with the date; returns its new place.

    None when it is whole after all: another process has been faster. Raises StorageError.
    """
    try:
        with locked(path):
            if not path.exists() or not _is_damaged(path, migrations):
                return None
            when = datetime.now().astimezone().strftime("%Y-%m-%d %H-%M-%S")
            place = path.with_name(f"{path.stem} damaged {when}{path.suffix}")
            number = 1
            while place.exists():
                number += 1
                place = path.with_name(f"{path.stem} damaged {when} {number}{path.suffix}")
            os.replace(path, place)
            for suffix in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{path}{suffix}", f"{place}{suffix}")
            return place
    except OSError as error:
        raise storage_error(path, error) from error


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file of a database; it ends with the process that holds it."""
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def storage_error(path: Path, error: Exception) -> StorageError:
    """The error of a database as one of ours; the hint names the folder."""
    if isinstance(error, StorageError):
        return error
    damaged = isinstance(error, UnicodeDecodeError) or (
        isinstance(error, sqlite3.DatabaseError) and _tells_damage(error)
    )
    kind = DatabaseDamaged if damaged else StorageError
    return kind(
        f"The database {path.name} cannot be used: {error}.",
        hint=f"Check that the folder {path.parent} exists, is writable and has free space, then try again.",
        facts={"path": str(path), "error": f"{type(error).__name__}: {error}"},
    )


def _tells_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is at fault; others are locks, or a disk that fails."""
    return any(word in str(error) for word in _DAMAGE)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _refuse_newer(connection: sqlite3.Connection, newest: int) -> None:
    found = _version(connection)
    if found > newest:
        raise StorageError(
            f"The database is of version {found}; this program knows versions up to {newest} and can only read it.",
            hint="Use the newer version of the program, or another data folder.",
        )


def _refuse_damaged(path: Path, connection: sqlite3.Connection, migrations: Sequence[Sequence[str]]) -> None:
    if path.stat().st_size <= CHECKED_AT_ONCE:
        found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        if found != "ok":
            raise sqlite3.DatabaseError("database disk image is malformed")
    if _is_foreign(connection, migrations):
        raise sqlite3.DatabaseError("it is not a database of this program")


def _is_foreign(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]]) -> bool:
    """Whether it has other tables than the program made."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    version = _version(connection)
    made = " ".join(statement for migration in migrations[:version] for statement in migration)
    return bool(tables) and (not version or not set(re.findall(r"CREATE TABLE (\w+)", made)) <= tables)


def _is_damaged(path: Path, migrations: Sequence[Sequence[str]]) -> bool:
    """Whether a database cannot be read whole."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)) as connection:
            if str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                return True
            return _is_foreign(connection, migrations)
    except sqlite3.OperationalError as error:
        return _tells_damage(error)
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return True


def _back_up(path: Path, connection: sqlite3.Connection, version: int) -> None:
    """Copy a database before it is migrated; one copy per version is kept."""
    place = path.with_name(f"{path.stem} version {version} backup{path.suffix}")
    part = place.with_name(f".{place.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(sqlite3.connect(part)) as copy:
        connection.backup(copy)
    os.replace(part, place)


def _migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]]) -> None:
    """Bring the database to the newest version, all steps in one transaction."""
    newest = len(migrations)
    if _version(connection) >= newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(_version(connection), newest):
            for statement in migrations[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
