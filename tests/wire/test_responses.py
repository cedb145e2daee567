"""The Responses interface over a real socket: requests of every kind, items that go back unchanged, ends and errors."""

from dataclasses import replace
from typing import Any

import pytest

from engine.completion import FinishReason, Phase
from engine.content import OutputItemPart
from engine.conversation import Conversation, ImagePart, Role, ToolCall, ToolChoice, ToolDefinition, ToolResult, Turn
from engine.errors import AnswerIncomplete, ContextTooLong, RateLimited, ServerError
from engine.profile import ModelProfile, Provider
from tests.helpers.asking import HEADERS, Outcome, ask, converse, profile_for
from tests.helpers.fake_server import Answer, FakeServer, event, json_answer

TOOL = ToolDefinition(
    name="weather", description="Tells it.", parameters={"type": "object", "properties": {"city": {"type": "string"}}}
)
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "First"}, {"type": "summary_text", "text": "then"}],
    "encrypted_content": "gAAAA",
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city": "Lima"}',
}
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
}


def message(text: str, **more: object) -> dict[str, object]:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    } | more


def profile(url: str, **options: Any) -> ModelProfile:
    options = {"system_role": "developer", "max_retries": 0} | options
    return replace(profile_for(url, **options), provider=Provider.OPENAI_RESPONSES, max_tokens=64)


def ended(status: str = "completed", **more: object) -> bytes:
    response = {"status": status, "model": "gpt-5-mini-2025", "output": [], "usage": USAGE} | more
    return event({"type": f"response.{status}", "response": response})


def told(kind: str, **members: object) -> bytes:
    return event({"type": f"response.{kind}", **members})


def document(*items: dict[str, object], **more: object) -> Answer:
    body = {"object": "response", "status": "completed", "model": "gpt-5-mini-2025", "output": items, "usage": USAGE}
    return json_answer(body | more)


async def failed(*pieces: bytes) -> Outcome:
    with FakeServer(Answer(pieces=pieces)) as server:
        return await ask(profile(server.url))


async def test_the_request() -> None:
    picture = ImagePart(media_type="image/jpg", data="AAAA", detail="low")
    question = Turn.of_parts(Role.USER, ["Look: ", picture, " and?"])
    system = Turn(role=Role.SYSTEM, text="Be brief.")
    answer = Turn(role=Role.ASSISTANT, text="I look.", tool_calls=(ToolCall(id="c 1", name="see", arguments=" "),))
    result = Turn(role=Role.TOOL, text="blind", tool_call_id="c 1", is_error=True)
    schema = {"title": "Answer it", "type": "object", "properties": {"a": {"type": "integer"}}}
    with FakeServer(document(message("Hi"))) as server:
        asked = profile(server.url, parallel_tool_calls=False, ext_params={"input": "mine", "service_tier": "flex"})
        asked = replace(asked, temperature=0.5, reasoning_effort="high", reasoning_summary="concise")
        await converse(
            asked,
            Conversation((system, question, answer, result)),
            ToolChoice.force([TOOL], "weather"),
            responseFormat=schema,
            stop=["END"],
        )
    (request,) = server.requests
    assert request.path == "/v1/responses"
    assert request.own_headers == HEADERS | {"authorization": "Bearer secret-key-0123"}
    assert request.json() == {
        "model": "m",
        "input": [
            {"type": "message", "role": "developer", "content": "Be brief."},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look: "},
                    {"type": "input_image", "image_url": "data:image/jpeg;base64,AAAA", "detail": "low"},
                    {"type": "input_text", "text": " and?"},
                ],
            },
            {
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
                "phase": "commentary",
            },
            {"type": "function_call", "call_id": "c_1", "name": "see", "arguments": "{}", "status": "completed"},
            {"type": "function_call_output", "call_id": "c_1", "output": "Error: blind"},
        ],
        "max_output_tokens": 64,
        "temperature": 0.5,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "concise"},
        "stop": ["END"],
        "text": {"format": {"type": "json_schema", "name": "Answer_it", "schema": schema}},
        "tools": [
            {
                "type": "function",
                "name": "weather",
                "description": "Tells it.",
                "parameters": TOOL.parameters,
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "weather"},
        "parallel_tool_calls": False,
        "service_tier": "flex",
    }


@pytest.mark.parametrize("whole", [True, False])
async def test_items_go_back_as_they_came(whole: bool) -> None:
    items = [REASONING, message("Let me see."), CALL]
    stream = Answer(
        pieces=[told("output_item.done", output_index=place, item=item) for place, item in enumerate(items)] + [ended()]
    )
    with FakeServer(document(*items) if whole else stream, document(message("Rain."))) as server:
        asked = profile(server.url)
        conversation = Conversation.create("", "Weather in Lima?")
        done = (await converse(asked, conversation, ToolChoice.auto([TOOL]))).done
        result = ToolResult(call_id="call_1", output="rain")
        conversation = conversation.add_tool_round(
            done.content, done.tool_calls, [result], kept=done.kept, origin=done.origin
        )
        last = (await converse(asked, conversation, ToolChoice.auto([TOOL]))).done
        await converse(replace(asked, model="other"), conversation)
        changed = tuple(
            replace(turn, text="masked") if turn.text == "Let me see." else turn for turn in conversation.turns
        )
        await converse(asked, Conversation(changed))
    assert (done.content, done.reasoning) == ("Let me see.", "First\n\nthen")
    assert done.finish_reason is FinishReason.TOOL_CALLS
    assert [(call.id, call.name, call.arguments) for call in done.tool_calls] == [
        ("call_1", "weather", '{"city": "Lima"}')
    ]
    assert done.kept == tuple(OutputItemPart(item=item) for item in items)
    used = done.statistics
    counts = (used.in_tokens, used.cached_in_tokens, used.out_tokens, used.reasoning_out_tokens)
    assert counts == (6, 4, 2, 5)
    assert not used.estimated
    assert (last.content, last.kept, last.model) == ("Rain.", (), "gpt-5-mini-2025")
    question = {"type": "message", "role": "user", "content": "Weather in Lima?"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
    same, elsewhere, masked = (request.json()["input"] for request in server.requests[1:])
    assert same == [question, REASONING, items[1] | {"phase": "commentary"}, CALL, output]
    # What another model encrypted means nothing to this one; what was changed does not come back as it was.
    for rebuilt, text in ((elsewhere, "Let me see."), (masked, "masked")):
        assert [item["type"] for item in rebuilt] == ["message", "message", "function_call", "function_call_output"]
        assert rebuilt[1]["content"][0]["text"] == text


async def test_pieces_and_wholes_are_told_once() -> None:
    pieces = [
        told("created", response={"status": "in_progress", "model": "gpt-5-mini-2025", "output": []}),
        told("reasoning_summary_text.delta", output_index=0, item_id="rs_1", summary_index=0, delta="First"),
        told("reasoning_text.delta", output_index=0, item_id="rs_1", content_index=0, delta="First, in full"),
        told("reasoning_summary_text.delta", output_index=0, item_id="rs_1", summary_index=1, delta="th"),
        told("reasoning_summary_text.delta", output_index=0, item_id="rs_1", summary_index=1, delta="en"),
        told("output_item.done", output_index=0, item=REASONING),
        told("output_text.delta", output_index=1, item_id="m", delta="Let me "),
        told("output_text.delta", output_index=1, item_id="m", delta="see."),
        told("output_text.done", output_index=1, item_id="m", text="Let me see."),
        told("output_item.done", output_index=1, item=message("Let me see.")),
        told("output_item.added", output_index=2, item=CALL | {"arguments": ""}),
        told("function_call_arguments.delta", output_index=2, delta='{"city"'),
        told("function_call_arguments.delta", output_index=2, delta=': "Lima"}'),
        told("function_call_arguments.done", output_index=2, arguments='{"city": "Lima"}'),
        told("output_item.done", output_index=2, item=CALL),
        ended(output=[REASONING, message("Let me see."), CALL]),
    ]
    with FakeServer(Answer(pieces=pieces)) as server:
        outcome = await ask(profile(server.url))
    done = outcome.done
    assert (done.content, done.reasoning) == ("Let me see.", "First\n\nthen")
    assert (outcome.text, outcome.reasoning) == (done.content, done.reasoning)
    assert [call.arguments for call in done.tool_calls] == ['{"city": "Lima"}']
    assert len(done.kept) == 3
    assert outcome.phases == [Phase.CONNECTING, Phase.READING_PROMPT, Phase.THINKING, Phase.ANSWERING]


async def test_items_named_by_id_only() -> None:
    calls = [CALL | {"id": f"fc_{number}", "call_id": f"call_{number}"} for number in (1, 2)]
    pieces = [told("output_item.added", item=call | {"arguments": ""}) for call in calls]
    pieces += [
        told("function_call_arguments.delta", item_id=f"fc_{number}", delta=text)
        for number, text in ((1, '{"city":'), (2, '{"city":'), (1, '"Lima"}'), (2, '"Oslo"}'))
    ]
    with FakeServer(Answer(pieces=[*pieces, ended(output=calls)])) as server:
        done = (await ask(profile(server.url))).done
    assert [(call.id, call.arguments) for call in done.tool_calls] == [
        ("call_1", '{"city":"Lima"}'),
        ("call_2", '{"city":"Oslo"}'),
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_output_tokens", FinishReason.TOKEN_LIMIT_REACHED),
        ("content_filter", FinishReason.CONTENT_FILTERED),
        (None, FinishReason.DONE),
    ],
)
async def test_incomplete(reason: str | None, finish: FinishReason) -> None:
    details = None if reason is None else {"reason": reason}
    with FakeServer(
        Answer(pieces=[told("output_text.delta", delta="Hel"), ended("incomplete", incomplete_details=details)]),
        document(message("Hel"), status="incomplete", incomplete_details=details),
    ) as server:
        for done in [(await ask(profile(server.url))).done for _ in range(2)]:
            assert (done.content, done.finish_reason) == ("Hel", finish)


async def test_incomplete_for_another_reason_is_an_error() -> None:
    piece = told("output_text.delta", delta="Hel")
    failure = (await failed(piece, ended("incomplete", incomplete_details={"reason": "budget"}))).failure
    assert isinstance(failure, ServerError)
    assert "incomplete: budget" in failure.message
    assert failure.partial == "Hel"


async def test_refusal() -> None:
    refused = message("") | {"content": [{"type": "refusal", "refusal": "I will not."}]}
    pieces = [
        told("refusal.delta", output_index=0, delta="I will "),
        told("refusal.delta", output_index=0, delta="not."),
        told("output_item.done", output_index=0, item=refused),
        ended(output=[refused]),
    ]
    with FakeServer(Answer(pieces=pieces), document(refused)) as server:
        for done in [(await ask(profile(server.url))).done for _ in range(2)]:
            assert (done.content, done.refusal) == ("", "I will not.")
            assert (done.finish_reason, done.no_answer) == (FinishReason.CONTENT_FILTERED, False)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "It broke."}, ServerError),
        ({"code": "rate_limit_exceeded", "message": "It broke."}, RateLimited),
        ({"code": "context_length_exceeded", "message": "It broke."}, ContextTooLong),
    ],
)
async def test_errors_in_the_stream(error: dict[str, str], kind: type[Exception]) -> None:
    piece = told("output_text.delta", delta="Hel")
    for last in (
        ended("failed", error=error),
        event({"type": "error", **error}),
        event({"type": "error", "error": error}),
        event({"error": error}),
    ):
        failure = (await failed(piece, last)).failure
        assert type(failure) is kind
        assert "It broke." in failure.message
        assert failure.partial == "Hel"


async def test_a_failed_answer_in_one_piece_and_one_that_breaks_off() -> None:
    with FakeServer(document(status="failed", error={"code": "server_error", "message": "It broke."})) as server:
        assert "It broke." in (await ask(profile(server.url))).failure.message
    piece = told("output_text.delta", delta="Hel")
    failure = (await failed(piece, told("in_progress", response={"status": "in_progress"}))).failure
    assert isinstance(failure, AnswerIncomplete)
    assert failure.partial == "Hel"


async def test_models_that_do_not_reason_have_nothing_to_encrypt() -> None:
    error = {"message": "Encrypted content is not supported with this model.", "param": "include"}
    refusal = json_answer({"error": error}, 400)
    with FakeServer(refusal, document(message("Hi"))) as server:
        outcome = await ask(profile(server.url))
    assert outcome.done.content == "Hi"
    first, second = (request.json() for request in server.requests)
    assert {**second, "include": first["include"]} == first
    assert 'extParams={"include": null}' in outcome.warnings[0]


async def test_what_a_server_keeps_need_not_be_encrypted() -> None:
    with FakeServer(document(message("Hi"))) as server:
        await ask(profile(server.url, ext_params={"store": True}))
    (request,) = server.requests
    assert request.json()["store"] is True
    assert "include" not in request.json()
