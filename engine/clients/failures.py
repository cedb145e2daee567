"""From what a server answered to the typed error a person can act on."""

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import lru_cache
from time import time
from urllib.parse import urlsplit

from engine.errors import (
    AuthenticationFailed,
    CircuitOpen,
    ConnectFailed,
    ContentFiltered,
    ContextTooLong,
    ProtocolError,
    RateLimited,
    RequestError,
    RequestRejected,
    ServerError,
)
from engine.profile import ModelProfile
from engine.redaction import SECRETS

EXCERPT = 200
"""Characters shown of an answer that is not what was expected."""
MESSAGE = 1000
"""Characters kept of a server's own message."""

TOO_LONG_CODES = ("context_length_exceeded", "exceed_context_size_error")
TOO_LONG_WORDS = ("context length", "context size", "context window", "prompt is too long")
FILTER_CODES = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")


class Failure(StrEnum):
    """What a failed request means for the next step."""

    TRANSIENT = "transient"
    THROTTLED = "throttled"
    LOADING = "loading"
    ODD = "odd answer"
    CONFIG = "credentials or configuration"
    TOO_LONG = "too long"
    CALLER = "caller error"
    FILTERED = "content filter"
    REFUSED = "circuit open"


def failure_class(error: Exception) -> Failure:
    """The class of an error of a request; what is no RequestError counts as the caller's."""
    match error:
        case RateLimited():
            return Failure.CONFIG if error.quota else Failure.THROTTLED
        case AuthenticationFailed():
            return Failure.CONFIG
        case CircuitOpen():
            return Failure.REFUSED
        case ContextTooLong():  # without a status nothing was sent: the prompt is too long for the profile itself
            return Failure.TOO_LONG if "status" in error.facts else Failure.CALLER
        case ContentFiltered():
            return Failure.FILTERED
        case RequestRejected():
            unknown = Failure.CONFIG if error.status == 404 else Failure.CALLER
            return Failure.TRANSIENT if error.retryable else unknown
        case ServerError():
            moved = Failure.TRANSIENT if error.retryable else Failure.CONFIG
            return Failure.LOADING if error.loading else moved
        case ProtocolError():
            return Failure.ODD
        case ConnectFailed():
            return Failure.TRANSIENT if error.retryable else Failure.CONFIG
        case RequestError():
            return Failure.TRANSIENT
    return Failure.CALLER


@lru_cache(maxsize=1024)
def _shown(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return parts._replace(query="", netloc=parts.netloc.rpartition("@")[2]).geturl()


@dataclass(frozen=True, slots=True)
class Place:
    """Which request an error belongs to; knows what must never be shown."""

    profile: str
    url: str
    model: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    ca_file: str = ""
    """Whose certificates are trusted besides the usual ones."""
    key_over_http: bool = False
    """Whether a person has confirmed that its key travels unencrypted."""

    @classmethod
    def of(cls, profile: ModelProfile, url: str) -> "Place":
        """The place of a profile's requests."""
        secrets = sorted({profile.api_key, *profile.options.headers.values()}, key=len, reverse=True)
        SECRETS.add(secrets)
        hidden = tuple(secret for secret in secrets if len(secret) >= 8)
        options = profile.options
        return cls(profile.name, _shown(url), profile.model, hidden, options.ca_file, options.key_over_http)

    @property
    def host(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc

    def clean(self, text: str) -> str:
        """The text without the secrets of the request, in whichever case a server repeats them."""
        for secret in self.secrets:
            text = re.sub(re.escape(secret), "***", text, flags=re.IGNORECASE)
        return text

    def facts(self, **more: str) -> dict[str, str]:
        """Profile and address for the error, with more details."""
        facts = {"profile": self.profile, "url": self.url, "model": self.model, **more}
        return {key: self.clean(value) for key, value in facts.items() if value}


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an error object says."""

    message: str = ""
    code: str = ""
    type: str = ""
    param: str = ""

    @classmethod
    def read(cls, error: object) -> "Complaint":
        """From an `error` member: an object or a bare text."""
        if not isinstance(error, Mapping):
            return cls(message=str(error)[:MESSAGE])
        inner = error.get("innererror")
        code = _text(inner.get("code")) if isinstance(inner, Mapping) else ""
        return cls(
            message=_text(error.get("message"))[:MESSAGE],
            code=_text(error.get("code")) or code,
            type=_text(error.get("type")),
            param=_text(error.get("param")),
        )

    def facts(self) -> dict[str, str]:
        """Its parts for the details."""
        return {"code": self.code, "type": self.type, "parameter": self.param}

    @property
    def too_long(self) -> bool:
        """Whether the prompt exceeds the context of the model."""
        words = self.message.lower()
        return (
            self.code in TOO_LONG_CODES or self.type in TOO_LONG_CODES or any(word in words for word in TOO_LONG_WORDS)
        )


def status_error(status: int, headers: Mapping[str, str], body: bytes, place: Place) -> RequestError:
    """The error for an answer with a status other than 200."""
    complaint = _complaint(headers.get("content-type", ""), body)
    said = place.clean(complaint.message)
    tail = f": {said}" if said else ""
    facts = place.facts(status=str(status), **complaint.facts())
    if 300 <= status < 400:
        return _redirect(status, headers.get("location", ""), place, facts)
    if status in (401, 403):
        return AuthenticationFailed(
            f"{place.host} refused the key ({status}){tail}",
            hint=f"Check apiKey in the profile {place.profile}; a placeholder there needs its environment variable.",
            facts=facts,
        )
    if status == 429:
        return _throttled(complaint, headers, place, facts, tail)
    if 400 <= status < 500:
        return _rejected(status, complaint, place, facts, tail)
    return _broken(status, complaint, place, facts, tail)


def object_error(error: object, place: Place) -> RequestError:
    """The error for an `error` member inside an answer that began well."""
    complaint = Complaint.read(error)
    tail = f": {place.clean(complaint.message)}" if complaint.message else ""
    facts = place.facts(status="200", **complaint.facts())
    if complaint.too_long:
        return _too_long(place, facts, tail)
    if {"rate_limit_error", "rate_limit_exceeded"} & {complaint.type, complaint.code}:
        return _throttled(complaint, {}, place, facts, tail)
    overloaded = "overloaded_error" in (complaint.type, complaint.code)
    return ServerError(
        f"{place.host} is overloaded{tail}" if overloaded else f"{place.host} reported an error{tail}",
        hint="Try again; if it stays, the server's own log says more.",
        facts=facts,
        status=200,
    )


def unexpected_type(content_type: str, start: bytes, place: Place) -> ProtocolError:
    """The error for an answer that is neither an event stream nor JSON."""
    kind = place.clean(content_type.split(";")[0].strip()) or "no content type"
    error = ProtocolError(
        f"{place.host} answered with {kind} instead of an event stream or JSON",
        hint=f"The address in the profile {place.profile} is probably a web page or a proxy, not a model's API; "
        "it usually ends in /v1.",
        facts=place.facts(expected="text/event-stream or application/json", found=kind, excerpt=plain(start)),
    )
    error.retryable = False
    return error


def plain(data: bytes) -> str:
    """The beginning of an answer as plain text, without tags, at most 200 characters."""
    text = data[:8192].decode("utf-8", "replace")
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        text = re.sub(r"(?is)<(script|style)\b.*?(</\1>|$)", " ", text)
        text = html.unescape(re.sub(r"<[^>]*>?", " ", text))
    text = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(text.split())[:EXCERPT]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a server asks to wait; None when it does not say, or says nonsense."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", value):
            return float(value) * factor
    try:
        until = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):
        return None
    try:
        now = parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, OverflowError):
        now = time()
    return max(0.0, until - now)


def _complaint(content_type: str, body: bytes) -> Complaint:
    try:
        answer = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return Complaint(message=plain(body))
    if isinstance(answer, list) and len(answer) == 1:  # so does Gemini
        answer = answer[0]
    if not isinstance(answer, Mapping):
        return Complaint(message=plain(body))
    if answer.get("error") is not None:
        return Complaint.read(answer["error"])
    if isinstance(answer.get("message"), str):
        return Complaint.read(answer)
    detail = answer.get("detail")
    return Complaint(message=detail[:MESSAGE] if isinstance(detail, str) else plain(body))


def _redirect(status: int, target: str, place: Place, facts: dict[str, str]) -> RequestError:
    shown = place.clean(target)[:EXCERPT] or "an unnamed place"
    error = ServerError(
        f"{place.host} redirects to {shown} ({status}), which is never followed",
        hint=f"If that address is right, write it as url in the profile {place.profile}.",
        facts={**facts, "target": shown},
        status=status,
    )
    error.retryable = False
    return error


def _throttled(
    complaint: Complaint, headers: Mapping[str, str], place: Place, facts: dict[str, str], tail: str
) -> RateLimited:
    if "insufficient_quota" in (complaint.code, complaint.type):
        return RateLimited(
            f"The quota of the account at {place.host} is used up{tail}",
            quota=True,
            hint="Add credit there, or choose another profile.",
            facts=facts,
        )
    wait = retry_after(headers)
    return RateLimited(
        f"{place.host} takes no more requests at the moment (429){tail}",
        retry_after=wait,
        hint="Wait"
        + (f" {wait:.0f} seconds" if wait else " a little")
        + " and try again, or lower maxConcurrent in the profile.",
        facts=facts | ({"retry after": f"{wait:g} s"} if wait is not None else {}),
    )


def _rejected(status: int, complaint: Complaint, place: Place, facts: dict[str, str], tail: str) -> RequestError:
    if status in (400, 413) and complaint.too_long:
        return _too_long(place, facts, tail)
    if complaint.code in FILTER_CODES:
        return ContentFiltered(
            f"{place.host} refused the prompt by its content filter{tail}", hint="Reword the prompt.", facts=facts
        )
    if status == 404:
        hint = f"Check url and modelName in the profile {place.profile}: the path or the model is unknown there."
    elif complaint.param:
        hint = f"The server names the parameter {complaint.param}; change or remove it in the profile {place.profile}."
    else:
        hint = f"The request is wrong for this server; compare the profile {place.profile} with its documentation."
    return RequestRejected(f"{place.host} rejected the request ({status}){tail}", status=status, hint=hint, facts=facts)


def _too_long(place: Place, facts: dict[str, str], tail: str) -> ContextTooLong:
    return ContextTooLong(
        f"The prompt is too long for the model{tail}",
        hint="Shorten the prompt, lower maxTokens, or choose a profile with a longer context.",
        facts=facts,
    )


def _broken(status: int, complaint: Complaint, place: Place, facts: dict[str, str], tail: str) -> ServerError:
    words = complaint.message.lower()
    loading = status == 503 and (
        complaint.type == "unavailable_error" or "loading model" in words or "model is loading" in words
    )
    if loading:
        message, hint = (
            f"{place.host} is still loading its model{tail}",
            "Wait until the model is loaded and try again.",
        )
    elif status == 529 or complaint.type == "overloaded_error":
        message, hint = f"{place.host} is overloaded ({status}){tail}", "Try again later or choose another profile."
    else:
        message = f"{place.host} failed ({status}){tail}"
        hint = "Try again; if it stays, the server's own log says more."
    return ServerError(message, status=status, loading=loading, hint=hint, facts=facts)


def _text(value: object) -> str:
    return "" if value is None or isinstance(value, Mapping | list) else str(value)
