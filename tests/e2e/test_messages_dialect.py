"""The embedded server in the dialect of Anthropic: what a real `/v1/messages` takes and gives, never its wit."""

import importlib.util
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine import Conversation, Engine, FinishReason, ToolCall, ToolChoice, ToolDefinition, ToolResult
from engine.embedded_server import bundled_model
from engine.errors import ContextTooLong
from engine.folders import Folders
from engine.profile import ModelProfile, ProfileOptions, Provider

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or bundled_model() is None, reason="the model is not installed"
    ),
]

WEATHER = ToolDefinition.of_texts("get_weather", "Tells the weather of a city.", {"city": "Its name."})


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.on_folders(Folders(tmp_path)) as engine:
        yield engine


def profile(engine: Engine, **options: object) -> ModelProfile:
    chat = engine.resolve("embedded-chat")
    return replace(chat, provider=Provider.ANTHROPIC, max_tokens=24, options=ProfileOptions(**options))  # type: ignore[arg-type]


async def test_text_streamed_and_not(engine: Engine) -> None:
    ask = Conversation.create("You answer briefly.", "Name two fruits.")
    done = {}
    for streaming in (True, False):
        asked = profile(engine, supports_streaming=streaming)
        async with engine.stream(asked, ask) as stream:
            text = "".join([chunk.content async for chunk in stream])
        done[streaming] = stream.completion
        assert text == stream.completion.content != ""
        used = stream.completion.statistics
        assert not used.estimated
        assert used.in_tokens + used.cached_in_tokens > 10
        assert 0 < used.out_tokens <= 24
        assert stream.completion.model == "smollm2-135m-instruct"
    assert done[True].content == done[False].content  # temperature 0
    assert done[True].finish_raw in ("end_turn", "max_tokens")
    short = await engine.complete(profile(engine), ask, overrides={"maxTokens": 2})
    assert (short.finish_reason, short.finish_raw) == (FinishReason.TOKEN_LIMIT_REACHED, "max_tokens")
    (name,) = await engine.model_names(profile(engine))
    assert name == "smollm2-135m-instruct"


async def test_a_round_of_tools(engine: Engine) -> None:
    asked = profile(engine)
    question = Conversation()
    for number, city in enumerate(("Oslo", "Rome", "Lima")):
        call = ToolCall(id=f"t{number}", name="get_weather", arguments=json.dumps({"city": city}))
        question = question.add_user(f"What is the weather in {city}?")
        question = question.add_tool_round("", [call], [ToolResult(call_id=call.id, output="Sun.")])
    question = question.add_user("What is the weather in Paris?")
    first = await engine.complete(asked, question, tools=ToolChoice.required([WEATHER]), overrides={"maxTokens": 60})
    assert (first.finish_reason, first.finish_raw) == (FinishReason.TOOL_CALLS, "tool_use")
    call = first.tool_calls[0]
    assert call.name == "get_weather"
    assert isinstance(json.loads(call.arguments)["city"], str)
    results = [ToolResult(call_id=call.id, output="Rain, 4 degrees") for call in first.tool_calls]
    after = question.add_tool_round(first.content, first.tool_calls, results, kept=first.kept, origin=first.origin)
    last = await engine.complete(asked, after, overrides={"maxTokens": 8})
    assert last.content.strip()
    assert last.tool_calls == ()


async def test_thinking_comes_apart_and_unsigned_thinking_is_not_kept(engine: Engine) -> None:
    asked = profile(engine, thinking_mode="budget", ext_params={"max_tokens": 24})
    done = await engine.complete(asked, Conversation.create("", "Why is the sky blue?"))
    assert "<think>" not in done.content
    assert done.kept == ()


async def test_a_prompt_that_is_too_long(engine: Engine) -> None:
    asked = replace(profile(engine), max_context=0)
    with pytest.raises(ContextTooLong):
        await engine.complete(asked, Conversation.create("", "word " * 12_000))
