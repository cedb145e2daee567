"""The engine: owns profiles, connections, the embedded server and the history; completes prompts and runs flows."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType

from engine.cache import CompletionCache, MemoryCache
from engine.clients import client_for
from engine.clients.base import Capabilities, ChatRequest
from engine.clients.endpoints import EndpointStatus
from engine.clients.llama_server import detokenize, tokenize
from engine.clients.proxy_check import check_proxy
from engine.clients.recovery import Requests
from engine.clients.tape_file import RecordedTape
from engine.clients.tape_replay import AT_ONCE, ReplayTransport
from engine.clients.transport import Transport
from engine.clients.web_page import get_page
from engine.clients.wire_tape import WireTape
from engine.completion import Completion, Stream
from engine.conversation import Conversation, ToolChoice
from engine.embedded_server import EmbeddedServer
from engine.engine_settings import EngineSettings
from engine.errors import EngineError, FlowError, LocalModelError, StorageError
from engine.flow.breakpoints import Breakpoints
from engine.flow.context import Context
from engine.flow.flow import Flow, Limits
from engine.flow.frozen import Frozen
from engine.flow.granted_tools import Grants
from engine.flow.restart import Restart
from engine.flow.subflow_files import origin_path
from engine.flow.tools import AllowTool, refuse
from engine.flow_access import FlowAccess
from engine.folders import Folders, data_folders
from engine.guards import Budget, RateLimit, Spending, Totals
from engine.interceptors import Guard, Interceptor, LoggingInterceptor, PluggedInterceptor, sorted_out
from engine.pipeline import CacheUse, Pipeline
from engine.profile import ModelProfile, Overrides, ProfileRef
from engine.profile_store import ProfileStore
from engine.prompt_library import PromptLibrary
from engine.recorded_runs import recorded_flow, resume_point
from engine.replay import ReplayedServer, TapedProfiles, replayed, taped_cache, taped_frozen, taped_prompts
from engine.run import Run
from engine.run_completer import RunCompleter
from engine.run_history import RunHistory
from engine.run_prompts import RunPrompts
from engine.run_tape import RunTape, tape_file
from engine.sqlite_cache import SqliteCache
from engine.statistics import RequestStatistic
from engine.stop_proof import prove_stopped
from engine.tokenizers import TokenCount, Tokenizer, Tokenizers
from engine.trust import TrustStore

logger = logging.getLogger(__name__)


class Engine:
    """Runs flows and completes prompts. Use it as `async with Engine() as engine:`; leaving ends all it started."""

    def __init__(
        self,
        *,
        profiles: ProfileStore | None = None,
        server: EmbeddedServer | None = None,
        history: RunHistory | None = None,
        offline: bool = False,
        access: FlowAccess | None = None,
        cache: CompletionCache | None = None,
        interceptors: Sequence[Interceptor | Guard] = (),
        settings: EngineSettings | None = None,
        prompts: PromptLibrary | None = None,
        tape: WireTape | None = None,
        replay: ReplayTransport | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            profiles: missing = the bundled ones and those in the data folder.
            server: the embedded server; missing = one in the data folder, started when a profile needs it.
            history: where runs are recorded; missing = not recorded.
            offline: refuse every connection that leaves this machine.
            access: decides what flows from files may do; missing = as the data folder says.
            cache: where answers are kept and given again; missing = none are.
            interceptors: what stands around each completion, in this order; guards among them see what goes out.
            settings: limits, logging, and whether the cache is used.
            prompts: those of agents and tools; missing = the shipped ones and those in the data folder.
            tape: where calls are recorded, but not those of runs with a tape of their own; closed with the engine.
            replay: answers from a recorded tape instead of servers; `replaying` makes an engine that replays runs.

        Raises TypeError for an interceptor that is none.
        """
        folders = data_folders()
        self.profiles = profiles or ProfileStore(folders.profiles)
        self.server = server or EmbeddedServer(data_dir=folders.root)
        self.history = history
        self.prompts = prompts or PromptLibrary(folders.prompts)
        self.access = access or FlowAccess(TrustStore(folders.root))
        self._transport = replay or Transport(offline=offline)
        self._replay = replay
        self._borrows = False
        """History and access are another engine's."""
        self._transport.tape = tape
        self._tokenizers = Tokenizers(self._server_tokens, self._server_text)
        self._requests = Requests(self._transport)
        if replay is not None:
            self._requests = Requests(self._transport, sleep=replay.clock.sleep, clock=replay.clock.now)
        self._pipeline = Pipeline(self.server, self._requests, self._tokenizers, self.profiles.get, self._run_prompts)
        self.cache = cache
        self._interceptors, self._guards = sorted_out(interceptors)
        self._budget = Budget(used_today=self._used_today if history else None)
        self._totals = Totals()
        self.apply(settings or EngineSettings())

    @classmethod
    def on_folders(
        cls,
        folders: Folders,
        *,
        offline: bool = False,
        model_file: Path | None = None,
        port: int = 0,
        settings: EngineSettings | None = None,
    ) -> "Engine":
        """An engine on a data folder, with history and cache; `model_file` and `port` are for the embedded server.

        Without `settings` those in the folder hold.
        """
        return cls(
            profiles=ProfileStore(folders.profiles),
            prompts=PromptLibrary(folders.prompts),
            server=EmbeddedServer(data_dir=folders.root, model_file=model_file, port=port),
            history=RunHistory(folders.history),
            offline=offline,
            access=FlowAccess(TrustStore(folders.root)),
            cache=SqliteCache(folders.cache),
            settings=EngineSettings.load(folders.engine_settings) if settings is None else settings,
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
            if self.history is not None and not self._borrows:
                parts.push_async_callback(_logged, self.history.close)
            parts.push_async_callback(_logged, self.server.stop)
            parts.push_async_callback(_logged, self._transport.aclose)
            if not self._borrows:
                parts.push_async_callback(_logged, self.access.aclose)
            if self.cache is not None:
                parts.push_async_callback(_logged, self.cache.close)
            parts.push_async_callback(_logged, self._pipeline.close)
        if self._transport.tape is not None:
            self._transport.tape.close()

    @property
    def offline(self) -> bool:
        """Whether connections that leave this machine are refused."""
        return self._transport.offline

    @offline.setter
    def offline(self, locked: bool) -> None:
        self._transport.offline = locked
        self.try_again()

    async def check_proxy(self) -> None:
        """Connect to the proxy of the settings, if there is one, and hang up; raises ConnectFailed."""
        if self._settings.proxy:
            await check_proxy(self._settings.proxy, offline=self.offline)

    @property
    def settings(self) -> EngineSettings:
        """Limits, logging, and whether the cache is used."""
        return self._settings

    def apply(self, settings: EngineSettings) -> None:
        """Change the settings; they hold from the next request on, and what was spent so far still counts."""
        self._settings = settings
        if isinstance(self.cache, MemoryCache | SqliteCache):
            self.cache.max_bytes = settings.cache_megabytes * 1_000_000
            self.cache.max_age = settings.max_age
        self.profiles.environment = settings.environment
        self._budget.run, self._budget.day = settings.run_budget, settings.day_budget
        self._pipeline.masking, self._pipeline.masking_scope = settings.masking, settings.sensitive_scope
        logging_ = (LoggingInterceptor(),) if settings.logging else ()
        self._requests.endpoints.breaker = settings.breaker
        self._transport.proxy, self._transport.ca_file = settings.proxy, settings.ca_file
        limit = RateLimit(requests=settings.requests_per_minute, tokens=settings.tokens_per_minute)
        self._pipeline.cache = self.cache if settings.cache else None
        self._pipeline.interceptors = (*self._interceptors, *map(PluggedInterceptor, settings.interceptors), *logging_)
        # Who waits in line comes before what could change meanwhile. A replay spends nothing and spares nobody.
        spending = (limit, self._budget, self._totals) if self._replay is None else ()
        self._pipeline.guards = (*spending, *self._guards, *logging_)

    def _run_prompts(self) -> RunPrompts:
        if self._replay is not None and self._replay.recorded.start.run_id:
            return taped_prompts(self._replay.recorded)
        return RunPrompts.take(self.prompts, self._settings.prompt_language)

    async def _used_today(self) -> Spending:
        if self.history is None:
            return Spending()
        used = await self.history.today()
        tokens = used.in_tokens + used.cached_in_tokens + used.out_tokens + used.reasoning_out_tokens
        return Spending(requests=used.requests, tokens=tokens, cost=used.cost)

    def spent(self, run_id: str) -> Spending:
        """What a run of this engine has used so far, as its budget counts it."""
        return self._budget.spent(run_id)

    # -- completions --------------------------------------------------------------------------------------------------

    def resolve(self, profile: ProfileRef) -> ModelProfile:
        """Find a profile by itself, its name or its category; raises ProfileNotFound or ProfileInvalid."""
        return self.profiles.resolve(profile)

    async def complete(
        self,
        profile: ProfileRef,
        conversation: Conversation | str,
        *,
        overrides: Overrides | None = None,
        tools: ToolChoice | None = None,
        skip_cache: bool = False,
        use_cache: bool = True,
    ) -> Completion:
        """Ask for a completion and wait for the whole of it; raises RequestError and its kin."""
        async with self.stream(
            profile, conversation, overrides=overrides, tools=tools, skip_cache=skip_cache, use_cache=use_cache
        ) as stream:
            async for _ in stream:
                pass
            return stream.completion

    def stream(
        self,
        profile: ProfileRef,
        conversation: Conversation | str,
        *,
        overrides: Overrides | None = None,
        tools: ToolChoice | None = None,
        skip_cache: bool = False,
        use_cache: bool = True,
    ) -> AbstractAsyncContextManager[Stream]:
        """Ask for a completion and iterate its chunks; leaving early cancels it and frees the server.

        A text is one user turn. With `skip_cache` the answer is a new one, and kept; without `use_cache` it is not even
        kept. Iterating raises RequestError and its kin, entering raises ProfileError.
        """
        use = CacheUse(read=use_cache and not skip_cache, store=use_cache)
        return self._stream(self.resolve(profile), conversation, overrides, tools, use)

    @asynccontextmanager
    async def _stream(
        self,
        profile: ModelProfile,
        conversation: Conversation | str,
        overrides: Overrides | None,
        tools: ToolChoice | None,
        use: CacheUse,
    ) -> AsyncIterator[Stream]:
        turns = Conversation.create("", conversation) if isinstance(conversation, str) else conversation
        request = ChatRequest.create(profile, turns, overrides, tools)
        async with await self._pipeline.stream(request, use) as stream:
            yield stream

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

    def tokenizer(self, profile: ProfileRef) -> Tokenizer:
        """The tokenizer of the profile's model, for the token ids themselves."""
        return self._tokenizers.find(self.resolve(profile))

    async def model_names(self, profile: ProfileRef, *, force_reload: bool = False) -> list[str]:
        """The models the profile's server lists, as it listed them before unless `force_reload`; raises RequestError.

        A request of a profile without `modelName` goes to the first one.
        """
        resolved = self._reached(self.resolve(profile))
        return await self._requests.models.listed(client_for(resolved), resolved, force_reload=force_reload)

    @property
    def totals(self) -> Mapping[str, RequestStatistic]:
        """What the requests of each profile, by its name, have used since this engine was made; not those of others."""
        return self._totals.by_profile

    def endpoints(self, profile: ProfileRef) -> list[EndpointStatus]:
        """How each endpoint of a profile fares: asked, cooling down, or refused until when."""
        resolved = self.resolve(profile)
        if resolved.embedded and self.server.endpoint is None:
            return []
        return self._requests.endpoints.status(self._reached(resolved))

    def try_again(self, profile: ProfileRef | None = None) -> None:
        """Ask the endpoints of a profile again at once; without one, all that did not accept a key or an address."""
        resolved = None if profile is None else self.resolve(profile)
        if resolved is None or not resolved.embedded or self.server.endpoint is not None:
            self._requests.endpoints.try_again(None if resolved is None else self._reached(resolved))

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
        allow_tool: AllowTool = refuse,
        use_cache: bool = True,
        skip_cache: bool = False,
        restart: Restart | None = None,
        frozen: Sequence[Frozen] = (),
        breakpoints: Breakpoints | None = None,
        tape: Path | None = None,
    ) -> "Run":
        """Run a flow in an `async with`: iterate the events, then read `contexts`. Leaving the block early stops it.

        Args:
            start: the agent to begin with; missing = the flow's own.
            limits: stricter limits than the flow's.
            profiles: a view of the profiles for this run (`ProfileStore.with_map`, `with_profile`).
            flow_text: the flow as a file, for the record.
            use_cache: whether answers are taken from the cache and kept there, if the engine has one.
            skip_cache: ask anew for everything, and keep the answers.
            allow_tool: asked before a tool with side effects runs, plain or async; missing = none of them runs.
            restart: where a recorded run goes on (recorded_runs.py); `context` is then what the record has as inputs.
            frozen: agents whose recorded answers are used instead of asking (flow/frozen.py).
            breakpoints: where branches wait until somebody lets them go on (flow/breakpoints.py).
            tape: a file to record the run's calls in (docs/wire-tape.md), or a folder for one named after the run.

        Raises FlowInvalid for a flow that cannot run, StorageError for a tape that cannot be written. Errors of
        branches travel as events and stand on their contexts.
        """
        if tape is not None and restart is not None:
            raise FlowError("A run that goes on from another has no tape.", hint="Repeat it from its beginning.")
        profiles, prompts = profiles or self.profiles, self._run_prompts()
        completer = RunCompleter(self, profiles, use_cache=use_cache, skip_cache=skip_cache)
        run = Run(
            flow,
            context,
            completer,
            history=self.history,
            start=start,
            limits=limits,
            flow_text=flow_text,
            allow_tool=allow_tool,
            restart=restart,
            frozen=frozen,
            breakpoints=breakpoints,
            prompts=prompts,
            grants=self.grants,
            replayed=None if self._replay is None else replayed(self._replay.recorded),
            prove=partial(prove_stopped, self._transport) if self._replay is None else None,
        )
        if tape is not None:
            cached = self._pipeline.cache is not None and use_cache
            completer.tape = run.tape = RunTape(
                tape_file(tape, run.id) if tape.is_dir() else tape,
                run_id=run.id,
                flow=flow,
                flow_text=flow_text,
                inputs=run.inputs,
                cache="off" if not cached else "fresh" if skip_cache else "on",
                patterns=self._settings.sensitive_patterns,
                frozen=frozen,
                prompts=prompts,
            )
        return run

    async def replaying(self, tape: RecordedTape, *, speed: float = AT_ONCE) -> "Engine":
        """An engine that answers from a tape and opens no socket; its runs are recorded with those of this engine.

        `speed` 1 = as it was, 10 = ten times as fast, 0 = at once. Close it before this one. Raises StorageError.
        """
        start = tape.start
        cached = start.cache != "off"
        engine = Engine(
            profiles=TapedProfiles(tape),
            server=ReplayedServer(tape.models),
            history=self.history,
            access=self.access,
            cache=await taped_cache(tape) if cached else None,
            interceptors=self._interceptors,
            settings=replace(
                self._settings,
                cache=cached,
                run_budget=Spending(),
                day_budget=Spending(),
                sensitive_patterns=start.patterns,
            ),
            prompts=self.prompts,
            replay=ReplayTransport(tape, speed=speed),
        )
        engine._borrows = True
        return engine

    def replay(self, flow: Flow, *, flow_text: str = "", breakpoints: Breakpoints | None = None) -> "Run":
        """Run a flow as the tape of this engine (`replaying`) recorded it: with its inputs, its cache, its answers."""
        if self._replay is None:
            raise FlowError("This engine replays no tape.", hint="Make one that does with `replaying`.")
        tape = self._replay.recorded
        return self.run(
            flow,
            Context(tape.start.inputs),
            flow_text=flow_text or tape.start.flow_text,
            use_cache=tape.start.cache != "off",
            skip_cache=tape.start.cache == "fresh",
            frozen=taped_frozen(tape),
            breakpoints=breakpoints,
        )

    @property
    def grants(self) -> Grants:
        """What tools may reach, as the settings say (`call_granted` of flow/granted_tools.py calls one)."""
        return Grants.named(self._settings.tool_folders, self._settings.tool_hosts, partial(get_page, self._transport))

    async def resume(
        self,
        run_id: str,
        *,
        flow: Flow | None = None,
        limits: Limits | None = None,
        profiles: ProfileStore | None = None,
        allow_tool: AllowTool = refuse,
    ) -> "Run":
        """Go on with a recorded run that failed, was stopped or crashed: `async with await engine.resume(id) as run`.

        Everything finished is kept and nothing that was answered is asked again; the limits hold for what is new.
        `flow` is needed for a flow made in Python only. Raises RunNotFound, or FlowError when nothing is left to do.
        """
        reached = await self.recorded.reached(run_id)
        if flow is None:
            loaded = recorded_flow(reached.run)
            flow = self.access.build(loaded.spec, origin_path(loaded.origin), origin=loaded.origin)
        restart = resume_point(reached, flow)
        context = Context(reached.run.inputs)
        text = reached.run.flow_text
        return self.run(
            flow,
            context,
            limits=limits,
            profiles=profiles,
            flow_text=text,
            allow_tool=allow_tool,
            restart=restart,
        )

    @property
    def recorded(self) -> RunHistory:
        """The recorded runs; raises StorageError when this engine records none."""
        if self.history is None:
            raise StorageError("This engine records no runs.", hint="Give it a history.")
        return self.history


async def _logged(close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except (EngineError, OSError):
        logger.exception("Closing failed")
