"""Client for `/api/chat` of Ollama. Source: Ollama API documentation."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.clients.base import ChatRequest, WireRequest
from engine.clients.failures import Place
from engine.clients.json_parts import object_of, objects_of
from engine.clients.model_facts import LearnsOfModels, LoadsModels, ModelFacts, Question, no_tools
from engine.clients.ollama_reader import OllamaReader
from engine.clients.openai_chat import OpenAIChatClient, headers, think_tags, tool_members, with_ext_params
from engine.clients.tool_calls import arguments_object
from engine.conversation import Role, ToolChoice, Turn
from engine.errors import ProfileError
from engine.messages import repaired
from engine.profile import ModelProfile

LEVELS = "thinking levels"
"""Beside the capabilities of the server: how long the model thinks can be chosen."""
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}

Message = dict[str, object]


class OllamaClient(OpenAIChatClient, LearnsOfModels, LoadsModels):
    """Speaks Ollama's own interface, the only one that takes the context length; stateless."""

    content_types = ("application/x-ndjson",)

    def form(self, request: ChatRequest, model: str) -> WireRequest:
        """The request on the wire; raises ProfileError without a model and for pictures elsewhere."""
        profile = request.profile
        if not model.strip():
            raise ProfileError(
                f"The profile {profile.name} names no model, and the server lists none.",
                hint="Install one with `ollama pull NAME`, or set modelName.",
                facts={"profile": profile.name, "key": "modelName"},
            )
        interface = profile.options.interface_url
        url = f"{profile.url.rstrip('/')}/{interface.lstrip('/')}" if interface else _address(profile, "chat")
        return WireRequest(
            url=url,
            headers=_headers(profile),
            body=with_ext_params(_body(request, model), profile),
        )

    def reader(self, request: ChatRequest, place: Place, headers: Mapping[str, str]) -> OllamaReader:
        """A reader for one answer."""
        return OllamaReader(place, think_tags=think_tags(request.profile, headers))

    def models_request(self, profile: ModelProfile) -> tuple[str, Mapping[str, str]]:
        """URL and headers that list the models."""
        return _address(profile, "tags"), _headers(profile)

    def model_ids(self, answer: object) -> list[str]:
        """The installed models."""
        return [name for entry in _models(answer) if isinstance(name := entry.get("name"), str) and name.strip()]

    def questions(self, profile: ModelProfile, model: str) -> Sequence[Question]:
        """What the model is able to do."""
        body = {"model": model, "verbose": False}
        return [Question(url=_address(profile, "show"), headers=_headers(profile), body=body)]

    def facts(self, answer: object, model: str) -> ModelFacts | None:
        """Its capabilities; None from servers too old to tell."""
        told = answer.get("capabilities") if isinstance(answer, Mapping) else None
        if not isinstance(answer, Mapping) or not isinstance(told, list):
            return None
        features = {str(name) for name in told}
        details = answer.get("details")
        if isinstance(details, Mapping) and str(details.get("family")).startswith("gptoss"):
            features.add(LEVELS)
        return ModelFacts(features=frozenset(features))

    def informed(self, request: ChatRequest, facts: ModelFacts, model: str) -> ChatRequest:
        """With what the model can do; raises RequestRejected when it has no tools and should."""
        if request.tools is not None and not any("tool" in name for name in facts.features) and _tools(request.tools):
            raise no_tools(request, model)
        return replace(request, features=facts.features)

    def loaded_question(self, profile: ModelProfile) -> Question:
        """Which models are in memory."""
        return Question(url=_address(profile, "ps"), headers=_headers(profile))

    def is_loaded(self, answer: object, model: str) -> bool:
        """Whether this model is."""
        names = {str(entry.get(key)) for entry in _models(answer) for key in ("name", "model")}
        return model in names or f"{model}:latest" in names


def _models(answer: object) -> list[dict[str, object]]:
    return objects_of(object_of(answer).get("models"))


def _address(profile: ModelProfile, name: str) -> str:
    """The url of a profile may also be that of the server's OpenAI interface."""
    return re.sub(r"(/v1|/api(/chat)?)?/*$", "", profile.url) + f"/api/{name}"


def _headers(profile: ModelProfile) -> dict[str, str]:
    return {**headers(profile), "Accept": "application/x-ndjson, application/json"}


def _body(request: ChatRequest, model: str) -> dict[str, object]:
    profile, features = request.profile, request.features or frozenset()
    options: dict[str, object] = {"num_predict": profile.max_tokens}
    if profile.max_context:
        options["num_ctx"] = profile.max_context  # else the server cuts the prompt to a default of its own
    if profile.options.omit_sampling != "true":
        options |= {"temperature": profile.temperature, "top_p": profile.top_p}
    if request.stop:
        options["stop"] = list(request.stop)
    body: dict[str, object] = {
        "model": model,
        "messages": ollama_messages(request.conversation.turns),
        "stream": profile.options.supports_streaming,
    }
    if "thinking" in features:
        body["think"] = _think(profile.reasoning_effort, levels=LEVELS in features)
    if (schema := request.response_format) is not None and (wanted := _format(schema)):
        body["format"] = wanted
    if request.tools is not None and (tools := _tools(request.tools)):
        body["tools"] = tools
    return body | {"options": options}


def _think(effort: str | None, *, levels: bool) -> bool | str:
    if effort == "none":
        return False
    return EFFORTS.get(effort or "", True) if levels else True


def _format(schema: Mapping[str, object]) -> object:
    """The plain schema, as the server wants it."""
    wrapped = schema.get("json_schema")
    if isinstance(wrapped, Mapping) and isinstance(inner := wrapped.get("schema"), Mapping):
        return dict(inner)
    if schema.get("type") == "json_object":
        return "json"
    return None if schema.get("type") == "text" else dict(schema)


def _tools(choice: ToolChoice) -> list[Message]:
    """There is no choice on this wire: a forced tool is the only one shown, and with none nothing is."""
    if choice.use.value == "none" and not choice.forced:
        return []
    shown = [tool for tool in choice.tools if tool.name == choice.forced or not choice.forced]
    tools = tool_members(replace(choice, tools=tuple(shown)))["tools"]
    return list(tools) if isinstance(tools, list) else []


def ollama_messages(turns: Sequence[Turn]) -> list[Message]:
    """Turns as messages; turns that say nothing are left out."""
    turns = repaired(turns)
    names = {call.id: call.name for turn in turns for call in turn.tool_calls}
    return [message for turn in turns if (message := _message(turn, names))]


def _message(turn: Turn, names: Mapping[str, str]) -> Message | None:
    message: Message = {"role": turn.role.value, "content": turn.text}
    if turn.images and turn.role in (Role.USER, Role.TOOL):
        message["images"] = [_picture(picture.source) for picture in turn.images]
    if turn.role is Role.TOOL:
        if turn.is_error and not turn.text.startswith("Error"):
            message["content"] = f"Error: {turn.text}"
        return message | {"tool_call_id": turn.tool_call_id, "tool_name": names.get(turn.tool_call_id, "")}
    if turn.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": arguments_object(call.arguments)}}
            for call in turn.tool_calls
        ]
    return message if turn.text or len(message) > 2 else None


def _picture(source: tuple[str, str] | None) -> str:
    if source is None:
        raise ProfileError(
            "Ollama takes pictures as data, not as an address.", hint="Attach the file itself, or ask another profile."
        )
    return source[1]
