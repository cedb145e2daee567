"""The bundled profiles of services that speak like OpenAI: the exact bytes they get, their answers, their errors."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.completion import FinishReason
from engine.conversation import Conversation, ToolChoice, ToolDefinition, ToolResult
from engine.errors import (
    AuthenticationFailed,
    ContentFiltered,
    ContextTooLong,
    ProfileError,
    RateLimited,
    RequestRejected,
)
from engine.profile import ModelProfile
from engine.profile_store import ProfileStore
from tests.helpers.asking import HEADERS, Outcome, ask, requests, words
from tests.helpers.fake_server import Answer, FakeServer, json_answer

FIXTURES = Path(__file__).parents[1] / "fixtures" / "wire"
ENVIRON = {
    f"{name}_API_KEY": "secret-key-0123"
    for name in ("OPENAI", "AZURE_OPENAI", "DEEPSEEK", "GROQ", "MISTRAL", "GEMINI", "VLLM", "LLAMA")
} | {"AZURE_OPENAI_ENDPOINT": "https://name.openai.azure.com/"}
BEARER = {"authorization": "Bearer secret-key-0123"}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
SAMPLING = {"temperature": 0.7, "top_p": 0.95}


@dataclass(frozen=True, kw_only=True)
class Service:
    """A bundled profile, what it sends behind model and prompt, and an answer of its service."""

    path: str
    auth: dict[str, str] = field(default_factory=lambda: BEARER)
    model: str
    rest: dict[str, Any]
    prompt: dict[str, Any] = field(default_factory=lambda: {"messages": [{"role": "user", "content": "hi"}]})
    fixture: str


CHAT = "/v1/chat/completions"
INPUT = {"input": [{"type": "message", "role": "user", "content": "hi"}]}
RAW = {"prompt": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"}
SERVICES = {
    "openai": Service(
        path=CHAT,
        model="gpt-4.1-mini",
        rest={"max_tokens": 4096, "temperature": 0.7, **USAGE},
        fixture="openai_chat_usage",
    ),
    "azure": Service(
        path="/openai/deployments/gpt-4.1-mini/chat/completions?api-version=2024-10-21",
        auth={"api-key": "secret-key-0123"},
        model="gpt-4.1-mini",
        rest={"max_tokens": 4096, "temperature": 0.7, **USAGE},
        fixture="azure_prompt_filter",
    ),
    "openai-responses": Service(
        path="/v1/responses",
        model="gpt-5-mini",
        prompt=INPUT,
        rest={
            "max_output_tokens": 8192,
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low", "summary": "auto"},
        },
        fixture="openai_responses_reasoning_text",
    ),
    "deepseek": Service(
        path=CHAT,
        model="deepseek-chat",
        rest={"max_tokens": 4096, "temperature": 0.7, **USAGE},
        fixture="deepseek_reasoner",
    ),
    "groq": Service(
        path="/openai/v1/chat/completions",
        model="openai/gpt-oss-20b",
        rest={"max_completion_tokens": 4096, "temperature": 0.7, **USAGE},
        fixture="groq_reasoning_xgroq",
    ),
    "mistral": Service(
        path=CHAT,
        model="mistral-small-latest",
        rest={"max_tokens": 4096, "temperature": 0.7, "stream": True},
        fixture="mistral_thinking_parts",
    ),
    "gemini": Service(
        path="/v1beta/openai/chat/completions",
        model="gemini-2.5-flash",
        rest={"max_tokens": 8192, "temperature": 0.7, **USAGE},
        fixture="gemini_tool_no_index",
    ),
    "vllm": Service(
        path=CHAT,
        model="m",
        rest={"max_tokens": 2048, **SAMPLING, **USAGE},
        fixture="vllm_reasoning_new",
    ),
    "llama-server": Service(
        path=CHAT,
        model="m",
        rest={"max_tokens": 1024, **SAMPLING, **USAGE},
        fixture="llamacpp/chat_stream",
    ),
    "lm-studio": Service(
        path=CHAT,
        auth={},
        model="m",
        rest={"max_tokens": 1024, **SAMPLING, **USAGE},
        fixture="lmstudio_no_usage",
    ),
    "local-completion": Service(
        path="/v1/completions",
        auth={},
        model="m",
        prompt=RAW,
        rest={"max_tokens": 2048, "temperature": 0.6, "top_p": 0.95, **USAGE, "stop": ["<|im_end|>"]},
        fixture="completions_text",
    ),
}


def profile(name: str, server: FakeServer) -> ModelProfile:
    """The bundled profile, at a server here; the first listed model is called m."""
    found = ProfileStore(None, ENVIRON, secrets=lambda _: None).resolve(name)
    path = urlsplit(found.url).path
    return replace(found, name="tested", url=server.url + path, model=found.model or "m", api_key=found.api_key)


def expected(service: Service) -> tuple[str, str]:
    told = json.loads((FIXTURES / f"{service.fixture}.expected.json").read_text(encoding="utf-8"))
    return told["content"].strip(), told["reasoning"]


@pytest.mark.parametrize("name", SERVICES)
async def test_request_and_streamed_answer(name: str) -> None:
    service = SERVICES[name]
    body = (FIXTURES / f"{service.fixture}.sse").read_bytes()
    with FakeServer(Answer(pieces=[body])) as server:
        done = (await ask(profile(name, server))).done
    (request,) = server.requests
    assert request.path == service.path
    assert request.own_headers == HEADERS | service.auth
    wanted = {"model": service.model, **service.prompt, **service.rest}
    assert request.body == json.dumps(wanted, ensure_ascii=False, separators=(",", ":")).encode()
    assert (done.content.strip(), done.reasoning) == expected(service)


def document(name: str) -> dict[str, Any]:
    """An answer in one piece, as each interface has it."""
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    if name == "openai-responses":
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}
        return {"object": "response", "status": "completed", "output": [item], "usage": usage}
    if name == "local-completion":
        return {"choices": [{"index": 0, "text": "Hello.", "finish_reason": "stop"}], "usage": usage}
    message = {"role": "assistant", "content": "Hello."}
    if name == "mistral":
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
        message["content"] = [thinking, {"type": "text", "text": "Hello."}]  # type: ignore[assignment]
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}


@pytest.mark.parametrize("name", SERVICES)
async def test_answer_in_one_piece(name: str) -> None:
    answer = json_answer(document(name))
    with FakeServer(answer) as server:
        asked = profile(name, server)
        done = (await ask(replace(asked, options=replace(asked.options, supports_streaming=False)))).done
    (request,) = server.requests
    rest = {key: value for key, value in SERVICES[name].rest.items() if key != "stream_options"}
    assert request.json() == {"model": SERVICES[name].model, **SERVICES[name].prompt, **rest, "stream": False}
    assert (done.content, done.finish_reason) == ("Hello.", FinishReason.DONE)
    assert done.reasoning == ("Hm." if name == "mistral" else "")
    assert (done.statistics.in_tokens, done.statistics.estimated) == (3, name == "mistral")


async def failed(name: str, answer: Answer) -> tuple[Outcome, FakeServer]:
    with FakeServer(answer) as server:
        asked = profile(name, server)
        return await ask(replace(asked, options=replace(asked.options, max_retries=0))), server


REFUSED = "It is refused."
NESTED = {"error": {"message": REFUSED, "code": "some_code"}}
ERRORS: dict[str, tuple[int, object, type[Exception]]] = {
    "openai": (401, NESTED, AuthenticationFailed),
    "azure": (401, {"error": {"code": "401", "message": REFUSED}}, AuthenticationFailed),
    "openai-responses": (401, NESTED, AuthenticationFailed),
    "deepseek": (402, NESTED, RequestRejected),
    "groq": (429, {"error": {"message": REFUSED, "code": "rate_limit_exceeded"}}, RateLimited),
    "mistral": (401, {"message": REFUSED, "request_id": "1"}, AuthenticationFailed),
    "gemini": (403, [{"error": {"code": 403, "message": REFUSED, "status": "DENIED"}}], AuthenticationFailed),
    "vllm": (400, {"object": "error", "message": f"{REFUSED} maximum context length is 9"}, ContextTooLong),
    "llama-server": (400, {"error": {"message": REFUSED, "type": "exceed_context_size_error"}}, ContextTooLong),
    "lm-studio": (404, {"error": REFUSED}, RequestRejected),
    "local-completion": (422, {"detail": REFUSED}, RequestRejected),
}


@pytest.mark.parametrize("name", SERVICES)
async def test_error(name: str) -> None:
    status, body, kind = ERRORS[name]
    outcome, server = await failed(name, json_answer(body, status))
    failure = outcome.failure
    assert type(failure) is kind
    assert failure.facts["status"] == str(status)
    assert REFUSED in failure.message
    assert len(server.requests) == 1


async def test_azure_refuses_a_prompt() -> None:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
    error = {"message": "The response was filtered.", "param": "prompt", "code": "content_filter", "innererror": inner}
    outcome, _ = await failed("azure", json_answer({"error": error}, 400))
    assert isinstance(outcome.failure, ContentFiltered)
    assert not outcome.failure.retryable


async def test_groq_error_in_the_stream() -> None:
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}],"x_groq":{"error":"tool use failed"}}\n\n'
    outcome, _ = await failed("groq", Answer(pieces=[piece]))
    assert "tool use failed" in outcome.failure.message
    assert outcome.failure.partial == "Hel"


async def test_vllm_of_an_earlier_version() -> None:
    body = (FIXTURES / "vllm_reasoning_content_old.sse").read_bytes()
    told = json.loads((FIXTURES / "vllm_reasoning_content_old.expected.json").read_text(encoding="utf-8"))
    with FakeServer(Answer(pieces=[body])) as server:
        done = (await ask(profile("vllm", server))).done
    assert (done.content, done.reasoning) == (told["content"], told["reasoning"])


@pytest.mark.parametrize(
    ("message", "param", "without", "key"),
    [
        ("This model does not support streaming.", "", ["stream_options"], "supportsStreaming=false"),
        ("Unsupported value", "stream", ["stream_options"], "supportsStreaming=false"),
        ("Unrecognized argument: stream_options", "", ["stream_options"], "streamUsage=false"),
        ("parallel_tool_calls is not known", "", ["parallel_tool_calls"], "parallelToolCalls=true"),
    ],
)
async def test_what_is_refused_is_left_out_once(message: str, param: str, without: list[str], key: str) -> None:
    whole = json_answer(document("openai"))
    error = {"message": message, "param": param or None}
    with FakeServer(json_answer({"error": error}, 400), whole) as server:
        asked = profile("openai", server)
        options = replace(asked.options, ext_params={"parallel_tool_calls": True})
        outcome = await ask(replace(asked, options=options))
    assert outcome.done.content == "Hello."
    first, second = (request.json() for request in server.requests)
    gone = {name: first[name] for name in without}
    assert {**second, **gone, "stream": True} == first
    assert second["stream"] is (key != "supportsStreaming=false")
    (warning,) = outcome.warnings
    assert key in warning
    assert outcome.waits == []


async def test_gemini_gets_its_signature_back() -> None:
    body = (FIXTURES / "gemini_tool_no_index.sse").read_bytes()
    with FakeServer(Answer(pieces=[body])) as server:
        asked = profile("gemini", server)
        done = (await ask(asked)).done
        (call,) = done.tool_calls
        result = ToolResult(call_id=call.id, output="rain")
        conversation = Conversation.create("", "hi").add_tool_round(
            "", done.tool_calls, [result], kept=done.kept, origin=done.origin
        )
        for each in (asked, replace(asked, model="gemini-2.5-pro")):
            async with requests() as sender:
                request = ChatRequest.create(each, conversation)
                async with sender.stream(client_for(each), request, count=words) as stream:
                    async for _ in stream:
                        pass
    same, other = (request.json()["messages"][1]["tool_calls"] for request in server.requests[1:])
    assert same == [
        {
            "id": "function-call-77",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city":"Lima"}'},
            "extra_content": {"google": {"thought_signature": "EjQKopaque"}},
        }
    ]
    assert "extra_content" not in other[0]


async def test_what_a_profile_says_its_model_cannot_do() -> None:
    tools = ToolChoice.auto([ToolDefinition(name="t")])
    with FakeServer(Answer()) as server:
        for name in ("openai", "azure", "openai-responses"):
            asked = profile(name, server)
            asked = replace(asked, options=replace(asked.options, supports_tools=False))
            request = ChatRequest.create(asked, Conversation.create("", "hi"), tools=tools)
            async with requests() as sender, sender.stream(client_for(asked), request, count=words) as stream:
                with pytest.raises(ProfileError, match="has tools") as caught:
                    await stream.prepare()
            assert "supportsTools=true" in caught.value.hint
    assert server.requests == []
