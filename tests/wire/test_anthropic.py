"""Anthropic Messages over a real socket: the exact request, answers of both kinds, pauses, errors."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from engine import Agent, AgentType, Context, Engine, Flow, MemoryCache, Tool
from engine.completion import Completion, FinishReason, Phase
from engine.content import ThinkingPart
from engine.conversation import Conversation, ImagePart, Role, ToolChoice, ToolDefinition, ToolResult, Turn
from engine.errors import AuthenticationFailed, ContextTooLong, RateLimited, RequestRejected, ServerError
from engine.events import CompletionFinished
from engine.profile import ModelProfile, Provider
from tests.helpers.asking import HEADERS, ask, converse, profile_for
from tests.helpers.fake_server import JSON, Answer, FakeServer, event, failure, json_answer

TOOL = ToolDefinition(
    name="weather", description="Tells it.", parameters={"type": "object", "properties": {"city": {"type": "string"}}}
)


def profile(url: str, **options: Any) -> ModelProfile:
    model = options.pop("model", "claude-sonnet-4-5")
    return replace(profile_for(url, **options), provider=Provider.ANTHROPIC, model=model, max_tokens=64)


def named(kind: str, **members: object) -> bytes:
    return b"event: " + kind.encode() + b"\n" + event({"type": kind, **members})


def events(blocks: list[dict[str, Any]], stop: str = "end_turn") -> Answer:
    """The stream of an answer of these blocks, each in two pieces."""
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 100,
        "output_tokens": 1,
    }
    pieces = [named("message_start", message={"model": "claude-sonnet-4-5-20250929", "content": [], "usage": usage})]
    for index, block in enumerate(blocks):
        pieces += _block_events(index, block)
    pieces.append(named("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 7}))
    return Answer(pieces=[*pieces, named("message_stop")], framing="chunked")


def _block_events(index: int, block: dict[str, Any]) -> list[bytes]:
    deltas: list[dict[str, object]] = []
    started = dict(block)
    for member, kind in {"text": "text_delta", "thinking": "thinking_delta", "signature": "signature_delta"}.items():
        if member in block:
            started[member] = ""
            half = len(block[member]) // 2
            deltas += [{"type": kind, member: part} for part in (block[member][:half], block[member][half:])]
    if "input" in block:
        started["input"] = {}
        deltas.append({"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
    return [
        named("content_block_start", index=index, content_block=started),
        named("ping"),
        *(named("content_block_delta", index=index, delta=part) for part in deltas),
        named("content_block_stop", index=index),
    ]


def document(blocks: list[dict[str, Any]], stop: str = "end_turn") -> Answer:
    """The same answer in one piece."""
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 100,
        "output_tokens": 7,
    }
    body = {"type": "message", "model": "claude-sonnet-4-5-20250929", "content": blocks, "stop_reason": stop}
    return json_answer({**body, "usage": usage})


THOUGHT = {"type": "thinking", "thinking": "Need tools ✓", "signature": "EqQB"}
ANSWER = [
    THOUGHT,
    {"type": "text", "text": "Checking."},
    {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}},
]


async def test_the_exact_request() -> None:
    with FakeServer(events([{"type": "text", "text": "Hi"}])) as server:
        asked = profile(server.url, headers={"anthropic-beta": "b-1"}, ext_params={"top_k": 4, "system": "mine"})
        outcome = await converse(
            replace(asked, temperature=1.5, top_p=0.9),
            Conversation.create("Be brief.", "Hello"),
            ToolChoice.required([TOOL]),
            stop=["END"],
        )
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.body == (
        b'{"model":"claude-sonnet-4-5","max_tokens":64,"messages":[{"role":"user","content":[{"type":"text",'
        b'"text":"Hello"}]}],"system":"Be brief.","temperature":1.0,"stream":true,"stop_sequences":["END"],'
        b'"tools":[{"name":"weather","description":"Tells it.","input_schema":{"type":"object","properties":'
        b'{"city":{"type":"string"}}}}],"tool_choice":{"type":"any"},"top_k":4}'
    )
    own = {"x-api-key": "secret-key-0123", "anthropic-version": "2023-06-01", "anthropic-beta": "b-1"}
    assert request.own_headers == HEADERS | own
    assert outcome.done.content == "Hi"


@pytest.mark.parametrize(
    ("scheme", "version", "expected"),
    [
        ("auto", "2024-01-01", {"x-api-key": "secret-key-0123", "anthropic-version": "2024-01-01"}),
        ("bearer", "", {"authorization": "Bearer secret-key-0123", "anthropic-version": "2023-06-01"}),
        ("none", "", {"anthropic-version": "2023-06-01"}),
    ],
)
async def test_key_and_version(scheme: str, version: str, expected: dict[str, str]) -> None:
    with FakeServer(events([{"type": "text", "text": "Hi"}])) as server:
        await ask(profile(server.url, auth_scheme=scheme, api_version=version))
    headers = server.requests[0].headers
    names = ("x-api-key", "authorization", "anthropic-version")
    assert {name: headers[name] for name in names if name in headers} == expected


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_answer_of_all_kinds_of_blocks(streamed: bool) -> None:
    with FakeServer((events if streamed else document)(ANSWER, "tool_use")) as server:
        outcome = await ask(profile(server.url, supports_streaming=streamed))
    assert server.requests[0].json()["stream"] is streamed
    done = outcome.done
    assert (done.content, done.reasoning) == (outcome.text, outcome.reasoning) == ("Checking.", "Need tools ✓")
    assert outcome.phases == [Phase.CONNECTING, Phase.READING_PROMPT, Phase.THINKING, Phase.ANSWERING]
    (call,) = done.tool_calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("toolu_1", "weather", {"city": "Oslo"})
    assert (done.finish_reason, done.finish_raw) == (FinishReason.TOOL_CALLS, "tool_use")
    assert done.kept == (ThinkingPart(text="Need tools ✓", signature="EqQB"),)
    assert done.model == "claude-sonnet-4-5-20250929"
    used = done.statistics
    assert (used.in_tokens, used.cached_in_tokens) == (15, 100)
    assert used.out_tokens + used.reasoning_out_tokens == 7


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.DONE),
        ("stop_sequence", FinishReason.DONE),
        ("something_new", FinishReason.DONE),
        ("max_tokens", FinishReason.TOKEN_LIMIT_REACHED),
        ("model_context_window_exceeded", FinishReason.TOKEN_LIMIT_REACHED),
        ("refusal", FinishReason.CONTENT_FILTERED),
    ],
)
async def test_stop_reasons(reason: str, finish: FinishReason) -> None:
    with FakeServer(events([{"type": "text", "text": "Some."}], reason)) as server:
        done = (await ask(profile(server.url))).done
    assert (done.finish_reason, done.finish_raw, done.content) == (finish, reason, "Some.")


async def test_a_tool_round_sends_signed_thinking_back_unchanged() -> None:
    with FakeServer(events(ANSWER, "tool_use"), events([{"type": "text", "text": "Cold."}])) as server:
        asked = profile(server.url, thinking_mode="budget", thinking_budget=1024)
        conversation = Conversation.create("", "Weather?")
        tools = ToolChoice.auto([TOOL])
        first = (await converse(asked, conversation, tools)).done
        results = [ToolResult(call_id="toolu_1", output="-3", failed=False)]
        conversation = conversation.add_tool_round(
            first.content, first.tool_calls, results, kept=first.kept, origin=first.origin
        )
        last = (await converse(asked, conversation, tools)).done
    assert last.content == "Cold."
    body = server.requests[1].json()
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert body["max_tokens"] == 1088
    assert body["messages"][1:] == [
        {"role": "assistant", "content": ANSWER},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "-3"}],
        },
    ]


async def test_pictures() -> None:
    picture = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
    with FakeServer(events([{"type": "text", "text": "A dot."}])) as server:
        await converse(profile(server.url), Conversation((Turn(role=Role.USER, text="see", images=(picture,)),)))
    (message,) = server.requests[0].json()["messages"]
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert message["content"] == [{"type": "text", "text": "see"}, {"type": "image", "source": source}]


async def test_an_answer_that_pauses_goes_on_from_there() -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "fjord"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"title": "Fjords"}]}
    pauses = [
        events([THOUGHT, {"type": "text", "text": "Let me look. "}, search], "pause_turn"),
        events([found, {"type": "text", "text": "It is "}], "pause_turn"),
        events([{"type": "text", "text": "deep."}]),
    ]
    with FakeServer(*pauses) as server:
        outcome = await ask(profile(server.url))
    done = outcome.done
    assert done.content == outcome.text == "Let me look. It is deep."
    assert (done.reasoning, done.finish_reason, done.finish_raw) == ("Need tools ✓", FinishReason.DONE, "end_turn")
    assert done.kept == (ThinkingPart(text="Need tools ✓", signature="EqQB"),)
    assert done.statistics.requests == 3
    assert (done.statistics.in_tokens, done.statistics.cached_in_tokens) == (45, 300)
    assert not done.tool_calls
    first, second, third = (request.json()["messages"] for request in server.requests)
    told = [THOUGHT, {"type": "text", "text": "Let me look. "}, search]
    assert second == [*first, {"role": "assistant", "content": told}]
    assert third == [
        *first,
        {"role": "assistant", "content": [*told, found, {"type": "text", "text": "It is "}]},
    ]


async def test_a_pause_without_words_is_no_empty_answer() -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "fjord"}}
    with FakeServer(events([search], "pause_turn"), events([{"type": "text", "text": "Deep."}])) as server:
        outcome = await ask(profile(server.url))
    assert (outcome.done.content, len(server.requests), outcome.retries) == ("Deep.", 2, [])


async def test_an_answer_that_never_ends_pausing_is_taken_as_it_is() -> None:
    with FakeServer(events([{"type": "text", "text": "a"}], "pause_turn")) as server:
        outcome = await ask(profile(server.url))
    assert (outcome.done.content, len(server.requests)) == ("a" * 21, 21)
    assert outcome.warnings == ["The answer paused more than 20 times; it ends where it was then."]


async def test_what_came_before_a_pause_is_kept_when_the_rest_fails() -> None:
    with FakeServer(events([{"type": "text", "text": "Half"}], "pause_turn"), failure(500)) as server:
        outcome = await ask(profile(server.url))
    assert isinstance(outcome.failure, ServerError)
    assert outcome.failure.partial == "Half"
    assert len(server.requests) == 2
    assert isinstance(so_far := outcome.so_far, Completion)
    assert (so_far.content, so_far.statistics.requests) == ("Half", 1)


def error(status: int, kind: str, message: str, **headers: str) -> Answer:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return Answer(status=status, headers={**JSON, **headers}, pieces=[json.dumps(body).encode()], framing="length")


@pytest.mark.parametrize(
    ("answer", "kind", "sent"),
    [
        (error(401, "authentication_error", "invalid x-api-key"), AuthenticationFailed, 1),
        (error(429, "rate_limit_error", "Slow down", **{"retry-after": "2"}), RateLimited, 3),
        (error(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), ContextTooLong, 1),
        (error(529, "overloaded_error", "Overloaded"), ServerError, 3),
        (error(500, "api_error", "Internal server error"), ServerError, 3),
    ],
)
async def test_errors(answer: Answer, kind: type[Exception], sent: int) -> None:
    with FakeServer(answer) as server:
        outcome = await ask(profile(server.url))
    assert isinstance(outcome.failure, kind)
    assert len(server.requests) == sent
    assert outcome.waits == [2.0, 2.0] * (kind is RateLimited) or kind is not RateLimited


async def test_overloaded_before_the_first_word_is_repeated_and_after_it_is_not() -> None:
    overloaded = named("error", error={"type": "overloaded_error", "message": "Overloaded"})
    with FakeServer(Answer(pieces=[overloaded]), events([{"type": "text", "text": "Now."}])) as server:
        outcome = await ask(profile(server.url))
    assert (outcome.done.content, len(outcome.retries)) == ("Now.", 1)
    begun = [*_block_events(0, {"type": "text", "text": "Half"}), overloaded]
    with FakeServer(Answer(pieces=begun)) as server:
        outcome = await ask(profile(server.url))
    assert isinstance(outcome.failure, ServerError)
    assert "overloaded: Overloaded" in str(outcome.failure)
    assert (outcome.failure.partial, outcome.text, len(server.requests)) == ("Half", "Half", 1)


async def test_a_schema_that_the_model_refuses_is_left_out() -> None:
    refused = error(400, "invalid_request_error", "output_config: Extra inputs are not permitted")
    with FakeServer(refused, events([{"type": "text", "text": "{}"}])) as server:
        outcome = await converse(
            profile(server.url), Conversation.create("", "q"), responseFormat={"type": "object", "title": "t"}
        )
    first, second = (request.json() for request in server.requests)
    assert second == {name: value for name, value in first.items() if name != "output_config"}
    assert "output_config" in outcome.warnings[0]


async def test_the_limit_of_tokens_has_no_other_name_here() -> None:
    refused = error(400, "invalid_request_error", "max_tokens: 99999 > 64000, which is the maximum allowed")
    with FakeServer(refused) as server:
        outcome = await ask(profile(server.url))
    assert isinstance(outcome.failure, RequestRejected)
    assert "max_tokens: 99999 > 64000" in str(outcome.failure)
    assert len(server.requests) == 1


async def test_models_are_listed() -> None:
    listed = Answer(headers=JSON, pieces=[b'{"data":[{"id":"claude-a","type":"model"}],"has_more":false}'])
    with FakeServer(events([{"type": "text", "text": "Hi"}]), get=listed) as server:
        outcome = await ask(replace(profile(server.url), model=""))
    assert (server.gets[0].path, server.gets[0].headers["x-api-key"]) == ("/v1/models?limit=1000", "secret-key-0123")
    assert server.gets[0].headers["anthropic-version"] == "2023-06-01"
    assert server.requests[0].json()["model"] == "claude-a"
    assert outcome.done.content == "Hi"


async def test_a_model_without_budgets_thinks_as_it_likes_and_says_so() -> None:
    with FakeServer(events([{"type": "text", "text": "Hi"}])) as server:
        outcome = await ask(profile(server.url, model="claude-opus-4-7", thinking_mode="budget"))
    body = server.requests[0].json()
    assert (body["thinking"], "temperature" in body) == ({"type": "adaptive"}, False)
    (warning,) = outcome.warnings
    assert "claude-opus-4-7 takes no budget" in warning


async def test_a_flow_keeps_thinking_through_rounds_cache_and_record() -> None:
    async def weather(city: str) -> str:
        return f"Rain in {city}"

    with FakeServer(events(ANSWER, "tool_use"), events([{"type": "text", "text": "Wet."}])) as server:
        agent = Agent(
            "Ask",
            AgentType.COMPLETION,
            profile=profile(server.url),
            template="Weather?",
            tools=[Tool(definition=TOOL, function=weather)],
        )
        async with Engine(cache=MemoryCache()) as engine:
            runs = []
            for _ in range(2):
                async with engine.run(Flow(name="Weather", agents=(agent,)), Context()) as run:
                    runs.append([event async for event in run])
                    assert run.contexts[0].text("response") == "Wet."
    # The second run asks the same, thinking included, and is answered from the cache.
    assert len(server.requests) == 2
    assert server.requests[1].json()["messages"][1] == {"role": "assistant", "content": ANSWER}
    for recorded in runs:
        first = next(event for event in recorded if isinstance(event, CompletionFinished))
        assert first.kept == (ThinkingPart(text="Need tools ✓", signature="EqQB"),)
        assert first.origin == "ANTHROPIC_MESSAGES claude-sonnet-4-5"
        again = msgspec.json.decode(msgspec.json.encode(first), type=CompletionFinished)
        assert again == first
