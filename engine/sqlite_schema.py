"""Opens databases and brings them up to date with numbered migrations.

The version is SQLite's `user_version`; migration n leads from version n-1 to n and is never changed once released.
"""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from engine.errors import StorageError

BUSY_TIMEOUT = 5.0
"""Seconds to wait for the lock of another process."""

HISTORY: tuple[tuple[str, ...], ...] = (
    (
        # Small rows, so that the list of runs is read quickly; what a run needs to be shown again lies apart.
        """CREATE TABLE runs (
            id TEXT PRIMARY KEY,
            flow TEXT NOT NULL,
            started REAL NOT NULL,           -- seconds since the epoch
            status TEXT NOT NULL,            -- running, finished, failed, stopped, budget, crashed
            seconds REAL,                    -- wall time, NULL while it runs
            requests INTEGER NOT NULL DEFAULT 0,
            in_tokens INTEGER NOT NULL DEFAULT 0,
            cached_in_tokens INTEGER NOT NULL DEFAULT 0,
            out_tokens INTEGER NOT NULL DEFAULT 0,
            reasoning_out_tokens INTEGER NOT NULL DEFAULT 0,
            cost TEXT NOT NULL DEFAULT '0',  -- exact decimal
            provenance TEXT NOT NULL DEFAULT 'free',
            pid INTEGER NOT NULL,            -- the process that records it, with the mark of its start
            process_mark TEXT NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX runs_by_start ON runs (started)",
        "CREATE INDEX runs_by_status ON runs (status)",
        """CREATE TABLE run_inputs (
            run_id TEXT PRIMARY KEY,
            flow_text TEXT NOT NULL,         -- the flow as it was run
            inputs TEXT NOT NULL,            -- JSON object: key -> list of values
            profiles TEXT NOT NULL           -- JSON object: agent -> profile
        ) WITHOUT ROWID""",
        """CREATE TABLE events (
            run_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            event TEXT NOT NULL,             -- JSON
            PRIMARY KEY (run_id, seq)
        ) WITHOUT ROWID""",
        """CREATE TABLE requests (
            run_id TEXT NOT NULL,
            seq INTEGER NOT NULL,            -- that of the event
            ts REAL NOT NULL,                -- end, seconds since the epoch
            agent TEXT NOT NULL,
            profile TEXT NOT NULL,
            model TEXT NOT NULL,
            requests INTEGER NOT NULL,       -- with repeats; 0 for an answer from the cache
            in_tokens INTEGER NOT NULL,
            cached_in_tokens INTEGER NOT NULL,
            out_tokens INTEGER NOT NULL,
            reasoning_out_tokens INTEGER NOT NULL,
            cost TEXT NOT NULL,
            provenance TEXT NOT NULL,
            seconds REAL NOT NULL,
            first_token REAL,                -- seconds, NULL when unknown
            finish_reason TEXT NOT NULL,
            PRIMARY KEY (run_id, seq)
        ) WITHOUT ROWID""",
        # Both cover the grouped questions of a dashboard, so that those never read the table itself.
        """CREATE INDEX requests_by_time ON requests
            (ts, model, requests, in_tokens, cached_in_tokens, out_tokens, reasoning_out_tokens,
             cost, provenance, seconds)""",
        """CREATE INDEX requests_by_model ON requests
            (model, ts, requests, in_tokens, cached_in_tokens, out_tokens, reasoning_out_tokens,
             cost, provenance, seconds)""",
    ),
)
"""The database of recorded runs."""


def open_for_writing(path: Path, migrations: Sequence[Sequence[str]]) -> sqlite3.Connection:
    """Open a database with a write-ahead log, create or migrate it; the caller begins and ends transactions.

    Raises StorageError: the folder or file cannot be used, or a newer version has written it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Prompts and answers are private; log and index get the mode of the database.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise storage_error(path, error) from error
    try:
        _refuse_newer(connection, len(migrations))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        _migrate(connection, migrations)
        _refuse_newer(connection, len(migrations))
    except sqlite3.Error as error:
        connection.close()
        raise storage_error(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection | None:
    """Open a database of this or a newer version read-only; None when there is none yet. Raises StorageError."""
    if not path.exists():
        return None
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None)
    except sqlite3.Error as error:
        raise storage_error(path, error) from error
    try:
        if _version(connection) == 0:  # just being created
            connection.close()
            return None
    except sqlite3.Error as error:
        connection.close()
        raise storage_error(path, error) from error
    return connection


def storage_error(path: Path, error: Exception) -> StorageError:
    """The error of a database as one of ours; the hint names the folder."""
    return StorageError(
        f"The database {path.name} cannot be used: {error}.",
        hint=f"Check that the folder {path.parent} exists, is writable and has free space, then try again.",
        facts={"path": str(path), "error": f"{type(error).__name__}: {error}"},
    )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _refuse_newer(connection: sqlite3.Connection, newest: int) -> None:
    found = _version(connection)
    if found > newest:
        raise StorageError(
            f"The database is of version {found}; this program knows versions up to {newest} and can only read it.",
            hint="Use the newer version of the program, or another data folder.",
        )


def _migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]]) -> None:
    """Bring the database to the newest version, all steps in one transaction."""
    newest = len(migrations)
    if _version(connection) >= newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(_version(connection), newest):  # read again: another process may have been faster
            for statement in migrations[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
