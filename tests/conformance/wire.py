"""Wire fixtures: bodies a loopback server replays to the product's client, whole, byte by byte and cut at random."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.clients.recovery import Requests
from engine.clients.transport import Transport
from engine.completion import Completion, FinishReason
from engine.conversation import Conversation
from engine.errors import (
    AnswerIncomplete,
    AuthenticationFailed,
    ContextTooLong,
    EngineError,
    RateLimited,
    RequestError,
    RequestRejected,
    ServerError,
)
from engine.profile import ModelProfile, ProfileOptions, Provider
from engine.tokenizers import Tokenizers
from tests.conformance.cases import differences
from tests.helpers.fake_server import Answer, FakeServer

BODIES = (".sse", ".ndjson", ".json")
SUFFIX = ".expected.json"
RANDOM_CUTS = 3
"""How often each body is cut at random, with fixed seeds."""

PROVIDERS = {
    "chat": Provider.OPENAI_CHAT,
    "completions": Provider.OPENAI_TEXT,
    "responses": Provider.OPENAI_RESPONSES,
    "messages": Provider.ANTHROPIC,
    "ollama": Provider.OLLAMA,
}
THINK_TAGS = {None: "off", "leading": "on", "prefilled": "prefilled"}
FINISH = {
    "stop": FinishReason.DONE,
    "length": FinishReason.TOKEN_LIMIT_REACHED,
    "tool_calls": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTERED,
    "error": FinishReason.ERROR,
}
ERRORS: Mapping[str, type[RequestError]] = {
    "auth": AuthenticationFailed,
    "quota": RateLimited,
    "rate_limit": RateLimited,
    "loading": ServerError,
    "overloaded": ServerError,
    "context_overflow": ContextTooLong,
    "bad_request": RequestRejected,
    "server": ServerError,
    "truncated": AnswerIncomplete,
}


@dataclass(frozen=True, slots=True)
class Fixture:
    """A body with what must come of it."""

    path: Path
    body: bytes
    expected: Mapping[str, object]

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(SUFFIX)

    @property
    def runs(self) -> bool:
        """Whether the endpoint has a chat result at all."""
        return self.expected.get("api") is not None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the client made of a body."""

    completion: Completion
    error: EngineError | None


def fixture_at(path: Path) -> Fixture | None:
    """The fixture of an `.expected.json` file, None when its body is missing."""
    stem = path.with_name(path.name.removesuffix(SUFFIX))
    for suffix in BODIES:
        if (body := stem.with_name(stem.name + suffix)).is_file():
            return Fixture(path, body.read_bytes(), json.loads(path.read_text(encoding="utf-8")))
    return None


async def run_fixture(fixture: Fixture) -> list[str]:
    """What is wrong; empty when every delivery gives the expected result."""
    problems: list[str] = []
    for delivery, answer in deliveries(fixture):
        try:
            outcome = await replay(fixture, answer)
        except EngineError as error:
            return [f"{type(error).__name__}: {error}"]
        problems += [f"{delivery}: {problem}" for problem in compared(fixture.expected, outcome)]
    return problems


def deliveries(fixture: Fixture) -> Iterator[tuple[str, Answer]]:
    """The ways the body is sent: its pieces, and how the connection ends."""
    http = _map(fixture.expected.get("http"))
    delivery = _map(fixture.expected.get("delivery"))
    headers = {str(name): str(value) for name, value in _map(http.get("headers")).items()}
    if "content_type" in http:
        headers["Content-Type"] = str(http["content_type"])
    status = int(str(http.get("status", 200)))
    size = int(str(delivery.get("split_every_bytes", 1)))
    pieces = {"whole": [fixture.body], f"{size} bytes at a time": list(_cut(fixture.body, range(size, 1 << 30, size)))}
    for seed in range(RANDOM_CUTS):
        chance = random.Random(seed)
        cuts = sorted(chance.sample(range(len(fixture.body) + 1), k=min(20, len(fixture.body))))
        pieces[f"cut at random, seed {seed}"] = list(_cut(fixture.body, cuts))
    for name, parts in pieces.items():
        yield name, Answer(status=status, headers=headers, pieces=parts)
        if delivery.get("close") == "mid-event":
            yield (
                f"{name}, last chunk missing",
                Answer(status=status, headers=headers, pieces=parts, framing="chunked", end="cut"),
            )


def _cut(body: bytes, places: Iterable[int]) -> Iterator[bytes]:
    start = 0
    for place in places:
        if start >= len(body):
            return
        yield body[start:place]
        start = place
    yield body[start:]


async def replay(fixture: Fixture, answer: Answer) -> Outcome:
    """Ask a server that gives this answer."""
    kind = _map(fixture.expected.get("error")).get("kind")
    options = ProfileOptions(
        max_retries=0,
        first_token_timeout=0.5
        if kind == "loading"
        else 60.0,  # else a busy machine could make the byte by byte run fail
        think_tags=THINK_TAGS[fixture.expected.get("think_tags")],  # type: ignore[index]
    )
    return await _asked(PROVIDERS[str(fixture.expected["api"])], options, answer)


async def replay_body(body: bytes, api: str = "chat") -> Outcome:
    """Ask a server that sends these events."""
    options = ProfileOptions(max_retries=0, think_tags="off")
    return await _asked(PROVIDERS[api], options, Answer(pieces=[body]))


async def _asked(provider: Provider, options: ProfileOptions, answer: Answer) -> Outcome:
    transport, tokenizers = Transport(), Tokenizers()
    with FakeServer(answer) as server:
        profile = ModelProfile(
            name="conformance",
            category="M",
            provider=provider,
            model="m",
            url=server.url,
            api_key="k",
            max_tokens=64,
            prompt_strategy="noop",
            encoding="cl100k_base",
            options=options,
        )

        def count(text: str) -> int:
            return tokenizers.count_now(profile, text).tokens

        try:
            client = client_for(profile)
            await tokenizers.load(profile)
            request = ChatRequest.create(profile, Conversation.create("", "hi"))
            async with Requests(transport).stream(client, request, count=count) as stream:
                shown = {"content": "", "reasoning": ""}
                try:
                    async for chunk in stream:
                        shown["content"] += chunk.content
                        shown["reasoning"] += chunk.reasoning
                except RequestError as error:
                    return Outcome(_checked(stream.so_far, shown), error)
                return Outcome(_checked(stream.completion, shown), None)
        finally:
            await transport.aclose()


def _checked(done: Completion, shown: Mapping[str, str]) -> Completion:
    """The completion, which must hold exactly what the chunks showed."""
    if (done.content, done.reasoning) != (shown["content"], shown["reasoning"]):
        raise EngineError(f"the chunks showed {shown}, the completion holds {done.content!r}, {done.reasoning!r}")
    return done


def compared(expected: Mapping[str, object], outcome: Outcome) -> list[str]:
    """What differs from the expectation, by the rules of the fixtures' README."""
    done, error = outcome.completion, outcome.error
    wanted = _map(expected.get("error"))
    judged = expected.get("judged")
    content = str(expected["content"])
    if expected["api"] == "completions":  # raw answers have no outer white space
        content = content.strip()
    problems = differences(
        {"content": content, "reasoning": expected["reasoning"]},
        {"content": done.content, "reasoning": done.reasoning},
    )
    problems += _call_problems(expected.get("tool_calls"), done)
    if wanted:
        return problems + _error_problems(wanted, error)
    if judged == "provider_error":
        return problems + ([] if isinstance(error, ServerError) else [f"expected ServerError, got {error!r}"])
    if error is not None:
        return [*problems, f"expected no error, got {type(error).__name__}: {error}"]
    if judged == "empty_response" and not done.no_answer:
        problems.append("expected a completion marked no answer")
    if judged == "content_filter" and done.finish_reason is not FinishReason.CONTENT_FILTERED:
        problems.append(f"expected CONTENT_FILTERED, got {done.finish_reason}")
    if judged is None and (finish := expected.get("finish_reason")) is not None:
        problems += differences(FINISH[str(finish)].value, done.finish_reason.value, "$.finish_reason")
    if (refusal := expected.get("refusal")) is not None:
        problems += differences(refusal, done.refusal, "$.refusal")
    return problems + _usage_problems(expected, done)


def _call_problems(expected: object, done: Completion) -> list[str]:
    calls = expected if isinstance(expected, Sequence) else ()
    if len(calls) != len(done.tool_calls):
        return [f"expected {len(calls)} tool calls, got {done.tool_calls!r}"]
    problems = []
    for number, (wanted, got) in enumerate(zip(calls, done.tool_calls, strict=True)):
        problems += differences(wanted["name"], got.name, f"$.tool_calls[{number}].name")
        problems += differences(
            _arguments(wanted["arguments"]), _arguments(got.arguments), f"$.tool_calls[{number}].arguments"
        )
        if wanted.get("id") is not None:
            problems += differences(wanted["id"], got.id, f"$.tool_calls[{number}].id")
    ids = [call.id for call in done.tool_calls]
    if not all(ids) or len(set(ids)) != len(ids):
        problems.append(f"call ids must be unique and not empty: {ids}")
    return problems


def _arguments(value: object) -> object:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _error_problems(wanted: Mapping[str, object], error: EngineError | None) -> list[str]:
    kind = ERRORS[str(wanted["kind"])]
    if not isinstance(error, kind):
        return [f"expected {kind.__name__}, got {type(error).__name__}: {error}"]
    assert isinstance(error, RequestError)
    problems = []
    message = wanted.get("message")
    if message is not None and not any(str(message) in text for text in (str(error), *error.facts.values())):
        problems.append(f"expected the message {message!r}, got {str(error)!r}")
    problems += differences(wanted.get("retryable"), error.retryable, "$.error.retryable")
    if isinstance(error, RateLimited):
        problems += differences(wanted.get("retry_after_s"), error.retry_after, "$.error.retry_after_s")
        problems += differences(wanted["kind"] == "quota", error.quota, "$.error.quota")
    if isinstance(error, ServerError):
        problems += differences(wanted["kind"] == "loading", error.loading, "$.error.loading")
    if not error.hint:
        problems.append("the error has no hint")
    return problems


def _usage_problems(expected: Mapping[str, object], done: Completion) -> list[str]:
    used = done.statistics
    actual = {
        "in": used.in_tokens + used.cached_in_tokens,
        "cached_in": used.cached_in_tokens,
        "out": used.out_tokens + used.reasoning_out_tokens,
        "reasoning_out": used.reasoning_out_tokens,
    }
    problems = []
    for name, wanted in _map(expected.get("usage")).items():
        if wanted is not None:
            problems += differences(wanted, actual[name], f"$.usage.{name}")
    cost = expected.get("cost")
    if isinstance(cost, int | float) and cost > 0:
        problems += differences(cost, float(used.cost), "$.cost")
    return problems


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
