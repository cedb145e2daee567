"""Text completions over a real socket: the raw prompt that is sent, the shapes that are read, what is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest

from engine.completion import FinishReason, Phase
from engine.conversation import Conversation, Role, Turn
from engine.errors import AnswerIncomplete, ContextTooLong, ProfileError, ProtocolError, ServerError
from engine.profile import ModelProfile, Provider
from tests.helpers.asking import HEADERS, ask, converse, profile_for
from tests.helpers.fake_server import DONE, JSON, Answer, FakeServer, event, json_answer


def text_profile(url: str, strategy: str = "chatml", **options: Any) -> ModelProfile:
    return replace(profile_for(url, **options), provider=Provider.OPENAI_TEXT, prompt_strategy=strategy)


def piece(text: str, finish: str | None = None) -> bytes:
    return event({"choices": [{"text": text, "index": 0, "finish_reason": finish}]})


def texts(*pieces: str, finish: str = "stop") -> Answer:
    return Answer(pieces=[*(piece(text) for text in pieces), piece("", finish), DONE])


async def test_the_request() -> None:
    extra = {"top_k": 4, "prompt": "mine", "stream": False}
    with FakeServer(texts("Hi")) as server:
        profile = text_profile(server.url, ext_params=extra)
        profile = replace(profile, max_tokens=64, temperature=0.5, top_p=0.9)
        conversation = Conversation.create("Be brief.", "Hello <|im_end|>")
        outcome = await converse(profile, conversation, stop=["END", "<|im_end|>"])
    (request,) = server.requests
    assert request.path == "/v1/completions"
    assert request.own_headers == HEADERS | {"authorization": "Bearer secret-key-0123"}
    assert request.json() == {
        "model": "m",
        "prompt": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello <\\|im_end|><|im_end|>\n"
        "<|im_start|>assistant\n",
        "max_tokens": 64,
        "temperature": 0.5,
        "top_p": 0.9,
        "stream": True,
        "stream_options": {"include_usage": True},
        "stop": ["<|im_end|>", "END"],
        "top_k": 4,
    }
    assert outcome.done.content == "Hi"


async def test_reasoning_comes_apart_while_it_streams() -> None:
    with FakeServer(texts("<thi", "nk>\nLet ", "me</thi", "nk>\n\nYes", " <|im_", "end|>")) as server:
        outcome = await ask(text_profile(server.url, "qwen3"))
    assert outcome.phases == [Phase.CONNECTING, Phase.READING_PROMPT, Phase.THINKING, Phase.ANSWERING]
    assert [chunk.reasoning for chunk in outcome.chunks if chunk.reasoning] == ["Let", " me"]
    assert [chunk.content for chunk in outcome.chunks if chunk.content] == ["Yes"]
    assert (outcome.done.content, outcome.done.reasoning) == ("Yes", "Let me")


@pytest.mark.parametrize(
    ("finish", "content", "reasoning", "reason"),
    [
        ("stop", "Hm, yes.", "", FinishReason.DONE),
        ("length", "", "Hm, yes.", FinishReason.TOKEN_LIMIT_REACHED),
    ],
)
async def test_a_thought_that_never_ended(finish: str, content: str, reasoning: str, reason: FinishReason) -> None:
    with FakeServer(texts("Hm, ", "yes.", finish=finish)) as server:
        done = (await ask(text_profile(server.url, "qwen3.5"))).done
    assert (done.content, done.reasoning, done.finish_reason, done.no_answer) == (
        content,
        reasoning,
        reason,
        not content,
    )


async def test_thinking_tags_when_the_profile_asks() -> None:
    for tags, expected in {"on": ("yes", "t"), "auto": ("<think>t</think>yes", "")}.items():
        with FakeServer(texts("<think>t</think>", "yes")) as server:
            done = (await ask(text_profile(server.url, "llama3", think_tags=tags))).done
        assert (done.content, done.reasoning) == expected


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ({"stopped_eos": True}, FinishReason.DONE),
        ({"stopped_eos": False}, FinishReason.TOKEN_LIMIT_REACHED),
        ({"stopped_eos": False, "stopped_word": True}, FinishReason.DONE),
        ({"stop_type": "limit"}, FinishReason.TOKEN_LIMIT_REACHED),
        ({"stop_type": "word"}, FinishReason.DONE),
        ({}, FinishReason.DONE),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_the_shape_of_llama_cpp(ending: dict[str, object], reason: FinishReason, streamed: bool) -> None:
    last = {"content": " Paris", "stop": True, "tokens_evaluated": 5, "tokens_predicted": 2, "model": "smol", **ending}
    first = event({"content": "It is", "stop": False})
    answer = Answer(pieces=[first, event(last)] if streamed else [json.dumps(last).encode()])
    with FakeServer(answer if streamed else replace(answer, headers=JSON)) as server:
        done = (await ask(text_profile(server.url))).done
    assert done.content == ("It is Paris" if streamed else "Paris")
    assert (done.finish_reason, done.model) == (reason, "smol")
    assert (done.statistics.in_tokens, done.statistics.out_tokens) == (5, 2)


async def test_without_streaming() -> None:
    body = {"choices": [{"text": " Yes<|im_end|>", "index": 0, "finish_reason": "stop"}]}
    with FakeServer(json_answer(body)) as server:
        done = (await ask(text_profile(server.url, supports_streaming=False))).done
    sent = server.requests[0].json()
    assert (sent["stream"], "stream_options" in sent) == (False, False)
    assert done.content == "Yes"


async def test_the_raw_prompt_is_counted_when_the_server_tells_nothing() -> None:
    with FakeServer(texts("one two three")) as server:
        outcome = await ask(text_profile(server.url, "vicuna"))
    used = outcome.done.statistics
    assert server.requests[0].json()["prompt"] == "USER: hi\nASSISTANT:"
    assert (used.in_tokens, used.out_tokens, used.estimated) == (3, 3, True)


async def test_what_a_server_may_do_wrong() -> None:
    cases: dict[str, tuple[Answer, type[Exception]]] = {
        "no text": (Answer(headers=JSON, pieces=[b'{"object": "text_completion"}']), ProtocolError),
        "no end": (Answer(pieces=[piece("half ")]), AnswerIncomplete),
        "error": (Answer(pieces=[piece("half "), event({"error": {"message": "out of memory"}})]), ServerError),
    }
    for name, (answer, kind) in cases.items():
        with FakeServer(answer) as server:
            outcome = await ask(text_profile(server.url, max_retries=0))
        assert isinstance(outcome.failure, kind), name
        assert outcome.failure.partial == ("half" if name != "no text" else "")


@pytest.mark.parametrize(
    ("strategy", "turns", "message"),
    [
        ("", [Turn(role=Role.USER, text="hi")], "No prompt format"),
        ("qwen9", [Turn(role=Role.USER, text="hi")], "qwen9"),
        ("chatml", [Turn(role=Role.SYSTEM, text="hi")], "needs a user turn"),
        ("chatml", [Turn(role=Role.USER, text="hi"), Turn(role=Role.TOOL, text="18")], "result of a tool"),
    ],
)
async def test_what_cannot_be_sent(strategy: str, turns: list[Turn], message: str) -> None:
    with FakeServer(texts("Hi")) as server:
        with pytest.raises(ProfileError, match=message) as caught:
            await converse(text_profile(server.url, strategy), Conversation(tuple(turns)))
        assert server.requests == []
    assert caught.value.hint


async def test_a_prompt_too_long_loses_whole_rounds() -> None:
    conversation = Conversation.create("", "one " * 40).add_assistant("two " * 40).add_user("three")
    with FakeServer(texts("Hi")) as server:
        profile = replace(text_profile(server.url, "noop"), max_context=80, max_tokens=20)
        outcome = await converse(profile, conversation)
        with pytest.raises(ContextTooLong):
            await converse(profile, Conversation.create("", "one " * 60))
    assert [request.json()["prompt"] for request in server.requests] == ["three"]
    assert [chunk.shortened.dropped for chunk in outcome.chunks if chunk.shortened] == [(0, 1)]


async def test_a_schema_for_llama_cpp_and_for_others() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    with FakeServer(texts("{}")) as server:
        profile = text_profile(server.url)
        for tokenizer in ("", "llamaServer"):
            await converse(replace(profile, tokenizer=tokenizer), Conversation.create("", "hi"), responseFormat=schema)
    first, second = (request.json() for request in server.requests)
    assert first["response_format"]["json_schema"]["schema"] == schema
    assert second["json_schema"] == schema
    assert "response_format" not in second
