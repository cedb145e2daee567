"""Vectors of truncation.json and image_tokens.json: what fits a budget, and what pictures cost."""

from collections.abc import Mapping
from typing import Any

from engine.conversation import ImagePart, Role, ToolCall, Turn
from engine.errors import ContextTooLong
from engine.image_tokens import image_tokens
from engine.profile import ModelProfile, ProfileOptions, Provider
from engine.truncation import TurnCounter, truncate
from tests.conformance.cases import Case, Kinds

PROVIDERS = {"openai": Provider.OPENAI_CHAT, "anthropic": Provider.ANTHROPIC}
OPTIONS = {
    "imageBaseTokens": "image_base_tokens",
    "imageTileTokens": "image_tile_tokens",
    "imageMaxEdge": "image_max_edge",
    "imageMaxTokens": "image_max_tokens",
}


def profile_of(given: Mapping[str, Any]) -> ModelProfile:
    options: dict[str, Any] = {field: given[key] for key, field in OPTIONS.items() if key in given}
    provider = PROVIDERS[given.get("provider", "openai")]
    return ModelProfile(name="p", category="M", provider=provider, options=ProfileOptions(**options))


def image_of(part: Mapping[str, Any]) -> ImagePart:
    return ImagePart(
        media_type=part.get("mediaType", ""),
        data=part.get("data", ""),
        url=part.get("url", ""),
        detail=part.get("detail", ""),
        width=part.get("width", 0),
        height=part.get("height", 0),
    )


def turn_of(item: Mapping[str, Any]) -> Turn:
    """A message of the vectors; content is a text or a list of parts."""
    content = item.get("content") or ""
    text, images = content, []
    if isinstance(content, list):
        parts = Turn.of_parts(
            Role.USER, [part["text"] if part["type"] == "text" else image_of(part) for part in content]
        )
        text, images = parts.text, list(parts.images)
    return Turn(
        role=Role(item["role"]),
        text=text,
        images=tuple(images),
        tool_calls=tuple(
            ToolCall(id=call["id"], name=call["name"], arguments=call["arguments"])
            for call in item.get("toolCalls", ())
        ),
        tool_call_id=item.get("toolCallId", ""),
        is_error=item.get("isError", False),
        pinned=item.get("pinned", False),
    )


def truncated(case: Case) -> object:
    """What stays, by the ids of the messages."""
    given: Mapping[str, Any] = case.given
    messages = given["messages"]
    try:
        done = truncate([turn_of(item) for item in messages], given["maxInputTokens"], TurnCounter(len, profile_of({})))
    except ContextTooLong as error:
        return {"error": "token_limit", "current": int(error.facts["tokens"]), "max": int(error.facts["limit"])}
    kept = [item["id"] for place, item in enumerate(messages) if place not in done.dropped]
    result = {
        "keptIds": kept,
        "tokensBefore": done.before,
        "tokensAfter": done.after,
        "dropped": len(done.dropped),
    }
    if done.shrunk:
        result["shrunkIds"] = [messages[place]["id"] for place in done.shrunk]
    return result


def tokens(case: Case) -> object:
    """What a picture costs."""
    given: Mapping[str, Any] = case.given
    return {"tokens": image_tokens(image_of(given), profile_of(given))}


KINDS: Kinds = {"truncate": truncated, "image_tokens": tokens}
