"""What the network, the server or its answer can do wrong before and while an answer comes."""

import asyncio
import gzip
import socket
import time
import tracemalloc
from collections.abc import Iterable
from functools import cache
from typing import Literal

import pytest

from engine.clients.recovery import CompletionStream
from engine.completion import FinishReason
from engine.errors import (
    AnswerIncomplete,
    ProtocolError,
    RateLimited,
    RequestError,
    RequestTimeout,
    ServerError,
)
from tests.helpers.asking import ask, free_port, profile_for, requests, stream_of
from tests.helpers.fake_server import (
    DONE,
    EVENT_STREAM,
    JSON,
    Answer,
    FakeServer,
    Received,
    chat,
    delta,
    event,
)

MIB = 1024 * 1024


@cache
def bomb() -> bytes:
    """Less than half a megabyte that inflates to 400 MiB."""
    return gzip.compress(bytes(40 * MIB)) * 10


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd"])
async def test_an_encoded_answer_is_refused_before_it_is_inflated(encoding: str) -> None:
    answer = Answer(headers={**EVENT_STREAM, "Content-Encoding": encoding}, pieces=[bomb()], framing="length")
    with FakeServer(answer) as server:
        tracemalloc.start()
        try:
            outcome = await ask(profile_for(server.url))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(bomb()) < 0.5 * MIB
    assert type(outcome.failure) is ProtocolError
    assert encoding in str(outcome.failure)
    assert len(server.requests) == 1
    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert peak < 16 * MIB


PAGE = b"<!doctype html><html><head><title>Login &amp; more</title><script>x()</script></head><body>" + b"<p>word" * 99


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html; charset=utf-8", PAGE),
        ("text/event-stream", PAGE),
        ("application/json", b"\xef\xbb\xbf \n" + PAGE),
        ("text/plain", b"just words"),
        ("application/octet-stream", bytes(range(256))),
        ("application/xml", b"<a/>"),
        ("image/png", b"\x89PNG"),
    ],
)
@pytest.mark.parametrize("size", [None, 1])
async def test_other_content_than_asked_for(kind: str, body: bytes, size: int | None) -> None:
    pieces = [body] if size is None else [body[place : place + 1] for place in range(len(body))]
    with FakeServer(Answer(headers={"Content-Type": kind}, pieces=pieces)) as server:
        outcome = await ask(profile_for(server.url))
    assert type(outcome.failure) is ProtocolError
    assert kind.split(";")[0] in str(outcome.failure)
    assert len(server.requests) == 1
    excerpt = outcome.failure.facts.get("excerpt", "")
    assert len(excerpt) <= 200
    if PAGE in body:
        assert excerpt.startswith("Login & more word word")
        assert "<" not in excerpt


async def test_a_whole_json_answer_is_one_chunk() -> None:
    body = b'{"choices":[{"message":{"content":"all at once"},"finish_reason":"stop"}]}'
    for headers in (JSON, {"Content-Type": "application/json; charset=utf-8"}, {}):
        with FakeServer(Answer(headers=headers, pieces=[body], framing="length")) as server:
            outcome = await ask(profile_for(server.url))
        assert [chunk.content for chunk in outcome.chunks if chunk.content] == ["all at once"]
        assert outcome.done.finish_reason is FinishReason.DONE


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"choices":[]}', b'{"choices":', b"\xff\xfe", b'{"choices":null}']
)
async def test_json_that_is_no_answer_is_asked_for_once_more(body: bytes) -> None:
    with FakeServer(Answer(headers=JSON, pieces=[body], framing="length")) as server:
        outcome = await ask(profile_for(server.url))
    assert type(outcome.failure) is ProtocolError
    assert len(server.requests) == 2


TEXTS = ["Once", " upon", " a ti", "me", " ☃ \U0001f600", " there", " was", " a", " robot", " who", " read", " on", "."]
STREAM = b": a comment first\n\n" + b"".join(delta(text) for text in TEXTS)
"""Nearly 2 kB without an announced end."""


def whole_text(sent: bytes) -> str:
    """What the events that are whole in the bytes say; the last one may lack its blank line."""
    return "".join(text for number, text in enumerate(TEXTS) if event_end(number) <= len(sent))


def event_end(number: int) -> int:
    """Where the event ends, without its blank line."""
    return STREAM.index(delta(TEXTS[number])) + len(delta(TEXTS[number]).rstrip(b"\n"))


async def failed(stream: CompletionStream) -> tuple[str, RequestError]:
    """Text and error of a stream that fails."""
    text = ""
    async with stream:
        try:
            async for chunk in stream:
                text += chunk.content
        except RequestError as error:
            return text, error
    raise AssertionError(f"complete: {stream.completion}")


async def check_cuts(places: Iterable[int], end: Literal["clean", "reset"]) -> None:
    """Cut the stream there: its text is kept, and asked for again only when there was none."""
    cut = 0

    def answer(_: Received) -> Answer:
        return Answer(pieces=[STREAM[:cut]], end=end)

    with FakeServer(answer) as server:
        async with requests() as sender:
            sender.endpoints.breaker = False
            for cut in places:
                server.requests.clear()
                stream = stream_of(sender, profile_for(server.url))
                text, error = await failed(stream)
                assert type(error) is AnswerIncomplete
                assert error.hint
                wanted = whole_text(STREAM[:cut])
                # a reset may overtake the bytes before it
                assert text == wanted if end == "clean" else wanted.startswith(text)
                assert error.partial == text == stream.so_far.content
                assert len(server.requests) == (1 if text else 3), cut


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("end", ["clean", "reset"])
async def test_a_stream_cut_after_every_byte_keeps_exactly_what_came(end: Literal["clean", "reset"], step: int) -> None:
    await check_cuts(range(1, len(STREAM), step), end)


async def test_a_clean_end_between_two_events_is_not_the_end_of_the_answer() -> None:
    ends = [event_end(number) for number in range(len(TEXTS))]
    await check_cuts([place for end in ends for place in (end, end + 1, end + 2)], "clean")


async def test_a_cut_stream_is_not_asked_for_again_after_its_first_text() -> None:
    with FakeServer(Answer(pieces=[delta("Hel")], framing="chunked", end="cut")) as server:
        outcome = await ask(profile_for(server.url))
    assert type(outcome.failure) is AnswerIncomplete
    assert outcome.failure.partial == "Hel"
    assert len(server.requests) == 1
    assert outcome.so_far is not None
    assert outcome.so_far.statistics.out_tokens == 1  # estimated: nothing was reported
    assert outcome.so_far.statistics.estimated


async def test_a_cut_stream_is_asked_for_again_before_its_first_text() -> None:
    empty = Answer(pieces=[delta(role="assistant")], framing="chunked", end="cut")
    with FakeServer(empty, chat("ok")) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.done.content == "ok"
    assert len(server.requests) == 2


@pytest.mark.parametrize("end", ["clean", "cut", "reset"])
async def test_a_finish_reason_makes_it_complete(end: str) -> None:
    answer = Answer(pieces=[delta("all"), delta(finish="length"), 0.05], framing="chunked", end=end)  # type: ignore[arg-type]
    with FakeServer(answer) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.done.content == "all"
    assert outcome.done.finish_reason is FinishReason.TOKEN_LIMIT_REACHED


async def test_nothing_counts_after_the_end_event() -> None:
    with FakeServer(Answer(pieces=[delta("a"), DONE, delta("b"), event({"error": "late"})])) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.done.content == "a"


LIMITS = [
    ("first_token", [], {"first_token_timeout": 0.4}),
    ("first_token", [b": still here\n\n", 0.1] * 100, {"first_token_timeout": 0.4}),
    ("first_token", [delta(role="assistant"), 0.1] * 100, {"first_token_timeout": 0.4}),
    (
        "first_token",
        [part for byte in delta("slow" * 50) for part in (bytes([byte]), 0.02)],
        {"first_token_timeout": 0.4},
    ),
    ("first_token", [delta("text"), *[b":\n\n", 0.1] * 100], {"first_token_timeout": 0.4}),
    ("idle", [delta("text")], {"idle_timeout": 0.4}),
    ("total", [delta("text"), 0.05] * 100, {"total_timeout": 0.4}),
]


@pytest.mark.parametrize(("limit", "pieces", "options"), LIMITS)
async def test_time_limits(limit: str, pieces: list[bytes | float], options: dict[str, float]) -> None:
    with FakeServer(Answer(pieces=pieces, framing="chunked", end="stall")) as server:
        async with asyncio.timeout(30):
            outcome = await ask(profile_for(server.url, max_retries=0, **options))
        assert type(outcome.failure) is RequestTimeout
        assert outcome.failure.facts["limit"] == limit
        assert outcome.failure.partial == outcome.text
        assert ("text" in outcome.text) is (pieces[:1] == [delta("text")])
        assert server.hung_up.wait(10)


ENDLESS: dict[str, list[bytes | float]] = {
    "silent": [],
    "a byte each 0.1 s": [part for byte in delta("slow" * 50) for part in (bytes([byte]), 0.1)],
    "a comment each 0.5 s": [b": wait\n\n", 0.5] * 20,
    "silent after text": [delta("text")],
    "comments after text": [delta("text"), *[b":\n\n", 0.5] * 20],
}


@pytest.mark.soak
@pytest.mark.parametrize("limit", [1.0, 2.0])
@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
async def test_limits_are_kept_to_half_a_second(pieces: list[bytes | float], limit: float) -> None:
    with FakeServer(Answer(pieces=pieces, framing="chunked", end="stall")) as server:
        profile = profile_for(server.url, max_retries=0, first_token_timeout=limit, idle_timeout=limit)
        await ask(profile_for(f"http://127.0.0.1:{free_port()}", max_retries=0))  # the library is loaded
        started = time.monotonic()
        outcome = await ask(profile)
        assert type(outcome.failure) is RequestTimeout
        assert limit <= time.monotonic() - started < limit + 0.5


def test_the_limits_a_profile_has_by_itself() -> None:
    limits = profile_for("http://127.0.0.1:1").options
    assert (limits.connect_timeout, limits.idle_timeout, limits.first_token_timeout) == (10, 120, 300)
    assert not limits.total_timeout
    assert limits.max_retries == 2


async def test_the_limit_for_connecting() -> None:
    with socket.socket() as silent:  # accepts, but never shakes hands
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        outcome = await ask(profile_for(url, max_retries=0, connect_timeout=0.4))
    assert type(outcome.failure) is RequestTimeout
    assert outcome.failure.facts["limit"] == "connect"


async def test_a_slow_consumer_is_no_stalled_server() -> None:
    with FakeServer(chat("a", "b", "c")) as server:
        profile = profile_for(server.url, first_token_timeout=0.3, idle_timeout=0.3)
        async with requests() as sender, stream_of(sender, profile) as stream:
            async for chunk in stream:
                if chunk.content:
                    await asyncio.sleep(0.3)
    assert stream.completion.content == "abc"


async def test_a_timeout_of_the_call_limits_everything() -> None:
    with FakeServer(Answer(pieces=[], end="stall")) as server:
        outcome = await ask(profile_for(server.url), overrides={"timeout": 0.4})
    assert type(outcome.failure) is RequestTimeout
    assert outcome.failure.facts["limit"] in ("total", "first_token")
    assert len(server.requests) == 1


async def test_an_endless_line_ends_the_answer() -> None:
    endless = Answer(pieces=[delta("start"), b"data: ", *[b"x" * MIB] * 40], framing="chunked")
    with FakeServer(endless) as server:
        tracemalloc.start()
        try:
            outcome = await ask(profile_for(server.url))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert server.hung_up.wait(10)
    assert type(outcome.failure) is ProtocolError
    assert "8 MiB" in str(outcome.failure)
    assert outcome.failure.partial == "start"
    assert peak < 32 * MIB


async def test_an_endless_document_ends_the_answer() -> None:
    with FakeServer(Answer(headers=JSON, pieces=[b'{"a":"', *[b"x" * MIB] * 70], framing="chunked")) as server:
        outcome = await ask(profile_for(server.url, max_retries=0))
    assert type(outcome.failure) is ProtocolError
    assert "64 MiB" in str(outcome.failure)


@pytest.mark.parametrize(
    "broken",
    [
        b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n',
        b"data: {oops\n\n",
        b"data: 17\n\n",
        b"data: [1]\n\n",
        b'data: "text"\n\n',
        b"data:\n\n",
    ],
)
async def test_malformed_events_are_skipped_and_counted_up_to_a_limit(broken: bytes) -> None:
    for count, fails in ((20, False), (21, True)):
        pieces = [delta("before "), broken * count, delta("after", finish="stop"), DONE]
        with FakeServer(Answer(pieces=pieces)) as server:
            outcome = await ask(profile_for(server.url))
        if fails:
            assert type(outcome.failure) is ProtocolError
            assert outcome.failure.partial == "before "
            assert "malformed" in str(outcome.failure)
        else:
            assert outcome.done.content == "before after"
            assert outcome.done.skipped_chunks == 20


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ('{"x":' + "[" * 3000 + "]" * 3000 + "}", "nested deeper than 200"),
        ('{"x":' + "[" * 201 + "]" * 201 + "}", "nested deeper than 200"),
        ('{"usage":{"prompt_tokens":' + "9" * 5000 + "}}", "more than 100 digits"),
        ('{"choices":[{"delta":{"content":"a"}}],"n":1' + "0" * 400 + "}", "more than 100 digits"),
    ],
)
async def test_json_beyond_the_limits_ends_the_answer(payload: str, reason: str) -> None:
    with FakeServer(Answer(pieces=[delta("start"), event(payload), delta("x", finish="stop"), DONE])) as server:
        outcome = await ask(profile_for(server.url))
    assert type(outcome.failure) is ProtocolError
    assert reason in str(outcome.failure)
    assert outcome.failure.partial == "start"


async def test_brackets_and_digits_in_the_text_are_no_structure() -> None:
    text = "[" * 500 + "{" * 500 + "7" * 500 + '"\\'
    with FakeServer(chat("x", text)) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.done.content == "x" + text


async def test_an_error_inside_a_stream_keeps_the_text() -> None:
    with FakeServer(Answer(pieces=[delta("Some"), event({"error": {"message": "disk on fire"}})])) as server:
        outcome = await ask(profile_for(server.url))
    assert type(outcome.failure) is ServerError
    assert "disk on fire" in str(outcome.failure)
    assert outcome.failure.partial == "Some"
    assert len(server.requests) == 1


async def test_an_error_inside_a_stream_before_any_text_is_repeated() -> None:
    limited = Answer(pieces=[event({"error": {"message": "slow down", "type": "rate_limit_error"}})])
    with FakeServer(limited) as server:
        outcome = await ask(profile_for(server.url))
    assert type(outcome.failure) is RateLimited
    assert len(server.requests) == 3
