"""The embedded server through its dialects of OpenAI's kind: streamed and in one piece, counts, rounds, refusals."""

import importlib.util
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine import Completion, Conversation, Engine, FinishReason, Provider, Role, Turn
from engine.conversation import ToolCall, ToolChoice, ToolDefinition, ToolResult
from engine.embedded_server import bundled_model
from engine.errors import RequestError
from engine.folders import Folders
from engine.profile import ModelProfile

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or bundled_model() is None, reason="the model is not installed"
    ),
]
TOOL = ToolDefinition.of_texts("weather", "Tells the weather.", {"city": "Where"})


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.on_folders(Folders(tmp_path)) as engine:
        yield engine


def through(engine: Engine, provider: Provider, *, streaming: bool = True, tokens: int = 6) -> ModelProfile:
    """The embedded model through one dialect."""
    profile = engine.resolve("embedded-text" if provider is Provider.OPENAI_TEXT else "embedded-chat")
    options = replace(profile.options, supports_streaming=streaming)
    return replace(profile, provider=provider, max_tokens=tokens, options=options)


async def test_streamed_and_in_one_piece(engine: Engine) -> None:
    for provider in (Provider.OPENAI_CHAT, Provider.OPENAI_TEXT, Provider.OPENAI_RESPONSES):
        await ask_both_ways(engine, provider)
    for provider in (Provider.OPENAI_CHAT, Provider.OPENAI_RESPONSES):
        with pytest.raises(RequestError) as caught:
            await engine.complete(
                through(engine, provider),
                Conversation.create("", "hi"),
                overrides={"extParams": {"grammar": "root ::"}},
            )
        assert caught.value.hint
        assert caught.value.facts["status"] == "400"


async def ask_both_ways(engine: Engine, provider: Provider) -> None:
    question = Conversation.create("Be brief.", "Why is the sky blue?")
    answers: list[Completion] = []
    for streaming in (True, False):
        profile = through(engine, provider, streaming=streaming)
        answers.append(await engine.complete(profile, question, skip_cache=True))
    streamed, whole = answers
    assert streamed.content == whole.content != ""
    for done in answers:
        used = done.statistics
        assert (used.out_tokens, used.reasoning_out_tokens, used.estimated) == (6, 0, False)
        # The Responses interface of llama.cpp calls an answer complete that its limit has cut.
        limited = FinishReason.DONE if provider is Provider.OPENAI_RESPONSES else FinishReason.TOKEN_LIMIT_REACHED
        assert done.finish_reason is limited
        assert done.model == "smollm2-135m-instruct"
    counts = {used.in_tokens + used.cached_in_tokens for used in (done.statistics for done in answers)}
    assert len(counts) == 1


async def test_reasoning_and_rounds_of_responses(engine: Engine) -> None:
    thinking = replace(engine.resolve("embedded-thinking"), provider=Provider.OPENAI_RESPONSES, max_tokens=24)
    limits = {"thinking_budget_tokens": 8}
    question = Conversation.create("", "Why is the sky blue?")
    done = await engine.complete(thinking, question, overrides={"extParams": limits})
    assert done.reasoning
    assert [part.item["type"] for part in done.kept] == ["reasoning", "message"]  # type: ignore[union-attr]
    assert done.origin == thinking.origin
    answer = Turn(role=Role.ASSISTANT, text=done.content, kept=done.kept, origin=done.origin)
    more = await engine.complete(
        thinking, question.add(answer).add_user("And at night?"), overrides={"extParams": limits}
    )
    assert more.content or more.reasoning
    call = ToolCall(id="call_1", name="weather", arguments='{"city": "Lima"}')
    round_ = Conversation.create("", "Weather in Lima?").add_tool_round(
        "", [call], [ToolResult(call_id="call_1", output="It rains.")]
    )
    plain = through(engine, Provider.OPENAI_RESPONSES)
    assert (await engine.complete(plain, round_, tools=ToolChoice.auto([TOOL]))).statistics.out_tokens > 0
