"""Vectors of messages_openai.json, and those of tool_stream.json in the events of chat completions."""

import json
import random
from collections.abc import Iterator
from typing import Any

from engine.clients.base import ChatRequest
from engine.clients.chat_reader import ChatReader
from engine.clients.failures import Place
from engine.clients.openai_chat import OpenAIChatClient, chat_messages
from engine.clients.usage import read_usage
from engine.conversation import Conversation
from engine.errors import AnswerIncomplete, RequestError
from engine.message_intervals import MessageIntervals
from engine.profile import ModelProfile, Provider
from tests.conformance import turns
from tests.conformance.cases import Case, Kinds
from tests.conformance.wire import replay_body

PROFILE = ModelProfile(name="vector", category="M", provider=Provider.OPENAI_CHAT, model="m", url="http://h")


def messages(case: Case) -> object:
    """The turns in the form of chat completions."""
    given: Any = case.given
    return {"messages": chat_messages(turns.turns(given["messages"]), given.get("systemRole", "system"))}


def request(case: Case) -> object:
    """The whole request. What the transport understands (`Accept`) is no part of the vectors."""
    given: Any = case.given
    profile = turns.profile(given, Provider.OPENAI_CHAT)
    conversation = Conversation(tuple(turns.turns(given["messages"])))
    wire = OpenAIChatClient().form(ChatRequest.create(profile, conversation, tools=turns.choice(given)), profile.model)
    headers = {name: value for name, value in wire.headers.items() if name != "Accept"}
    return {"url": wire.url, "headers": headers, "body": json.loads(json.dumps(wire.body))}


async def stream(case: Case) -> object:
    """An answer in events: through the reader whole, byte by byte and cut at random, and through the client."""
    given: Any = case.given
    body = "\n".join(given["lines"]).encode() + b"\n"
    first, *others = [_read(pieces) for pieces in _cuts(body)]
    assert all(other == first for other in others), f"the result depends on the cuts: {first} {others}"
    outcome = await replay_body(body)
    done = outcome.completion
    if done.no_answer and outcome.error is None:
        first["error"] = {"kind": "empty_response"}
    assert [done.content, done.reasoning] == [first["content"], first["reasoning"]]
    assert [(call.id, call.name, call.arguments) for call in done.tool_calls] == [
        (call["id"], call["name"], call["arguments"]) for call in first["toolCalls"]
    ]
    assert done.skipped_chunks == first["skippedChunks"]
    if outcome.error is not None:
        assert isinstance(outcome.error, RequestError)
        assert _error(outcome.error) == first["error"]
    elif first["finishReason"]:
        assert WORDS.get(done.finish_reason, done.finish_reason.lower()) == first["finishReason"]
    return first


WORDS = {"DONE": "stop", "TOKEN_LIMIT_REACHED": "length", "CONTENT_FILTERED": "content_filter"}


def _cuts(body: bytes) -> Iterator[list[bytes]]:
    yield [body]
    yield [body[place : place + 1] for place in range(len(body))]
    for seed in range(20):
        cuts = sorted(random.Random(seed).choices(range(len(body)), k=10))
        yield [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def _read(pieces: list[bytes]) -> dict[str, Any]:
    reader = ChatReader(Place.of(PROFILE, "http://h/v1/chat/completions"))
    for piece in pieces:
        if not (reader.ended or reader.error):
            reader.feed(piece)
    reader.close()
    answer = reader.answer
    told = read_usage(answer.usage)
    finish = None if reader.error else answer.finish or "stop"
    return {
        "content": answer.text,
        "reasoning": answer.thoughts,
        "toolCalls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments, "argumentsOk": _is_object(call.arguments)}
            for call in answer.calls
        ],
        "finishReason": "tool_calls" if finish in ("stop", "function_call") and answer.calls else finish,
        "usage": None
        if answer.usage is None
        else {
            "promptTokens": told.prompt or 0,
            "cachedTokens": told.cached or 0,
            "completionTokens": told.completion or 0,
            "reasoningTokens": told.reasoning or 0,
        },
        "skippedChunks": answer.skipped,
        "error": None if reader.error is None else _error(reader.error),
    }


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _error(error: RequestError) -> object:
    if isinstance(error, AnswerIncomplete):
        return {"kind": "stream_incomplete"}
    return {"kind": "provider_error", "message": error.message.rpartition(": ")[2]}


def intervals(case: Case) -> object:
    """What is passed on of a streamed message, without the flush by time."""
    given: Any = case.given
    sender = MessageIntervals(given["first"], given["send"], fenced=given["mode"] == "struct_parse", silence=None)
    emitted = [*map(sender.feed, given["chunks"]), sender.close()]
    return {"emitted": [text for text in emitted if text], "final": "".join(given["chunks"])}


KINDS: Kinds = {"messages": messages, "request": request, "openai": stream, "intervals": intervals}
