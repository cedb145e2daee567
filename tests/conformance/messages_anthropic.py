"""Vectors of messages_anthropic.json, and those of tool_stream.json in the events of Anthropic."""

import json
from collections.abc import Sequence
from typing import Any, cast

from engine.clients.anthropic import AnthropicClient, anthropic_messages
from engine.clients.anthropic_reader import AnthropicReader
from engine.clients.base import ChatRequest
from engine.clients.failures import Place
from engine.clients.outcome import completed
from engine.clients.usage import read_usage
from engine.completion import FinishReason
from engine.content import KeptPart, RedactedThinkingPart, ThinkingPart
from engine.conversation import Conversation
from engine.errors import AnswerIncomplete, RequestError
from engine.profile import ModelProfile, Provider
from engine.statistics import CompletionStatistics
from tests.conformance import turns
from tests.conformance.cases import Case, Kinds
from tests.conformance.wire import replay_body

FINISH = {
    FinishReason.DONE: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.TOKEN_LIMIT_REACHED: "length",
    FinishReason.CONTENT_FILTERED: "content_filter",
}
PROFILE = ModelProfile(name="vector", category="M", provider=Provider.ANTHROPIC, model="m", url="http://h")
PLACE = Place.of(PROFILE, "http://h/v1/messages")


def messages(case: Case) -> object:
    """The turns in the form of the service; `system` only when there is one."""
    given: Any = case.given
    found, system = anthropic_messages(turns.turns(given["messages"]))
    return {"messages": found, "system": system} if system else {"messages": found}


def request(case: Case) -> object:
    """The whole request. What the transport understands (`Accept`) is no part of the vectors."""
    given: Any = case.given
    profile = turns.profile(given, Provider.ANTHROPIC)
    asked = ChatRequest.create(profile, Conversation(tuple(turns.turns(given["messages"]))), tools=turns.choice(given))
    wire = AnthropicClient().form(asked, profile.model)
    headers = {name: value for name, value in wire.headers.items() if name != "Accept"}
    return {"url": wire.url, "headers": headers, "body": json.loads(json.dumps(wire.body))}


def response(case: Case) -> object:
    """An answer in one piece."""
    reader = AnthropicReader(PLACE)
    reader.whole(json.dumps(case.given["response"]).encode())
    assert reader.error is None, reader.error
    return _answer(reader)


async def stream(case: Case) -> object:
    """An answer in events: through the reader at once and byte by byte, and through the client."""
    body = "\n".join(cast("Sequence[str]", case.given["lines"])).encode() + b"\n"
    results = []
    for size in (len(body), 1):
        reader = AnthropicReader(PLACE)
        for start in range(0, len(body), size):
            if not (reader.ended or reader.error):
                reader.feed(body[start : start + size])
        reader.close()
        blocks = [_block(part) for part in reader.answer.kept]
        error = None if reader.error is None else _error(reader.error)
        result = {"thinkingBlocks": blocks, "skippedChunks": reader.answer.skipped, "error": error, **_answer(reader)}
        results.append(result)
    assert results[0] == results[1]
    outcome = await replay_body(body, "messages")
    done, first = outcome.completion, results[0]
    assert [done.content, done.reasoning] == [first["content"], first["reasoning"]]
    assert isinstance(outcome.error, RequestError) is bool(first["error"])
    return results[0]


def _answer(reader: AnthropicReader) -> dict[str, object]:
    done = completed([reader.answer], CompletionStatistics(), PROFILE)
    told = read_usage(reader.answer.usage)
    usage = {
        "promptTokens": told.prompt or 0,
        "cachedTokens": told.cached or 0,
        "completionTokens": told.completion or 0,
        "reasoningTokens": told.reasoning or 0,
    }
    return {
        "content": done.content,
        "reasoning": done.reasoning,
        "toolCalls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments, "argumentsOk": _is_object(call.arguments)}
            for call in done.tool_calls
        ],
        "finishReason": FINISH[done.finish_reason] if reader.answer.finish else None,
        "usage": usage if reader.answer.usage else None,
    }


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _block(part: KeptPart) -> object:
    match part:
        case ThinkingPart():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case RedactedThinkingPart():
            return {"type": "redacted_thinking", "data": part.data}
    raise AssertionError(part)


def _error(error: RequestError) -> object:
    if isinstance(error, AnswerIncomplete):
        return {"kind": "stream_incomplete"}
    kinds = {"overloaded_error": "overloaded", "rate_limit_error": "rate_limit"}
    kind = kinds.get(error.facts.get("type", ""), "provider_error")
    return {"kind": kind, "message": str(error).rpartition(": ")[2]}


KINDS: Kinds = {
    "anthropic messages": messages,
    "anthropic request": request,
    "anthropic response": response,
    "anthropic": stream,
}
