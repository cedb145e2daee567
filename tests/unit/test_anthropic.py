"""Requests and answers of Anthropic Messages, without a socket."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.clients.anthropic import AnthropicClient, anthropic_messages, generation, request_body
from engine.clients.anthropic_reader import AnthropicReader
from engine.clients.base import ChatRequest
from engine.clients.failures import Place
from engine.clients.tool_calls import arguments_object
from engine.content import ThinkingPart
from engine.conversation import Conversation, ImagePart, Role, ToolCall, ToolChoice, ToolDefinition, Turn
from engine.errors import AnswerIncomplete, ProfileError, ProtocolError
from engine.profile import ModelProfile, ProfileOptions, Provider
from tests.conformance.__main__ import cases_of, run_case
from tests.conformance.cases import Case
from tests.conformance.messages_anthropic import KINDS
from tests.helpers.fake_server import event

VECTORS = Path(__file__).parents[1] / "vectors"
CASES = [
    *cases_of(VECTORS / "messages_anthropic.json"),
    *(case for case in cases_of(VECTORS / "tool_stream.json") if case.kind == "anthropic"),
]
PLACE = Place("tested", "http://127.0.0.1:1/v1/messages")
PROFILE = ModelProfile(
    name="p", category="M", provider=Provider.ANTHROPIC, model="claude-sonnet-4-5", url="http://h", max_tokens=2000
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_vector(case: Case) -> None:
    problems = await run_case(case, KINDS)
    assert not problems, "\n".join(problems)


def test_no_vector_is_lost() -> None:
    assert len(CASES) == 17


def body(profile: ModelProfile, *, tools: ToolChoice | None = None, **overrides: object) -> dict[str, Any]:
    request = ChatRequest.create(profile, Conversation.create("", "q"), overrides, tools)
    return dict(AnthropicClient().form(request, profile.model).body)


def test_generation() -> None:
    names = {
        "claude-opus-4-7": (4, 7),
        "anthropic/claude-4.7-opus": (4, 7),
        "claude-opus-5": (5, 0),
        "claude-sonnet-4-20250514": (4, 0),
        "claude-3-5-sonnet-20241022": (3, 5),
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0": (4, 5),
        "smollm2-135m": (0, 0),
        "claude-next": (0, 0),
    }
    assert {name: generation(name) for name in names} == names


def test_thinking_that_is_not_asked_for_or_switched_off() -> None:
    assert "thinking" not in body(PROFILE)
    off = body(replace(PROFILE, options=ProfileOptions(thinking_mode="disabled")))
    assert (off["thinking"], off["temperature"]) == ({"type": "disabled"}, 0.0)
    small = replace(PROFILE, options=ProfileOptions(thinking_mode="budget", thinking_budget=1500))
    assert (body(small)["thinking"]["budget_tokens"], body(small)["max_tokens"]) == (1500, 2000)


def test_a_budget_that_the_model_does_not_take_is_said() -> None:
    profile = replace(PROFILE, model="claude-opus-4-7", options=ProfileOptions(thinking_mode="budget"))
    formed, warnings = request_body(ChatRequest.create(profile, Conversation.create("", "q")), profile.model)
    assert formed["thinking"] == {"type": "adaptive"}
    assert len(warnings) == 1
    assert "thinkingMode=adaptive" in warnings[0]


def test_a_schema_and_stop_texts() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    formed = body(PROFILE, responseFormat=schema, stop=["END"])
    assert formed["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    assert formed["stop_sequences"] == ["END"]
    wrapped = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    assert body(PROFILE, responseFormat=wrapped)["output_config"] == formed["output_config"]
    assert "output_config" not in body(PROFILE, responseFormat={"type": "text"})


def test_tools_are_chosen_in_the_words_of_the_service() -> None:
    tools = (ToolDefinition(name="f", strict=True),)
    choices = {
        "auto": (ToolChoice.auto(tools), {"type": "auto"}),
        "none": (ToolChoice.none(tools), {"type": "none"}),
        "any": (ToolChoice.required(tools), {"type": "any"}),
        "tool": (ToolChoice.force(tools, "f"), {"type": "tool", "name": "f"}),
    }
    for choice, expected in choices.values():
        assert body(PROFILE, tools=choice)["tool_choice"] == expected
    alone = {"disable_parallel_tool_use": True}
    sequential = replace(choices["none"][0], parallel=False)
    assert body(PROFILE, tools=sequential)["tool_choice"] == {"type": "none"}
    assert body(PROFILE, tools=replace(choices["any"][0], parallel=False))["tool_choice"] == {"type": "any", **alone}
    empty = {"type": "object", "properties": {}}
    assert body(PROFILE, tools=sequential)["tools"] == [{"name": "f", "input_schema": empty, "strict": True}]


def test_thinking_goes_back_only_to_the_model_it_came_from() -> None:
    call = ToolCall(id="c", name="f", arguments="{}")
    kept = (ThinkingPart(text="plan ✓", signature="SIG"),)
    answered = Turn(role=Role.ASSISTANT, text="So", tool_calls=(call,), kept=kept, origin=PROFILE.origin)
    turns = [Turn(role=Role.USER, text="q"), answered]
    (_, answer, _), _ = anthropic_messages(turns, PROFILE.origin)
    assert answer["content"] == [
        {"type": "thinking", "thinking": "plan ✓", "signature": "SIG"},
        {"type": "text", "text": "So"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
    ]
    for other in (replace(PROFILE, model="claude-opus-4-1"), replace(PROFILE, provider="OAI_CHAT_COMPLETION")):
        (_, answer, _), _ = anthropic_messages(turns, other.origin)
        assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]  # type: ignore[attr-defined]


def test_pictures_of_other_kinds_are_refused() -> None:
    turn = Turn(role=Role.USER, images=(ImagePart(media_type="image/tiff", data="AAAA"),))
    with pytest.raises(ProfileError, match=r"JPEG, PNG, GIF or WebP, found image/tiff") as caught:
        anthropic_messages([turn])
    assert caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(" ", {}), ('{"a":1}', {"a": 1}), ("{", {"_raw": "{"}), ("[1]", {"_value": [1]}), ("NaN", {"_raw": "NaN"})],
)
def test_arguments_become_an_object(arguments: str, expected: object) -> None:
    assert arguments_object(arguments) == expected
    deep = "[" * 100_000 + "]" * 100_000
    assert arguments_object(deep) == {"_raw": deep}


TURNS = st.lists(
    st.builds(
        Turn,
        role=st.sampled_from(Role),
        text=st.sampled_from(["", " ", "a", "b"]),
        tool_calls=st.sampled_from([(), ("x",), ("x", "y"), ("z", "z")]).map(
            lambda ids: tuple(ToolCall(id=name, name="f", arguments="{}") for name in ids)
        ),
        tool_call_id=st.sampled_from("xyz"),
    ).map(lambda turn: turn if turn.role is Role.ASSISTANT else replace(turn, tool_calls=())),
    max_size=8,
)


@given(TURNS)
@settings(max_examples=60, deadline=None)
def test_messages_alternate_and_every_call_has_its_result(turns: list[Turn]) -> None:
    messages, _ = anthropic_messages(turns)
    roles = [message["role"] for message in messages]
    assert roles == ["user" if place % 2 == 0 else "assistant" for place in range(len(roles))]
    assert len(roles) % 2 == 1
    for place, message in enumerate(messages):
        blocks: Any = message["content"]
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        kinds = [block["type"] == "tool_result" for block in blocks]
        assert kinds == sorted(kinds, reverse=True)
        if message["role"] == "assistant":
            following: Any = messages[place + 1]["content"]
            results = {block["tool_use_id"] for block in following if block["type"] == "tool_result"}
            assert results == {block["id"] for block in blocks if block["type"] == "tool_use"}


def start(index: int, **block: object) -> bytes:
    return event({"type": "content_block_start", "index": index, "content_block": block})


def piece(index: int, kind: str, **members: object) -> bytes:
    return event({"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}})


def ending(reason: str | None, **usage: object) -> bytes:
    return event({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}) + event(
        {"type": "message_stop"}
    )


def read(*pieces: bytes, think_tags: str = "off") -> AnthropicReader:
    reader = AnthropicReader(PLACE, think_tags=think_tags)
    for data in pieces:
        if not (reader.ended or reader.error):
            reader.feed(data)
    reader.close()
    return reader


MIXED = b"".join(
    [
        event({"type": "message_start", "message": {"model": "claude-x", "usage": {"input_tokens": 3}}}),
        start(0, type="thinking", thinking=""),
        piece(0, "thinking_delta", thinking="Hm — "),
        piece(0, "thinking_delta", thinking="日本"),
        piece(0, "signature_delta", signature="S1"),
        piece(0, "signature_delta", signature="S2"),
        start(1, type="redacted_thinking", data="ENC"),
        start(2, type="text", text=""),
        piece(2, "text_delta", text="one "),
        event({"type": "ping"}),
        event({"type": "something_new", "delta": {"type": "text_delta", "text": "no"}}),
        piece(2, "text_delta", text="twö"),
        start(3, type="tool_use", id="t", name="f", input={"kept": True}),
        start(4, type="tool_use", id="u", name="g", input={}),
        piece(4, "input_json_delta", partial_json='{"a":'),
        piece(4, "input_json_delta", partial_json=" 1}"),
        ending("tool_use", output_tokens=9, input_tokens=None),
    ]
)


@given(st.lists(st.integers(0, len(MIXED)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_it_makes_no_difference_how_the_bytes_are_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(MIXED)]
    reader = read(*(MIXED[begin:end] for begin, end in pairwise(places)))
    answer = reader.answer
    assert (reader.error, answer.skipped, answer.model) == (None, 0, "claude-x")
    assert (answer.text, answer.thoughts, answer.finish) == ("one twö", "Hm — 日本", "tool_use")
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == [
        ("t", "f", '{"kept":true}'),
        ("u", "g", '{"a": 1}'),
    ]
    assert [type(part).__name__ for part in answer.kept] == ["ThinkingPart", "RedactedThinkingPart"]
    assert answer.kept[0] == ThinkingPart(text="Hm — 日本", signature="S1S2")
    assert answer.usage == {
        "prompt_tokens": 3,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_an_answer_is_whole_with_a_stop_reason_and_broken_without() -> None:
    text = start(0, type="text", text="") + piece(0, "text_delta", text="Hel")
    assert isinstance(read(text).error, AnswerIncomplete)
    assert read(text + event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})).error is None
    assert read(text + event({"type": "message_stop"})).error is None


def test_a_refusal_says_why() -> None:
    reader = AnthropicReader(PLACE)
    details = {"type": "refusal", "category": "bio", "explanation": "I cannot help with that."}
    reader.whole(json.dumps({"content": [], "stop_reason": "refusal", "stop_details": details}).encode())
    assert (reader.error, reader.answer.refusal) == (None, "I cannot help with that.")


def test_other_json_is_no_answer() -> None:
    for text in (b"{}", b"[]", b'{"content": "text"}', b"\xff"):
        reader = AnthropicReader(PLACE)
        reader.whole(text)
        assert isinstance(reader.error, ProtocolError)


def test_odd_events_are_survived() -> None:
    odd = [
        event({"type": "content_block_start", "index": "x", "content_block": None}),
        event({"type": "content_block_delta", "index": 7, "delta": "x"}),
        event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": 5}}),
        event({"type": "message_start", "message": []}),
        event({"type": "message_delta", "usage": {"input_tokens": "many", "output_tokens": -1}}),
        event({"type": ["list"]}),
        event("no json"),
    ]
    reader = read(*odd, start(1, type="text", text="still here"), ending("end_turn"))
    assert (reader.error, reader.answer.text, reader.answer.skipped) == (None, "still here", 1)


def test_thinking_tags_of_local_servers_are_split_off() -> None:
    tagged = start(0, type="text", text="") + piece(0, "text_delta", text="<think>a</think>b") + ending("end_turn")
    answer = read(tagged, think_tags="on").answer
    assert (answer.thoughts, answer.text) == ("a", "b")
