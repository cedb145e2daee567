"""Recovery files: unsaved changes of documents, kept apart from the user's files until saved or discarded."""

import contextlib
import hashlib
import logging
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from engine.atomic_file import read_limited, write_atomically
from engine.errors import StorageError

log = logging.getLogger(__name__)

SIZE_LIMIT = 25_000_000
"""Bytes; a little more than a document may have."""
_SUFFIX = ".recovery"
_DAMAGED = ".damaged"


class _Header(msgspec.Struct, forbid_unknown_fields=False):
    """First line of a recovery file; the text follows."""

    format: str
    document: str
    path: str
    saved: float
    base_digest: str
    set_aside: bool = False
    digest: str = ""
    """SHA-256 of this line without it and of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredDocument:
    """Unsaved changes found at the start."""

    document: str
    """The name it was kept under."""
    path: str
    """The user's file, empty for a document that was never saved."""
    saved: float
    """When it was kept, in seconds since the epoch."""
    base_digest: str
    """SHA-256 of the user's file that was edited: another one now means that someone else changed it."""
    text: str
    set_aside: bool = False
    """Whether it stands apart from the document's next changes."""


class RecoveryFiles:
    """The recovery files in one folder, one for each document.

    `document` names a document within the folder: its path, or any text for one without. The user's files are neither
    read nor written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, document: str, text: str, *, path: str = "", base_digest: str = "") -> None:
        """Keep the text of a changed document, replacing what was kept before; raises StorageError."""
        data = text.encode("utf-8", "surrogatepass")
        header = _Header(
            format="workbench.recovery",
            document=document,
            path=path,
            saved=time.time(),
            base_digest=base_digest,
        )
        self._write(header, data)

    def set_aside(self, kept: RecoveredDocument) -> RecoveredDocument:
        """Put what was found out of the way of the document's next changes until it is discarded; raises StorageError.

        It is found again at the next start, too.
        """
        if kept.set_aside:
            return kept
        header = _Header(
            format="workbench.recovery",
            document=kept.document,
            path=kept.path,
            saved=kept.saved,
            base_digest=kept.base_digest,
            set_aside=True,
        )
        self._write(header, kept.text.encode("utf-8", "surrogatepass"))
        self.discard(kept.document)
        return replace(kept, set_aside=True)

    def _write(self, header: _Header, data: bytes) -> None:
        header.digest = _digest(header, data)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            message = f"Cannot make the folder for recovery files {self._folder}: {error.strerror}."
            raise StorageError(message, facts={"path": str(self._folder)}) from error
        write_atomically(self._file(_key(header)), msgspec.json.encode(header) + b"\n" + data, mode=0o600)

    def found(self) -> list[RecoveredDocument]:
        """What was kept, newest first. Damaged files are set aside with a warning in the log; it never fails."""
        try:
            files = sorted(self._folder.glob(f"*{_SUFFIX}"))
        except OSError as error:
            log.warning("cannot look for recovery files in %s: %s", self._folder, error)
            return []
        documents = [document for document in map(self._read, files) if document is not None]
        return sorted(documents, key=lambda document: document.saved, reverse=True)

    def discard(self, document: str | RecoveredDocument) -> None:
        """Remove what was kept of a document, or one version that was found: it was saved, or the person chose to."""
        path = self._file(document if isinstance(document, str) else _key(document))
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            message = f"Cannot remove the recovery file {path}: {error.strerror}."
            raise StorageError(message, facts={"path": str(path)}) from error

    def _file(self, document: str) -> Path:
        # A digest: names of documents hold anything, and say nothing about their content here.
        name = hashlib.sha256(document.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / f"{name}{_SUFFIX}"

    def _read(self, file: Path) -> RecoveredDocument | None:
        try:
            first, _, data = read_limited(file, SIZE_LIMIT).partition(b"\n")
            header = msgspec.json.decode(first, type=_Header)
            if _digest(header, data) != header.digest or self._file(_key(header)) != file:
                raise ValueError("its content does not match its first line")
            text = data.decode("utf-8", "surrogatepass")
        except (StorageError, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            log.warning("the recovery file %s is damaged and was set aside: %s", file, error)
            with contextlib.suppress(OSError):
                os.replace(file, file.with_suffix(_DAMAGED))
            return None
        return RecoveredDocument(
            document=header.document,
            path=header.path,
            saved=header.saved,
            base_digest=header.base_digest,
            text=text,
            set_aside=header.set_aside,
        )


def _key(kept: _Header | RecoveredDocument) -> str:
    """What a version is kept under: each one that was set aside has a place of its own."""
    return f"{kept.document}\0{kept.saved!r}" if kept.set_aside else kept.document


def _digest(header: _Header, data: bytes) -> str:
    blank = msgspec.structs.replace(header, digest="")
    return hashlib.sha256(msgspec.json.encode(blank) + data).hexdigest()
