"""Requests of the chat completions client."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.clients.base import ChatRequest
from engine.clients.openai_chat import OpenAIChatClient, chat_messages, endpoint
from engine.conversation import Conversation, Role, ToolCall, ToolChoice, ToolDefinition, ToolUse, Turn
from engine.errors import ProfileError
from engine.profile import ModelProfile, ProfileOptions
from engine.truncation import TurnCounter

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "messages_openai.json").read_text(encoding="utf-8"))
PROFILE = ModelProfile(
    name="p", category="M", provider="OAI_CHAT_COMPLETION", model="m", url="http://h/v1", max_tokens=64
)


def readable(vector: Mapping[str, Any]) -> bool:
    """Turns hold text only so far: no parts, no names."""
    messages = vector["given"]["messages"]
    return all(isinstance(item.get("content") or "", str) and "name" not in item for item in messages)


def turns(messages: list[dict[str, Any]]) -> list[Turn]:
    return [
        Turn(
            role=Role(item["role"]),
            text=item.get("content") or "",
            tool_calls=tuple(
                ToolCall(id=call["id"], name=call["name"], arguments=call["arguments"])
                for call in item.get("toolCalls", ())
            ),
            tool_call_id=item.get("toolCallId", ""),
            is_error=item.get("isError", False),
        )
        for item in messages
    ]


@pytest.mark.parametrize(
    "vector",
    [v for v in VECTORS if v["given"]["op"] == "messages" and readable(v)],
    ids=lambda vector: str(vector["id"]),
)
def test_messages_vector(vector: Mapping[str, Any]) -> None:
    given = vector["given"]
    assert chat_messages(turns(given["messages"]), given.get("systemRole", "system")) == vector["expect"]["messages"]


def test_that_vectors_are_run() -> None:
    assert sum(readable(vector) for vector in VECTORS if vector["given"]["op"] == "messages") >= 7


def test_request_vector_of_a_reasoning_model() -> None:
    vector = next(item for item in VECTORS if item["id"] == "oai-request-reasoning-ext")
    given, expect = vector["given"]["profile"], vector["expect"]
    profile = ModelProfile(
        name="p",
        category="M",
        provider="OAI_CHAT_COMPLETION",
        model=given["modelName"],
        url=given["url"],
        api_key=given["apiKey"],
        max_tokens=given["maxTokens"],
        temperature=given["temperature"],
        top_p=given["topP"],
        reasoning_effort=given.get("reasoningEffort"),
        options=ProfileOptions(
            ext_params=given.get("extParams", {}),
            headers=given.get("extraHeaders", {}),
            system_role=given.get("systemRole", "system"),
        ),
    )
    conversation = Conversation(tuple(turns(vector["given"]["messages"])))
    wire = OpenAIChatClient().form(ChatRequest.create(profile, conversation), profile.model)
    assert wire.url == expect["url"]
    options = {"include_usage": True, **expect["body"]["stream_options"]}  # the client always streams
    assert wire.body == {**expect["body"], "stream": True, "stream_options": options}
    for name, value in expect["headers"].items():
        assert wire.headers[name] == value
    assert "Authorization" not in wire.headers


def body(profile: ModelProfile = PROFILE, overrides: Mapping[str, object] | None = None) -> Mapping[str, Any]:
    request = ChatRequest.create(profile, Conversation.create("be brief", "hi"), overrides)
    return OpenAIChatClient().form(request, request.profile.model).body


def with_options(**options: Any) -> ModelProfile:
    return replace(PROFILE, options=ProfileOptions(**options))


def test_a_plain_body() -> None:
    assert body() == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "max_tokens": 64,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("model", "options", "present", "absent"),
    [
        ("gpt-4.1", {}, ["max_tokens", "temperature"], ["max_completion_tokens", "top_p"]),
        ("vendor/o3-mini", {}, ["max_completion_tokens"], ["max_tokens", "temperature"]),
        ("gpt-5-nano", {}, ["max_completion_tokens"], ["max_tokens", "temperature"]),
        ("o1", {"omit_sampling": "false"}, ["temperature"], []),
        ("m", {"omit_sampling": "true"}, [], ["temperature"]),
        ("m", {"max_tokens_param": "both"}, ["max_tokens", "max_completion_tokens"], []),
        ("m", {"stream_usage": False}, [], ["stream_options"]),
        ("ollama/x", {}, ["temperature"], []),
    ],
)
def test_which_members_are_sent(model: str, options: dict[str, Any], present: list[str], absent: list[str]) -> None:
    sent = body(replace(with_options(**options), model=model))
    assert [name for name in present if name not in sent] == []
    assert [name for name in absent if name in sent] == []


def test_ext_params_are_merged_and_cannot_set_what_is_protected() -> None:
    ext = {
        "temperature": None,
        "stream_options": {"extra": 1},
        "seed": 7,
        "model": "x",
        "messages": [],
        "system": "x",
        "stream": False,
        "tools": [1],
        "tool_choice": "none",
    }
    sent = body(with_options(ext_params=ext))
    assert "temperature" not in sent
    assert sent["stream_options"] == {"include_usage": True, "extra": 1}
    assert sent["seed"] == 7
    assert (sent["model"], sent["stream"]) == ("m", True)
    assert not {"system", "tools", "tool_choice"} & sent.keys()
    assert ext["stream_options"] == {"extra": 1}


def test_overrides_of_one_call() -> None:
    schema = {"title": "City list!", "type": "object", "properties": {}, "strict": True}
    sent = body(overrides={"temperature": 0.5, "maxTokens": 9, "stop": ["END"], "responseFormat": schema})
    assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (0.5, 9, ["END"])
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "City_list_",
            "schema": {key: schema[key] for key in ("title", "type", "properties")},
            "strict": True,
        },
    }


def test_the_timeout_of_one_call_limits_the_others() -> None:
    limits = ChatRequest.create(PROFILE, Conversation(), {"timeout": 5}).profile.options
    assert (limits.total_timeout, limits.first_token_timeout, limits.idle_timeout, limits.connect_timeout) == (
        5,
        5,
        5,
        5,
    )
    assert ChatRequest.create(PROFILE, Conversation(), {"timeout": 50}).profile.options.connect_timeout == 10


@pytest.mark.parametrize(
    "override",
    [{"stop": 7}, {"stop": [""]}, {"responseFormat": "x"}, {"timeout": 0}, {"timeout": "1"}, {"temprature": 1}],
)
def test_a_faulty_override_names_itself(override: dict[str, object]) -> None:
    with pytest.raises(ProfileError, match=next(iter(override))):
        ChatRequest.create(PROFILE, Conversation(), override)


@pytest.mark.parametrize(
    ("url", "interface", "expected"),
    [
        ("http://localhost:5001/", "", "http://localhost:5001/v1/chat/completions"),
        ("https://api.openai.com/v1", "", "https://api.openai.com/v1/chat/completions"),
        ("https://gw/api/", "/chat/completions", "https://gw/api/chat/completions"),
        ("https://gw/api", "chat/completions", "https://gw/api/chat/completions"),
        ("http://h/v1beta/", "", "http://h/v1beta/chat/completions"),
        ("http://h/v1/chat/completions", "", "http://h/v1/chat/completions"),
        ("http://h/openai", "", "http://h/openai/v1/chat/completions"),
    ],
)
def test_url(url: str, interface: str, expected: str) -> None:
    assert endpoint(url, interface, "/chat/completions") == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h", "http://h/v1/models"),
        ("http://h/v1/", "http://h/v1/models"),
        ("http://h/v1/chat/completions", "http://h/v1/models"),
    ],
)
def test_url_of_the_models(url: str, expected: str) -> None:
    assert OpenAIChatClient().models_request(replace(PROFILE, url=url))[0] == expected


@pytest.mark.parametrize(
    ("scheme", "name", "value"),
    [
        ("auto", "Authorization", "Bearer k"),
        ("x-api-key", "x-api-key", "k"),
        ("api-key", "api-key", "k"),
        ("none", "", ""),
    ],
)
def test_where_the_key_goes(scheme: str, name: str, value: str) -> None:
    profile = replace(with_options(auth_scheme=scheme, headers={"X-Team": "a"}), api_key="k")
    sent = OpenAIChatClient().form(ChatRequest.create(profile, Conversation()), "m").headers
    assert [(key, text) for key, text in sent.items() if text.endswith("k")] == ([(name, value)] if name else [])
    assert sent["X-Team"] == "a"


def test_secrets_are_not_in_the_repr() -> None:
    profile = replace(with_options(headers={"X-Secret": "canary-2"}), api_key="canary-1")
    wire = OpenAIChatClient().form(ChatRequest.create(profile, Conversation()), "m")
    assert "canary" not in repr(wire)


WEATHER = ToolDefinition.of_texts("weather", "Tell the weather", {"city": "Where"})


def tool_body(choice: ToolChoice, profile: ModelProfile = PROFILE) -> Mapping[str, Any]:
    request = ChatRequest.create(profile, Conversation.create("", "hi"), tools=choice)
    return OpenAIChatClient().form(request, "m").body


@pytest.mark.parametrize("name", ["oai-request-tools-stream", "oai-request-interface-url"])
def test_request_vector_with_tools(name: str) -> None:
    vector = next(item for item in VECTORS if item["id"] == name)
    given, expect = vector["given"], vector["expect"]["body"]
    tools = [ToolDefinition(**tool) for tool in given["tools"]]
    choice = ToolChoice.auto(tools)
    if given["toolChoice"] != "auto":
        choice = replace(ToolChoice.force(tools, given["toolChoice"]["name"]), parallel=given["parallel"])
    sent = tool_body(choice)
    members = ("tools", "tool_choice", "parallel_tool_calls")
    assert {key: sent[key] for key in members if key in sent} == {key: expect[key] for key in members if key in expect}


def test_tool_choices_on_the_wire() -> None:
    assert tool_body(ToolChoice.none([WEATHER]))["tool_choice"] == "none"
    assert tool_body(ToolChoice.required([WEATHER]))["tool_choice"] == "required"
    assert ToolChoice.force([WEATHER], "weather").choosing(ToolUse.AUTO) == ToolChoice.auto([WEATHER])
    bare = tool_body(ToolChoice.auto([ToolDefinition(name="clock", strict=True)]))["tools"]
    function = {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}, "strict": True}
    assert bare == [{"type": "function", "function": function}]


def test_parallel_calls_are_the_profile_s_unless_the_request_says() -> None:
    alone = with_options(parallel_tool_calls=False)
    assert tool_body(ToolChoice.auto([WEATHER]), alone)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in tool_body(replace(ToolChoice.auto([WEATHER]), parallel=True), alone)


def test_no_tool_no_choice() -> None:
    sent = tool_body(ToolChoice.auto([]))
    assert {"tools", "tool_choice", "parallel_tool_calls"}.isdisjoint(sent)


def test_faulty_definitions() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        ToolDefinition(name=" ")
    with pytest.raises(ValueError, match="is not among the tools"):
        ToolChoice.force([WEATHER], "clock")


def test_definitions_take_room_from_the_prompt() -> None:
    assert TurnCounter(len, PROFILE).tools(ToolChoice.auto([WEATHER])) > 100
