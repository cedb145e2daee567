"""When the endpoints of a profile fail, the profiles named in its `fallbackProfiles` are asked, in order."""

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.clients.failures import Failure, failure_class
from engine.clients.outcome import summed
from engine.completion import Chunk, Completion, RetryNotice, Stream
from engine.errors import Attempted, EngineError, LocalModelError, ProfileError, RequestError
from engine.profile import ModelProfile
from engine.statistics import CompletionStatistics
from engine.stream_layer import StreamLayer
from engine.truncation import input_budget

log = logging.getLogger(__name__)

GOES_ON = frozenset(
    {
        Failure.TRANSIENT,
        Failure.THROTTLED,
        Failure.LOADING,
        Failure.ODD,
        Failure.CONFIG,
        Failure.TOO_LONG,
        Failure.REFUSED,
    }
)
"""Failures another profile may not have."""

Find = Callable[[str], ModelProfile]
Open = Callable[[ChatRequest], Awaitable[AbstractAsyncContextManager[Stream]]]


class FailoverStream(StreamLayer):
    """A completion of the first profile that answers.

    Each is asked with its own retries, and with the request formed anew for it. Once something of an answer has come,
    no other one is asked.
    """

    def __init__(self, first: AbstractAsyncContextManager[Stream], request: ChatRequest, find: Find, ask: Open) -> None:
        super().__init__()
        self._first = first
        self._request = request
        self._find = find
        self._ask = ask
        self._ahead = deque(request.profile.options.fallback_profiles)
        self._seen = {request.profile.name, *self._ahead}
        self._attempts: list[Attempted] = []
        self._used: list[CompletionStatistics] = []
        self._notes: list[str] = []

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although the answer came."""
        return [*super().warnings, *self._notes]

    @property
    def so_far(self) -> Completion:
        """What has arrived, with the tokens of all who were asked."""
        return self._completion or self._whole(super().so_far)

    async def _run(self) -> AsyncGenerator[Chunk, None]:
        stream, profile = self._first, self._request.profile
        while True:
            try:
                async with stream as self._inner:
                    async for chunk in self._inner:
                        yield chunk
                    self._completion = self._whole(self._inner.completion)
                return
            except (RequestError, LocalModelError) as error:
                failed = error
            request = self._next(failed, profile)
            if request is None:
                raise self._told(failed)
            if self._inner is not None and (used := self._inner.so_far.statistics).requests:
                self._used.append(used)
            self._note(failed, profile, request.profile)
            yield Chunk(
                retry=RetryNotice(attempt=1, attempts=1, delay=0.0, reason=str(failed), profile=request.profile.name)
            )
            profile = request.profile
            self._inner = None
            stream = await self._ask(request)

    def _next(self, error: EngineError, profile: ModelProfile) -> ChatRequest | None:
        """The request to the next profile that can take it; None when there is none, or none would do better."""
        if isinstance(error, RequestError):
            self._attempts += error.attempts
            if error.begun or failure_class(error) not in GOES_ON:
                return None
        too_long = isinstance(error, RequestError) and failure_class(error) is Failure.TOO_LONG
        while self._ahead:
            name = self._ahead.popleft()
            try:
                other = self._find(name)
                request = self._request.instead(other)
                tools = client_for(other).capabilities(other).tools
            except ProfileError as problem:
                self._skip(name, str(problem))
                continue
            further = [one for one in other.options.fallback_profiles if one not in self._seen]
            self._ahead += further
            self._seen |= set(further)
            if request.tools is not None and other.options.function_call_type == "none":
                self._skip(name, "it calls no tools")
            elif too_long and not _longer(other, profile):
                self._skip(name, "its context is no longer")
            else:
                return request if tools or request.tools is None else _described(request)
        return None

    def _skip(self, name: str, reason: str) -> None:
        self._notes.append(f"The profile {name} could not be asked instead: {reason.removesuffix('.')}.")
        self._attempts.append(Attempted(profile=name, host="-", outcome=f"not asked: {reason}"))

    def _note(self, error: EngineError, profile: ModelProfile, other: ModelProfile) -> None:
        note = f"{profile.name} did not answer ({str(error).removesuffix('.')}); {other.name} was asked instead."
        self._notes.append(note)
        log.warning("%s", note)

    def _whole(self, completion: Completion) -> Completion:
        """With the attempts, and the tokens, of those who were asked before."""
        if not self._attempts and not self._used:
            return completion
        return replace(
            completion,
            attempts=(*self._attempts, *completion.attempts),
            statistics=summed([*self._used, completion.statistics]) if self._used else completion.statistics,
        )

    def _told(self, error: EngineError) -> EngineError:
        """The last error with every attempt of the request among its facts."""
        if len(self._attempts) > 1:
            error.facts |= {f"attempt {number}": str(one) for number, one in enumerate(self._attempts, start=1)}
        if isinstance(error, RequestError):
            error.attempts = tuple(self._attempts)
        return error


def _described(request: ChatRequest) -> ChatRequest:
    """With tools that are described in the prompt, for a server that takes none."""
    options = replace(request.profile.options, function_call_type="struct_parse")
    return replace(request, profile=replace(request.profile, options=options))


def _longer(other: ModelProfile, profile: ModelProfile) -> bool:
    """Whether the other one takes a longer prompt; who does not say may."""
    return not input_budget(other) or not input_budget(profile) or input_budget(other) > input_budget(profile)
