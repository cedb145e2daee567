"""Ollama's own interface over a real socket: the exact request, what the model is asked beforehand, its answers."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine import Engine
from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.clients.ollama import ollama_messages
from engine.completion import FinishReason, Phase
from engine.conversation import Conversation, ImagePart, Role, ToolCall, ToolChoice, ToolDefinition, Turn
from engine.errors import AnswerIncomplete, AuthenticationFailed, ProfileError, RequestRejected, ServerError
from engine.profile import ModelProfile, Provider
from tests.helpers.asking import HEADERS, ask, converse, profile_for, requests, words
from tests.helpers.fake_server import JSON, Answer, FakeServer, Received, json_answer

NDJSON = {"Content-Type": "application/x-ndjson"}
TOOL = ToolDefinition(name="weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}})


def profile(url: str, **options: Any) -> ModelProfile:
    model = options.pop("model", "qwen3:0.6b")
    return replace(profile_for(url, **options), provider=Provider.OLLAMA, model=model, max_tokens=64)


def line(*, done: str | None = None, counts: bool = True, **message: object) -> bytes:
    body: dict[str, object] = {"model": "qwen3:0.6b", "message": {"role": "assistant", "content": "", **message}}
    body["done"] = done is not None
    if done is not None:
        body |= {"done_reason": done, "total_duration": 812_000_000, "eval_count": 14}
        body |= {"prompt_eval_count": 26} if counts else {}
    return json.dumps(body).encode() + b"\n"


def lines(*pieces: bytes, end: bytes | None = None) -> Answer:
    return Answer(headers=NDJSON, pieces=[*pieces, end or line(done="stop")], framing="chunked")


def told(
    *capabilities: str, loaded: tuple[str, ...] = ("qwen3:0.6b",), family: str = "qwen3"
) -> Callable[[Received], Answer]:
    """What the server says about its models."""

    def answer(request: Received) -> Answer:
        body: dict[str, object] = {"models": [{"name": name, "model": name} for name in loaded]}
        if request.path == "/api/show":
            body = {"capabilities": list(capabilities), "details": {"family": family}}
        return json_answer(body)

    return answer


async def test_the_exact_request() -> None:
    with FakeServer(lines(line(content="Hi")), get=told("completion", "tools", "thinking")) as server:
        asked = profile(server.url, ext_params={"keep_alive": "10m", "options": {"top_k": 4}})
        outcome = await converse(
            replace(asked, max_context=4096, temperature=0.5, top_p=0.9),
            Conversation.create("Be brief.", "Hello"),
            ToolChoice.auto([TOOL]),
            stop=["END"],
            responseFormat={"type": "object"},
        )
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/chat")
    assert request.body == (
        b'{"model":"qwen3:0.6b","messages":[{"role":"system","content":"Be brief."},{"role":"user",'
        b'"content":"Hello"}],"stream":true,"think":true,"format":{"type":"object"},"tools":[{"type":"function",'
        b'"function":{"name":"weather","description":"","parameters":{"type":"object","properties":{"city":'
        b'{"type":"string"}}}}}],"options":{"num_predict":64,"num_ctx":4096,"temperature":0.5,"top_p":0.9,'
        b'"stop":["END"],"top_k":4},"keep_alive":"10m"}'
    )
    own = {"authorization": "Bearer secret-key-0123", "accept": "application/x-ndjson, application/json"}
    assert request.own_headers == HEADERS | own
    shown, loaded = server.gets
    assert (shown.method, shown.path, shown.json()) == ("POST", "/api/show", {"model": "qwen3:0.6b", "verbose": False})
    assert (loaded.method, loaded.path) == ("GET", "/api/ps")
    assert outcome.done.content == "Hi"
    assert outcome.phases == [Phase.CONNECTING, Phase.READING_PROMPT, Phase.ANSWERING]


@pytest.mark.parametrize("path", ["", "/", "/v1", "/api", "/api/chat"])
async def test_the_address(path: str) -> None:
    with FakeServer(lines(line(content="Hi"))) as server:
        await ask(profile(server.url + path))
    assert server.requests[0].path == "/api/chat"


@pytest.mark.parametrize(
    ("effort", "family", "think"),
    [
        (None, "qwen3", True),
        ("none", "qwen3", False),
        ("high", "qwen3", True),
        (None, "gptoss", True),
        ("minimal", "gptoss", "low"),
        ("xhigh", "gptoss", "high"),
    ],
)
async def test_how_long_to_think(effort: str | None, family: str, think: object) -> None:
    with FakeServer(lines(line(content="Hi")), get=told("thinking", family=family)) as server:
        await ask(replace(profile(server.url), reasoning_effort=effort))
    assert server.requests[0].json()["think"] == think


async def test_a_model_is_asked_about_once_and_only_for_what_it_can() -> None:
    with FakeServer(lines(line(content="Hi")), get=told("completion")) as server:
        async with requests() as sender:
            for _ in range(2):
                request = ChatRequest.create(profile(server.url), Conversation.create("", "q"))
                async with sender.stream(client_for(request.profile), request, count=words) as stream:
                    assert [chunk async for chunk in stream]
    assert [request.path for request in server.gets] == ["/api/show", "/api/ps"]
    assert all("think" not in request.json() for request in server.requests)


async def test_a_model_without_tools_calls_them_in_fenced_json() -> None:
    call = '```json\n{"function_name": "weather", "city": "Oslo"}\n```'
    with FakeServer(lines(line(content="I look.\n" + call)), get=told("completion")) as server:
        async with Engine() as engine:
            conversation = Conversation.create("", "Weather?")
            stream = engine.stream(profile(server.url), conversation, tools=ToolChoice.auto([TOOL]))
            async with stream as answer:
                shown = "".join([chunk.content async for chunk in answer])
    (request,) = server.requests
    assert "tools" not in request.json()
    assert "weather" in request.json()["messages"][0]["content"]
    assert shown.strip() == answer.completion.content == "I look."
    (called,) = answer.completion.tool_calls
    assert (called.name, json.loads(called.arguments)) == ("weather", {"city": "Oslo"})
    assert "takes no tools" in answer.warnings[0]


async def test_requests_that_begin_together_ask_about_the_model_once() -> None:
    with FakeServer(lines(line(content="Hi")), get=told("completion")) as server:
        async with requests() as sender:

            async def once() -> None:
                request = ChatRequest.create(profile(server.url), Conversation.create("", "q"))
                async with sender.stream(client_for(request.profile), request, count=words) as stream:
                    assert [chunk async for chunk in stream]

            await asyncio.gather(*(once() for _ in range(4)))
    assert [request.path for request in server.gets] == ["/api/show", "/api/ps"]
    assert len(server.requests) == 4


async def test_tools_are_offered_when_the_server_tells_nothing() -> None:
    with FakeServer(lines(line(content="Hi"))) as server:
        outcome = await converse(profile(server.url), Conversation.create("", "q"), ToolChoice.auto([TOOL]))
    assert server.requests[0].json()["tools"]
    assert "think" not in server.requests[0].json()
    assert outcome.warnings == []


async def test_a_forced_tool_is_the_only_one_and_none_is_none() -> None:
    other = replace(TOOL, name="other")
    for choice, names in (
        (ToolChoice.force([TOOL, other], "other"), ["other"]),
        (ToolChoice.none([TOOL]), []),
    ):
        with FakeServer(lines(line(content="Hi")), get=told("tools")) as server:
            await converse(profile(server.url), Conversation.create("", "q"), choice)
        tools = server.requests[0].json().get("tools", [])
        assert [tool["function"]["name"] for tool in tools] == names


@pytest.mark.parametrize("model", ["qwen3:0.6b", "qwen3"])
async def test_a_model_that_must_be_loaded_first_is_a_phase(model: str) -> None:
    answer = lines(line(content="Hi"))
    with FakeServer(answer, get=told(loaded=("other:latest",))) as server:
        outcome = await ask(profile(server.url, model=model))
    assert outcome.phases == [Phase.CONNECTING, Phase.LOADING_MODEL, Phase.ANSWERING]
    with FakeServer(answer, get=told(loaded=("qwen3:0.6b", "qwen3:latest"))) as server:
        outcome = await ask(profile(server.url, model=model))
    assert Phase.LOADING_MODEL not in outcome.phases


@pytest.mark.parametrize("streamed", [True, False])
async def test_thinking_text_and_calls(streamed: bool) -> None:
    calls = [
        {"function": {"name": "weather", "arguments": {"city": "Oslo"}}},
        {"id": "c2", "function": {"name": "weather", "arguments": {"city": "Łódź"}}},
    ]
    if streamed:
        answer = lines(
            line(thinking="Hm"),
            line(thinking=", both."),
            line(content="Look"),
            line(content="ing."),
            *(line(tool_calls=[call]) for call in calls),
        )
    else:
        body = line(content="Looking.", thinking="Hm, both.", tool_calls=calls, done="stop")
        answer = Answer(headers=JSON, pieces=[body], framing="length")
    with FakeServer(answer) as server:
        outcome = await ask(profile(server.url, supports_streaming=streamed))
    assert server.requests[0].json()["stream"] is streamed
    done = outcome.done
    assert (done.content, done.reasoning) == (outcome.text, outcome.reasoning) == ("Looking.", "Hm, both.")
    assert [call.arguments for call in done.tool_calls] == ['{"city":"Oslo"}', '{"city":"Łódź"}']
    assert done.tool_calls[0].id.startswith("call_")
    assert done.tool_calls[1].id == "c2"
    assert (done.finish_reason, done.finish_raw, done.model) == (FinishReason.TOOL_CALLS, "stop", "qwen3:0.6b")
    used = done.statistics
    # 14 tokens were written; two words were thought, as far as words can tell.
    assert (used.in_tokens, used.cached_in_tokens, used.out_tokens, used.reasoning_out_tokens) == (26, 0, 12, 2)
    assert used.duration == 0.812


async def test_a_prompt_that_was_in_the_cache() -> None:
    with FakeServer(lines(line(content="Hi"), end=line(done="length", counts=False))) as server:
        done = (await ask(profile(server.url))).done
    assert done.finish_reason is FinishReason.TOKEN_LIMIT_REACHED
    assert (done.statistics.in_tokens, done.statistics.out_tokens) == (0, 14)


@pytest.mark.parametrize("end", [b'{"error":"llama runner ended"}\n', b'{"error":"llama runner ended"}'])
async def test_an_error_in_the_stream(end: bytes) -> None:
    with FakeServer(lines(line(content="Half"), end=end)) as server:
        outcome = await ask(profile(server.url))
    assert isinstance(outcome.failure, ServerError)
    assert "llama runner ended" in str(outcome.failure)
    assert outcome.failure.partial == "Half"


async def test_a_stream_that_breaks_off() -> None:
    with FakeServer(Answer(headers=NDJSON, pieces=[line(content="Half"), b'{"model":"qwe'])) as server:
        outcome = await ask(profile(server.url))
    assert isinstance(outcome.failure, AnswerIncomplete)
    assert outcome.failure.partial == "Half"


async def test_lines_that_call_themselves_json() -> None:
    answer = lines(line(content="Hi"), line(content=" there"))
    with FakeServer(replace(answer, headers=JSON)) as server:
        done = (await ask(profile(server.url))).done
    assert (done.content, done.statistics.out_tokens) == ("Hi there", 14)


@pytest.mark.parametrize(
    ("status", "kind", "sent"),
    [(400, RequestRejected, 1), (401, AuthenticationFailed, 1), (404, RequestRejected, 1), (500, ServerError, 3)],
)
async def test_errors_by_status(status: int, kind: type[Exception], sent: int) -> None:
    with FakeServer(json_answer({"error": "model 'x' not found"}, status)) as server:
        outcome = await ask(profile(server.url))
    assert type(outcome.failure) is kind
    assert "model 'x' not found" in str(outcome.failure)
    assert len(server.requests) == sent


async def test_the_first_installed_model_and_none() -> None:
    with FakeServer(lines(line(content="Hi")), get=told("completion", loaded=("a:1b", "b:2b"))) as server:
        await ask(profile(server.url, model=""))
    assert server.requests[0].json()["model"] == "a:1b"
    assert [request.path for request in server.gets] == ["/api/tags", "/api/show", "/api/ps"]
    with FakeServer(lines(line(content="Hi")), get=told(loaded=())) as server:
        with pytest.raises(ProfileError, match="names no model") as caught:
            await ask(profile(server.url, model=""))
        assert "ollama pull" in caught.value.hint


def test_messages() -> None:
    picture = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
    turns = [
        Turn(role=Role.USER, text="see", images=(picture,)),
        Turn(
            role=Role.ASSISTANT,
            tool_calls=(
                ToolCall(id="a b", name="f", arguments='{"x": 1}'),
                ToolCall(id="c", name="g", arguments="broken"),
            ),
        ),
        Turn(role=Role.TOOL, text="1", tool_call_id="a b"),
        Turn(role=Role.TOOL, text="no", tool_call_id="c", is_error=True),
        Turn(role=Role.ASSISTANT),
    ]
    assert ollama_messages(turns) == [
        {"role": "user", "content": "see", "images": ["iVBORw0KGgo="]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "a_b", "function": {"name": "f", "arguments": {"x": 1}}},
                {"id": "c", "function": {"name": "g", "arguments": {"_raw": "broken"}}},
            ],
        },
        {"role": "tool", "content": "1", "tool_call_id": "a_b", "tool_name": "f"},
        {"role": "tool", "content": "Error: no", "tool_call_id": "c", "tool_name": "g"},
    ]
    with pytest.raises(ProfileError, match="as data"):
        ollama_messages([Turn(role=Role.USER, images=(ImagePart(url="https://ex.org/a.png"),))])
