"""Takes keys and passwords out of every text that leaves the program: logs, errors (docs/sensitive-data.md)."""

import logging
import re
from collections.abc import Iterable

SHORTEST_SECRET = 8
"""Characters; shorter values would blot out ordinary words."""
HIDDEN = "***"

_DATA_URL = re.compile(r"(data:image/[a-z0-9.+-]{1,40};base64,)([A-Za-z0-9+/=]+)", re.IGNORECASE)
_QUERY = re.compile(r"([?&](?:key|api_key|api-key|apikey|access_token|token)=)[^&#\s\"'<>]+", re.IGNORECASE)
_NAMED = re.compile(
    r"((?:authorization|x-api-key|api-key|api_key|apikey)[\"']?\s{0,8}[:=]\s{0,8}[\"']?"
    r"(?:(?:Bearer|Basic|Token)[ \t]{1,8})?)[^\s\"',;&}]+",
    re.IGNORECASE,
)
_BARE = re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{8,}")
_USER = re.compile(r"(?<=[a-z0-9+.-])://[^/\s@:\"']*:[^/\s\"']*@", re.IGNORECASE)
_OTHER = re.compile(r"(?<![A-Za-z0-9])(?:pk|hf|gsk|xai)[-_][A-Za-z0-9_-]{12,}|(?<=Bearer )[^\s\"',;]+")
"""Keys of services with a beginning of their own."""
_HINTS = re.compile(r"sk-|://|key|auth|token|base64", re.IGNORECASE)
"""What a text has in which any of the above can be found."""


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets (the longest first), and without anything that looks like a key or a picture."""
    for secret in sorted({secret for secret in secrets if len(secret) >= SHORTEST_SECRET}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    if not _HINTS.search(text):
        return text
    text = _DATA_URL.sub(lambda found: f"{found[1]}<{len(found[2])} chars>", text)
    text = _QUERY.sub(rf"\1{HIDDEN}", text)
    text = _NAMED.sub(rf"\1{HIDDEN}", text)
    return _shapes(text)


def _shapes(text: str) -> str:
    return _USER.sub(f"://{HIDDEN}@", _BARE.sub(f"sk-{HIDDEN}", text))


class Secrets:
    """The secrets this process has loaded."""

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()

    @property
    def values(self) -> frozenset[str]:
        """All of them."""
        return self._values

    def add(self, values: Iterable[str]) -> None:
        """Remember values; those too short to be told from words are left out."""
        new = {value for value in values if len(value) >= SHORTEST_SECRET}
        if not new <= self._values:
            self._values |= new

    def clean(self, text: str) -> str:
        """The text as `redact` leaves it, with all known secrets and all keys that have a shape."""
        return _OTHER.sub(HIDDEN, redact(text, self._values))

    def without(self, text: str) -> str:
        """The text without known secrets; everything else stays, whatever it looks like."""
        for secret in sorted(self._values, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def hide(self, text: str) -> str:
        """For a sentence to a person: known secrets and bare keys go, words that only name a key stay."""
        text = self.without(text)
        return _OTHER.sub(HIDDEN, _shapes(text))


SECRETS = Secrets()
"""Those of all profiles that were read: what one filter keeps out of everything."""


class RedactingFilter(logging.Filter):
    """Keeps secrets out of log lines and their tracebacks."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Clean the record; the line stays."""
        text = record.getMessage()
        clean = SECRETS.clean(text)
        if clean != text:
            record.msg, record.args = clean, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = SECRETS.clean(record.exc_text)
        return True
