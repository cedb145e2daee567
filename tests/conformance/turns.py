"""The messages, tools and profiles of vectors, as the engine's own values."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.content import KeptPart, RedactedThinkingPart, ThinkingPart
from engine.conversation import ImagePart, Role, ToolCall, ToolChoice, ToolDefinition, ToolUse, Turn
from engine.profile import ModelProfile
from engine.profile_builder import inline_profile

Item = Mapping[str, Any]


def turns(messages: Sequence[Item]) -> list[Turn]:
    """Turns of messages."""
    return [_turn(item) for item in messages]


def _turn(item: Item) -> Turn:
    content = item.get("content") or ""
    parts: Sequence[Item] = content if isinstance(content, list) else [{"type": "text", "text": content}]
    shown = [_shown(part) for part in parts if part["type"] in ("text", "image")]
    return replace(
        Turn.of_parts(Role(item["role"]), shown),
        kept=tuple(_kept(part) for part in parts if part["type"] not in ("text", "image")),
        tool_calls=tuple(ToolCall(**call) for call in item.get("toolCalls", ())),
        tool_call_id=item.get("toolCallId", ""),
        is_error=item.get("isError", False),
        name=item.get("name", ""),
    )


def _shown(part: Item) -> str | ImagePart:
    if part["type"] == "text":
        return str(part["text"])
    given = {key: value for key, value in part.items() if key not in ("type", "mediaType")}
    return ImagePart(media_type=part.get("mediaType", ""), **given)


def _kept(part: Item) -> KeptPart:
    given = {key: value for key, value in part.items() if key != "type"}
    return ThinkingPart(**given) if part["type"] == "thinking" else RedactedThinkingPart(**given)


def choice(given: Item) -> ToolChoice | None:
    """The tools and the choice among them; None without tools."""
    tools = tuple(ToolDefinition(**tool) for tool in given.get("tools", ()))
    if not tools:
        return None
    wanted, parallel = given.get("toolChoice", "auto"), given.get("parallel", True)
    if isinstance(wanted, Mapping):
        return ToolChoice(tools=tools, forced=wanted["name"], parallel=parallel)
    return ToolChoice(tools=tools, use=ToolUse(wanted), parallel=parallel)


def profile(given: Item, provider: str) -> ModelProfile:
    """The profile of a request, read as a file's would be."""
    values = dict(given["profile"])
    extra = values.pop("extraHeaders", {})
    values |= {f"header.{name}": value for name, value in extra.items()}
    required = {"modelProvider": provider, "temperature": 0, "topP": 1}
    return inline_profile("vector", {**required, "supportsStreaming": given.get("stream", False), **values})
