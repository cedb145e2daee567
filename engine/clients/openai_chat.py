"""Client for `/v1/chat/completions`. Source: OpenAI API reference, Chat Completions."""

import logging
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from engine.clients.base import Capabilities, ChatRequest, WireRequest
from engine.clients.chat_reader import ChatReader
from engine.clients.failures import Place
from engine.conversation import Role, Turn
from engine.messages import repaired
from engine.profile import ModelProfile

log = logging.getLogger(__name__)

PROTECTED = ("model", "messages", "system", "stream", "tools", "tool_choice")
"""Body members that extParams cannot set."""

LOCAL_PORTS = (11434, 1234)
"""Ollama and LM Studio, which leave thinking tags in the text."""

REASONING_MODEL = re.compile(r"o\d|gpt-5", re.IGNORECASE)


class OpenAIChatClient:
    """Speaks chat completions; stateless."""

    def form(self, request: ChatRequest, model: str) -> WireRequest:
        """The request on the wire."""
        profile = request.profile
        return WireRequest(
            url=endpoint(profile.url, profile.options.interface_url, "/chat/completions"),
            headers=headers(profile),
            body=with_ext_params(_body(request, model), profile),
        )

    def reader(self, request: ChatRequest, place: Place, headers: Mapping[str, str]) -> ChatReader:
        """A reader for one answer with these response headers."""
        tags = request.profile.options.think_tags
        if tags == "auto" and _local(request.profile, headers):
            tags = "on"
        return ChatReader(place, think_tags=tags)

    def models_request(self, profile: ModelProfile) -> tuple[str, Mapping[str, str]]:
        """URL and headers that list the models."""
        return endpoint(profile.url, "", "/models"), headers(profile)

    def model_ids(self, answer: object) -> list[str]:
        """The names in such a list."""
        entries = answer.get("data") if isinstance(answer, Mapping) else None
        ids = [entry.get("id") for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
        return [name for name in ids if isinstance(name, str) and name.strip()]

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
    if path == "/models":
        base = re.sub(r"/(chat/completions|completions|messages|responses)$", "", base)
    if base.endswith(path):
        return base
    return base + path if re.search(r"/v\d+[a-z]*$", base, re.IGNORECASE) else f"{base}/v1{path}"


def headers(profile: ModelProfile) -> dict[str, str]:
    """Headers of every request of a profile; the key only when there is one."""
    result = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
    scheme = profile.options.auth_scheme
    if profile.api_key and scheme in ("auto", "bearer"):
        result["Authorization"] = f"Bearer {profile.api_key}"
    elif profile.api_key and scheme in ("x-api-key", "api-key"):
        result[scheme] = profile.api_key
    return result | dict(profile.options.headers)


def chat_messages(
    turns: Sequence[Turn], system_role: str = "system", *, reasoning: bool = False
) -> list[dict[str, object]]:
    """Turns as chat messages; turns that say nothing are left out.

    With `reasoning` the thinking of assistant turns (examples of a flow have some) goes along as `reasoning_content`.
    """
    return [message for turn in repaired(turns) if (message := _message(turn, system_role, reasoning))]


def _message(turn: Turn, system_role: str, reasoning: bool) -> dict[str, object] | None:
    if turn.role is Role.TOOL:
        text = f"Error: {turn.text}" if turn.is_error and not turn.text.startswith("Error") else turn.text
        return {"role": "tool", "tool_call_id": turn.tool_call_id, "content": text}
    if turn.tool_calls:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments if call.arguments.strip() else "{}"},
            }
            for call in turn.tool_calls
        ]
        return {"role": "assistant", "content": turn.text or None, "tool_calls": calls}
    role = system_role if turn.role is Role.SYSTEM else turn.role.value
    if reasoning and turn.reasoning and turn.role is Role.ASSISTANT:
        return {"role": role, "content": turn.text, "reasoning_content": turn.reasoning}
    return {"role": role, "content": turn.text} if turn.text else None


def _body(request: ChatRequest, model: str) -> dict[str, object]:
    profile, options = request.profile, request.profile.options
    body: dict[str, object] = {
        "model": model,
        # Only the chat templates of llama.cpp read it; other services refuse the field.
        "messages": chat_messages(
            request.conversation.turns, options.system_role, reasoning=profile.tokenizer == "llamaServer"
        ),
    }
    family = REASONING_MODEL.match(model.rsplit("/", 1)[-1]) is not None
    limit = options.max_tokens_param
    if limit == "auto":
        limit = "max_completion_tokens" if family else "max_tokens"
    for name in ("max_tokens", "max_completion_tokens"):
        if limit in (name, "both"):
            body[name] = profile.max_tokens
    if options.omit_sampling != "true" and not (family and options.omit_sampling == "auto"):
        body["temperature"] = profile.temperature
        if profile.top_p != 1.0:
            body["top_p"] = profile.top_p
    body["stream"] = True
    if options.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if profile.reasoning_effort:
        body["reasoning_effort"] = profile.reasoning_effort
    if request.stop:
        body["stop"] = list(request.stop)
    if request.response_format is not None:
        body["response_format"] = response_format(request.response_format)
    return body


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


def with_ext_params(body: Mapping[str, object], profile: ModelProfile) -> dict[str, object]:
    """The body with the profile's extParams merged in; null removes a member, protected ones stay as they are."""
    allowed = {}
    for key, value in profile.options.ext_params.items():
        if key in PROTECTED:
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


def _local(profile: ModelProfile, headers: Mapping[str, str]) -> bool:
    if profile.embedded or "llama.cpp" in headers.get("server", "").lower():
        return True
    return urlsplit(profile.url).port in LOCAL_PORTS
