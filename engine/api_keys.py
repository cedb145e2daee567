"""Placeholders `${NAME}` and `${NAME:default}` in profiles: same file, then environment, then the system's keyring."""

import importlib
import importlib.util
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import StorageError

SecretLookup = Callable[[str], str | None]
"""Finds a secret by its name, or None."""

KEYRING_SERVICE = "flow-workbench"
"""The service name under which keys are kept in the system's keyring."""

_PLACEHOLDER = re.compile(r"\$\{([^${}:]*)(?::([^{}]*))?\}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanded:
    """A value whose placeholders were replaced."""

    text: str = field(repr=False)
    missing: tuple[str, ...] = ()
    """Names that were found nowhere and have no default; they are still in `text` as written."""
    malformed: bool = False
    """A `${` without end or name, or one inside another; `text` is as written then."""


def has_placeholder(text: str) -> bool:
    """Whether the text holds a placeholder, well formed or not."""
    return "${" in text


def is_reference(text: str) -> bool:
    """Whether the text is one placeholder without a default, so that showing it gives nothing away."""
    match = _PLACEHOLDER.fullmatch(text)
    return match is not None and not match[2]


def placeholder_names(text: str) -> tuple[str, ...]:
    """The names in the well-formed placeholders of the text."""
    return tuple(match[1].strip() for match in _PLACEHOLDER.finditer(text))


def variable_name(text: str) -> str:
    """The environment variable a text that is one placeholder stands for; empty when it is none."""
    match = _PLACEHOLDER.fullmatch(text.strip())
    name = match[1].strip().upper().replace(".", "_").replace("-", "_") if match else ""
    return name if re.fullmatch(r"[A-Z_][A-Z0-9_]*", name) else ""


def expand(
    text: str, *, key: str, own: Mapping[str, str], environ: Mapping[str, str], secrets: SecretLookup
) -> Expanded:
    """Replace the placeholders of the value of `key`; inserted text is not looked at again.

    `own` holds the keys of the same file; a key never stands for itself. An empty value counts as not set.
    """
    rest = _PLACEHOLDER.sub(lambda match: "" if match[1].strip() else match[0], text)
    if "${" in rest:
        return Expanded(text=text, malformed=True)
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        name = match[1].strip()
        found = ("" if name == key else own.get(name, "").strip()) or from_environment(name, environ)
        found = found or secrets(name) or match[2]
        if found is None:
            missing.append(name)
            return match[0]
        return found

    expanded = _PLACEHOLDER.sub(value, text)
    return Expanded(text=expanded, missing=tuple(missing))


def from_environment(name: str, environ: Mapping[str, str]) -> str:
    """The variable of exactly this name, else in upper case with `_` for `.` and `-`; empty when there is none."""
    return environ.get(name) or environ.get(name.upper().replace(".", "_").replace("-", "_")) or ""


def keyring_secret(name: str) -> str | None:
    """The secret of this name in the system's keyring; None without the package `keyring` or a safe backend.

    May wait for the desktop to unlock the keyring.
    """
    try:
        backend = _keyring()
        secret = backend.get_password(KEYRING_SERVICE, name) if backend is not None else None
    except Exception as error:  # whatever a backend raises: without it the next source counts
        _log.warning("The system's keyring cannot be read: %s", type(error).__name__)
        return None
    return secret if isinstance(secret, str) else None


def has_keyring() -> bool:
    """Whether secrets can be kept in the system's keyring."""
    try:
        return _keyring() is not None
    except Exception as error:
        _log.warning("The system's keyring cannot be used: %s", type(error).__name__)
        return False


def keep_secret(name: str, secret: str) -> None:
    """Put a secret into the system's keyring, where `${name}` finds it. Raises StorageError.

    May wait for the desktop to unlock the keyring.
    """
    try:
        backend = _keyring()
        if backend is not None:
            backend.set_password(KEYRING_SERVICE, name, secret)
            return
    except Exception as error:
        raise StorageError(
            f"The system's keyring did not take the key: {type(error).__name__}.",
            hint="Unlock it, or use an environment variable.",
        ) from error
    raise StorageError("There is no system keyring that keeps secrets safely.", hint="Use an environment variable.")


def _keyring() -> Any:  # keyring has no types; its backends come from anywhere
    """The backend of the system's keyring; None without the package or a safe one."""
    if importlib.util.find_spec("keyring") is None:
        return None
    backend = importlib.import_module("keyring").get_keyring()
    # Priorities below 1 are the backends that keep nothing, or keep it in plain text.
    return None if backend.priority < 1 or "Plaintext" in type(backend).__name__ else backend
