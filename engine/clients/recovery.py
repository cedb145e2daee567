"""The one retry loop: from a request to the stream of its chunks, whatever the server does meanwhile.

A request is repeated only before its first content event. Which endpoint is asked, and whether, says `endpoints.py`.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from math import inf
from types import TracebackType
from typing import Self

from engine.clients.adapting import adapted
from engine.clients.addresses import target_of
from engine.clients.attempt import Attempt
from engine.clients.base import Answer, ChatRequest, Client, WireRequest, check_abilities
from engine.clients.endpoints import Clock, Endpoints, Route
from engine.clients.failures import Failure, Place, failure_class
from engine.clients.formed import formed
from engine.clients.gate import Admission
from engine.clients.model_facts import FactBook
from engine.clients.model_names import ModelNames
from engine.clients.outcome import completed, summed
from engine.clients.prompt_fit import PromptFit
from engine.clients.transport import Transport
from engine.clients.usage import TextCounter, account
from engine.clients.watchdog import Limits
from engine.completion import Chunk, Completion, Phase, RetryNotice
from engine.errors import (
    Attempted,
    ProtocolError,
    RateLimited,
    RequestError,
    RequestRejected,
    ServerError,
)
from engine.formed_request import FormedRequest
from engine.interceptors import Call, Guard, Passage, current_run
from engine.statistics import CompletionStatistics

log = logging.getLogger(__name__)

REPEATED = frozenset({200, 408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed; 200 stands for an error inside the answer."""
LONGEST_WAIT = 60.0
"""Seconds; who is asked to wait longer is told at once."""
MOST_PAUSES = 20
"""How often an answer may pause before it is taken as it is."""
LOADING_INTERVAL = 1.0
"""Seconds between two requests while the server loads its model."""

FINAL = frozenset({Failure.CALLER, Failure.FILTERED, Failure.TOO_LONG})
"""Failures of the request itself: no other endpoint would answer it either."""

Sleep = Callable[[float], Awaitable[None]]


class Requests:
    """Sends requests over one transport; keeps what they share: how endpoints fare, and their model names."""

    def __init__(
        self,
        transport: Transport,
        *,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        clock: Clock = time.monotonic,
    ) -> None:
        self.transport = transport
        self.sleep = sleep
        self.chance = chance
        self.endpoints = Endpoints(clock=clock, chance=chance)
        self.facts = FactBook(transport)
        self.models = ModelNames(transport)

    def stream(
        self,
        client: Client,
        request: ChatRequest,
        *,
        count: TextCounter,
        at_least: TextCounter | None = None,
        guards: Sequence[Guard] = (),
    ) -> "CompletionStream":
        """Make a stream; nothing is sent before it is entered and iterated. `count` estimates what is not reported.

        `at_least` counts for the budget of the prompt, where too few tokens would be worse than too many.
        """
        return CompletionStream(self, client, request, count, at_least or count, guards)

    async def wait(self, seconds: float) -> None:
        """Let time pass; none for 0."""
        if seconds:
            await self.sleep(seconds)


class CompletionStream:
    """One completion under way; see `engine.completion.Stream`. Leaving its block early closes the connection."""

    def __init__(
        self,
        requests: Requests,
        client: Client,
        request: ChatRequest,
        count: TextCounter,
        at_least: TextCounter,
        guards: Sequence[Guard] = (),
    ) -> None:
        self.warnings: list[str] = []
        """What a person should know although the answer came."""
        self._requests = requests
        self._client = client
        self._request = request
        self._count = count
        self._fit = PromptFit(request, at_least)
        self._guards = guards
        self._chunks = self._run()
        self._wire: WireRequest | None = None
        self._told: WireRequest | None = None
        """The request that was told of last."""
        self._outgoing: WireRequest | None = None
        """The one that was sent last, with the address it was sent to."""
        self._model = ""
        """The one that is asked."""
        self._attempt: Attempt | None = None
        self._completion: Completion | None = None
        self._left: Completion | None = None
        """What had arrived of an answer that is over without being whole."""
        self._used: list[CompletionStatistics] = []
        """By answers that were empty and asked for again, and by those that paused."""
        self._paused: list[Answer] = []
        """Parts of the answer that came before the service paused."""
        self._until = self._load_until = inf
        self._route: Route | None = None
        self._attempts: list[Attempted] = []
        self._waited = 0.0
        """Seconds before the next attempt."""
        self._sent = 0
        self._odd_answers = 0
        self._adapted: set[str] = set()
        self._phase: Phase | None = None

    async def __aenter__(self) -> Self:
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
        if self._completion is None:
            raise RuntimeError("the stream is not exhausted")
        return self._completion

    @property
    def so_far(self) -> Completion:
        """What has arrived, with the tokens it cost: for a stream that failed or was left early.

        A request that brought nothing counts as none.
        """
        return self._completion or self._left or self._complete(broken=True)

    def _leave(self) -> Completion:
        """What has arrived, when nothing more will."""
        self._left = self.so_far
        return self._left

    async def _run(self) -> AsyncGenerator[Chunk, None]:
        route = self._route = self._requests.endpoints.route(self._request.profile, self._request.conversation)
        with self._admission() as admission:
            while self._completion is None:
                async with aclosing(self._let_in(route, admission)) as waiting:
                    async for notice in waiting:
                        yield notice
                if chunk := self._enter(Phase.CONNECTING):
                    yield chunk
                try:
                    for told in await self._formed():
                        yield told
                    attempt = await self._start(route.url)
                    try:
                        if chunk := self._tell():
                            yield chunk
                        if await attempt.connected() and (chunk := self._enter(Phase.READING_PROMPT)):
                            yield chunk
                        await attempt.opened()
                        while (chunks := await attempt.read()) is not None:
                            for piece in chunks:
                                yield piece
                        failure = self._judge()
                    except RequestError as error:
                        failure = error
                    finally:
                        await attempt.close()
                    self._note(route, attempt, failure)
                finally:
                    route.release()
                if failure is None:
                    continue
                delay, chunk = self._repeat(route, failure)
                if chunk:
                    yield chunk
                self._waited = delay
                await self._requests.wait(delay)

    async def _let_in(self, route: Route, admission: Admission) -> AsyncGenerator[Chunk, None]:
        """Choose an endpoint, and wait until it takes the request; raises CircuitOpen and RateLimited."""
        while not route.begun:
            if seconds := route.choose():
                admission.step_back()
                yield self._cool_down(seconds)
                await self._requests.wait(seconds)
            admission.to(route.gate)
            while admission.blocked():
                if chunk := self._enter(Phase.QUEUED):
                    yield chunk
                await admission.wait()
            route.begin()
        self._begin()

    def _begin(self) -> None:
        """Start the clocks of the whole call, when it is let in for the first time."""
        if self._load_until == inf:
            options, now = self._request.profile.options, asyncio.get_running_loop().time()
            self._until = now + options.total_timeout if options.total_timeout else inf
            self._load_until = now + options.first_token_timeout

    def _admission(self) -> Admission:
        request, guards = self._request, self._guards
        call = Call(profile=request.profile, conversation=request.conversation, run_id=current_run.get())
        passage = Passage(guards, call) if guards else None
        return Admission(request.profile.options.max_concurrent, passage, self._leave)

    def _cool_down(self, seconds: float) -> Chunk:
        """What to say while the endpoint is left alone; raises RateLimited when that takes too long."""
        place = Place.of(self._request.profile, self._request.profile.url)
        late = asyncio.get_running_loop().time() + seconds > self._until
        if seconds > LONGEST_WAIT or late:
            raise RateLimited(
                f"{place.host} asked to be left alone for {seconds:.0f} more seconds.",
                retry_after=seconds,
                hint=f"Wait {seconds:.0f} seconds and try again, or choose another profile.",
                facts=place.facts(),
            )
        self._waited, self._phase = seconds, None
        number, reason = self._sent + 1, f"{place.host} asked to be left alone for a while."
        return Chunk(retry=RetryNotice(attempt=number, attempts=self._most(number), delay=seconds, reason=reason))

    def _note(self, route: Route, attempt: Attempt, failure: RequestError | None) -> None:
        """Write down how an attempt ended, for the endpoint and for the record."""
        if failure is None:
            route.succeed()
            outcome, status = "done", 200
        else:
            route.fail(failure, attempt.asked_wait)
            outcome, status = failure_class(failure).value, int(failure.facts.get("status", 0))
        profile = self._request.profile
        self._attempts.append(
            Attempted(
                profile=profile.name,
                host=target_of(route.url).netloc,
                outcome=outcome,
                status=status,
                seconds=time.monotonic() - attempt.sent,
                waited=self._waited,
                sent=attempt.size,
                received=attempt.received,
            )
        )
        self._waited = 0.0
        if self._completion is not None:
            self._completion = replace(self._completion, attempts=tuple(self._attempts))

    async def prepare(self) -> WireRequest:
        """Form the request: it is the one that will be sent, unless the server refuses a part of it."""
        if self._wire is None:
            check_abilities(self._client, self._request)
            model = await self._requests.models.chosen(self._client, self._request.profile)
            self._request = await self._requests.facts.inform(self._client, self._request, model)
            self._model = model
            self._request = await self._fit.fitting(self._request)
            self._wire = self._client.form(self._request, model)
            self.warnings += [note for note in self._wire.warnings if note not in self.warnings]
        return self._wire

    def formed(self) -> FormedRequest | None:
        """A copy of the request that was sent last, or will be; None before `prepare`."""
        wire = self._outgoing or self._wire
        return None if wire is None else formed(wire, self._request.profile)

    def _tell(self) -> Chunk | None:
        """The chunk that tells of the request that has gone out, unless it is that of the attempt before."""
        wire, before = self._outgoing, self._told
        self._told = wire
        if wire is None or (before is not None and (wire.url, wire.body) == (before.url, before.body)):
            return None
        return Chunk(formed=self.formed())

    @property
    def shortened(self) -> bool:
        """Whether the server found the prompt too long, so that the answer is one to a shorter prompt."""
        return self._fit.refused

    def take_notice(self) -> Chunk | None:
        """What the prompt lost when the request was formed; told once."""
        return self._fit.take_notice()

    def address(self, url: str, api_key: str) -> None:
        """Tell where the server is that was not running when the request was formed."""
        profile = replace(self._request.profile, url=url, api_key=api_key)
        self._request, self._wire = replace(self._request, profile=profile), None

    async def _formed(self) -> list[Chunk]:
        """The chunks that tell what the prompt lost, and of it when the server will load the model first."""
        await self.prepare()
        chunks = [self._fit.take_notice()]
        if await self._requests.facts.is_cold(self._client, self._request.profile, self._model):
            chunks.append(self._enter(Phase.LOADING_MODEL))
        return [chunk for chunk in chunks if chunk is not None]

    async def _start(self, url: str) -> Attempt:
        wire = await self.prepare()
        request = self._request
        if url != request.profile.url:  # the same body for every endpoint
            elsewhere = replace(request, profile=replace(request.profile, url=url))
            wire = replace(wire, url=self._client.form(elsewhere, self._model).url)
        options = request.profile.options
        limits = Limits(
            connect=options.connect_timeout,
            progress=options.first_token_timeout,
            idle=options.idle_timeout,
            until=self._until,
        )
        place = Place.of(request.profile, wire.url)
        self._sent += 1
        self._outgoing = wire
        self._attempt = Attempt(self._requests.transport, self._client, request, wire, place, limits)
        return self._attempt

    def _enter(self, phase: Phase) -> Chunk | None:
        """The chunk that tells of a phase, unless the call is in it; loading lasts until the answer begins."""
        if self._phase is phase or self._phase is Phase.LOADING_MODEL:
            return None
        self._phase = phase
        return Chunk(phase=phase)

    def _judge(self) -> RequestError | None:
        """Complete the answer, unless it goes on; an empty one is asked for once more, as a failure until then."""
        done = self._complete()
        if self._resume(done):
            return None
        if done.no_answer and not (self._attempt and self._attempt.answer.progress):
            place = Place.of(self._request.profile, self._request.profile.url)
            failure = ProtocolError("The answer is empty.", hint="Try again.", facts=place.facts())
            if self._may_repeat(failure) and not self._odd_answers:
                self._used = [done.statistics]
                return failure
        self._completion = done
        self._requests.facts.answered(self._client, self._request.profile, self._model)
        return None

    def _resume(self, done: Completion) -> bool:
        """When the service paused, ask it to go on from there; whether it is asked."""
        answer = self._attempt.answer if self._attempt else Answer()
        if answer.resume is None or self._wire is None:
            return False
        if len(self._paused) >= MOST_PAUSES:
            self.warnings.append(f"The answer paused more than {MOST_PAUSES} times; it ends where it was then.")
            return False
        self._wire = answer.resume(self._wire)
        self._paused.append(answer)
        self._used, self._attempt, self._sent, self._phase = [done.statistics], None, 0, None
        if self._route is not None:
            self._route.again()
        return True

    def _complete(self, *, broken: bool = False) -> Completion:
        """What the attempt has brought; of a broken one the prompt is estimated, too: it was paid all the same."""
        attempt = self._attempt
        answer = attempt.answer if attempt else Answer()
        content, reasoning = answer.text, answer.thoughts
        profile = self._request.profile
        prompt = self._wire.prompt if self._wire else ""
        if broken and not prompt:
            prompt = self._request.conversation.text
        used = account(
            answer.usage,
            answer.timings,
            prompt=prompt if answer.progress or (answer.finish and not broken) else None,
            content=content,
            reasoning=reasoning,
            prices=profile.prices,
            count=self._count,
        )
        now = time.monotonic()
        if attempt and (answer.progress or answer.usage or answer.finish):
            first = None if attempt.first_token is None else attempt.first_token - attempt.sent
            used = replace(used, duration=answer.seconds or now - attempt.sent, first_token=first)
        else:
            used = replace(used, requests=0, estimated=False)
        return completed([*self._paused, answer], summed([*self._used, used]), profile)

    def _repeat(self, route: Route, error: RequestError) -> tuple[float, Chunk | None]:
        """Seconds until the next attempt, and what to say about it; raises the error when there is none."""
        answer = self._attempt.answer if self._attempt else Answer()
        parts = [*self._paused, answer]
        error.partial = "".join(part.text for part in parts)
        error.partial_reasoning = "".join(part.thoughts for part in parts)
        error.begun = bool(answer.progress or self._paused)
        error.attempts = tuple(self._attempts)
        if self._sent > 1:
            error.facts["attempts"] = str(self._sent)
            error.facts |= {f"attempt {number}": str(one) for number, one in enumerate(self._attempts, start=1)}
        if error.begun:
            raise error
        if isinstance(error, ServerError) and error.loading:
            return self._loading(route, error)
        if shorter := self._fit.shorter(self._request, error):
            self._request, self._wire = shorter, None
        if shorter or self._adapt(error):
            route.again()
            return 0.0, self._notice(error, 0.0)
        if failure_class(error) in FINAL or (isinstance(error, ProtocolError) and self._odd_answers):
            raise error
        most = self._request.profile.options.max_retries
        delay = route.onward(repeatable=self._may_repeat(error), most=most, backoff=self._backoff(route))
        if delay is None:
            raise error
        if delay > LONGEST_WAIT:
            error.facts["asked to wait"] = f"{delay:.0f} s"
            if f"{delay:.0f} seconds" not in error.hint:
                error.hint = f"The server asks to wait {delay:.0f} seconds. {error.hint}"
            raise error
        if asyncio.get_running_loop().time() + delay > self._until:
            raise error
        self._odd_answers += isinstance(error, ProtocolError)
        self._phase = None
        return delay, self._notice(error, delay)

    def _may_repeat(self, error: RequestError) -> bool:
        """Whether the same endpoint may be asked again."""
        status = error.status if isinstance(error, ServerError | RequestRejected) else 200
        return error.retryable and (status or 200) in REPEATED and self._request.profile.options.max_retries > 0

    def _backoff(self, route: Route) -> Callable[[int, str], float]:
        asked, last = self._attempt.asked_wait if self._attempt else None, route.url
        options = self._request.profile.options

        def seconds(repeat: int, url: str) -> float:
            if asked is not None and url == last:
                return asked
            longest = min(options.retry_max_delay, options.retry_base_delay * 2.0 ** (repeat - 1))
            return longest * (0.5 + 0.5 * self._requests.chance())

        return seconds

    def _most(self, number: int) -> int:
        """How many attempts there may be."""
        profile = self._request.profile
        return max((profile.options.max_retries + 1) * max(1, len(profile.options.urls)), number)

    def _notice(self, error: RequestError, delay: float) -> Chunk:
        number = self._sent + 1
        notice = RetryNotice(attempt=number, attempts=self._most(number), delay=delay, reason=error.message)
        return Chunk(retry=notice)

    def _loading(self, route: Route, error: ServerError) -> tuple[float, Chunk | None]:
        if asyncio.get_running_loop().time() + LOADING_INTERVAL > min(self._load_until, self._until):
            raise error
        self._sent -= 1  # asking whether it is loaded is no attempt
        del self._attempts[-1:]
        route.again()
        if self._phase is Phase.LOADING_MODEL:
            return LOADING_INTERVAL, None
        self._phase = Phase.LOADING_MODEL
        return LOADING_INTERVAL, Chunk(phase=Phase.LOADING_MODEL)

    def _adapt(self, error: RequestError) -> bool:
        """Leave out or rename what a 400 names, once each; such a repeat is not counted."""
        if self._wire is None or not isinstance(error, RequestRejected):
            return False
        found = adapted(self._wire, error, self._request.profile.name, self._adapted)
        if found is None:
            return False
        self._wire = found.wire
        self._adapted.add(found.name)
        self.warnings.append(found.note)
        log.warning("%s", found.note)
        return True
