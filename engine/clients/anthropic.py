"""Client for `/v1/messages`. Source: Anthropic API reference, Messages."""

import re
from collections.abc import Mapping, Sequence

from engine.clients.anthropic_reader import AnthropicReader
from engine.clients.base import ChatRequest, WireRequest
from engine.clients.failures import Place
from engine.clients.openai_chat import OpenAIChatClient, headers, think_tags, with_ext_params
from engine.clients.tool_calls import arguments_object
from engine.content import RedactedThinkingPart, ThinkingPart
from engine.conversation import ImagePart, Role, ToolChoice, ToolDefinition, ToolUse, Turn
from engine.errors import ProfileError
from engine.messages import repaired
from engine.profile import ModelProfile

VERSION = "2023-06-01"
"""The `anthropic-version` of profiles that name none."""
CONTINUE = "(continue)"
"""Said by the user where the service wants a user message and there is none."""
LEAST_BUDGET = 1024
"""Tokens of thinking the service accepts at least."""
MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

_GENERATION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?", re.IGNORECASE)

Block = dict[str, object]


class AnthropicClient(OpenAIChatClient):
    """Speaks messages; stateless."""

    auth = "x-api-key"

    def form(self, request: ChatRequest, model: str) -> WireRequest:
        """The request on the wire; raises ProfileError for a picture the service does not take."""
        profile = request.profile
        body, warnings = request_body(request, model)
        return WireRequest(
            url=self.url(profile, "/messages"),
            headers=self._headers(profile),
            body=with_ext_params(body, profile),
            warnings=warnings,
            required=("max_tokens",),
        )

    def reader(self, request: ChatRequest, place: Place, headers: Mapping[str, str]) -> AnthropicReader:
        """A reader for one answer with these response headers."""
        return AnthropicReader(place, think_tags=think_tags(request.profile, headers))

    def models_request(self, profile: ModelProfile) -> tuple[str, Mapping[str, str]]:
        """URL and headers that list the models."""
        return f"{self.url(profile, '/models')}?limit=1000", self._headers(profile)

    def _headers(self, profile: ModelProfile) -> dict[str, str]:
        version = {"anthropic-version": profile.options.api_version or VERSION}
        return version | headers(profile, auto=self.auth)


def request_body(request: ChatRequest, model: str) -> tuple[dict[str, object], tuple[str, ...]]:
    """The body, and what a person should know about it."""
    profile, options = request.profile, request.profile.options
    messages, system = anthropic_messages(request.conversation.turns, profile.origin)
    thinking, budget, warnings = _thinking(profile, model)
    body: dict[str, object] = {"model": model, "max_tokens": profile.max_tokens, "messages": messages}
    if system:
        body["system"] = system
    if thinking:
        body["thinking"] = thinking
        if budget >= profile.max_tokens:
            body["max_tokens"] = budget + profile.max_tokens
    thinks = thinking is not None and thinking["type"] != "disabled"
    refuses_sampling = options.omit_sampling == "auto" and generation(model) >= (4, 7)
    if not (thinks or options.omit_sampling == "true" or refuses_sampling):
        body["temperature"] = min(profile.temperature, 1.0)
    if output := _output_config(request, adaptive=thinks and budget == 0):
        body["output_config"] = output
    body["stream"] = options.supports_streaming
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.tools is not None:
        body |= tool_members(request.tools, parallel=options.parallel_tool_calls, thinks=thinks)
    return body, warnings


def generation(model: str) -> tuple[int, int]:
    """The version in the name of a Claude model; (0, 0) for other names. A group of more than two digits is a date."""
    found = _GENERATION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _thinking(profile: ModelProfile, model: str) -> tuple[dict[str, object] | None, int, tuple[str, ...]]:
    """The member of the body, the tokens of a fixed budget, and what a person should know."""
    mode = profile.options.thinking_mode
    if mode == "budget" and generation(model) >= (4, 7):
        note = (
            f"{model} takes no budget for thinking; it was asked to think as it sees fit. "
            f"thinkingMode=adaptive in the profile {profile.name} says so."
        )
        return {"type": "adaptive"}, 0, (note,)
    if mode == "budget":
        budget = max(LEAST_BUDGET, profile.options.thinking_budget)
        return {"type": "enabled", "budget_tokens": budget}, budget, ()
    return ({"type": mode}, 0, ()) if mode in ("adaptive", "disabled") else (None, 0, ())


def _output_config(request: ChatRequest, *, adaptive: bool) -> dict[str, object]:
    config: dict[str, object] = {}
    if adaptive and request.profile.reasoning_effort:
        config["effort"] = request.profile.reasoning_effort
    if (schema := request.response_format) is not None:
        wrapped = schema.get("json_schema")
        if isinstance(wrapped, Mapping):
            schema = wrapped.get("schema") if isinstance(wrapped.get("schema"), Mapping) else {}
        if schema and schema.get("type") not in ("text", "json_object"):
            config["format"] = {"type": "json_schema", "schema": dict(schema)}
    return config


def tool_members(choice: ToolChoice, *, parallel: bool = True, thinks: bool = False) -> dict[str, object]:
    """The members of a body that offer tools; a model that thinks cannot be forced to call one."""
    use: dict[str, object] = {"type": "auto"}
    if choice.forced and not thinks:
        use = {"type": "tool", "name": choice.forced}
    elif choice.use is ToolUse.NONE and not choice.forced:
        use = {"type": "none"}
    elif choice.use is ToolUse.REQUIRED and not thinks:
        use = {"type": "any"}
    if use["type"] != "none" and not (parallel if choice.parallel is None else choice.parallel):
        use["disable_parallel_tool_use"] = True
    return {"tools": [_tool(tool) for tool in choice.tools], "tool_choice": use}


def _tool(tool: ToolDefinition) -> Block:
    described: Block = {"name": tool.name}
    if tool.description:
        described["description"] = tool.description
    described["input_schema"] = dict(tool.parameters) or {"type": "object", "properties": {}}
    if tool.strict:
        described["strict"] = True
    return described


def anthropic_messages(turns: Sequence[Turn], origin: str = "") -> tuple[list[dict[str, object]], str]:
    """Turns as messages that begin and end with the user and alternate, and the system text.

    `origin` is `ModelProfile.origin` of the profile that is asked: thinking of another one stays behind.
    """
    turns = repaired(turns)
    system = "\n\n".join(turn.text for turn in turns if turn.role is Role.SYSTEM and turn.text.strip())
    merged: list[tuple[str, list[Block]]] = []
    for turn in turns:
        role, blocks = _message(turn, origin)
        if not blocks:
            continue
        if merged and merged[-1][0] == role:
            merged[-1][1].extend(blocks)
        else:
            merged.append((role, blocks))
    if not merged or merged[0][0] != "user":
        merged.insert(0, ("user", [_text(CONTINUE)]))
    if merged[-1][0] != "user":
        merged.append(("user", [_text(CONTINUE)]))
    return [
        {"role": role, "content": _results_first(blocks) if role == "user" else blocks} for role, blocks in merged
    ], system


def _results_first(blocks: list[Block]) -> list[Block]:
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _message(turn: Turn, origin: str) -> tuple[str, list[Block]]:
    if turn.role is Role.SYSTEM:
        return "system", []
    if turn.role is Role.ASSISTANT:
        return "assistant", _answer(turn, origin)
    if turn.role is Role.TOOL:
        return "user", [_result(turn)]
    return "user", _content(turn)


def _answer(turn: Turn, origin: str) -> list[Block]:
    blocks: list[Block] = []
    for part in turn.kept if turn.origin in ("", origin) else ():
        if isinstance(part, ThinkingPart) and part.signature:
            blocks.append({"type": "thinking", "thinking": part.text, "signature": part.signature})
        elif isinstance(part, RedactedThinkingPart):
            blocks.append({"type": "redacted_thinking", "data": part.data})
    if turn.text.strip():
        blocks.append(_text(turn.text))
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_object(call.arguments)}
        for call in turn.tool_calls
    ]
    return blocks


def _result(turn: Turn) -> Block:
    pictures = [_image(part) for part in turn.images]
    content: object = turn.text
    if pictures:
        content = [_text(turn.text), *pictures] if turn.text.strip() else pictures
    block: Block = {"type": "tool_result", "tool_use_id": turn.tool_call_id, "content": content}
    if turn.is_error:
        block["is_error"] = True
    return block


def _content(turn: Turn) -> list[Block]:
    blocks: list[Block] = []
    for part in turn.parts:
        if isinstance(part, ImagePart):
            blocks.append(_image(part))
        elif part.strip():
            blocks.append(_text(part))
    return blocks


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _image(part: ImagePart) -> Block:
    if part.source is None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    kind, data = part.source
    if kind not in MEDIA_TYPES:
        raise ProfileError(
            f"Anthropic takes pictures as JPEG, PNG, GIF or WebP, found {kind or 'no media type'}.",
            hint="Convert the picture, or ask another profile.",
            facts={"found": kind, "expected": ", ".join(MEDIA_TYPES)},
        )
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
