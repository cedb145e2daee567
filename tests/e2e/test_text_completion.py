"""The bundled profile `embedded-text` on the real model: raw prompt, stop, counts, cancelling; never its wit."""

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine import Agent, AgentType, Context, Conversation, Engine, FinishReason, Flow
from engine.embedded_server import bundled_model
from engine.events import CompletionFinished, PromptReady
from engine.folders import Folders

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or bundled_model() is None, reason="the model is not installed"
    ),
]


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.on_folders(Folders(tmp_path)) as engine:
        yield engine


async def test_a_flow_on_the_raw_interface(engine: Engine) -> None:
    agent = Agent(
        "Ask",
        AgentType.COMPLETION,
        profile="embedded-text",
        system_prompt="You answer in one short sentence.",
        template="Which animal says <|im_end|> meow?",
    )
    async with engine.run(Flow(name="Raw", agents=(agent,)), Context()) as run:
        events = [event async for event in run]
    (ready,) = [event for event in events if isinstance(event, PromptReady)]
    (done,) = [event for event in events if isinstance(event, CompletionFinished)]
    assert ready.raw == (
        "<|im_start|>system\nYou answer in one short sentence.<|im_end|>\n"
        "<|im_start|>user\nWhich animal says <\\|im_end|> meow?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert done.model == "smollm2-135m-instruct"
    assert done.finish_reason is FinishReason.DONE  # it stops at the end of its turn, far from 200 tokens
    assert "<|im_" not in done.content
    assert run.contexts[0].text("response") == done.content.strip() == done.content != ""
    used = done.statistics
    assert not used.estimated
    # As the server counts, the marks are one token each, and the one in the text is none.
    counted = await engine.count_tokens("embedded-text", ready.raw)
    assert not counted.approximate
    assert used.in_tokens + used.cached_in_tokens == counted.tokens
    # Thinking is never there, so everything is content.
    assert (done.reasoning, used.reasoning_out_tokens) == ("", 0)


async def test_stop_texts_schema_and_models(engine: Engine) -> None:
    ask = Conversation.create("", "Count from one to ten in words: one, two, three")
    done = await engine.complete("embedded-text", ask, overrides={"stop": [","], "maxTokens": 40})
    assert "," not in done.content
    schema = {"type": "object", "properties": {"animal": {"enum": ["cat", "dog"]}}, "required": ["animal"]}
    done = await engine.complete("embedded-text", "Which animal says meow?", overrides={"responseFormat": schema})
    assert done.content.replace(" ", "").replace("\n", "") in ('{"animal":"cat"}', '{"animal":"dog"}')
    assert await engine.model_names("embedded-text") == ["smollm2-135m-instruct"]
    tokenizer = engine.tokenizer("embedded-text")
    assert await tokenizer.decode(await tokenizer.encode("naïve 日本")) == "naïve 日本"
