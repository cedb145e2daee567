"""The life of a stream: cancelling, queueing, phases, models found by asking, empty answers, thinking, statistics."""

import asyncio
import json
import os
import sys
import threading
import tracemalloc
from dataclasses import replace
from decimal import Decimal

import pytest

from engine import Engine, ProfileStore
from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.clients.recovery import CompletionStream
from engine.completion import Chunk, FinishReason, Phase, ShortenedNotice
from engine.conversation import Conversation, ImagePart, ToolChoice, ToolDefinition
from engine.errors import ContextTooLong, ProfileError, ProtocolError, ServerError
from engine.profile import ModelProfile
from engine.statistics import CostProvenance, Prices
from tests.helpers.asking import ask, bodies, profile_for, requests, stream_of, words
from tests.helpers.fake_server import DONE, JSON, Answer, FakeServer, Received, chat, delta, event, failure, json_answer

STALLED = Answer(pieces=[delta("first")], framing="chunked", end="stall")


async def test_phases_come_in_order() -> None:
    pieces = [delta(reasoning_content="hmm"), delta("so"), delta(reasoning_content="late"), delta(finish="stop"), DONE]
    with FakeServer(Answer(pieces=pieces)) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.phases == [Phase.CONNECTING, Phase.READING_PROMPT, Phase.THINKING, Phase.ANSWERING]
    assert outcome.reasoning == "hmmlate"


async def test_reading_the_prompt_is_told_before_the_answer_begins() -> None:
    with FakeServer(Answer(raw=None, pieces=[], end="stall", headers={})) as server:
        async with requests() as sender, stream_of(sender, profile_for(server.url)) as stream:
            chunks = aiter(stream)
            assert await anext(chunks) == Chunk(phase=Phase.CONNECTING)
            assert (await anext(chunks)).formed is not None
            assert await anext(chunks) == Chunk(phase=Phase.READING_PROMPT)


@pytest.mark.parametrize("answer", [STALLED, Answer(pieces=[], end="stall")], ids=["while reading", "before the text"])
async def test_cancelling_closes_the_socket_at_once(answer: Answer) -> None:
    with FakeServer(answer) as server:
        async with requests() as sender:
            seen = asyncio.Event()

            async def consume() -> None:
                async with stream_of(sender, profile_for(server.url)) as stream:
                    async for chunk in stream:
                        if chunk.content or chunk.phase is Phase.READING_PROMPT:
                            seen.set()

            task = asyncio.create_task(consume())
            async with asyncio.timeout(10):
                await seen.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.hung_up.wait, 10)
        assert len(server.requests) <= 1


async def test_leaving_early_keeps_what_came_and_its_cost() -> None:
    with FakeServer(Answer(pieces=[delta("one two "), delta("three")], framing="chunked", end="stall")) as server:
        async with requests() as sender:
            async with stream_of(sender, profile_for(server.url)) as stream:
                async for chunk in stream:
                    if chunk.content == "three":
                        break
            assert await asyncio.to_thread(server.hung_up.wait, 10)
    assert stream.so_far.content == "one two three"
    assert stream.so_far.statistics.out_tokens == 3
    assert stream.so_far.statistics.estimated
    with pytest.raises(RuntimeError, match="not exhausted"):
        _ = stream.completion


async def test_no_task_is_left_behind() -> None:
    before = asyncio.all_tasks()
    with FakeServer(STALLED) as server:
        async with requests() as sender:
            for _ in range(5):
                async with stream_of(sender, profile_for(server.url)) as stream:
                    await anext(aiter(stream))
    assert asyncio.all_tasks() == before


async def test_a_connection_is_used_again() -> None:
    before = asyncio.all_tasks()
    with FakeServer(chat("ok")) as server:
        async with requests() as sender:
            for _ in range(3):
                async with stream_of(sender, profile_for(server.url)) as stream:
                    assert "".join([chunk.content async for chunk in stream]) == "ok"
                async with asyncio.timeout(10):
                    while asyncio.all_tasks() != before:  # the rest of the answer is read in the background
                        await asyncio.sleep(0.005)
        assert server.connections == 1


async def test_an_idle_connection_the_server_gave_up_is_no_failed_attempt() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b'{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        for answer in (head + body, b""):  # the second request of a connection finds it closed
            while (data := await reader.read(1 << 16)) and not data.endswith(b"}"):
                pass
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, requests() as sender:
        profile = profile_for(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", max_retries=0)
        for _ in range(3):
            async with stream_of(sender, profile) as stream:
                assert [chunk.content async for chunk in stream if chunk.content or chunk.retry] == ["ok"]


def open_files() -> int:
    """Files and sockets of this process."""
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


@pytest.mark.parametrize("repeats", [3, pytest.param(200, marks=pytest.mark.soak)])
async def test_many_streams_stopped_together_leave_nothing_behind(repeats: int) -> None:
    before, files = asyncio.all_tasks(), open_files()
    with FakeServer(STALLED) as server:
        async with requests() as sender:
            for _ in range(repeats):
                flowing = 0

                async def consume() -> None:
                    nonlocal flowing
                    async with stream_of(sender, profile_for(server.url, max_concurrent=0)) as stream:
                        async for chunk in stream:
                            flowing += bool(chunk.content)

                tasks = [asyncio.create_task(consume()) for _ in range(64)]
                async with asyncio.timeout(60):
                    while flowing < 64:
                        await asyncio.sleep(0.01)
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(result, asyncio.CancelledError) for result in results)
                async with asyncio.timeout(60):
                    while server.open_connections:
                        await asyncio.sleep(0.01)
    async with asyncio.timeout(60):
        while asyncio.all_tasks() != before or open_files() > files:
            await asyncio.sleep(0.01)


@pytest.mark.soak
async def test_four_answers_of_64_mib_at_once() -> None:
    piece = delta("x" * (1 << 20))
    with FakeServer(Answer(pieces=[piece] * 65, framing="chunked")) as server:
        tracemalloc.start()
        try:
            outcomes = []

            async def one() -> None:
                async with requests() as sender, stream_of(sender, profile_for(server.url)) as stream:
                    try:
                        async for _ in stream:
                            pass
                    except ProtocolError as error:
                        outcomes.append(error)

            await asyncio.gather(*(one() for _ in range(4)))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(outcomes) == 4
    assert peak < 400 * (1 << 20)


async def test_the_limit_of_an_endpoint_lets_in_by_order_of_arrival() -> None:
    order: list[str] = []

    def answer(request: Received) -> Answer:
        order.append(request.json()["messages"][0]["content"])
        return chat("ok")

    with FakeServer(answer) as server:
        profile = profile_for(server.url, max_concurrent=1)
        async with requests() as sender:
            queued: list[int] = []

            async def one(number: int) -> None:
                async with stream_of(sender, profile, f"prompt {number}") as stream:
                    phases = [chunk.phase async for chunk in stream if chunk.phase]
                queued.extend([number] * phases.count(Phase.QUEUED))

            async with asyncio.TaskGroup() as group:
                for number in range(5):
                    group.create_task(one(number))
    assert order == [f"prompt {number}" for number in range(5)]
    assert sorted(queued) == [1, 2, 3, 4]


async def test_one_who_stops_waiting_does_not_hold_the_others() -> None:
    with FakeServer(STALLED, chat("ok")) as server:
        profile = profile_for(server.url, max_concurrent=1)
        async with requests() as sender:
            async with stream_of(sender, profile) as first:
                async for chunk in first:
                    if chunk.content:
                        break

                async def wait() -> str:
                    async with stream_of(sender, profile) as stream:
                        return "".join([chunk.content async for chunk in stream])

                second, third = asyncio.create_task(wait()), asyncio.create_task(wait())
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                second.cancel()
            assert await third == "ok"
            assert second.cancelled()


async def test_an_empty_model_name_is_asked_for_once() -> None:
    listed = Answer(headers=JSON, pieces=[b'{"data":[{"id":" "},{"id":"first"},{"id":"second"}]}'], framing="length")
    with FakeServer(chat("ok"), get=listed) as server:
        async with requests() as sender:
            for _ in range(2):
                async with stream_of(sender, profile_for(server.url, model="")) as stream:
                    async for _chunk in stream:
                        pass
    assert [request.path for request in server.gets] == ["/v1/models"]
    assert server.gets[0].headers["authorization"] == "Bearer secret-key-0123"
    assert [body["model"] for body in bodies(server.requests)] == ["first", "first"]


async def test_a_failed_listing_is_not_remembered() -> None:
    with FakeServer(chat("ok")) as server:
        async with requests() as sender:
            for _ in range(2):
                async with stream_of(sender, profile_for(server.url, model="")) as stream:
                    async for _chunk in stream:
                        pass
    assert len(server.gets) == 2
    assert [body["model"] for body in bodies(server.requests)] == ["", ""]


async def test_models_are_listed_anew_when_asked_for() -> None:
    answers = iter([failure(500), listing("a", "b"), failure(500), listing("c")])
    with FakeServer(chat("ok"), get=lambda _: next(answers)) as server:
        async with Engine(profiles=ProfileStore(None)) as engine:
            profile = replace(profile_for(f"{server.url}/v1"), provider="OAI_TEXT_COMPLETION")
            with pytest.raises(ServerError):
                await engine.model_names(profile)
            assert await engine.model_names(profile) == ["a", "b"]
            with pytest.raises(ServerError):
                await engine.model_names(profile, force_reload=True)
            assert await engine.model_names(profile) == ["a", "b"]
            assert await engine.model_names(profile, force_reload=True) == ["c"]
    assert {request.path for request in server.gets} == {"/v1/models"}


def listing(*names: str) -> Answer:
    return json_answer({"data": [{"id": name} for name in names]})


EMPTY = Answer(
    pieces=[delta(finish="stop"), event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}), DONE]
)


async def test_an_empty_answer_is_asked_for_once_more_and_paid_for() -> None:
    with FakeServer(EMPTY, chat("text", usage=(5, 2))) as server:
        profile = replace(profile_for(server.url), prices=Prices(input=Decimal("0.01"), output=Decimal("0.1")))
        outcome = await ask(profile)
    assert outcome.done.content == "text"
    assert outcome.done.statistics.requests == 2
    assert outcome.done.statistics.in_tokens == 10
    assert outcome.done.statistics.cost == Decimal("0.40")
    assert outcome.done.statistics.provenance is CostProvenance.MEASURED


async def test_an_answer_that_stays_empty_is_marked() -> None:
    with FakeServer(EMPTY) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.done.no_answer
    assert outcome.done.statistics.requests == 2
    assert len(server.requests) == 2


async def test_reasoning_alone_is_no_answer_but_is_not_repeated() -> None:
    with FakeServer(Answer(pieces=[delta(reasoning_content="hmm"), delta(finish="length"), DONE])) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.done.no_answer
    assert outcome.done.finish_reason is FinishReason.TOKEN_LIMIT_REACHED
    assert outcome.done.statistics.reasoning_out_tokens == 1
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "fingerprint", "options", "split"),
    [
        ({"Server": "llama.cpp"}, None, {}, True),
        ({}, "fp_ollama", {}, True),
        ({}, "b6543-0a1b2c3d", {}, True),
        ({}, "fp_other", {}, False),
        ({}, None, {}, False),
        ({}, None, {"think_tags": "on"}, True),
        ({"Server": "llama.cpp"}, None, {"think_tags": "off"}, False),
    ],
)
async def test_who_leaves_thinking_tags_in_the_text(
    headers: dict[str, str], fingerprint: str | None, options: dict[str, str], split: bool
) -> None:
    first = json.loads(delta("<think>a</think>b")[6:]) | {"system_fingerprint": fingerprint}
    answer = Answer(
        headers={"Content-Type": "text/event-stream", **headers}, pieces=[event(first), delta(finish="stop"), DONE]
    )
    with FakeServer(answer) as server:
        outcome = await ask(profile_for(server.url, **options))
    wanted = ("a", "b") if split else ("", "<think>a</think>b")
    assert (outcome.done.reasoning, outcome.done.content) == wanted


async def test_time_to_the_first_token_is_part_of_the_duration() -> None:
    with FakeServer(Answer(pieces=[0.05, delta("a"), 0.05, delta("b", finish="stop"), DONE])) as server:
        outcome = await ask(profile_for(server.url))
    used = outcome.done.statistics
    assert used.first_token is not None
    assert 0.04 <= used.first_token <= used.duration - 0.04


async def test_halves_of_a_character_in_two_events_are_joined() -> None:
    pieces = [
        b'data: {"choices":[{"delta":{"content":"x\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ude00y"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\u0000z\\ude00"}, "finish_reason":"stop"}]}\n\n',
        DONE,
    ]
    with FakeServer(Answer(pieces=pieces)) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.done.content == "x\U0001f600y\ufffd\x00z\ufffd"
    assert outcome.text == outcome.done.content


async def test_a_provider_of_a_later_version() -> None:
    profile = ModelProfile(name="tested", category="M", provider="SCRIPTED", url="http://127.0.0.1:1")
    async with requests() as sender:
        with pytest.raises(ProfileError, match="cannot talk to SCRIPTED yet"):
            stream_of(sender, profile)


def long_conversation() -> Conversation:
    conversation = Conversation.create("be brief", "one " * 50)
    return conversation.add_assistant("two " * 50).add_user("three " * 50).add_assistant("four " * 50).add_user("five")


async def send(profile: ModelProfile, conversation: Conversation) -> CompletionStream:
    async with requests() as sender:
        request = ChatRequest.create(profile, conversation)
        async with sender.stream(client_for(profile), request, count=words) as stream:
            async for _ in stream:
                pass
    return stream


async def test_old_turns_that_do_not_fit_are_left_out() -> None:
    with FakeServer(chat("ok")) as server:
        notices = await notices_of(profile_for(server.url, max_input_tokens=130), long_conversation())
    (sent,) = bodies(server.requests)
    assert [item["content"].split()[0] for item in sent["messages"]] == ["be", "three", "four", "five"]
    assert [(notice.dropped, notice.budget, notice.refused) for notice in notices] == [((1, 2), 130, False)]


async def notices_of(profile: ModelProfile, conversation: Conversation) -> list[ShortenedNotice]:
    async with requests() as sender:
        request = ChatRequest.create(profile, conversation)
        async with sender.stream(client_for(profile), request, count=words) as stream:
            return [chunk.shortened async for chunk in stream if chunk.shortened is not None]


async def test_what_a_second_cut_takes_is_told_by_its_place_in_the_whole_prompt() -> None:
    with FakeServer(failure(400, code="context_length_exceeded"), chat("ok")) as server:
        profile = profile_for(server.url, max_input_tokens=230, max_retries=0)
        first, second = await notices_of(profile, long_conversation())
    assert (first.dropped, first.refused) == ((1, 2), False)
    assert (second.dropped, second.refused) == ((3, 4), True)
    assert len(bodies(server.requests)[1]["messages"]) == 2


async def test_a_picture_is_sent_only_to_who_sees() -> None:
    picture = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
    conversation = Conversation().add_user("look", [picture])
    with FakeServer(chat("a cat")) as server:
        stream = await send(profile_for(server.url), conversation)
        with pytest.raises(ProfileError, match="takes none"):
            await send(profile_for(server.url, supports_images=False), conversation)
    assert stream.completion.content == "a cat"
    (sent,) = bodies(server.requests)
    assert sent["messages"][0]["content"][1]["image_url"]["url"] == picture.address


async def test_a_prompt_that_cannot_fit_is_not_sent() -> None:
    with FakeServer(chat("ok")) as server, pytest.raises(ContextTooLong, match="only 20 fit"):
        await send(profile_for(server.url, max_input_tokens=20), Conversation.create("", "word " * 40))
    assert server.requests == []


async def test_a_long_prompt_is_counted_off_the_loop_and_tools_take_their_room() -> None:
    counted: dict[str, bool] = {}

    def count(text: str) -> int:
        counted[text[:4]] = threading.current_thread() is threading.main_thread()
        return words(text)

    tool = ToolDefinition(name="t", description="long " * 30)
    for tools, fits in ((None, True), (ToolChoice.auto([tool]), False)):
        with FakeServer(chat("ok")) as server:
            async with requests() as sender:
                profile = profile_for(server.url, max_input_tokens=20_010)
                conversation = Conversation.create("", "word " * 20_000)
                request = ChatRequest.create(profile, conversation, tools=tools)
                async with sender.stream(client_for(profile), request, count=count) as stream:
                    if fits:
                        assert "".join([chunk.content async for chunk in stream]) == "ok"
                        continue
                    with pytest.raises(ContextTooLong):
                        _ = [chunk async for chunk in stream]
    assert counted["word"] is False


async def test_a_prompt_refused_as_too_long_is_shortened_once() -> None:
    too_long = failure(400, code="context_length_exceeded")
    with FakeServer(too_long, chat("ok")) as server:
        stream = await send(profile_for(server.url, max_retries=0), long_conversation())
    assert stream.completion.content == "ok"
    first, second = bodies(server.requests)
    assert (len(first["messages"]), len(second["messages"])) == (6, 4)
    with FakeServer(too_long) as server, pytest.raises(ContextTooLong):
        await send(profile_for(server.url), long_conversation())
    assert len(server.requests) == 2
