"""OpenRouter over a real socket: reasoning that goes back, the cost as reported, limits and prices from its list."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from engine.clients.base import ChatRequest
from engine.clients.openrouter import OpenRouterClient
from engine.completion import FinishReason
from engine.content import OutputItemPart
from engine.conversation import Conversation, Role, ToolChoice, ToolDefinition, ToolResult, Turn
from engine.errors import AuthenticationFailed, ContextTooLong, RateLimited, RequestRejected, ServerError
from engine.profile import ModelProfile, Provider
from engine.statistics import CostProvenance
from tests.helpers.asking import HEADERS, ask, converse, profile_for
from tests.helpers.fake_server import DONE, JSON, Answer, FakeServer, Received, chat, delta, event, json_answer

TOOL = ToolDefinition(name="weather")
MODEL: dict[str, Any] = {
    "id": "maker/clever",
    "context_length": 200_000,
    "top_provider": {"context_length": 1000, "max_completion_tokens": 32},
    "supported_parameters": ["max_tokens", "tools", "reasoning", "include_reasoning"],
    "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
}
FREE = {"id": "maker/free", "context_length": 4096, "pricing": {"prompt": "0", "completion": "0"}}


def profile(url: str, **options: Any) -> ModelProfile:
    model = options.pop("model", "maker/clever")
    return replace(profile_for(url, **options), provider=Provider.OPENROUTER, model=model, max_tokens=64)


def listing(*models: dict[str, Any]) -> Answer:
    return json_answer({"data": models})


async def test_the_exact_request_within_the_limits_of_the_model() -> None:
    with FakeServer(chat("Hi"), get=listing(FREE, MODEL)) as server:
        asked = profile(server.url, headers={"X-Title": "Mine"})
        outcome = await converse(
            replace(asked, reasoning_effort="high"), Conversation.create("", "Hello"), ToolChoice.auto([TOOL])
        )
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.body == (
        b'{"model":"maker/clever","messages":[{"role":"user","content":"Hello"}],"max_tokens":32,"temperature":0.0,'
        b'"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high","tools":[{"type":"function",'
        b'"function":{"name":"weather","description":"","parameters":{"type":"object","properties":{}}}}],'
        b'"tool_choice":"auto","usage":{"include":true}}'
    )
    assert request.own_headers == HEADERS | {"authorization": "Bearer secret-key-0123", "x-title": "Mine"}
    # Only the models the account may use were asked for: this one was among them.
    assert [(asked.path, asked.headers["authorization"]) for asked in server.gets] == [
        ("/v1/models/user", "Bearer secret-key-0123")
    ]
    # 7 tokens in and 3 out, at the prices of the list.
    used = outcome.done.statistics
    assert (used.cost, used.provenance) == (Decimal("0.000066"), CostProvenance.MEASURED)


def test_the_service_needs_no_url() -> None:
    asked = profile("")
    wire = OpenRouterClient().form(ChatRequest.create(asked, Conversation.create("", "q")), "m")
    assert wire.url == "https://openrouter.ai/api/v1/chat/completions"
    assert OpenRouterClient().models_request(asked)[0] == "https://openrouter.ai/api/v1/models"


async def test_what_the_model_does_not_take_is_left_out() -> None:
    plain = {**MODEL, "supported_parameters": ["max_completion_tokens"]}

    def lists(request: Received) -> Answer:
        return Answer(status=404, headers=JSON) if request.path.endswith("/user") else listing(plain)

    with FakeServer(chat("Hi"), get=lists) as server:
        asked = replace(profile(server.url), reasoning_effort="high")
        await converse(asked, Conversation.create("", "q"))
        with pytest.raises(RequestRejected, match="maker/clever takes no tools") as caught:
            await converse(asked, Conversation.create("", "q"), ToolChoice.auto([TOOL]))
    assert "struct_parse" in caught.value.hint
    (request,) = server.requests
    body = request.json()
    assert not {"reasoning_effort", "max_tokens"} & body.keys()
    assert body["max_completion_tokens"] == 32
    assert [request.path for request in server.gets[:2]] == ["/v1/models/user", "/v1/models"]


@pytest.mark.parametrize("get", [None, listing(), Answer(headers=JSON, pieces=[b"no json"], framing="length")])
async def test_without_the_list_the_profile_decides(get: Answer | None) -> None:
    with FakeServer(chat("Hi"), get=get) as server:
        outcome = await converse(profile(server.url), Conversation.create("", "q"), ToolChoice.auto([TOOL]))
    body = server.requests[0].json()
    assert (body["max_tokens"], len(body["tools"])) == (64, 1)
    assert outcome.done.statistics.provenance is CostProvenance.UNKNOWN


async def test_the_context_of_the_model_is_kept() -> None:
    with FakeServer(chat("Hi"), get=listing(MODEL)) as server, pytest.raises(ContextTooLong) as caught:
        await converse(profile(server.url), Conversation.create("", "word " * 1000))
    assert caught.value.facts["limit"] == str(1000 - 32 - 15)
    assert not server.requests


async def test_the_first_free_model() -> None:
    with FakeServer(chat("Hi"), get=listing(MODEL, FREE)) as server:
        done = (await ask(profile(server.url, model=""))).done
    assert server.requests[0].json()["model"] == "maker/free"
    assert done.statistics.provenance is CostProvenance.FREE


def thought(text: str, **more: object) -> bytes:
    detail = {"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0, **more}
    return delta("", reasoning=text, reasoning_details=[detail])


SEALED = {"type": "reasoning.encrypted", "data": "ENC", "id": "r1", "format": "openai-responses-v1", "index": 1}
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
KEPT = [
    {
        "type": "reasoning.text",
        "text": "The lead is late.",
        "format": "anthropic-claude-v1",
        "index": 0,
        "signature": "SIG",
    },
    SEALED,
]


@pytest.mark.parametrize("streamed", [True, False])
async def test_reasoning_goes_back_unchanged(streamed: bool) -> None:
    if streamed:
        first = Answer(
            pieces=[
                b": OPENROUTER PROCESSING\n\n",
                thought("The lead "),
                thought("is late.", signature=None),
                delta("", reasoning_details=[{"type": "reasoning.text", "signature": "SIG", "index": 0}]),
                delta("", reasoning_details=[SEALED]),
                delta(tool_calls=[CALL]),
                delta(finish="tool_calls"),
                event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.5}}),
                DONE,
            ]
        )
    else:
        message = {"content": None, "reasoning": "The lead is late.", "reasoning_details": KEPT, "tool_calls": [CALL]}
        body = {
            "choices": [{"message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.5},
        }
        first = json_answer(body)
    question = Conversation.create("Be brief.", "Weather?").add_assistant("Where?").add_user("Oslo")
    with FakeServer(first, chat("Cold.")) as server:
        asked = profile(server.url)
        done = (await converse(asked, question, ToolChoice.auto([TOOL]))).done
        assert (done.reasoning, done.finish_reason) == ("The lead is late.", FinishReason.TOOL_CALLS)
        assert (done.statistics.cost, done.statistics.provenance) == (Decimal("0.5"), CostProvenance.MEASURED)
        assert [part.item for part in done.kept if isinstance(part, OutputItemPart)] == KEPT
        results = [ToolResult(call_id="c1", output="-3")]
        after = question.add_tool_round(done.content, done.tool_calls, results, kept=done.kept, origin=done.origin)
        await converse(asked, after, ToolChoice.auto([TOOL]))
        await converse(replace(asked, model="maker/other"), after, ToolChoice.auto([TOOL]))
    _, same, other = (request.json()["messages"] for request in server.requests)
    assert [message.get("reasoning_details") for message in same] == [None, None, None, None, KEPT, None]
    assert not any("reasoning_details" in message for message in other)


async def test_a_silent_answer_does_not_shift_the_reasoning() -> None:
    asked = profile("http://h")
    kept = (OutputItemPart(item=SEALED),)
    turns = (
        Turn(role=Role.ASSISTANT),
        Turn(role=Role.ASSISTANT, text="a", kept=kept, origin=asked.origin),
        Turn(role=Role.USER, text="q"),
    )
    messages: Any = OpenRouterClient().form(ChatRequest.create(asked, Conversation(turns)), "m").body["messages"]
    assert messages[0] == {"role": "assistant", "content": "a", "reasoning_details": [SEALED]}


async def test_an_error_in_the_middle_keeps_the_text() -> None:
    broken = {
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        "error": {"code": 502, "message": "Provider disconnected"},
    }
    with FakeServer(Answer(pieces=[delta("The first"), delta(" part"), event(broken)])) as server:
        outcome = await ask(profile(server.url))
    assert isinstance(outcome.failure, ServerError)
    assert "Provider disconnected" in str(outcome.failure)
    assert (outcome.failure.partial, len(server.requests)) == ("The first part", 1)


@pytest.mark.parametrize(
    ("status", "kind", "sent"),
    [
        (400, RequestRejected, 1),
        (401, AuthenticationFailed, 1),
        (402, RequestRejected, 1),
        (403, AuthenticationFailed, 1),
        (408, RequestRejected, 3),
        (429, RateLimited, 3),
        (502, ServerError, 3),
        (503, ServerError, 3),
    ],
)
async def test_errors_by_status(status: int, kind: type[Exception], sent: int) -> None:
    body = {"error": {"code": status, "message": "It is refused.", "metadata": {"provider_name": "Maker"}}}
    with FakeServer(json_answer(body, status), get=listing(MODEL)) as server:
        outcome = await ask(profile(server.url))
    assert type(outcome.failure) is kind
    assert "It is refused." in str(outcome.failure)
    assert len(server.requests) == sent
