"""The engine: owns profiles, connections, the embedded server and the history; completes prompts and runs flows."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from engine.clients import client_for
from engine.clients.base import Capabilities, ChatRequest
from engine.clients.llama_server import detokenize, tokenize
from engine.clients.recovery import CompletionStream, Requests
from engine.clients.transport import Transport
from engine.completion import Chunk, Completer, Completion, Phase, Stream
from engine.conversation import Conversation
from engine.embedded_server import EmbeddedServer, ServerState
from engine.errors import EngineError, LocalModelError
from engine.events import AnyEvent, RunFinished
from engine.flow.context import Context
from engine.flow.event_buffer import EventBuffer
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.flow.trace import EMPTY, Trace
from engine.folders import Folders, data_folders
from engine.profile import ModelProfile, Overrides, ProfileRef
from engine.profile_store import ProfileStore
from engine.run_history import RunHistory
from engine.statistics import RequestStatistic
from engine.tokenizers import TokenCount, Tokenizers

logger = logging.getLogger(__name__)

EVENTS_AHEAD = 256
"""Events a run may be ahead of who reads them; then its sockets wait."""


class Engine:
    """Runs flows and completes prompts. Use it as `async with Engine() as engine:`; leaving ends all it started."""

    def __init__(
        self,
        *,
        profiles: ProfileStore | None = None,
        server: EmbeddedServer | None = None,
        history: RunHistory | None = None,
        offline: bool = False,
    ) -> None:
        """Put the parts together.

        Args:
            profiles: missing = the bundled ones and those in the data folder.
            server: the embedded server; missing = one in the data folder, started when a profile needs it.
            history: where runs are recorded; missing = not recorded.
            offline: refuse every connection that leaves this machine.
        """
        folders = data_folders()
        self.profiles = profiles or ProfileStore(folders.profiles)
        self.server = server or EmbeddedServer(data_dir=folders.root)
        self.history = history
        self._transport = Transport(offline=offline)
        self._requests = Requests(self._transport)
        self._tokenizers = Tokenizers(self._server_tokens, self._server_text)

    @classmethod
    def on_folders(
        cls, folders: Folders, *, offline: bool = False, model_file: Path | None = None, port: int = 0
    ) -> "Engine":
        """An engine on a data folder, with history; `model_file` and `port` are for the embedded server."""
        return cls(
            profiles=ProfileStore(folders.profiles),
            server=EmbeddedServer(data_dir=folders.root, model_file=model_file, port=port),
            history=RunHistory(folders.history),
            offline=offline,
        )

    async def __aenter__(self) -> "Engine":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections, stop the embedded server, write what the history still holds."""
        async with AsyncExitStack() as parts:  # the last one is closed first, and each one whatever befalls the others
            if self.history is not None:
                parts.push_async_callback(_logged, self.history.close)
            parts.push_async_callback(_logged, self.server.stop)
            parts.push_async_callback(_logged, self._transport.aclose)

    @property
    def offline(self) -> bool:
        """Whether connections that leave this machine are refused."""
        return self._transport.offline

    @offline.setter
    def offline(self, locked: bool) -> None:
        self._transport.offline = locked

    # -- completions --------------------------------------------------------------------------------------------------

    def resolve(self, profile: ProfileRef) -> ModelProfile:
        """Find a profile by itself, its name or its category; raises ProfileNotFound or ProfileInvalid."""
        return self.profiles.resolve(profile)

    async def complete(
        self, profile: ProfileRef, conversation: Conversation | str, *, overrides: Overrides | None = None
    ) -> Completion:
        """Ask for a completion and wait for the whole of it; raises RequestError and its kin."""
        async with self.stream(profile, conversation, overrides=overrides) as stream:
            async for _ in stream:
                pass
            return stream.completion

    def stream(
        self,
        profile: ProfileRef,
        conversation: Conversation | str,
        *,
        overrides: Overrides | None = None,
        skip_cache: bool = False,
    ) -> AbstractAsyncContextManager[Stream]:
        """Ask for a completion and iterate its chunks; leaving early cancels it and frees the server.

        A text is one user turn. Iterating raises RequestError and its kin, entering raises ProfileError.
        """
        return self._stream(self.resolve(profile), conversation, overrides)

    @asynccontextmanager
    async def _stream(
        self, profile: ModelProfile, conversation: Conversation | str, overrides: Overrides | None
    ) -> AsyncIterator[Stream]:
        turns = Conversation.create("", conversation) if isinstance(conversation, str) else conversation
        request = ChatRequest.create(profile, turns, overrides)
        if request.profile.embedded:
            async with _EmbeddedStream(self.server, self._send, request) as embedded:
                yield embedded
        else:
            async with await self._send(request) as stream:
                yield stream

    async def _send(self, request: ChatRequest) -> CompletionStream:
        """The stream of a request whose address is known; nothing is sent before it is iterated."""
        profile = request.profile
        await self._tokenizers.load(profile)
        client = client_for(profile)
        return self._requests.stream(
            client, request, count=lambda text: self._tokenizers.count_now(profile, text).tokens
        )

    async def _server_tokens(self, profile: ModelProfile, text: str) -> list[int]:
        return await tokenize(self._transport, self._reached(profile), text)

    async def _server_text(self, profile: ModelProfile, tokens: Sequence[int]) -> str:
        return await detokenize(self._transport, self._reached(profile), tokens)

    def _reached(self, profile: ModelProfile) -> ModelProfile:
        """The profile with an address; counting does not start a server."""
        if not profile.embedded:
            return profile
        endpoint = self.server.endpoint
        if endpoint is None:
            raise LocalModelError("The embedded server does not run.", hint="Start it to count exactly.")
        return replace(profile, url=endpoint.url, api_key=endpoint.api_key)

    async def count_tokens(self, profile: ProfileRef, text: str) -> TokenCount:
        """Count a text as the profile's model would; `approximate` when that is not known exactly."""
        return await self._tokenizers.count(self.resolve(profile), text)

    async def capabilities(self, profile: ProfileRef) -> Capabilities:
        """What can be asked of the profile's model, as far as the profile says."""
        resolved = self.resolve(profile)
        return client_for(resolved).capabilities(resolved)

    # -- flows --------------------------------------------------------------------------------------------------------

    def run(
        self,
        flow: Flow,
        context: Context,
        *,
        start: str | None = None,
        limits: Limits | None = None,
        profiles: ProfileStore | None = None,
        flow_text: str = "",
    ) -> "Run":
        """Run a flow in an `async with`: iterate the events, then read `contexts`. Leaving the block early stops it.

        Args:
            start: the agent to begin with; missing = the flow's own.
            limits: stricter limits than the flow's.
            profiles: a view of the profiles for this run (`ProfileStore.with_map`, `with_profile`).
            flow_text: the flow as a file, for the record.

        Raises FlowInvalid for a flow that cannot run. Errors of branches travel as events and stand on their contexts.
        """
        completer = _Completer(self, profiles or self.profiles)
        return Run(flow, context, completer, history=self.history, start=start, limits=limits, flow_text=flow_text)


class Run:
    """A run, going on inside its `async with`: iterate its events; they end when the run does."""

    def __init__(
        self,
        flow: Flow,
        context: Context,
        completer: Completer,
        *,
        history: RunHistory | None = None,
        start: str | None = None,
        limits: Limits | None = None,
        flow_text: str = "",
    ) -> None:
        self.id = secrets.token_hex(6)
        self._flow = flow
        self._flow_text = flow_text
        self._inputs = context.values_copy()
        self._history = history
        self._events = EventBuffer(EVENTS_AHEAD)
        self._walk = Walk(flow, context, completer, run_id=self.id, emit=self._emit, start=start, limits=limits)
        self._task: asyncio.Task[list[Context]] | None = None
        self._finished: RunFinished | None = None

    async def __aenter__(self) -> "Run":
        try:
            if self._history is not None:
                # A disk that fails does not keep a run from happening; the history tells it by itself.
                profiles = self._walk.known_profiles()
                await self._history.begin(self.id, self._flow.name, self._flow_text, self._inputs, profiles)
        except BaseException:
            self._end()
            raise
        self._task = asyncio.create_task(self._walk.run())
        # Not in the task itself: one that is cancelled before its first step runs nothing of its own.
        self._task.add_done_callback(lambda _: self._end())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop if it still runs, and wait until all its connections are closed and its end is recorded."""
        self._events.abandon()
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        self._end()
        if (fault := self._fault()) is not None:
            raise fault

    @property
    def contexts(self) -> list[Context]:
        """The contexts that ended, in branch order, then those with an error."""
        return self._walk.contexts

    @property
    def statistic(self) -> RequestStatistic:
        """What the run has used so far."""
        return self._walk.statistic

    @property
    def trace(self) -> Trace:
        """The trace of the first of `contexts`, empty while there is none; each context has its own."""
        contexts = self.contexts
        return contexts[0].trace if contexts else EMPTY

    @property
    def finished(self) -> RunFinished | None:
        """The last event, once it has happened."""
        return self._finished

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self._events

    def stop(self) -> None:
        """Cancel every request at once and keep what came; the last events follow, with the status `stopped`."""
        if self._task is not None:
            self._task.cancel()

    def _end(self) -> None:
        """Make sure, as often as called, that there is one last event and nothing after it."""
        if self._finished is None:
            fault = self._fault()
            self._emit(self._walk.finished("failed" if fault else "stopped", str(fault or "")))
        self._events.close()

    def _fault(self) -> BaseException | None:
        """What ended the walk although it should never raise."""
        task = self._task
        return task.exception() if task is not None and task.done() and not task.cancelled() else None

    def _emit(self, event: AnyEvent) -> Awaitable[None] | None:
        if isinstance(event, RunFinished):
            self._finished = event
        if self._history is not None:
            self._history.record(event)
        return self._events.put(event)


async def _logged(close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except (EngineError, OSError):
        logger.exception("Closing failed")


class _Completer:
    """The engine as a flow sees it, with the profiles of one run."""

    def __init__(self, engine: Engine, profiles: ProfileStore) -> None:
        self._engine = engine
        self._profiles = profiles

    def resolve(self, profile: ProfileRef) -> ModelProfile:
        return self._profiles.resolve(profile)

    def stream(
        self,
        profile: ProfileRef,
        conversation: Conversation,
        *,
        overrides: Overrides | None = None,
        skip_cache: bool = False,
    ) -> AbstractAsyncContextManager[Stream]:
        return self._engine.stream(self.resolve(profile), conversation, overrides=overrides, skip_cache=skip_cache)


class _EmbeddedStream:
    """A completion of the embedded server, which is started first when it does not run."""

    def __init__(
        self,
        server: EmbeddedServer,
        send: Callable[[ChatRequest], Awaitable[CompletionStream]],
        request: ChatRequest,
    ) -> None:
        self._server = server
        self._send = send
        self._request = request
        self._inner: CompletionStream | None = None
        self._chunks = self._run()

    async def __aenter__(self) -> "_EmbeddedStream":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._chunks.aclose()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._chunks

    @property
    def completion(self) -> Completion:
        """The whole answer; raises RuntimeError before the stream is exhausted."""
        if self._inner is None:
            raise RuntimeError("the stream is not exhausted")
        return self._inner.completion

    @property
    def so_far(self) -> Completion:
        """What has arrived, with the tokens it cost: for a stream that failed or was left early."""
        return Completion() if self._inner is None else self._inner.so_far

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although the answer came."""
        return () if self._inner is None else self._inner.warnings

    async def _run(self) -> AsyncGenerator[Chunk, None]:
        if self._server.state is not ServerState.READY:
            yield Chunk(phase=Phase.LOADING_MODEL)
        endpoint = await self._server.ensure()
        profile = replace(self._request.profile, url=endpoint.url, api_key=endpoint.api_key)
        async with await self._send(replace(self._request, profile=profile)) as inner:
            self._inner = inner
            async for chunk in inner:
                yield chunk
