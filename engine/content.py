"""What of an answer is more than text, and goes back to its provider exactly as it came."""

from collections.abc import Mapping

import msgspec


class ThinkingPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="thinking"):
    """Thinking of a model; only with its signature it goes back."""

    text: str
    signature: str = ""


class RedactedThinkingPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="redacted_thinking"):
    """Thinking only the provider can read."""

    data: str


class OutputItemPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="output_item"):
    """One item of an answer of the Responses interface."""

    item: Mapping[str, object]


class RawTextPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="raw_text"):
    """The whole text of an answer with calls in it, so that the model sees how it wrote them."""

    text: str


class CallExtraPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="call_extra"):
    """What a service adds to a call, signed thinking of Gemini for instance (`extra_content`)."""

    place: int
    """Which of the answer's calls, from 0."""
    extra: Mapping[str, object]


KeptPart = ThinkingPart | RedactedThinkingPart | OutputItemPart | RawTextPart | CallExtraPart
