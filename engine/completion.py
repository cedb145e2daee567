"""Chunks as they stream, completions when they are whole, and the protocol the flow gets them through."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec

from engine.content import KeptPart
from engine.conversation import Conversation, ToolCall, ToolChoice
from engine.errors import Attempted
from engine.formed_request import FormedRequest
from engine.profile import ModelProfile, Overrides, ProfileRef
from engine.statistics import CompletionStatistics


class FinishReason(StrEnum):
    """Why a model stopped."""

    DONE = "DONE"
    TOKEN_LIMIT_REACHED = "TOKEN_LIMIT_REACHED"  # noqa: S105 - a reason, not a password
    CONTENT_FILTERED = "CONTENT_FILTERED"
    TOOL_CALLS = "TOOL_CALLS"
    ERROR = "ERROR"
    STOPPED = "STOPPED"
    """It was cut off from here: the run was stopped, or its time was up."""


class ReasoningAudit(StrEnum):
    """What the thinking of a model did to its answer."""

    ANSWER_EMPTY = "answer empty"
    """There is thinking, and no answer."""
    LIMIT_SPENT = "limit spent on thinking"
    """The limit of tokens was reached, and most of it went into thinking."""
    ANSWER_INSIDE = "answer inside thinking"
    """There is no answer, but a part of the thinking says it is one."""


class Phase(StrEnum):
    """Where a call is; in this order, phases may be skipped."""

    QUEUED = "queued"
    CONNECTING = "connecting"
    LOADING_MODEL = "loading model"
    READING_PROMPT = "reading prompt"
    THINKING = "thinking"
    ANSWERING = "answering"


class Chunk(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One streamed piece. Most have only content; the phase and retry pieces carry no text."""

    content: str = ""
    reasoning: str = ""
    phase: Phase | None = None
    """Set when the call enters a phase."""
    retry: "RetryNotice | None" = None
    """Set when a failed attempt will be repeated."""
    shortened: "ShortenedNotice | None" = None
    """Set before a prompt is sent that was too long as a whole."""
    formed: FormedRequest | None = None
    """Set when a request goes out that differs from the one before; of an answer from the cache, before it."""


class RetryNotice(msgspec.Struct, frozen=True):
    """A failed attempt that will be repeated."""

    attempt: int
    """Number of the next attempt, from 2."""
    attempts: int
    """How many there may be."""
    delay: float
    """Seconds until it starts."""
    reason: str
    profile: str = ""
    """The profile that is asked instead; empty: the same one."""


class ShortenedNotice(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A prompt that goes out without some of its turns, because it had too many tokens."""

    before: int
    """Tokens of the whole prompt, tools aside."""
    after: int
    """Tokens of what is sent."""
    budget: int
    """Tokens it may have."""
    dropped: tuple[int, ...] = ()
    """Places of the turns that were left out, from 0."""
    shrunk: tuple[int, ...] = ()
    """Places of tool results that were replaced by a note."""
    context_too_small: bool = False
    """Even the last exchange before the question was left out."""
    refused: bool = False
    """The server had found the prompt too long."""

    @property
    def message(self) -> str:
        """What happened, for people."""
        left = _counted(len(self.dropped), "turn was left out", "turns were left out")
        noted = _counted(len(self.shrunk), "tool result became a note", "tool results became notes")
        why = "The server finds the prompt too long. " if self.refused else ""
        text = (
            f"{why}Of {self.before} tokens of the prompt {self.after} are sent ({self.budget} fit): "
            f"{' and '.join(filter(None, [left, noted]))}."
        )
        if self.context_too_small:
            text += " The context is too small: even the last exchange before the question had to go."
        return text


def _counted(count: int, one: str, many: str) -> str:
    return "" if not count else f"1 {one}" if count == 1 else f"{count} {many}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A finished answer."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = FinishReason.DONE
    finish_raw: str = ""
    """The finish reason as the wire spelled it."""
    statistics: CompletionStatistics = field(default_factory=lambda: CompletionStatistics(requests=0))
    refusal: str = ""
    """What the model said instead of an answer, when it refused."""
    no_answer: bool = False
    """Neither text nor call came: nothing, or reasoning only."""
    skipped_chunks: int = 0
    """Malformed stream events that were passed over."""
    model: str = ""
    """The model that answered, as the server names it."""
    profile: str = ""
    provider: str = ""
    """The dialect of that profile."""
    kept: tuple[KeptPart, ...] = ()
    """What the provider wants back unchanged when the conversation goes on, signed thinking for instance."""
    origin: str = ""
    """`ModelProfile.origin` of the profile that was asked, when there are such parts."""
    call_errors: tuple[str, ...] = ()
    """What is wrong with calls that could not be read, for the model."""
    attempts: tuple[Attempted, ...] = ()
    """Every attempt it took, in order; none for an answer from the cache."""
    from_thinking: bool = False
    """A person took the thinking as the answer."""


class Stream(Protocol):
    """A completion under way: iterate the chunks, then read `completion`."""

    def __aiter__(self) -> AsyncIterator[Chunk]: ...

    @property
    def completion(self) -> Completion:
        """The whole answer; raises RuntimeError before the stream is exhausted."""
        ...

    @property
    def so_far(self) -> Completion:
        """What has arrived and what it cost, at any time: for a stream that failed or was left early."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although the answer came."""
        ...


class Completer(Protocol):
    """What a flow needs of the engine."""

    def resolve(self, profile: ProfileRef) -> ModelProfile:
        """Find the profile, or raise ProfileError."""
        ...

    def stream(
        self,
        profile: ProfileRef,
        conversation: Conversation,
        *,
        overrides: Overrides | None = None,
        tools: ToolChoice | None = None,
        skip_cache: bool = False,
    ) -> AbstractAsyncContextManager[Stream]:
        """Request a completion; leaving the block early cancels it."""
        ...
