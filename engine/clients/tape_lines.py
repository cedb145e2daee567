"""The lines of a wire tape: one JSON object each, told apart by `type` (docs/wire-tape.md)."""

import re
from hashlib import sha256

import msgspec

from engine.errors import AnswerIncomplete, ConnectFailed, ProtocolError, RequestError, RequestTimeout

VERSION = 1
FAILURES: dict[str, type[RequestError]] = {
    kind.__name__: kind for kind in (ConnectFailed, RequestTimeout, AnswerIncomplete, ProtocolError)
}
"""What a transport raises."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of the lines. `call` numbers the calls from 1, in the order they were sent; times are seconds."""


class TapeStart(Line, frozen=True, tag="tape"):
    """The first line: what was run."""

    version: int
    recorded: str
    """ISO 8601, UTC."""
    program: str = ""
    run_id: str = ""
    """Empty: calls outside of runs."""
    flow: str = ""
    """Its name."""
    flow_text: str = ""
    flow_origin: str = ""
    inputs: dict[str, list[object]] = {}
    cache: str = "off"
    """`on`, `fresh` (answers were kept, none taken) or `off`."""
    patterns: dict[str, str] = {}
    """What was masked in prompts beside the built-in kinds."""
    frozen: msgspec.Raw = msgspec.Raw(b"[]")
    """Agents whose kept answers were used."""
    prompts: msgspec.Raw = msgspec.Raw(b"{}")
    """Those of the prompt library that runs use, by key."""


class TapedProfile(Line, frozen=True, tag="profile"):
    """A profile as it was asked for and found; without its keys."""

    ref: str
    """`category:M` or `name:local`."""
    profile: msgspec.Raw


class TapedModel(Line, frozen=True, tag="served"):
    """What the embedded server had loaded."""

    identity: str
    alias: str


class TapedHit(Line, frozen=True, tag="cached"):
    """An answer that came from the cache, so that nobody was called."""

    key: str
    entry: msgspec.Raw


class TapedTool(Line, frozen=True, tag="tool"):
    """What a tool gave."""

    id: str
    name: str
    arguments: str
    output: str
    failed: bool = False


class CallSent(Line, frozen=True, tag="request"):
    """A request."""

    call: int
    method: str
    path: str
    """Without host and query."""
    seconds: float
    """Since the tape began."""
    body: str = ""
    data: bytes = b""
    """The body when it is no UTF-8; base64 in the file, as in CallPiece."""
    known: bool = False
    """Asked before this tape began; here since the answer was still remembered."""


class CallAnswered(Line, frozen=True, tag="reply"):
    """The head of an answer."""

    call: int
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    seconds: float
    """Since the request was sent, as in all lines below."""


class CallPiece(Line, frozen=True, tag="piece"):
    """Bytes as they arrived together."""

    call: int
    seconds: float
    text: str = ""
    data: bytes = b""
    """When they are no UTF-8."""


class CallEnded(Line, frozen=True, tag="end"):
    """An answer was received whole."""

    call: int
    seconds: float


class CallFailed(Line, frozen=True, tag="failed"):
    """A call that brought no answer, or not all of it."""

    call: int
    seconds: float
    error: str
    """A name of `FAILURES`."""
    message: str
    hint: str = ""
    facts: dict[str, str] = {}
    retryable: bool = False


class TapedResult(Line, frozen=True, kw_only=True):
    """What one context came to."""

    trace: str
    error: str = ""


class TapeEnd(Line, frozen=True, tag="finished"):
    """The last line: what the run came to."""

    status: str
    outputs: dict[str, list[object]] = {}
    results: tuple[TapedResult, ...] = ()


TapeLine = (
    TapeStart
    | TapedProfile
    | TapedModel
    | TapedHit
    | TapedTool
    | CallSent
    | CallAnswered
    | CallPiece
    | CallEnded
    | CallFailed
    | TapeEnd
)


_MADE_ID = re.compile(rb"call_[0-9a-f]{24}")
"""Ids this program makes for tool calls whose server gives none; they are others each time."""


def request_digest(body: bytes) -> bytes:
    """SHA-256 of the body of a request, the same for requests that differ in made-up ids only."""
    numbers: dict[bytes, bytes] = {}
    plain = _MADE_ID.sub(lambda found: numbers.setdefault(found[0], b"call_%d" % len(numbers)), body)
    return sha256(plain).digest()


def as_text(data: bytes) -> tuple[str, bytes]:
    """Bytes as text, or as they are when they are no UTF-8: a tape is to be read by people, too."""
    try:
        return data.decode(), b""
    except UnicodeDecodeError:
        return "", data
