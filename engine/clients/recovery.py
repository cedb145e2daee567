"""The one retry loop: from a request to the stream of its chunks, whatever the server does meanwhile.

A request is repeated only before its first content event. Cool-down, circuit breaker, failover and several endpoints
have their place beside the gates of `Requests`.
"""

import asyncio
import logging
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from math import inf
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import msgspec

from engine.clients.attempt import MAX_BODY, MAX_ERROR_BODY, Attempt
from engine.clients.base import Answer, ChatRequest, Client, WireRequest
from engine.clients.failures import Place, status_error, unexpected_type
from engine.clients.gate import Gate
from engine.clients.transport import Transport
from engine.clients.usage import TextCounter, account
from engine.clients.watchdog import Limits
from engine.completion import Chunk, Completion, FinishReason, Phase, RetryNotice
from engine.conversation import Conversation, Turn
from engine.errors import ContextTooLong, ProtocolError, RequestError, RequestRejected, ServerError
from engine.messages import fitted, input_budget, list_tokens
from engine.profile import ModelProfile
from engine.statistics import CompletionStatistics

log = logging.getLogger(__name__)

REPEATED = frozenset({200, 408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed; 200 stands for an error inside the answer."""
LONGEST_WAIT = 60.0
"""Seconds; who is asked to wait longer is told at once."""
LOADING_INTERVAL = 1.0
"""Seconds between two requests while the server loads its model."""

FINISH_REASONS = {
    "stop": FinishReason.DONE,
    "length": FinishReason.TOKEN_LIMIT_REACHED,
    "content_filter": FinishReason.CONTENT_FILTERED,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "error": FinishReason.ERROR,
    "insufficient_system_resource": FinishReason.ERROR,
}
"""All other reasons count as DONE."""

ADAPTABLE = {
    "stream_options": "streamUsage=false",
    "max_completion_tokens": "maxTokensParam=max_tokens",
    "max_tokens": "maxTokensParam=max_completion_tokens",
    "temperature": "omitSampling=true",
    "top_p": "topP=1",
}
"""Members of the body that some servers refuse, with the profile key that leaves them out."""
OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

Sleep = Callable[[float], Awaitable[None]]


class Requests:
    """Sends requests over one transport; keeps what they share: the gate and the model name of an endpoint."""

    def __init__(
        self, transport: Transport, *, sleep: Sleep = asyncio.sleep, chance: Callable[[], float] = random.random
    ) -> None:
        self.transport = transport
        self.sleep = sleep
        self.chance = chance
        self._gates: dict[tuple[str, str, str], Gate] = {}
        self._models: dict[tuple[str, str, str], str] = {}

    def stream(self, client: Client, request: ChatRequest, *, count: TextCounter) -> "CompletionStream":
        """Make a stream; nothing is sent before it is entered and iterated. `count` estimates what is not reported."""
        return CompletionStream(self, client, request, count)

    def gate(self, profile: ModelProfile) -> Gate:
        """The gate of the profile's endpoint: provider, host and model."""
        key = (profile.provider, urlsplit(profile.url).netloc, profile.model)
        return self._gates.setdefault(key, Gate())

    async def model_names(self, client: Client, profile: ModelProfile) -> list[str]:
        """What the server lists; raises RequestError."""
        url, headers = client.models_request(profile)
        place = Place.of(profile, url)
        seconds = profile.options.connect_timeout
        limits = Limits(connect=seconds, progress=seconds, idle=seconds)
        status, body = await self.transport.get(url, headers=headers, place=place, limits=limits, limit=MAX_BODY)
        if status != 200:
            raise status_error(status, {}, body[:MAX_ERROR_BODY], place)
        try:
            return client.model_ids(msgspec.json.decode(body))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise unexpected_type("something else", body, place) from error

    async def model(self, client: Client, profile: ModelProfile) -> str:
        """The profile's model, else the first one the server lists, else nothing; failures are not remembered."""
        if profile.model.strip():
            return profile.model
        key = (profile.category, profile.url, profile.api_key)
        if key not in self._models:
            try:
                names = await self.model_names(client, profile)
            except RequestError as error:
                log.info("models of %s cannot be listed: %s", profile.name, error)
                return ""
            if not names:
                return ""
            self._models[key] = names[0]
        return self._models[key]


class CompletionStream:
    """One completion under way; see `engine.completion.Stream`. Leaving its block early closes the connection."""

    def __init__(self, requests: Requests, client: Client, request: ChatRequest, count: TextCounter) -> None:
        self.warnings: list[str] = []
        """What a person should know although the answer came."""
        self._requests = requests
        self._client = client
        self._request = request
        self._count = count
        self._chunks = self._run()
        self._wire: WireRequest | None = None
        self._attempt: Attempt | None = None
        self._completion: Completion | None = None
        self._empty: list[CompletionStatistics] = []
        """Of answers that were empty and asked for again."""
        self._until = self._load_until = inf
        self._sent = 0
        self._retries = 0
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
        return self._completion or self._complete(broken=True)

    async def _run(self) -> AsyncGenerator[Chunk, None]:
        options = self._request.profile.options
        gate = self._requests.gate(self._request.profile)
        if not gate.enter_now(options.max_concurrent):
            yield Chunk(phase=Phase.QUEUED)
            await gate.enter(options.max_concurrent)
        try:
            now = asyncio.get_running_loop().time()
            self._until = now + options.total_timeout if options.total_timeout else inf
            self._load_until = now + options.first_token_timeout
            while self._completion is None:
                if chunk := self._enter(Phase.CONNECTING):
                    yield chunk
                attempt = await self._start()
                try:
                    if await attempt.connected() and (chunk := self._enter(Phase.READING_PROMPT)):
                        yield chunk
                    await attempt.opened()
                    while (chunks := await attempt.read()) is not None:
                        for chunk in chunks:
                            yield chunk
                    failure = self._judge()
                except RequestError as error:
                    failure = error
                finally:
                    await attempt.close()
                if failure is None:
                    return
                delay, notice = self._repeat(failure)
                if notice:
                    yield notice
                if delay:
                    await self._requests.sleep(delay)
        finally:
            gate.leave()

    async def _start(self) -> Attempt:
        request = self._request
        if self._wire is None:
            self._fit(input_budget(request.profile))
            request = self._request
            self._wire = self._client.form(request, await self._requests.model(self._client, request.profile))
        options = request.profile.options
        limits = Limits(
            connect=options.connect_timeout,
            progress=options.first_token_timeout,
            idle=options.idle_timeout,
            until=self._until,
        )
        place = Place.of(request.profile, self._wire.url)
        self._sent += 1
        self._attempt = Attempt(self._requests.transport, self._client, request, self._wire, place, limits)
        return self._attempt

    def _fit(self, budget: int) -> bool:
        """Leave out old turns that do not fit; whether any went. Raises ContextTooLong when the rest is too much."""
        turns = self._request.conversation.turns
        if budget <= 0 or _surely_fits(turns, budget):
            return False
        try:
            fit = fitted(turns, budget, self._count)
        except ContextTooLong as error:
            profile = self._request.profile
            error.facts.update(Place.of(profile, profile.url).facts())
            raise
        if fit.turns == turns:
            return False
        self._request = replace(self._request, conversation=Conversation(fit.turns))
        note = f"The prompt of {fit.before} tokens was shortened to {fit.after} by leaving out its oldest turns."
        self.warnings.append(note)
        if fit.context_too_small:
            self.warnings.append("The context is too small: even the last exchange before the question was left out.")
        log.warning("%s: %s", self._request.profile.name, note)
        return True

    def _shorten(self, error: RequestError) -> bool:
        """After a refusal as too long: try once with three quarters of the prompt, if anything can go."""
        if not isinstance(error, ContextTooLong) or "length" in self._adapted:
            return False
        self._adapted.add("length")
        try:
            shorter = self._fit(list_tokens(self._request.conversation.turns, self._count) * 3 // 4)
        except ContextTooLong:
            return False
        if shorter:
            self._wire = None
        return shorter

    def _enter(self, phase: Phase) -> Chunk | None:
        """The chunk that tells of a phase, unless the call is in it; loading lasts until the answer begins."""
        if self._phase is phase or self._phase is Phase.LOADING_MODEL:
            return None
        self._phase = phase
        return Chunk(phase=phase)

    def _judge(self) -> RequestError | None:
        """Complete the answer; an empty one is asked for once more and reported as a failure until then."""
        done = self._complete()
        if done.no_answer and not (self._attempt and self._attempt.answer.progress):
            place = Place.of(self._request.profile, self._request.profile.url)
            failure = ProtocolError("The answer is empty.", hint="Try again.", facts=place.facts())
            if self._may_repeat(failure):
                self._empty.append(done.statistics)
                return failure
        self._completion = done
        return None

    def _complete(self, *, broken: bool = False) -> Completion:
        """What the attempt has brought; of a broken one the prompt is estimated, too: it was paid all the same."""
        attempt = self._attempt
        answer = attempt.answer if attempt else Answer()
        content, reasoning = answer.text, answer.thoughts
        profile = self._request.profile
        used = account(
            answer.usage,
            answer.timings,
            prompt=self._request.conversation.text if broken and answer.progress else None,
            content=content,
            reasoning=reasoning,
            prices=profile.prices,
            count=self._count,
        )
        now = time.monotonic()
        if attempt and (answer.progress or answer.usage or answer.finish):
            first = None if attempt.first_token is None else attempt.first_token - attempt.sent
            used = replace(used, duration=now - attempt.sent, first_token=first)
        else:
            used = replace(used, requests=0, estimated=False)
        blank = not content.strip() and not answer.calls
        finish = FINISH_REASONS.get(answer.finish or "", FinishReason.DONE)
        if finish is FinishReason.DONE and answer.calls:
            finish = FinishReason.TOOL_CALLS
        if blank and answer.refusal:
            finish = FinishReason.CONTENT_FILTERED
        return Completion(
            content=content,
            reasoning=reasoning,
            tool_calls=answer.calls,
            finish_reason=finish,
            finish_raw=answer.finish or "",
            statistics=_sum([*self._empty, used]),
            refusal=answer.refusal if blank else "",
            no_answer=blank and finish is not FinishReason.CONTENT_FILTERED,
            skipped_chunks=answer.skipped,
            model=answer.model or profile.model,
            profile=profile.name,
        )

    def _repeat(self, error: RequestError) -> tuple[float, Chunk | None]:
        """Seconds until the next attempt, and what to say about it; raises the error when there is none."""
        answer = self._attempt.answer if self._attempt else Answer()
        error.partial, error.partial_reasoning = answer.text, answer.thoughts
        if self._sent > 1:
            error.facts["attempts"] = str(self._sent)
        if answer.progress:
            raise error
        if isinstance(error, ServerError) and error.loading:
            return self._loading(error)
        if self._shorten(error) or self._adapt(error):
            return 0.0, self._notice(error, 0.0)
        if not self._may_repeat(error):
            raise error
        delay = self._delay()
        if delay > LONGEST_WAIT:
            error.facts["asked to wait"] = f"{delay:.0f} s"
            if f"{delay:.0f} seconds" not in error.hint:
                error.hint = f"The server asks to wait {delay:.0f} seconds. {error.hint}"
            raise error
        if asyncio.get_running_loop().time() + delay > self._until:
            raise error
        self._retries += 1
        self._odd_answers += isinstance(error, ProtocolError)
        self._phase = None
        return delay, self._notice(error, delay)

    def _may_repeat(self, error: RequestError) -> bool:
        if isinstance(error, ProtocolError) and self._odd_answers:
            return False
        status = error.status if isinstance(error, ServerError | RequestRejected) else 200
        return (
            error.retryable
            and (status or 200) in REPEATED
            and self._retries < self._request.profile.options.max_retries
        )

    def _delay(self) -> float:
        asked = self._attempt.asked_wait if self._attempt else None
        if asked is not None:
            return asked
        options = self._request.profile.options
        longest = min(options.retry_max_delay, options.retry_base_delay * 2.0**self._retries)
        return longest * (0.5 + 0.5 * self._requests.chance())

    def _notice(self, error: RequestError, delay: float) -> Chunk:
        number = self._sent + 1
        attempts = max(self._request.profile.options.max_retries + 1, number)
        return Chunk(retry=RetryNotice(attempt=number, attempts=attempts, delay=delay, reason=error.message))

    def _loading(self, error: ServerError) -> tuple[float, Chunk | None]:
        if asyncio.get_running_loop().time() + LOADING_INTERVAL > min(self._load_until, self._until):
            raise error
        self._sent -= 1  # asking whether it is loaded is no attempt
        if self._phase is Phase.LOADING_MODEL:
            return LOADING_INTERVAL, None
        self._phase = Phase.LOADING_MODEL
        return LOADING_INTERVAL, Chunk(phase=Phase.LOADING_MODEL)

    def _adapt(self, error: RequestError) -> bool:
        """Leave out or rename what a 400 names, once each; such a repeat is not counted."""
        wire = self._wire
        if wire is None or not isinstance(error, RequestRejected) or error.status not in (400, 413, 422):
            return False
        words = f"{error.message} {error.facts.get('parameter', '')}"
        for name in ADAPTABLE:
            if name in wire.body and name not in self._adapted and re.search(rf"\b{name}\b", words):
                self._adapted.add(name)
                other = OTHER_LIMIT.get(name)
                renamed = {other: wire.body[name]} if other and other not in wire.body else {}
                self._wire = wire.changed({name: None, **renamed})
                instead = f"with {other}" if renamed else "without it"
                self.warnings.append(
                    f"The server refuses {name}; the request was repeated {instead}. "
                    f"{ADAPTABLE[name]} in the profile {self._request.profile.name} avoids this."
                )
                log.warning("%s", self.warnings[-1])
                return True
        return False


def _surely_fits(turns: Sequence[Turn], budget: int) -> bool:
    """Whether counting is not needed: no token is shorter than a byte."""
    texts = [text for turn in turns for text in (turn.text, turn.tool_call_id)]
    texts += [text for turn in turns for call in turn.tool_calls for text in (call.name, call.arguments)]
    return 16 * len(turns) + 16 + 4 * sum(map(len, texts)) <= budget


def _sum(parts: Sequence[CompletionStatistics]) -> CompletionStatistics:
    """The last one with the tokens, money and time of those before."""
    last = parts[-1]
    for part in parts[:-1]:
        last = replace(
            last,
            requests=last.requests + part.requests,
            duration=last.duration + part.duration,
            in_tokens=last.in_tokens + part.in_tokens,
            cached_in_tokens=last.cached_in_tokens + part.cached_in_tokens,
            out_tokens=last.out_tokens + part.out_tokens,
            reasoning_out_tokens=last.reasoning_out_tokens + part.reasoning_out_tokens,
            cost=last.cost + part.cost,
            estimated=last.estimated or part.estimated,
        )
    return last
