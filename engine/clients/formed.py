"""From a request on the wire to the copy of it that is kept: the same members, without keys and one's own headers."""

import re
from collections.abc import Mapping

import msgspec

from engine.clients.base import WireRequest
from engine.clients.transport import ALWAYS_SENT
from engine.formed_request import FormedRequest
from engine.profile import ModelProfile
from engine.redaction import HIDDEN, SECRETS, redact

KEY_VARIABLE = "API_KEY"
"""Stands for the key of a profile that names no variable for it."""

_KEY_HEADER = re.compile(r".*(authorization|cookie|key|token|secret).*", re.IGNORECASE)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token) ", re.IGNORECASE)


def formed(wire: WireRequest, profile: ModelProfile) -> FormedRequest:
    """The copy of a request; shares the texts of the body, so it costs next to nothing."""
    variable = f"${{{profile.key_variable or KEY_VARIABLE}}}"
    headers = {name: _header(name, value, profile, variable) for name, value in wire.headers.items()}
    return FormedRequest(
        url=_url(wire.url, profile.api_key, variable),
        headers=ALWAYS_SENT | headers,
        body=_body(wire.body, profile),
    )


def _url(url: str, key: str, variable: str) -> str:
    clean = SECRETS.clean(redact(url, (key,)))
    return clean.replace(f"://{HIDDEN}@", "://${LOGIN}@").replace(HIDDEN, variable)


def _header(name: str, value: str, profile: ModelProfile, variable: str) -> str:
    if any(name.lower() == own.lower() for own in profile.options.headers):
        return f"${{HEADER_{re.sub('[^A-Z0-9]', '_', name.upper())}}}"
    if not _KEY_HEADER.fullmatch(name):
        return redact(value, (profile.api_key,)).replace(HIDDEN, variable)
    scheme = _SCHEME.match(value)
    return f"{scheme[0] if scheme else ''}{variable}"


def _body(body: Mapping[str, object], profile: ModelProfile) -> dict[str, object]:
    """The members; known secrets that extParams put there are hidden."""
    members = dict(body)
    for name in profile.options.ext_params.keys() & members.keys():
        text = msgspec.json.encode(members[name]).decode()
        if (clean := SECRETS.without(text)) != text:
            members[name] = msgspec.json.decode(clean)
    return members
