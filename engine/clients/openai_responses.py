"""Client for `/v1/responses`, without state on the server. Source: OpenAI API reference, Responses."""

from collections.abc import Iterator, Mapping, Sequence

from engine.clients.base import ChatRequest, WireRequest
from engine.clients.failures import Place
from engine.clients.json_parts import objects_of, text_of
from engine.clients.openai_chat import (
    PROTECTED,
    OpenAIChatClient,
    headers,
    response_format,
    sampling,
    think_tags,
    with_ext_params,
)
from engine.clients.responses_reader import ResponsesReader
from engine.content import OutputItemPart
from engine.conversation import ImagePart, Role, ToolChoice, ToolDefinition, Turn
from engine.messages import repaired
from engine.profile import ModelProfile

ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""What the server adds to an answer so that it can be asked again without having kept anything."""


class OpenAIResponsesClient(OpenAIChatClient):
    """Speaks Responses; stateless, and so is the server: `store` is false."""

    def form(self, request: ChatRequest, model: str) -> WireRequest:
        """The request on the wire."""
        profile = request.profile
        return WireRequest(
            url=self.url(profile, "/responses"),
            headers=headers(profile, auto=self.auth),
            body=with_ext_params(_body(request, model), profile, protected=(*PROTECTED, "input")),
        )

    def reader(self, request: ChatRequest, place: Place, headers: Mapping[str, str]) -> ResponsesReader:
        """A reader for one answer with these response headers."""
        return ResponsesReader(place, think_tags=think_tags(request.profile, headers))


def _body(request: ChatRequest, model: str) -> dict[str, object]:
    profile, options = request.profile, request.profile.options
    body: dict[str, object] = {
        "model": model,
        "input": input_items(request.conversation.turns, options.system_role, profile.origin),
        "max_output_tokens": profile.max_tokens,
        **sampling(profile, model),
        "stream": options.supports_streaming,
        "store": False,
    }
    if options.ext_params.get("store") is not True:
        body["include"] = [ENCRYPTED_REASONING]
    if reasoning := _reasoning(profile):
        body["reasoning"] = reasoning
    if request.stop:
        body["stop"] = list(request.stop)
    if request.response_format is not None:
        body["text"] = {"format": _text_format(request.response_format)}
    if request.tools is not None:
        body |= _tool_members(request.tools, parallel=options.parallel_tool_calls)
    return body


def _reasoning(profile: ModelProfile) -> dict[str, object]:
    members = {"effort": profile.reasoning_effort, "summary": profile.reasoning_summary}
    return {name: value for name, value in members.items() if value}


def _text_format(schema: Mapping[str, object]) -> dict[str, object]:
    """The format as chat completions have it, with the description of a schema one level up."""
    chat = response_format(schema)
    described = chat.get("json_schema")
    return {"type": chat["type"], **described} if isinstance(described, Mapping) else chat


def _tool_members(choice: ToolChoice, *, parallel: bool) -> dict[str, object]:
    members: dict[str, object] = {"tools": [_tool(tool) for tool in choice.tools], "tool_choice": choice.use.value}
    if choice.forced:
        members["tool_choice"] = {"type": "function", "name": choice.forced}
    if not (parallel if choice.parallel is None else choice.parallel):
        members["parallel_tool_calls"] = False
    return members


def _tool(tool: ToolDefinition) -> dict[str, object]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters) or {"type": "object", "properties": {}},
        "strict": bool(tool.strict),  # left out it would mean true here, and change what is optional
    }


def input_items(turns: Sequence[Turn], system_role: str = "developer", origin: str = "") -> list[dict[str, object]]:
    """Turns as input items; turns that say nothing are left out.

    An answer that came from `origin` goes back item by item as it came, its reasoning included.
    """
    return [item for turn in repaired(turns) for item in _items(turn, system_role, origin)]


def _items(turn: Turn, system_role: str, origin: str) -> Iterator[dict[str, object]]:
    if turn.role is Role.TOOL:
        text = f"Error: {turn.text}" if turn.is_error and not turn.text.startswith("Error") else turn.text
        output: object = _content(turn, text) if turn.images else text
        yield {"type": "function_call_output", "call_id": turn.tool_call_id, "output": output}
    elif turn.role is Role.ASSISTANT:
        yield from _as_it_came(turn, origin) or _answer(turn)
    elif turn.images and turn.role is Role.USER:
        yield {"type": "message", "role": "user", "content": _content(turn, turn.text)}
    elif turn.text:
        role = system_role if turn.role is Role.SYSTEM else turn.role.value
        yield {"type": "message", "role": role, "content": turn.text}


def _content(turn: Turn, text: str) -> list[dict[str, object]]:
    """Text and pictures in their order."""
    parts: list[str | ImagePart] = list(turn.parts) if text == turn.text else [text, *turn.images]
    return [{"type": "input_text", "text": part} if isinstance(part, str) else _image(part) for part in parts]


def _image(image: ImagePart) -> dict[str, object]:
    item: dict[str, object] = {"type": "input_image", "image_url": image.address}
    return item | {"detail": image.detail} if image.detail in ("low", "high") else item


def _as_it_came(turn: Turn, origin: str) -> list[dict[str, object]]:
    """The items of the answer; none when they are another model's, or no more say what the turn says."""
    items = [dict(part.item) for part in turn.kept if isinstance(part, OutputItemPart)]
    if not items or turn.origin not in ("", origin):
        return []
    calls = [item for item in items if item.get("type") == "function_call"]
    said = [(call.id, call.name) for call in turn.tool_calls]
    if said != [(call.get("call_id") or call.get("id"), call.get("name")) for call in calls]:
        return []
    if any(
        call.get("arguments") != own.arguments and str(call.get("arguments")).strip()
        for call, own in zip(calls, turn.tool_calls, strict=True)
    ):
        return []
    messages = [item for item in items if item.get("type") == "message"]
    if "".join(_text(item) for item in messages) != turn.text:
        return []
    for item in messages:
        item.setdefault("phase", _phase(turn))
    return items


def _text(message: Mapping[str, object]) -> str:
    return "".join(text_of(part.get("text")) for part in objects_of(message.get("content")))


def _phase(turn: Turn) -> str:
    return "commentary" if turn.tool_calls else "final_answer"


def _answer(turn: Turn) -> Iterator[dict[str, object]]:
    if turn.text.strip():
        yield {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": turn.text, "annotations": []}],
            "phase": _phase(turn),
        }
    for call in turn.tool_calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments if call.arguments.strip() else "{}",
            "status": "completed",
        }
