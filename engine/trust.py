"""Which flows were made or trusted here: bound to a hash of all they can execute, kept outside of them (docs/trust.md).

An entry is sealed with a secret of this installation and names machine and data folder, so that a copied store is worth
nothing elsewhere. What a flow looks like changes nothing; one character of anything executable asks again.
"""

import contextlib
import difflib
import hashlib
import hmac
import json
import logging
import os
import platform
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from engine.atomic_file import read_limited, write_atomically
from engine.errors import StorageError

logger = logging.getLogger(__name__)

State = Literal["harmless", "trusted", "foreign", "changed"]
"""`harmless`: there is nothing executable; `changed`: another version of it was trusted."""

_MAX_STORE = 50_000_000
_MAX_ENTRIES = 500
_KEPT_TEXT = 4000
"""Characters of a part that are kept to show a difference later."""
_SHOWN_LINES = 200


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    path: str
    name: str
    parts: dict[str, str]
    trusted: float
    """Seconds since 1970."""
    seal: str = ""


class _Store(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    flows: tuple[_Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What the store says about a flow."""

    state: State
    difference: str = ""
    """For `changed`: what is not as it was, as a unified diff."""

    @property
    def trusted(self) -> bool:
        """Whether all of it may run."""
        return self.state in ("harmless", "trusted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A flow that was trusted here."""

    digest: str
    name: str
    path: Path | None
    """Its file; None for one that never was a file."""
    trusted: datetime
    parts: Mapping[str, str] = field(repr=False)
    """What was trusted, long texts shortened."""


class TrustStore:
    """The trusted flows of one data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "trust.json"
        self._secret = folder / "trust.key"

    def state(self, parts: Mapping[str, str], *, name: str = "", path: Path | None = None) -> Trust:
        """Look up the executable parts of a flow; a store that cannot be read or is not ours trusts nothing."""
        if not parts:
            return Trust(state="harmless")
        entries = self._entries()
        digest = digest_of(parts)
        if any(entry.digest == digest for entry in entries):
            return Trust(state="trusted")
        place = _place(path)
        known = [entry for entry in entries if (entry.path == place if place else entry.name == name)]
        if not known:
            return Trust(state="foreign")
        before = max(known, key=lambda entry: entry.trusted)
        return Trust(state="changed", difference=_difference(before.parts, _kept(parts)))

    def trust(self, parts: Mapping[str, str], *, name: str = "", path: Path | None = None) -> None:
        """Trust exactly these parts from now on; raises StorageError when that cannot be kept."""
        if not parts:
            return
        digest = digest_of(parts)
        entry = _Entry(digest=digest, path=_place(path), name=name, parts=_kept(parts), trusted=time.time())
        key = self._key(create=True)
        sealed = msgspec.structs.replace(entry, seal=_seal(key, entry))
        others = [known for known in self._entries() if known.digest != digest]
        self._write((*others, sealed)[-_MAX_ENTRIES:])

    def revoke(self, parts: Mapping[str, str], *, path: Path | None = None) -> bool:
        """Forget the flow, and other versions of the same file; whether there was anything to forget."""
        digest, place = digest_of(parts), _place(path)
        entries = self._entries()
        left = tuple(entry for entry in entries if entry.digest != digest and (not place or entry.path != place))
        if len(left) < len(entries):
            self._write(left)
        return len(left) < len(entries)

    def approvals(self) -> list[Approval]:
        """All that is trusted, the last one first; what is not readable or not ours is none of it."""
        entries = sorted(self._entries(), key=lambda entry: entry.trusted, reverse=True)
        return [
            Approval(
                digest=entry.digest,
                name=entry.name,
                path=Path(entry.path) if entry.path else None,
                trusted=datetime.fromtimestamp(entry.trusted, UTC),
                parts=entry.parts,
            )
            for entry in entries
        ]

    def withdraw(self, approval: Approval) -> None:
        """Trust this version no more; raises StorageError."""
        self._write(tuple(entry for entry in self._entries() if entry.digest != approval.digest))

    def _entries(self) -> list[_Entry]:
        """The entries whose seal is right."""
        if not self._file.exists():
            return []
        try:
            key = self._key(create=False)
            store = msgspec.json.decode(read_limited(self._file, _MAX_STORE), type=_Store)
        except (StorageError, OSError, msgspec.MsgspecError) as error:
            logger.warning("The trusted flows in %s are not readable: %s", self._file, error)
            return []
        good = [entry for entry in store.flows if hmac.compare_digest(entry.seal, _seal(key, entry))]
        if len(good) < len(store.flows):
            logger.warning("%d entries of %s were not made here", len(store.flows) - len(good), self._file)
        return good

    def _write(self, entries: tuple[_Entry, ...]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        data = msgspec.json.format(msgspec.json.encode(_Store(flows=entries)), indent=1)
        write_atomically(self._file, data, mode=0o600)

    def _key(self, *, create: bool) -> bytes:
        """The secret of this installation, bound to machine and folder."""
        if create and not self._secret.exists():
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(self._secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(descriptor, "wb") as file:
                    file.write(secrets.token_bytes(32))
            except FileExistsError:
                pass  # another process was faster
            except OSError as error:
                raise StorageError(
                    f"Cannot write {self._secret}: {error.strerror or error}.", facts={"path": str(self._secret)}
                ) from error
        secret = read_limited(self._secret, 1000)
        if len(secret) < 32:
            raise StorageError(f"{self._secret} is damaged.", hint="Remove it and trust the flows again.")
        return hmac.digest(secret, f"{_machine()}\0{self._folder.resolve()}".encode(), "sha256")


def digest_of(parts: Mapping[str, str]) -> str:
    """SHA-256 of executable parts."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _seal(key: bytes, entry: _Entry) -> str:
    plain = msgspec.json.encode(msgspec.structs.replace(entry, seal=""), order="sorted")
    return hmac.new(key, plain, "sha256").hexdigest()


def _machine() -> str:
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError):
            return Path(name).read_text(encoding="ascii", errors="replace").strip()
    return platform.node()


def _place(path: Path | None) -> str:
    return "" if path is None else str(path.absolute())


def _kept(parts: Mapping[str, str]) -> dict[str, str]:
    """The parts as far as a difference can be shown."""
    kept = {}
    for place, text in parts.items():
        clean = text.encode("utf-8", "backslashreplace").decode()
        kept[place] = clean if len(clean) <= _KEPT_TEXT else f"{clean[:_KEPT_TEXT]}… {digest_of({'': text})}"
    return kept


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    lines: list[str] = []
    for place in sorted(before.keys() | after.keys()):
        old, new = before.get(place, ""), after.get(place, "")
        if old != new:
            lines.append(place)
            compared = difflib.unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm="")
            lines += [f"  {line}" for line in compared if not line.startswith(("---", "+++", "@@"))]
    more = f"\n… {len(lines) - _SHOWN_LINES} more lines" if len(lines) > _SHOWN_LINES else ""
    return "\n".join(lines[:_SHOWN_LINES]) + more
