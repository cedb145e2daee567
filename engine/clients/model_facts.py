"""What a service tells about a model besides its answers: abilities, limits, prices, whether it is loaded."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from engine.clients.base import ChatRequest
from engine.clients.failures import Place
from engine.clients.transport import Transport
from engine.clients.watchdog import Limits
from engine.errors import RequestError, RequestRejected
from engine.profile import ModelProfile
from engine.statistics import Prices

log = logging.getLogger(__name__)

MAX_ANSWER = 32 * 1024 * 1024
"""Bytes of a description or a list of models."""
LONGEST_WAIT = 10.0
"""Seconds a description may take; the request does without it then."""
STAYS_LOADED = 240.0
"""Seconds after an answer in which the model is taken as loaded without asking; servers keep it for five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of one model; what is not known is empty."""

    features: frozenset[str] = frozenset()
    """In the words of the service: its capabilities, or the parameters it takes."""
    max_context: int = 0
    max_output: int = 0
    prices: Prices | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A small request beside the completions: a POST when it has a body."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, object] | None = None


class LearnsOfModels(ABC):
    """A client that asks about a model before the first request to it."""

    @abstractmethod
    def questions(self, profile: ModelProfile, model: str) -> Sequence[Question]:
        """Where to ask, best first."""

    @abstractmethod
    def facts(self, answer: object, model: str) -> ModelFacts | None:
        """What the answer tells; None: nothing about this model."""

    @abstractmethod
    def informed(self, request: ChatRequest, facts: ModelFacts, model: str) -> ChatRequest:
        """The request as this model takes it; raises RequestRejected when it cannot take it at all."""


class LoadsModels(ABC):
    """A client of servers that load a model when it is asked, which takes a while."""

    @abstractmethod
    def loaded_question(self, profile: ModelProfile) -> Question:
        """Where to ask which models are loaded."""

    @abstractmethod
    def is_loaded(self, answer: object, model: str) -> bool:
        """Whether the answer names this one."""


def no_tools(request: ChatRequest, model: str) -> RequestRejected:
    """The refusal a server would give that is asked with tools for a model that has none; it spares the request."""
    profile = request.profile
    place = Place.of(profile, profile.url)
    return RequestRejected(
        f"The model {model} takes no tools, as {place.host or profile.provider} says.",
        status=400,
        hint=f"Choose another model, or set functionCallType=struct_parse in the profile {profile.name}.",
        facts=place.facts(status="400", parameter="tools"),
    )


Key = tuple[str, str, str, str]
"""Provider, url, key and model."""


class FactBook:
    """Asks about models and remembers what it was told; what cannot be learned stands in no request's way."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._facts: dict[Key, ModelFacts | None] = {}
        self._asking: defaultdict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._used: dict[Key, float] = {}
        """When a model was last known to be loaded; monotonic seconds."""

    async def inform(self, client: object, request: ChatRequest, model: str) -> ChatRequest:
        """The request as the model takes it."""
        if not isinstance(client, LearnsOfModels) or not model:
            return request
        key = _key(request.profile, model)
        if key not in self._facts:
            async with self._asking[key]:  # requests that begin together ask once
                if key not in self._facts:
                    known, facts = await self._learn(client, request.profile, model)
                    if not known:
                        self._used[key] = time.monotonic()  # who does not answer is not asked twice
                        return request
                    self._facts[key] = facts
        facts = self._facts[key]
        return request if facts is None else client.informed(request, facts, model)

    async def _learn(self, client: LearnsOfModels, profile: ModelProfile, model: str) -> tuple[bool, ModelFacts | None]:
        """Whether the service could be asked, and what it told."""
        reached = False
        for question in client.questions(profile, model):
            try:
                answer = await self._ask(question, profile)
            except RequestError as error:
                log.info("%s tells nothing about %s: %s", profile.name, model, error)
                continue
            reached = True
            if answer is not None and (facts := client.facts(answer, model)) is not None:
                return True, facts
        return reached, None

    async def is_cold(self, client: object, profile: ModelProfile, model: str) -> bool:
        """Whether the server will have to load the model first."""
        if not isinstance(client, LoadsModels) or not model:
            return False
        key, now = _key(profile, model), time.monotonic()
        if now - self._used.get(key, -STAYS_LOADED) < STAYS_LOADED:
            return False
        self._used[key] = now  # asked once, also when it is another request that loads it
        try:
            answer = await self._ask(client.loaded_question(profile), profile)
        except RequestError:
            return False  # the request itself says what is wrong
        return answer is not None and not client.is_loaded(answer, model)

    def answered(self, client: object, profile: ModelProfile, model: str) -> None:
        """Note that the model has just answered."""
        if isinstance(client, LoadsModels):
            self._used[_key(profile, model)] = time.monotonic()

    async def _ask(self, question: Question, profile: ModelProfile) -> object | None:
        """The JSON of the answer, None when it is another status or no JSON; raises RequestError."""
        seconds = min(profile.options.connect_timeout, LONGEST_WAIT)
        limits = Limits(connect=seconds, progress=LONGEST_WAIT, idle=LONGEST_WAIT)
        body = b"" if question.body is None else msgspec.json.encode(question.body)
        status, answer, _ = await self._transport.fetch(
            question.url,
            headers=question.headers,
            body=body,
            place=Place.of(profile, question.url),
            limits=limits,
            limit=MAX_ANSWER,
            outlives=True,
        )
        if status != 200:
            return None
        try:
            decoded: object = msgspec.json.decode(answer)
        except (msgspec.MsgspecError, RecursionError):
            return None
        return decoded


def _key(profile: ModelProfile, model: str) -> Key:
    return profile.provider, profile.url, profile.api_key, model
