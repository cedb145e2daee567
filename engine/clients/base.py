"""What every client shares: the request it forms, the reader of its answers, the protocol it fulfils."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from engine.clients.failures import Place
from engine.completion import Chunk
from engine.content import KeptPart
from engine.conversation import Conversation, ToolCall, ToolChoice, Turn
from engine.errors import ProfileError, RequestError
from engine.profile import ModelProfile, Overrides
from engine.profile_builder import apply_overrides
from engine.profile_keys import key_named

IMAGE_OMITTED = "[image omitted]"
"""What stands for a picture in a request to a model that takes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request as the caller wants it, before it takes the form of a dialect."""

    profile: ModelProfile
    """With the overrides applied."""
    conversation: Conversation
    stop: tuple[str, ...] = ()
    response_format: Mapping[str, object] | None = None
    """JSON schema the answer must follow."""
    tools: ToolChoice | None = None
    """Never without a tool."""
    features: frozenset[str] | None = None
    """What the service says the model can do, in its own words; None: it was not asked, or did not say."""
    overrides: Mapping[str, object] = field(default_factory=dict)
    """Those of the call, for a profile that is asked instead."""

    @classmethod
    def create(
        cls,
        profile: ModelProfile,
        conversation: Conversation,
        overrides: Overrides | None = None,
        tools: ToolChoice | None = None,
    ) -> "ChatRequest":
        """Apply the overrides of one call; raises ProfileError for a faulty one."""
        given = dict(overrides or {})
        if given:
            profile = apply_overrides(profile, given)
        if "timeout" in given:
            profile = _within(profile, given["timeout"])
        return cls(
            profile=profile,
            conversation=conversation,
            stop=_stop(given.get("stop"), profile),
            response_format=_schema(given.get("responseFormat"), profile),
            tools=tools if tools is not None and tools.tools else None,
            overrides=given,
        )

    def instead(self, profile: ModelProfile) -> "ChatRequest":
        """The same request to another profile; what is said of an address, a key or a model stays behind."""
        kept = {
            name: value
            for name, value in self.overrides.items()
            if (key := key_named(name)) is None
            or (key.inherited and (name != "extParams" or profile.provider == self.profile.provider))
        }
        conversation = self.conversation
        if not profile.options.supports_images:
            conversation = Conversation(tuple(_without_images(turn) for turn in conversation.turns))
        return ChatRequest.create(profile, conversation, kept, self.tools)


def _without_images(turn: Turn) -> Turn:
    if not turn.images:
        return turn
    text = "".join(part if isinstance(part, str) else IMAGE_OMITTED for part in turn.parts)
    return replace(turn, text=text, images=())


def _stop(value: object, profile: ModelProfile) -> tuple[str, ...]:
    if value is None:
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text for text in texts):
        raise _fault("stop", "a list of texts that are not empty", value, profile)
    return tuple(texts)


def _schema(value: object, profile: ModelProfile) -> Mapping[str, object] | None:
    if value is not None and not isinstance(value, Mapping):
        raise _fault("responseFormat", "a JSON schema (an object)", value, profile)
    return value or None


def _within(profile: ModelProfile, value: object) -> ModelProfile:
    """A timeout is the total, and no other limit is longer."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise _fault("timeout", "seconds above 0", value, profile)
    limits = profile.options
    options = replace(
        limits,
        total_timeout=float(value),
        connect_timeout=min(limits.connect_timeout, value),
        first_token_timeout=min(limits.first_token_timeout, value),
        idle_timeout=min(limits.idle_timeout, value),
    )
    return replace(profile, options=options)


def _fault(key: str, expected: str, found: object, profile: ModelProfile) -> ProfileError:
    return ProfileError(
        f"The override {key} must be {expected}, found {found!r}.",
        hint="Correct it where the call or the agent sets it.",
        facts={"profile": profile.name, "key": key, "value": repr(found)[:200]},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """One HTTP request; `body` is its JSON."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, object]
    prompt: str = ""
    """The raw prompt in the body, for dialects that have one."""
    warnings: tuple[str, ...] = ()
    """What a person should know: what the profile asks for, and the model cannot do."""
    required: tuple[str, ...] = ()
    """Members of the body that the service cannot do without, whatever it says of their values."""

    def changed(self, changes: Mapping[str, object | None]) -> "WireRequest":
        """With other body members; None removes one."""
        body = {**self.body, **changes}
        return replace(self, body={key: value for key, value in body.items() if value is not None})


@dataclass(slots=True, kw_only=True)
class Answer:
    """What has been read of an answer so far."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: tuple[ToolCall, ...] = ()
    kept: tuple[KeptPart, ...] = ()
    """What goes back unchanged when the conversation goes on."""
    finish: str | None = None
    """The finish reason as the wire spells it."""
    resume: Callable[[WireRequest], WireRequest] | None = None
    """Set when the service paused: makes, of the request that was sent, the one that lets it go on."""
    refusal: str = ""
    usage: Mapping[str, object] | None = None
    timings: Mapping[str, object] | None = None
    seconds: float | None = None
    """How long the service says it took."""
    model: str = ""
    skipped: int = 0
    """Malformed events that were passed over."""
    pieces: int = 0
    """Events with a piece of a call, or with text that is still held back."""

    @property
    def progress(self) -> int:
        """Grows with each event that brings content, reasoning or a call; 0 means that nothing came yet."""
        return self.pieces + len(self.content) + len(self.reasoning)

    @property
    def text(self) -> str:
        """The content as one text."""
        return "".join(self.content)

    @property
    def thoughts(self) -> str:
        """The reasoning as one text."""
        return "".join(self.reasoning)


class Reader(Protocol):
    """Reads one answer from its bytes, without I/O; how the bytes are cut makes no difference."""

    answer: Answer
    ended: bool
    """Whether the end was announced: nothing after it counts."""
    error: RequestError | None
    """What ended the answer early; the chunks before it were given out."""

    def feed(self, data: bytes) -> list[Chunk]:
        """Read bytes of the stream."""
        ...

    def whole(self, body: bytes) -> list[Chunk]:
        """Read an answer that is one JSON document."""
        ...

    def close(self) -> list[Chunk]:
        """Give what was held back, when no more bytes come; sets `error` when the answer is not complete."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What can be asked of a model."""

    tools: bool = True
    images: bool = True
    streaming: bool = True


@runtime_checkable
class Client(Protocol):
    """Speaks one dialect; stateless."""

    def form(self, request: ChatRequest, model: str) -> WireRequest:
        """The request on the wire."""
        ...

    def reader(self, request: ChatRequest, place: Place, headers: Mapping[str, str]) -> Reader:
        """A reader for one answer with these response headers."""
        ...

    def models_request(self, profile: ModelProfile) -> tuple[str, Mapping[str, str]]:
        """URL and headers that list the models."""
        ...

    def model_ids(self, answer: object) -> list[str]:
        """The names in such a list."""
        ...

    def capabilities(self, profile: ModelProfile) -> Capabilities:
        """What the profile says can be asked."""
        ...


def check_abilities(client: Client, request: ChatRequest) -> None:
    """Raise ProfileError for a request with what the profile says its model cannot take."""
    profile = request.profile
    if request.conversation.has_images and not client.capabilities(profile).images:
        what, key = "The prompt has a picture", "supportsImages"
    elif request.tools is not None and not profile.options.supports_tools:
        what, key = "The request has tools", "supportsTools"
    else:
        return
    raise ProfileError(
        f"{what}, but the profile {profile.name} takes none.",
        hint=f"Choose a profile of a model that does, or set {key}=true in this one if its model does.",
        facts=Place.of(profile, profile.url).facts(),
    )
