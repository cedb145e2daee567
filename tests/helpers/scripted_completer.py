"""A Completer without any model: it answers from a list, or from a function of the conversation."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal

from engine.completion import Chunk, Completion, FinishReason
from engine.conversation import Conversation, ToolCall, ToolChoice
from engine.errors import ProfileNotFound
from engine.profile import Category, ModelProfile, Overrides, ProfileOptions, ProfileRef
from engine.statistics import CompletionStatistics, CostProvenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer: the pieces that stream, how it ends, and what may hold it up."""

    content: str | Sequence[str | Chunk] = ""
    """The text, or its pieces."""
    reasoning: str = ""
    finish_reason: FinishReason = FinishReason.DONE
    tool_calls: tuple[ToolCall, ...] = ()
    error: Exception | None = None
    """Raised after the pieces."""
    started: asyncio.Event | None = None
    """Set when the request came in."""
    gate: asyncio.Event | None = None
    """Awaited after the pieces, before the end."""
    cost: Decimal = Decimal(0)
    in_tokens: int = 10
    out_tokens: int = 5
    cached: bool = False
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked."""

    profile: ModelProfile
    conversation: Conversation
    overrides: Overrides
    skip_cache: bool
    tools: ToolChoice | None = None

    @property
    def turns(self) -> list[list[str]]:
        """Role and text of each turn."""
        return [[turn.role.value, turn.text] for turn in self.conversation.turns]

    @property
    def prompt(self) -> str:
        """Text of the last turn."""
        return self.conversation.turns[-1].text


Answer = str | Reply | Exception
Answers = Sequence[Answer] | Callable[[Request], Answer]


class ScriptedStream:
    """One answer under way."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.warnings = reply.warnings
        self._completion: Completion | None = None
        self._arrived: list[Chunk] = []

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        reply = self._reply
        if reply.started:
            reply.started.set()
        await asyncio.sleep(0)
        pieces = [reply.content] if isinstance(reply.content, str) else reply.content
        chunks = [piece if isinstance(piece, Chunk) else Chunk(content=piece) for piece in pieces]
        if reply.reasoning:
            chunks.insert(0, Chunk(reasoning=reply.reasoning))
        for chunk in chunks:
            self._arrived.append(chunk)
            yield chunk
        if reply.gate:
            await reply.gate.wait()
        if reply.error:
            raise reply.error
        self._completion = self.so_far

    @property
    def so_far(self) -> Completion:
        reply = self._reply
        return Completion(
            content="".join(chunk.content for chunk in self._arrived),
            reasoning="".join(chunk.reasoning for chunk in self._arrived),
            finish_reason=reply.finish_reason,
            tool_calls=reply.tool_calls,
            statistics=CompletionStatistics(
                requests=0 if reply.cached else 1,
                in_tokens=reply.in_tokens,
                out_tokens=reply.out_tokens,
                cost=reply.cost,
                provenance=CostProvenance.MEASURED,
                cached=reply.cached,
            ),
            model="script",
        )

    @property
    def completion(self) -> Completion:
        if self._completion is None:
            raise RuntimeError("the stream is not exhausted")
        return self._completion


@dataclass(slots=True)
class ScriptedCompleter:
    """Answers in order, the last one again and again; remembers the requests and how many ran at once."""

    answers: Answers
    max_concurrent: int = 4
    missing: frozenset[str] = frozenset()
    """Labels of categories and names of profiles that do not exist."""
    requests: list[Request] = field(default_factory=list)
    running: int = 0
    peak: int = 0

    def resolve(self, profile: ProfileRef) -> ModelProfile:
        if isinstance(profile, ModelProfile):
            return profile
        name = profile.label if isinstance(profile, Category) else profile
        if name in self.missing:
            raise ProfileNotFound(f'There is no profile "{name}".', hint="Map the category to a profile.")
        return ModelProfile(
            name=f"profile-{name}",
            category=name,
            provider="SCRIPTED",
            options=ProfileOptions(max_concurrent=self.max_concurrent),
        )

    @asynccontextmanager
    async def stream(
        self,
        profile: ProfileRef,
        conversation: Conversation,
        *,
        overrides: Overrides | None = None,
        tools: ToolChoice | None = None,
        skip_cache: bool = False,
    ) -> AsyncIterator[ScriptedStream]:
        request = Request(
            profile=self.resolve(profile),
            conversation=conversation,
            overrides=overrides or {},
            skip_cache=skip_cache,
            tools=tools,
        )
        self.requests.append(request)
        if callable(self.answers):
            answer = self.answers(request)
        else:
            answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            yield ScriptedStream(answer if isinstance(answer, Reply) else Reply(content=answer))
        finally:
            self.running -= 1
