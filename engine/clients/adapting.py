"""What of a request can be left out, or said otherwise, when a server refuses it."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

from engine.clients.base import WireRequest
from engine.errors import RequestRejected


@dataclass(frozen=True, slots=True)
class _Way:
    """How to do without a member of the body."""

    key: str
    """What a profile says so that it is not sent in the first place."""
    other: str = ""
    """Another name for the same."""
    changes: Mapping[str, object | None] | None = None
    """Other values of members, instead of leaving it out."""
    words: str = ""
    """How servers name it in a message, as a regular expression; empty: by its name."""


WAYS = {
    "stream_options": _Way("streamUsage=false"),
    "stream": _Way(
        "supportsStreaming=false", changes={"stream": False, "stream_options": None}, words=r"\b[Ss]tream(ing)?\b"
    ),
    "max_completion_tokens": _Way("maxTokensParam=max_tokens", other="max_tokens"),
    "max_tokens": _Way("maxTokensParam=max_completion_tokens", other="max_completion_tokens"),
    "temperature": _Way("omitSampling=true"),
    "top_p": _Way("topP=1"),
    "response_format": _Way('extParams={"response_format": null}'),
    "output_config": _Way('extParams={"output_config": null}'),
    "include": _Way('extParams={"include": null}', words=r"[Ee]ncrypted content|['\"`]include\b"),
    "parallel_tool_calls": _Way("parallelToolCalls=true"),
}
"""Members of the body that some servers refuse, those that others depend on first."""


@dataclass(frozen=True, slots=True)
class Adapted:
    """A request without what was refused."""

    wire: WireRequest
    name: str
    """The member that was refused."""
    note: str
    """What a person should know."""


def adapted(wire: WireRequest, error: RequestRejected, profile: str, done: Container[str]) -> Adapted | None:
    """Leave out or rename what a 400 names, once each; None when it names nothing that can go."""
    if error.status not in (400, 413, 422):
        return None
    for name, way in WAYS.items():
        if name not in wire.body or name in done or name in wire.required or (way.changes and not wire.body[name]):
            continue
        if error.facts.get("parameter") != name and not re.search(way.words or rf"\b{name}\b", error.message):
            continue
        changes, instead = dict(way.changes or {name: None}), "in one piece" if way.changes else "without it"
        if way.other and way.other not in wire.body:
            changes[way.other] = wire.body[name]
            instead = f"with {way.other}"
        note = (
            f"The server refuses {name}; the request was repeated {instead}. "
            f"{way.key} in the profile {profile} avoids this."
        )
        return Adapted(wire.changed(changes), name, note)
    return None
