"""From a request to its answer: interceptors, then the cache, then guards and the server (docs/architecture.md)."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

import msgspec

from engine.cache import CacheEntry, CompletionCache, cache_key
from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.clients.recovery import CompletionStream, Requests
from engine.clients.tape_lines import TapedHit, TapedModel
from engine.clients.wire_tape import current_tape
from engine.completion import Chunk, Completion, Phase, Stream
from engine.conversation import Conversation
from engine.embedded_server import EmbeddedServer, ServerState
from engine.errors import EngineError
from engine.failover import FailoverStream
from engine.interceptors import Guard, Interceptor
from engine.profile import ModelProfile
from engine.run_prompts import RunPrompts
from engine.sensitive import LONG, Masking, concerns, masked
from engine.single_flight import Flights, Seat
from engine.statistics import CompletionStatistics, CostProvenance
from engine.stream_layer import StreamLayer
from engine.tokenizers import Tokenizers
from engine.tool_stream import Refusals, ToolStream

LONG_PROMPT = 200_000
"""Characters from which on the key is computed in a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """What a request may do with the cache."""

    read: bool = True
    store: bool = True


class Pipeline:
    """Makes the streams of an engine; what stands in them can be changed between requests."""

    def __init__(
        self,
        server: EmbeddedServer,
        requests: Requests,
        tokenizers: Tokenizers,
        find: Callable[[str], ModelProfile],
        prompts: Callable[[], RunPrompts],
    ) -> None:
        """Put them together; `find` gives the profile of a name, or raises ProfileError.

        `prompts` gives the prompts of the library as they are now.
        """
        self.cache: CompletionCache | None = None
        self.interceptors: tuple[Interceptor, ...] = ()
        self.guards: tuple[Guard, ...] = ()
        self.masking = Masking()
        self.masking_scope = "tool_results"
        """What is masked beside the built-in kinds."""
        self.server = server
        self.flights = Flights()
        self._without_tools = Refusals()
        self._requests = requests
        self._tokenizers = tokenizers
        self._find = find
        self._prompts = prompts

    async def stream(self, request: ChatRequest, use: CacheUse) -> AbstractAsyncContextManager[Stream]:
        """The stream of a request; nothing is sent before it is iterated. Raises ProfileError."""
        if self.interceptors:
            client_for(request.profile)
            return _InterceptedStream(self, request, use, self.interceptors)
        return await self.uncovered(request, use)

    async def uncovered(self, request: ChatRequest, use: CacheUse) -> AbstractAsyncContextManager[Stream]:
        """The same without interceptors."""
        if request.tools is not None:
            return ToolStream(request, lambda asked: self.plain(asked, use), self._without_tools, self._prompts)
        return await self.plain(request, use)

    async def plain(self, request: ChatRequest, use: CacheUse) -> AbstractAsyncContextManager[Stream]:
        """The same with tools, if any, as the server takes them."""
        if self.cache is not None and (use.read or use.store):
            return _CachedStream(self, request, use, self.cache)
        return self.covered(request, await self.send(request))

    def covered(self, request: ChatRequest, asking: CompletionStream) -> AbstractAsyncContextManager[Stream]:
        """The stream of a request with what it needs: the embedded server, other profiles when it fails."""
        stream = self._served(request, asking)
        if not request.profile.options.fallback_profiles:
            return stream
        return FailoverStream(stream, request, self._find, self._instead)

    def _served(self, request: ChatRequest, asking: CompletionStream) -> AbstractAsyncContextManager[Stream]:
        return _EmbeddedStream(self.server, asking) if request.profile.embedded else asking

    async def _instead(self, request: ChatRequest) -> AbstractAsyncContextManager[Stream]:
        async def ask(asked: ChatRequest) -> AbstractAsyncContextManager[Stream]:
            return self._served(asked, await self.send(asked))

        if request.tools is None:
            return await ask(request)
        return ToolStream(request, ask, self._without_tools, self._prompts)

    async def send(self, request: ChatRequest) -> CompletionStream:
        """The stream that asks the server; one of the embedded server must be told its address."""
        profile = request.profile
        scope = profile.options.sensitive_scope or self.masking_scope
        if concerns(request.conversation, scope):
            request = replace(request, conversation=await self._masked(request, scope))
        await self._tokenizers.load(profile)
        client = client_for(profile)
        return self._requests.stream(
            client,
            request,
            count=lambda text: self._tokenizers.count_now(profile, text).tokens,
            at_least=lambda text: self._tokenizers.at_least(profile, text),
            guards=self.guards,
        )

    async def _masked(self, request: ChatRequest, scope: str) -> Conversation:
        """The conversation without personal data, as profile and settings say."""
        options, conversation = request.profile.options, request.conversation
        masking = replace(
            self.masking,
            style=options.sensitive_style or self.masking.style,
            allow_email_domains=(*self.masking.allow_email_domains, *options.sensitive_allow_email_domains),
        )
        if sum(len(turn.text) for turn in conversation.turns) > LONG:
            return await asyncio.to_thread(masked, conversation, scope, masking)
        return masked(conversation, scope, masking)

    async def close(self) -> None:
        """End what is under way; let answers be stored."""
        await self.flights.close()


class _EmbeddedStream(StreamLayer):
    """A completion of the embedded server, which is started first when it does not run."""

    def __init__(self, server: EmbeddedServer, stream: CompletionStream) -> None:
        super().__init__()
        self._server = server
        self._stream = stream

    async def _run(self) -> AsyncGenerator[Chunk, None]:
        if self._server.state is not ServerState.READY:
            yield Chunk(phase=Phase.LOADING_MODEL)
        endpoint = await self._server.ensure()
        self._stream.address(endpoint.url, endpoint.api_key)
        async with self._stream as self._inner:
            async for chunk in self._stream:
                yield chunk
        self._completion = self._stream.completion


class _CachedStream(StreamLayer):
    """A completion from the cache, from a request for the same that is under way, or from the server."""

    def __init__(self, pipeline: Pipeline, request: ChatRequest, use: CacheUse, cache: CompletionCache) -> None:
        super().__init__()
        self._pipeline = pipeline
        self._request = request
        self._use = use
        self._cache = cache
        self._asking: CompletionStream | None = None
        self._seat: Seat | None = None

    @property
    def so_far(self) -> Completion:
        """What has arrived, with the tokens it cost when it is this one that pays."""
        seat = self._seat
        if self._completion is not None or seat is None:
            return self._completion or Completion()
        stream = seat.flight.stream
        if seat.pays and stream is not None:
            return stream.so_far
        return Completion(
            content=seat.content,
            reasoning=seat.reasoning,
            statistics=_UNPAID,
            model=self._request.profile.model,
            profile=self._request.profile.name,
        )

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although the answer came."""
        stream = self._seat.flight.stream if self._seat else None
        own = self._asking.warnings if self._asking else ()
        return own if stream is None else stream.warnings

    async def _run(self) -> AsyncGenerator[Chunk, None]:
        asking, key = await self._form()
        if (notice := asking.take_notice()) is not None:
            yield notice
        if key is None:
            async with self._upstream(asking) as self._inner:
                async for chunk in self._inner:
                    yield chunk
                self._completion = self._inner.completion
            return
        entry = await self._board(key, asking)
        if entry is not None:
            if not self._request.profile.embedded:  # one that may not run has no address
                yield Chunk(formed=asking.formed())
            self._completion = entry.completion(self._request.profile.name)
            if entry.content or entry.reasoning:
                yield Chunk(content=entry.content, reasoning=entry.reasoning)
            return
        try:
            while (chunks := await self._more(key, asking)) is not None:
                for chunk in chunks:
                    yield chunk
        finally:
            if self._seat is not None:
                await self._seat.close()

    async def _board(self, key: str, asking: CompletionStream) -> CacheEntry | None:
        """The kept answer; else take a seat in the request for the same that is under way, or in a new one."""
        flights = self._pipeline.flights
        if self._use.read:
            self._seat = flights.join(key)
            await flights.stored(key)
            if self._seat is None and (entry := await self._cache.get(key)) is not None:
                _tape_hit(key, entry)
                return entry
            # Somebody may have begun while the cache was asked.
            self._seat = self._seat or flights.join(key)
        self._seat = self._seat or self._begin(key, asking, alone=not self._use.read)
        return None

    async def _more(self, key: str, asking: CompletionStream) -> Sequence[Chunk] | None:
        """The next chunks, None when the answer is whole.

        When a request that somebody else began fails before its first text, this one makes its own.
        """
        seat = self._seat
        assert seat is not None  # noqa: S101 - the order of calls
        try:
            chunks = await seat.more()
        except Exception:
            if seat.pays or seat.content or seat.reasoning:
                raise
            await seat.close()
            seat = self._seat = self._begin(key, asking, alone=True)
            chunks = await seat.more()
        if chunks is None and (done := seat.flight.completion) is not None:
            self._completion = done if seat.pays else _free(done, self._request.profile)
        return chunks

    def _begin(self, key: str, asking: CompletionStream, *, alone: bool) -> Seat:
        async def answered(completion: Completion) -> None:
            entry = CacheEntry.of(completion, self._request.conversation, self._request.profile)
            own = not completion.profile or completion.profile == self._request.profile.name
            if entry is not None and own and self._use.store and not asking.shortened:
                await self._cache.put(key, entry)

        return self._pipeline.flights.begin(key, self._upstream(asking), answered, alone=alone)

    def _upstream(self, asking: CompletionStream) -> AbstractAsyncContextManager[Stream]:
        return self._pipeline.covered(self._request, asking)

    async def _form(self) -> tuple[CompletionStream, str | None]:
        """The request as it will be sent, and its key; none: its answer cannot be kept."""
        request = self._request
        identity = ""
        if request.profile.embedded:
            served = await asyncio.to_thread(self._pipeline.server.served_model)
            if served is not None:
                identity, alias = served
                if (tape := current_tape.get()) is not None:
                    tape.write(TapedModel(identity=identity, alias=alias))
                # Known without asking, so that a hit does not start the server.
                profile = replace(request.profile, model=request.profile.model or alias)
                request = replace(request, profile=profile)
        asking = self._asking = await self._pipeline.send(request)
        if request.profile.embedded and not identity:
            return asking, None
        wire = await asking.prepare()
        parts = (request.profile, identity or wire.url, wire.body)
        if sum(len(turn.text) for turn in request.conversation.turns) > LONG_PROMPT:
            return asking, await asyncio.to_thread(cache_key, *parts)
        return asking, cache_key(*parts)


def _tape_hit(key: str, entry: CacheEntry) -> None:
    """An answer from before the run is needed to play it again; one the run itself stored comes again by itself."""
    tape = current_tape.get()
    if tape is not None and entry.created < tape.began:
        tape.write(TapedHit(key=key, entry=msgspec.Raw(msgspec.json.encode(entry, enc_hook=str))))


_UNPAID = CompletionStatistics(requests=0, provenance=CostProvenance.FREE)


def _free(completion: Completion, profile: ModelProfile) -> Completion:
    """An answer that somebody else pays: it counts as one from the cache."""
    used = replace(
        completion.statistics,
        requests=0,
        duration=0.0,
        cost=_UNPAID.cost,
        provenance=CostProvenance.FREE,
        cached=True,
        first_token=None,
    )
    return replace(completion, statistics=used, profile=profile.name)


class _InterceptedStream(StreamLayer):
    """A completion with interceptors around it."""

    def __init__(
        self, pipeline: Pipeline, request: ChatRequest, use: CacheUse, interceptors: Sequence[Interceptor]
    ) -> None:
        super().__init__()
        self._pipeline = pipeline
        self._request = request
        self._use = use
        self._interceptors = interceptors

    async def _run(self) -> AsyncGenerator[Chunk, None]:
        profile, conversation = self._request.profile, self._request.conversation
        for interceptor in self._interceptors:
            conversation = await interceptor.before(profile, conversation)
            _check_type(interceptor, "before", conversation, Conversation)
        request = replace(self._request, conversation=conversation)
        async with await self._pipeline.uncovered(request, self._use) as self._inner:
            async for chunk in self._inner:
                yield chunk
            completion = self._inner.completion
        for interceptor in self._interceptors:
            completion = await interceptor.after(profile, conversation, completion)
            _check_type(interceptor, "after", completion, Completion)
        self._completion = completion


def _check_type(interceptor: Interceptor, method: str, found: object, expected: type) -> None:
    if not isinstance(found, expected):
        raise EngineError(
            f"The interceptor {type(interceptor).__name__} gave {type(found).__name__} from {method}, "
            f"expected {expected.__name__}.",
            hint="Return what was given when there is nothing to change.",
        )
