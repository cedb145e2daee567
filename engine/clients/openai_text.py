"""Client for `/v1/completions`, where the engine itself writes the raw prompt.

Source: OpenAI API reference, Completions.
"""

from collections.abc import Mapping

from engine.clients.base import Capabilities, ChatRequest, WireRequest
from engine.clients.failures import Place
from engine.clients.openai_chat import PROTECTED, OpenAIChatClient, endpoint, headers, response_format, with_ext_params
from engine.clients.text_reader import TextReader
from engine.errors import ProfileError
from engine.profile import ModelProfile
from engine.prompt_strategies import PromptStrategy, strategy_named


class OpenAITextClient(OpenAIChatClient):
    """Speaks text completions; stateless."""

    def form(self, request: ChatRequest, model: str) -> WireRequest:
        """The request on the wire; raises ProfileError for an unknown prompt format and for what it cannot hold."""
        profile = request.profile
        strategy = _strategy(profile)
        if request.tools is not None:
            raise ProfileError(
                f"The profile {profile.name} speaks text completions, which have no tools.",
                hint="Use a chat profile for agents with tools.",
                facts={"profile": profile.name},
            )
        prompt = strategy.render(request.conversation.turns)
        if not prompt:
            raise ProfileError(
                "The prompt is empty: text completion needs a user turn that is not blank.",
                hint="Give the agent a template.",
                facts={"profile": profile.name},
            )
        body = _body(request, model, prompt, (*strategy.stop_texts(), *request.stop))
        return WireRequest(
            url=endpoint(profile.url, profile.options.interface_url, "/completions"),
            headers=headers(profile),
            body=with_ext_params(body, profile, protected=(*PROTECTED, "prompt")),
            prompt=prompt,
        )

    def reader(self, request: ChatRequest, place: Place, headers: Mapping[str, str]) -> TextReader:
        """A reader for one answer."""
        profile = request.profile
        return TextReader(place, _strategy(profile).answer_reader(profile.options.think_tags))

    def capabilities(self, profile: ModelProfile) -> Capabilities:
        """Raw text has neither tools nor images."""
        return Capabilities(tools=False, images=False, streaming=profile.options.supports_streaming)


def _strategy(profile: ModelProfile) -> PromptStrategy:
    try:
        return strategy_named(profile.prompt_strategy)
    except ProfileError as error:
        error.facts["profile"] = profile.name
        raise


def _body(request: ChatRequest, model: str, prompt: str, stop: tuple[str, ...]) -> dict[str, object]:
    profile, options = request.profile, request.profile.options
    body: dict[str, object] = {"model": model, "prompt": prompt, "max_tokens": profile.max_tokens}
    if options.omit_sampling != "true":
        body["temperature"] = profile.temperature
        if profile.top_p != 1.0:
            body["top_p"] = profile.top_p
    body["stream"] = options.supports_streaming
    if options.stream_usage and options.supports_streaming:
        body["stream_options"] = {"include_usage": True}
    if stop:
        body["stop"] = list(dict.fromkeys(stop))
    if request.response_format is not None:
        if profile.tokenizer == "llamaServer":
            body.update(_llama_schema(request.response_format))
        else:
            body["response_format"] = response_format(request.response_format)
    return body


def _llama_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """llama.cpp takes the plain schema here."""
    wrapped = schema.get("json_schema")
    inner = wrapped.get("schema") if isinstance(wrapped, Mapping) else None
    if schema.get("type") == "text":
        return {}
    if schema.get("type") in ("json_schema", "json_object"):
        return {"json_schema": inner if isinstance(inner, Mapping) else {"type": "object"}}
    return {"json_schema": dict(schema)}
