"""Answers that are known already: a request that was answered before the run broke off is not sent again."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace

import msgspec

from engine.completion import Chunk, Completer, Completion, Stream
from engine.conversation import Conversation, Role, ToolChoice
from engine.events import PromptReady
from engine.profile import ModelProfile, Overrides, ProfileRef
from engine.statistics import CompletionStatistics, CostProvenance


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """What one request was answered."""

    profile: str
    turns: tuple[tuple[str, str], ...]
    """Role and text."""
    parameters: Overrides
    completion: Completion

    @classmethod
    def of(cls, prompt: PromptReady, completion: Completion) -> "RecordedAnswer":
        """The answer to a recorded prompt."""
        return cls(profile=prompt.profile, turns=prompt.turns, parameters=prompt.parameters, completion=completion)

    @property
    def key(self) -> bytes:
        """Equal for requests that ask the same."""
        return request_key(self.profile, self.turns, self.parameters)


def request_key(profile: str, turns: Sequence[tuple[str, str]], parameters: Overrides) -> bytes:
    """What tells requests apart; answers among the turns follow from the rest."""
    plain = msgspec.to_builtins(parameters, enc_hook=str, str_keys=True)
    plain.pop("tools", None)
    turns = [turn for turn in turns if turn[0] != Role.ASSISTANT]
    return msgspec.json.encode((profile, turns, plain), order="sorted", enc_hook=str)


class RecordedAnswers:
    """A Completer that gives each recorded answer once, and passes everything else on."""

    def __init__(self, completer: Completer, answers: Iterable[RecordedAnswer]) -> None:
        self._completer = completer
        self._answers: dict[bytes, deque[Completion]] = {}
        for answer in answers:
            self._answers.setdefault(answer.key, deque()).append(answer.completion)

    def resolve(self, profile: ProfileRef) -> ModelProfile:
        """Find the profile, or raise ProfileError."""
        return self._completer.resolve(profile)

    def stream(
        self,
        profile: ProfileRef,
        conversation: Conversation,
        *,
        overrides: Overrides | None = None,
        tools: ToolChoice | None = None,
        skip_cache: bool = False,
    ) -> AbstractAsyncContextManager[Stream]:
        """Give the recorded answer to this request, or ask."""
        if self._answers and isinstance(profile, ModelProfile):
            turns = conversation.shown
            key = request_key(profile.name, turns, overrides or {})
            waiting = self._answers.get(key)
            if waiting:
                completion = waiting.popleft()
                if not waiting:
                    del self._answers[key]
                return given(completion)
        return self._completer.stream(profile, conversation, overrides=overrides, tools=tools, skip_cache=skip_cache)


@asynccontextmanager
async def given(completion: Completion) -> AsyncIterator[Stream]:
    """A stream of an answer that is there: it costs nothing and counts as a cached prompt."""
    yield _Given(completion)


class _Given:
    warnings: Sequence[str] = ()

    def __init__(self, completion: Completion) -> None:
        free = CompletionStatistics(requests=0, provenance=CostProvenance.FREE, cached=True)
        self.completion = replace(completion, statistics=free)
        self.so_far = self.completion

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        await asyncio.sleep(0)  # a stop gets its turn, as between real chunks
        yield Chunk(content=self.completion.content, reasoning=self.completion.reasoning)
