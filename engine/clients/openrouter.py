"""Client for OpenRouter: chat completions that keep the reasoning, with limits and prices from its list of models.

Source: OpenRouter API documentation: models, reasoning tokens, usage accounting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from engine.clients.base import ChatRequest, WireRequest
from engine.clients.chat_reader import ChatReader
from engine.clients.failures import Place
from engine.clients.json_parts import object_of, objects_of, text_of
from engine.clients.model_facts import LearnsOfModels, ModelFacts, Question, no_tools
from engine.clients.openai_chat import OpenAIChatClient
from engine.completion import Chunk
from engine.content import OutputItemPart
from engine.conversation import Role, Turn
from engine.profile import ModelProfile
from engine.statistics import Prices

ADDRESS = "https://openrouter.ai/api/v1"
"""The service, for profiles without url."""
REASONING = ("reasoning", "reasoning_effort", "include_reasoning")
"""Parameters of models whose effort can be chosen."""

Details = list[Mapping[str, object]]


class OpenRouterClient(OpenAIChatClient, LearnsOfModels):
    """Speaks to OpenRouter; stateless."""

    def form(self, request: ChatRequest, model: str) -> WireRequest:
        """The request on the wire."""
        wire = super().form(replace(request, profile=_addressed(request.profile)), model)
        changes: dict[str, object] = {"messages": _with_details(wire, request)}
        if "usage" not in wire.body:
            changes["usage"] = {"include": True}  # the cost comes with it
        return wire.changed(changes)

    def reader(self, request: ChatRequest, place: Place, headers: Mapping[str, str]) -> "OpenRouterReader":
        """A reader for one answer."""
        return OpenRouterReader(place, think_tags=request.profile.options.think_tags)

    def models_request(self, profile: ModelProfile) -> tuple[str, Mapping[str, str]]:
        """URL and headers that list the models."""
        return super().models_request(_addressed(profile))

    def model_ids(self, answer: object) -> list[str]:
        """The names in such a list, free ones first: without `modelName` the first one is asked."""
        return [str(entry["id"]) for entry in sorted(_entries(answer), key=lambda entry: not _is_free(entry))]

    def questions(self, profile: ModelProfile, model: str) -> Sequence[Question]:
        """The models as the account may use them, then all."""
        url, headers = self.models_request(profile)
        own = [Question(url=f"{url}/user", headers=headers)] if profile.api_key else []
        return [*own, Question(url=url, headers=headers)]

    def facts(self, answer: object, model: str) -> ModelFacts | None:
        """What the list says of the model."""
        entry = next((entry for entry in _entries(answer) if entry["id"] == model), None)
        if entry is None:
            return None
        features, top = entry.get("supported_parameters"), entry.get("top_provider")
        top = top if isinstance(top, Mapping) else {}
        contexts = (_count(entry.get("context_length")), _count(top.get("context_length")))
        return ModelFacts(
            features=frozenset(map(str, features)) if isinstance(features, list) else frozenset(),
            max_context=_smaller(*contexts),
            max_output=_count(top.get("max_completion_tokens")),
            prices=_prices(entry.get("pricing")),
        )

    def informed(self, request: ChatRequest, facts: ModelFacts, model: str) -> ChatRequest:
        """Within the limits of the model, with its prices, without effort where it has none.

        Raises RequestRejected when it takes no tools and should.
        """
        profile, options, features = request.profile, request.profile.options, facts.features
        if request.tools is not None and features and "tools" not in features:
            raise no_tools(request, model)
        changed = replace(
            profile,
            max_tokens=_smaller(profile.max_tokens, facts.max_output),
            max_context=_smaller(profile.max_context, facts.max_context),
            prices=facts.prices or profile.prices,
        )
        if features and not features.intersection(REASONING):
            changed = replace(changed, reasoning_effort=None)
        if options.max_tokens_param == "auto":
            listed = [name for name in ("max_tokens", "max_completion_tokens") if name in features]
            changed = replace(changed, options=replace(options, max_tokens_param=listed[0])) if listed else changed
        return replace(request, profile=changed, features=features)


class OpenRouterReader(ChatReader):
    """Keeps `reasoning_details` too, which go back with the next request: some are signed or encrypted."""

    def __init__(self, place: Place, *, think_tags: str = "off") -> None:
        super().__init__(place, think_tags=think_tags)
        self._details: list[dict[str, object]] = []

    def _choice(self, choice: dict[str, object], chunks: list[Chunk], *, whole: bool) -> None:
        super()._choice(choice, chunks, whole=whole)
        for member in ("delta", "message"):
            for detail in objects_of(object_of(choice.get(member)).get("reasoning_details")):
                self._add(detail)

    def _add(self, detail: Mapping[str, object]) -> None:
        """Take a detail, or a piece of the one before."""
        last = self._details[-1] if self._details else None
        same = last is not None and all(last.get(name) == detail.get(name) for name in ("type", "index"))
        if last is None or not same or detail.get("id") not in (None, last.get("id")):
            self._details.append(dict(detail))
            return
        for name, value in detail.items():
            before = last.get(name)
            if name in ("text", "summary", "data") and isinstance(before, str) and isinstance(value, str):
                last[name] = before + value
            elif value is not None:
                last[name] = value

    def _finish(self, chunks: list[Chunk]) -> None:
        super()._finish(chunks)
        self.answer.kept = tuple(OutputItemPart(item=detail) for detail in self._details)


def _addressed(profile: ModelProfile) -> ModelProfile:
    return profile if profile.url else replace(profile, url=ADDRESS)


def _with_details(wire: WireRequest, request: ChatRequest) -> list[object]:
    """The messages, those of the assistant with the reasoning that came with them."""
    found = wire.body["messages"]
    messages: list[dict[str, object]] = list(found) if isinstance(found, list) else []
    origin = request.profile.origin
    spoken = (
        turn for turn in request.conversation.turns if turn.role is Role.ASSISTANT and (turn.text or turn.tool_calls)
    )
    result: list[object] = []
    for message in messages:
        details = _details_of(next(spoken), origin) if message["role"] == "assistant" else []
        result.append({**message, "reasoning_details": details} if details else message)
    return result


def _details_of(turn: Turn, origin: str) -> Details:
    if turn.origin != origin:
        return []
    return [part.item for part in turn.kept if isinstance(part, OutputItemPart)]


def _entries(answer: object) -> list[dict[str, object]]:
    return [entry for entry in objects_of(object_of(answer).get("data")) if text_of(entry.get("id")).strip()]


def _is_free(entry: Mapping[str, object]) -> bool:
    prices = _prices(entry.get("pricing"))
    return prices is not None and prices.input == 0 and prices.output == 0


def _prices(pricing: object) -> Prices | None:
    """Prices per token, as they stand there; None when they depend on what is asked."""
    if not isinstance(pricing, Mapping):
        return None
    prompt, completion = _price(pricing.get("prompt")), _price(pricing.get("completion"))
    if prompt is None or completion is None:
        return None
    cached = _price(pricing.get("input_cache_read"))
    # Reasoning without a price of its own is billed as output.
    return Prices(
        input=prompt,
        cached_input=cached,
        output=completion,
        reasoning=_price(pricing.get("internal_reasoning")) or completion,
    )


def _price(value: object) -> Decimal | None:
    try:
        price = Decimal(str(value))
        return price if 0 <= price < 1 else None  # -1: it depends
    except InvalidOperation:
        return None


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _smaller(first: int, second: int) -> int:
    """The smaller one of those that are known."""
    return min((value for value in (first, second) if value > 0), default=0)
