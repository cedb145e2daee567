"""Reading chat completions: the vectors of tool streams, and streams that were tampered with."""

import json
import random
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clients.chat_reader import ChatReader
from engine.clients.failures import Place
from engine.completion import Chunk
from engine.errors import AnswerIncomplete, ContextTooLong, ProtocolError, RateLimited, RequestError, ServerError
from tests.helpers.tampered import mutated

TESTS = Path(__file__).parents[1]
PLACE = Place("tested", "http://127.0.0.1:1/v1/chat/completions")
VECTORS = [
    vector
    for vector in json.loads((TESTS / "vectors" / "tool_stream.json").read_text(encoding="utf-8"))
    if vector["given"].get("op") == "openai"
]
KINDS = {"stream_incomplete": AnswerIncomplete, "provider_error": ServerError}


def read(*pieces: bytes, think_tags: str = "off") -> ChatReader:
    reader = ChatReader(PLACE, think_tags=think_tags)
    for piece in pieces:
        if not (reader.ended or reader.error):
            reader.feed(piece)
    reader.close()
    return reader


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_vector(vector: Mapping[str, Mapping[str, object]]) -> None:
    lines, expect = vector["given"]["lines"], vector["expect"]
    assert isinstance(lines, list)
    answer = (reader := read("".join(f"{line}\n" for line in lines).encode())).answer
    assert (answer.text, answer.thoughts) == (expect["content"], expect["reasoning"])
    assert answer.skipped == expect["skippedChunks"]
    calls = expect["toolCalls"]
    assert isinstance(calls, list)
    assert [(call.name, call.arguments) for call in answer.calls] == [
        (call["name"], call["arguments"]) for call in calls
    ]
    for got, wanted in zip(answer.calls, calls, strict=True):
        assert got.id == wanted["id"] or (wanted["id"] == "*" and got.id.startswith("call_") and len(got.id) == 29)
    error = expect["error"]
    kind = error["kind"] if isinstance(error, dict) else ""
    if kind in KINDS:
        assert type(reader.error) is KINDS[kind]
        assert isinstance(error, dict)
        assert str(error.get("message", "")) in str(reader.error)
    else:
        assert reader.error is None


def event(**members: object) -> bytes:
    return b"data: " + json.dumps(members).encode() + b"\n\n"


def said(**delta: object) -> bytes:
    return event(choices=[{"index": 0, "delta": delta}])


@pytest.mark.parametrize(
    ("delta", "reasoning", "content"),
    [
        ({"content": "a"}, "", "a"),
        ({"content": None, "reasoning_content": "r"}, "r", ""),
        ({"reasoning": "r"}, "r", ""),
        ({"reasoning_content": "r", "reasoning": "r", "reasoning_details": [{"text": "r"}]}, "r", ""),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "r"}, {"summary": "s"}, {"data": "x"}]}, "rs", ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": [{"text": "r"}]}]}, "r", "a"),
        ({"content": [{"type": "thinking", "thinking": "r"}]}, "r", ""),
        ({"content": 17}, "", ""),
        ({"content": {"text": "a"}}, "", ""),
        ({"content": "a", "tool_calls": [], "refusal": None, "audio": {}}, "", "a"),
    ],
)
def test_where_text_and_reasoning_stand(delta: dict[str, object], reasoning: str, content: str) -> None:
    for lead in ([], [said(content="", role="assistant")]):  # as first event, and as any other
        answer = read(*lead, said(**delta)).answer
        assert (answer.thoughts, answer.text) == (reasoning, content)


def test_only_the_first_choice_counts() -> None:
    both = event(choices=[{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}])
    assert read(both, both, event(choices=[{"index": 1, "delta": {"content": "no"}}])).answer.text == "yesyes"


def test_a_message_is_read_like_a_delta() -> None:
    assert read(event(choices=[{"message": {"content": "a"}}])).answer.text == "a"


def test_the_last_usage_wins() -> None:
    answer = read(
        event(choices=[], usage={"prompt_tokens": 1}),
        event(choices=[], usage=None),
        event(choices=[], x_groq={"usage": {"prompt_tokens": 2}}),
    ).answer
    assert answer.usage == {"prompt_tokens": 2}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("text", ServerError),
        ({"message": "m"}, ServerError),
        ({}, ServerError),
        ({"type": "rate_limit_error"}, RateLimited),
        ({"message": "the context window is full"}, ContextTooLong),
        ({"message": ["odd"], "code": {}}, ServerError),
    ],
)
def test_an_error_object_ends_the_answer(error: object, kind: type[RequestError]) -> None:
    reader = read(said(content="a"), event(choices=[{"delta": {"content": "b"}}], error=error), said(content="c"))
    assert reader.answer.text == "ab"
    assert type(reader.error) is kind


def test_chunks_say_what_the_answer_holds() -> None:
    reader = ChatReader(PLACE)
    chunks: list[Chunk] = []
    for part in ({"content": "a"}, {"content": "b"}, {"reasoning": "r"}, {"content": ""}, {"content": "c"}):
        chunks += reader.feed(said(**part))
    assert [(chunk.content, chunk.reasoning) for chunk in chunks if not chunk.phase] == [
        ("a", ""),
        ("b", ""),
        ("", "r"),
        ("c", ""),
    ]


STREAMS = sorted((TESTS / "fixtures" / "wire").rglob("*.sse"))


@given(st.sampled_from(STREAMS), st.integers(0, 2**32))
def test_tampered_streams_raise_nothing_and_do_not_depend_on_their_pieces(path: Path, seed: int) -> None:
    read_tampered(path, seed)


@pytest.mark.soak
def test_ten_thousand_tampered_streams() -> None:
    for seed in range(10_000):
        read_tampered(STREAMS[seed % len(STREAMS)], seed)


ODD = "a\u2028b\u2029c\u0085d\x0be\x1cf\x00 \u4e2d\U0001f600 data: [DONE]"
"""Characters that other readers take for the end of a line, and worse, raw inside a string."""


def odd_stream(end: str) -> bytes:
    lines = ["\ufeff: a comment", 'data: {"choices":[{"index":0,"delta":', "event: odd", "other: field"]
    for channel in ("reasoning_content", "content"):
        delta = json.dumps({channel: ODD}, ensure_ascii=False).replace("\\u000b", "\x0b").replace("\\u001c", "\x1c")
        lines += [f"data: {delta}}}]}}", "", 'data: {"choices":[{"index":0,"delta":']
    lines += ['data: {"content":"end"},"finish_reason":"stop"}]}', "", "data: [DONE]", "", 'data: {"error":"late"}', ""]
    return "".join(line + end for line in lines).encode()


ODD_STREAMS = {"LF": odd_stream("\n"), "CR": odd_stream("\r"), "CRLF": odd_stream("\r\n")}


@pytest.mark.parametrize("name", [*ODD_STREAMS, *(path.name for path in STREAMS)])
@pytest.mark.parametrize("splits", [30, pytest.param(1000, marks=pytest.mark.soak)])
def test_how_a_stream_is_cut_makes_no_difference(name: str, splits: int) -> None:
    stream = ODD_STREAMS.get(name) or next(path for path in STREAMS if path.name == name).read_bytes()
    whole = told(read(stream))
    if name in ODD_STREAMS:
        assert whole[:5] == (ODD + "end", ODD, 0, "stop", None)
    assert told(read(*(stream[place : place + 1] for place in range(len(stream))))) == whole
    chance = random.Random(name)
    for _ in range(splits):
        cuts = sorted(chance.choices(range(len(stream) + 1), k=chance.randint(1, 30)))
        pieces = (stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True))
        assert told(read(*pieces)) == whole


def told(reader: ChatReader) -> tuple[object, ...]:
    """What a reader made of a stream; ids that it made up aside."""
    answer = reader.answer
    error = None if reader.error is None else (type(reader.error), str(reader.error))
    calls = [(call.name, call.arguments) for call in answer.calls]
    rest = (answer.usage, answer.timings, answer.model, answer.refusal)
    return answer.text, answer.thoughts, answer.skipped, answer.finish, error, calls, rest


def read_tampered(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    stream = mutated(path.read_bytes(), chance)
    size = chance.randint(1, 50)
    whole = read(stream, think_tags="on")
    pieces = read(*(stream[place : place + size] for place in range(0, len(stream), size)), think_tags="on")
    assert type(whole.error) is type(pieces.error)
    assert whole.answer.text == pieces.answer.text
    assert whole.answer.thoughts == pieces.answer.thoughts
    assert whole.answer.skipped == pieces.answer.skipped
    assert [(call.name, call.arguments) for call in whole.answer.calls] == [
        (call.name, call.arguments) for call in pieces.answer.calls
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "message",
                        "content",
                        "index",
                        "usage",
                        "error",
                        "tool_calls",
                        "function",
                        "arguments",
                        "name",
                        "id",
                        "type",
                        "text",
                        "thinking",
                        "refusal",
                        "finish_reason",
                        "x_groq",
                        "timings",
                        "model",
                    ]
                ),
                inner,
            )
        ),
    )
)
def test_documents_of_any_shape_raise_nothing(document: object) -> None:
    body = json.dumps(document).encode()
    reader = ChatReader(PLACE)
    reader.whole(body)
    assert reader.error is None or isinstance(reader.error, RequestError)
    read(b"data: " + body + b"\n\n")


def call(arguments: str) -> dict[str, object]:
    return {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}]}


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x" * (7 * 2**20)},
        {"content": "\u4e2d" * (7 * 2**20 // 3)},  # as bytes on the wire, not as characters
        {"refusal": "x" * (7 * 2**20)},
        call("x" * (7 * 2**20)),
    ],
    ids=["content", "three bytes a character", "refusal", "call"],
)
def test_more_text_than_64_mib_ends_the_answer(delta: Mapping[str, object]) -> None:
    reader = ChatReader(PLACE)
    part = b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}, ensure_ascii=False).encode() + b"\n\n"
    for _ in range(9):
        reader.feed(part)
    assert reader.error is None
    reader.feed(part)
    assert isinstance(reader.error, ProtocolError)
    assert "64 MiB" in str(reader.error)


def test_an_event_of_endless_empty_calls_is_read_quickly_and_many_of_them_end_the_answer() -> None:
    """A generous bound: looking through all calls for each piece would take minutes."""
    reader = ChatReader(PLACE)
    started = time.thread_time()
    for start in range(0, 80_000, 20_000):
        assert reader.error is None
        reader.feed(said(tool_calls=[{"index": number} for number in range(start, start + 20_000)]))
    assert isinstance(reader.error, ProtocolError)
    assert time.thread_time() - started < 30
