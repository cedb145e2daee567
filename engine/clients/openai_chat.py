"""Client for `/v1/chat/completions`. Source: OpenAI API reference, Chat Completions."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from engine.clients.base import Capabilities, ChatRequest, WireRequest
from engine.clients.chat_reader import ChatReader
from engine.clients.failures import Place
from engine.clients.json_parts import object_of, objects_of, text_of
from engine.content import CallExtraPart
from engine.conversation import ImagePart, Role, ToolChoice, ToolDefinition, Turn
from engine.messages import repaired
from engine.profile import ModelProfile

log = logging.getLogger(__name__)

PROTECTED = ("model", "messages", "system", "stream", "tools", "tool_choice")
"""Body members that extParams cannot set."""

LOCAL_PORTS = (11434, 1234)
"""Ollama and LM Studio, which leave thinking tags in the text."""

MAX_NAME = 64

REASONING_MODEL = re.compile(r"o\d|gpt-5", re.IGNORECASE)

COMPLETE_PATH = re.compile(r"/(chat/completions|completions|messages|responses)$")
"""Ends of addresses that are complete: another path takes the place of theirs."""


class OpenAIChatClient:
    """Speaks chat completions; stateless."""

    auth = "bearer"
    """How the key is sent when the profile does not choose."""

    def form(self, request: ChatRequest, model: str) -> WireRequest:
        """The request on the wire."""
        profile = request.profile
        return WireRequest(
            url=self.url(profile, "/chat/completions"),
            headers=headers(profile, auto=self.auth),
            body=with_ext_params(_body(request, model), profile),
        )

    def reader(self, request: ChatRequest, place: Place, headers: Mapping[str, str]) -> ChatReader:
        """A reader for one answer with these response headers."""
        return ChatReader(place, think_tags=think_tags(request.profile, headers))

    def models_request(self, profile: ModelProfile) -> tuple[str, Mapping[str, str]]:
        """URL and headers that list the models."""
        return self.url(profile, "/models"), headers(profile, auto=self.auth)

    def url(self, profile: ModelProfile, path: str) -> str:
        """The address of an interface of the profile's server."""
        own = profile.options.interface_url
        if own and path == "/models":
            found = COMPLETE_PATH.search(own)
            own = own[: found.start()] + path if found else ""
        return endpoint(profile.url, own, path)

    def model_ids(self, answer: object) -> list[str]:
        """The names in such a list."""
        names = [text_of(entry.get("id")) for entry in objects_of(object_of(answer).get("data"))]
        return [name for name in names if name.strip()]

    def capabilities(self, profile: ModelProfile) -> Capabilities:
        """What the profile says can be asked."""
        options = profile.options
        return Capabilities(
            tools=options.supports_tools, images=options.supports_images, streaming=options.supports_streaming
        )


def endpoint(url: str, interface_url: str, path: str) -> str:
    """Join the url of a profile and a path: as it stands, behind a version segment, or behind `/v1`."""
    base = url.rstrip("/")
    if interface_url:
        return f"{base}/{interface_url.lstrip('/')}"
    found = COMPLETE_PATH.search(base)
    if found and found[0] == path:
        return base
    base = base[: found.start()] if found else base
    return base + path if re.search(r"/v\d+[a-z]*$", base, re.IGNORECASE) else f"{base}/v1{path}"


def headers(profile: ModelProfile, *, auto: str = "bearer") -> dict[str, str]:
    """Headers of every request of a profile; the key only when there is one.

    `auto` is the way the key is sent when the profile does not choose: bearer, x-api-key or api-key.
    """
    result = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
    scheme = profile.options.auth_scheme
    scheme = auto if scheme == "auto" else scheme
    if profile.api_key and scheme == "bearer":
        result["Authorization"] = f"Bearer {profile.api_key}"
    elif profile.api_key and scheme in ("x-api-key", "api-key"):
        result[scheme] = profile.api_key
    return result | dict(profile.options.headers)


def chat_messages(
    turns: Sequence[Turn], system_role: str = "system", *, reasoning: bool = False, origin: str = ""
) -> list[dict[str, object]]:
    """Turns as chat messages; turns that say nothing are left out. What came with calls goes back to its `origin`.

    With `reasoning` the thinking of assistant turns (examples of a flow have some) goes along as `reasoning_content`.
    """
    turns = repaired(turns)
    if any(turn.images for turn in turns):
        turns = list(_results_apart(turns))
    return [message for turn in turns if (message := _message(turn, system_role, reasoning, origin))]


def _results_apart(turns: Sequence[Turn]) -> Iterator[Turn]:
    """Each turn; behind a run of tool results, which cannot hold pictures, a user turn with theirs."""
    pictures: list[str | ImagePart] = []
    for turn in turns:
        if pictures and turn.role is not Role.TOOL:
            yield Turn.of_parts(Role.USER, pictures)
            pictures = []
        if turn.role is Role.TOOL:
            for image in turn.images:
                pictures += [f"[image from tool call {turn.tool_call_id}]", image]
        yield turn
    if pictures:
        yield Turn.of_parts(Role.USER, pictures)


def image_content(turn: Turn) -> list[dict[str, object]]:
    """Text and pictures of a turn as content parts, in their order."""
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": _image_url(part)}
        for part in turn.parts
    ]


def _image_url(image: ImagePart) -> dict[str, object]:
    address: dict[str, object] = {"url": image.address}
    return address | {"detail": image.detail} if image.detail in ("low", "high") else address


def wire_name(name: str) -> str:
    """The name of who speaks, as servers accept it."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_NAME]


def _message(turn: Turn, system_role: str, reasoning: bool, origin: str) -> dict[str, object] | None:
    if turn.role is Role.TOOL:
        text = f"Error: {turn.text}" if turn.is_error and not turn.text.startswith("Error") else turn.text
        return {"role": "tool", "tool_call_id": turn.tool_call_id, "content": text}
    if turn.tool_calls:
        named = {"name": wire_name(turn.name)} if turn.name else {}
        return {"role": "assistant", **named, "content": turn.text or None, "tool_calls": _calls(turn, origin)}
    message: dict[str, object] = {"role": system_role if turn.role is Role.SYSTEM else turn.role.value}
    if turn.name:
        message["name"] = wire_name(turn.name)
    if turn.images and turn.role is Role.USER:
        return message | {"content": image_content(turn)}
    if reasoning and turn.reasoning and turn.role is Role.ASSISTANT:
        return message | {"content": turn.text, "reasoning_content": turn.reasoning}
    return message | {"content": turn.text} if turn.text else None


def _calls(turn: Turn, origin: str) -> list[dict[str, object]]:
    parts = turn.kept if turn.origin in ("", origin) else ()
    extras = {part.place: {"extra_content": part.extra} for part in parts if isinstance(part, CallExtraPart)}
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments if call.arguments.strip() else "{}"},
            **extras.get(place, {}),
        }
        for place, call in enumerate(turn.tool_calls)
    ]


def _body(request: ChatRequest, model: str) -> dict[str, object]:
    profile, options = request.profile, request.profile.options
    body: dict[str, object] = {
        "model": model,
        # Only the chat templates of llama.cpp read it; other services refuse the field.
        "messages": chat_messages(
            request.conversation.turns,
            options.system_role,
            reasoning=profile.sends_reasoning,
            origin=profile.origin,
        ),
    }
    limit = options.max_tokens_param
    if limit == "auto":
        limit = "max_completion_tokens" if is_reasoning_model(model) else "max_tokens"
    for name in ("max_tokens", "max_completion_tokens"):
        if limit in (name, "both"):
            body[name] = profile.max_tokens
    body |= sampling(profile, model)
    body["stream"] = options.supports_streaming
    if options.stream_usage and options.supports_streaming:
        body["stream_options"] = {"include_usage": True}
    if profile.reasoning_effort:
        body["reasoning_effort"] = profile.reasoning_effort
    if request.stop:
        body["stop"] = list(request.stop)
    if request.response_format is not None:
        body["response_format"] = response_format(request.response_format)
    if request.tools is not None:
        body |= tool_members(request.tools, parallel=options.parallel_tool_calls)
    return body


def is_reasoning_model(model: str) -> bool:
    """Whether the name is one of OpenAI's reasoning models, which take other parameters."""
    return REASONING_MODEL.match(model.rsplit("/", 1)[-1]) is not None


def sampling(profile: ModelProfile, model: str) -> dict[str, object]:
    """Temperature and top-p, where the model takes them."""
    omit = profile.options.omit_sampling
    if omit == "true" or (omit == "auto" and is_reasoning_model(model)):
        return {}
    members: dict[str, object] = {"temperature": profile.temperature}
    return members if profile.top_p == 1.0 else members | {"top_p": profile.top_p}


def tool_members(choice: ToolChoice, *, parallel: bool = True) -> dict[str, object]:
    """The members of a body that offer tools; `parallel` is what the profile says about several calls at once."""
    members: dict[str, object] = {"tools": [_tool(tool) for tool in choice.tools], "tool_choice": choice.use.value}
    if choice.forced:
        members["tool_choice"] = {"type": "function", "function": {"name": choice.forced}}
    if not (parallel if choice.parallel is None else choice.parallel):
        members["parallel_tool_calls"] = False
    return members


def _tool(tool: ToolDefinition) -> dict[str, object]:
    function: dict[str, object] = {"name": tool.name, "description": tool.description}
    function["parameters"] = dict(tool.parameters) or {"type": "object", "properties": {}}
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def response_format(schema: Mapping[str, object]) -> dict[str, object]:
    """A JSON schema as `response_format`; a complete one (with its own `type` json_schema or json_object) stays."""
    if schema.get("type") in ("json_schema", "json_object", "text"):
        return dict(schema)
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(schema.get("title") or "answer"))[:64]
    described: dict[str, object] = {"name": name, "schema": dict(schema)}
    if "strict" in schema:
        described["schema"] = {key: value for key, value in schema.items() if key != "strict"}
        described["strict"] = bool(schema["strict"])
    return {"type": "json_schema", "json_schema": described}


def with_ext_params(
    body: Mapping[str, object], profile: ModelProfile, protected: Sequence[str] = PROTECTED
) -> dict[str, object]:
    """The body with the profile's extParams merged in; null removes a member, protected ones stay as they are."""
    allowed = {}
    for key, value in profile.options.ext_params.items():
        if key in protected:
            log.warning("extParams of the profile %s cannot set %s", profile.name, key)
        else:
            allowed[key] = value
    return _merged(body, allowed) if allowed else dict(body)


def _merged(base: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    result = dict(base)
    for key, value in changes.items():
        current = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = _merged(current if isinstance(current, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def think_tags(profile: ModelProfile, headers: Mapping[str, str]) -> str:
    """The profile's choice; instead of auto: on, when profile or response headers tell of a local server."""
    tags = profile.options.think_tags
    return "on" if tags == "auto" and _local(profile, headers) else tags


def _local(profile: ModelProfile, headers: Mapping[str, str]) -> bool:
    if profile.embedded or "llama.cpp" in headers.get("server", "").lower():
        return True
    return urlsplit(profile.url).port in LOCAL_PORTS
