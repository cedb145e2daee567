"""Requests that are the same: one goes out, one pays, and whoever leaves or fails holds up nobody."""

import asyncio
from dataclasses import replace

import pytest

from engine import Engine
from engine.cache import MemoryCache
from engine.completion import Chunk, Completion
from engine.errors import AnswerIncomplete, RequestError
from engine.profile_store import ProfileStore
from tests.helpers.asking import profile_for
from tests.helpers.cached import HELLO, PRICED, SLOW, STALLED, drain, engine_with
from tests.helpers.fake_server import DONE, Answer, FakeServer, delta, failure


async def test_64_identical_requests_are_one_and_one_pays() -> None:
    with FakeServer(SLOW) as server:
        profile = replace(profile_for(server.url), prices=PRICED)
        async with engine_with(MemoryCache()) as engine:

            async def ask() -> tuple[list[Chunk], Completion]:
                async with engine.stream(profile, "hi") as stream:
                    return await drain(stream), stream.completion

            results = await asyncio.gather(*(ask() for _ in range(64)))
    assert len(server.requests) == 1
    for chunks, answer in results:
        assert [chunk.content for chunk in chunks if chunk.content] == ["one ", "two"]
        assert answer.content == "one two"
    used = [answer.statistics for _, answer in results]
    assert sum(one.requests for one in used) == 1
    assert sum(one.cached for one in used) == 63
    assert all((one.cost == 0) == one.cached for one in used)


async def test_different_requests_are_not_joined() -> None:
    with FakeServer(SLOW) as server:
        async with engine_with(MemoryCache()) as engine:
            profile = profile_for(server.url, max_concurrent=0)
            await asyncio.gather(*(engine.complete(profile, text) for text in ("a", "b", "c")))
    assert len(server.requests) == 3


async def test_requests_that_skip_the_cache_are_not_joined() -> None:
    with FakeServer(SLOW) as server:
        async with engine_with(MemoryCache()) as engine:
            profile = profile_for(server.url)
            await asyncio.gather(*(engine.complete(profile, "hi", skip_cache=True) for _ in range(3)))
    assert len(server.requests) == 3


async def test_when_the_first_is_cancelled_the_others_go_on_with_its_request() -> None:
    with FakeServer(SLOW) as server:
        profile = replace(profile_for(server.url), prices=PRICED)
        async with engine_with(MemoryCache()) as engine:
            seen = asyncio.Event()
            left: list[Completion] = []

            async def first() -> None:
                async with engine.stream(profile, "hi") as stream:
                    try:
                        async for chunk in stream:
                            if chunk.content:
                                seen.set()
                    finally:
                        left.append(stream.so_far)
                left.append(stream.so_far)

            leader = asyncio.create_task(first())
            await asyncio.sleep(0)
            followers = [asyncio.create_task(engine.complete(profile, "hi")) for _ in range(3)]
            await seen.wait()
            leader.cancel()
            answers = await asyncio.gather(*followers)
            with pytest.raises(asyncio.CancelledError):
                await leader
            assert len(await engine.cache.entries()) == 1  # type: ignore[union-attr]
    assert len(server.requests) == 1
    assert not server.hung_up.is_set()
    assert [answer.content for answer in answers] == ["one two"] * 3
    assert sorted(answer.statistics.requests for answer in answers) == [0, 0, 1]  # now one of them pays


async def test_who_leaves_others_behind_has_paid_nothing() -> None:
    with FakeServer(SLOW) as server:
        profile = profile_for(server.url)
        async with engine_with(MemoryCache()) as engine, engine.stream(profile, "hi") as follower:
            async with engine.stream(profile, "hi") as leader:
                async for chunk in leader:
                    if chunk.content:
                        break
                chunks = aiter(follower)
                await anext(chunks)
            assert leader.so_far.content == "one "
            assert leader.so_far.statistics.requests == 0
            async for _ in chunks:
                pass
            assert follower.completion.statistics.requests == 1
    assert len(server.requests) == 1


async def test_the_request_ends_with_the_last_who_waits() -> None:
    with FakeServer(STALLED) as server:
        async with engine_with(MemoryCache()) as engine:
            tasks = [asyncio.create_task(engine.complete(profile_for(server.url), "hi")) for _ in range(5)]
            while not server.requests:
                await asyncio.sleep(0.01)
            for task in tasks[:4]:
                task.cancel()
            await asyncio.wait(tasks[:4])
            assert not server.hung_up.is_set()
            tasks[4].cancel()
            await asyncio.wait(tasks)
            assert await asyncio.to_thread(server.hung_up.wait, 10)


async def test_when_the_first_fails_before_its_text_each_other_asks_for_itself() -> None:
    with FakeServer(failure(400), HELLO) as server:
        async with engine_with(MemoryCache()) as engine:
            profile = profile_for(server.url)
            answers = await asyncio.gather(*(engine.complete(profile, "hi") for _ in range(4)), return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    assert [type(error).__name__ for error in failed] == ["RequestRejected"]
    good = [answer for answer in answers if isinstance(answer, Completion)]
    assert [answer.content for answer in good] == ["Hello!"] * 3


async def test_when_it_fails_after_its_first_text_all_have_the_failure_and_none_asks_again() -> None:
    broken = Answer(pieces=[delta("half"), 0.1], framing="chunked", end="cut")
    with FakeServer(broken) as server:
        async with engine_with(MemoryCache()) as engine:
            profile = profile_for(server.url, max_retries=0)
            answers = await asyncio.gather(*(engine.complete(profile, "hi") for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in answers] == [AnswerIncomplete] * 3
    assert len({id(error) for error in answers}) == 3
    assert [error.partial for error in answers if isinstance(error, AnswerIncomplete)] == ["half"] * 3
    assert len(server.requests) == 1


async def test_who_does_not_read_does_not_hold_up_the_others() -> None:
    many = Answer(pieces=[*(delta(f"{number} ") for number in range(2000)), delta(finish="stop"), DONE])
    with FakeServer(many) as server:
        profile = profile_for(server.url)
        async with engine_with(MemoryCache()) as engine, engine.stream(profile, "hi") as idle:
            chunks = aiter(idle)
            await anext(chunks)  # it has begun, and now stops reading
            answer = await engine.complete(profile, "hi")
            assert answer.statistics.cached
            rest = [chunk.content async for chunk in chunks]
    assert "".join(rest) == answer.content == "".join(f"{number} " for number in range(2000))
    assert len(server.requests) == 1


async def test_who_reads_slowly_alone_keeps_memory_small() -> None:
    many = Answer(pieces=[*(delta("x" * 1000) for _ in range(20_000)), delta(finish="stop"), DONE])
    with FakeServer(many) as server:
        async with engine_with(MemoryCache()) as engine, engine.stream(profile_for(server.url), "hi") as stream:
            chunks = aiter(stream)
            for _ in range(5):
                await anext(chunks)
            flight = next(iter(engine._pipeline.flights._all))
            for _ in range(50):
                await asyncio.sleep(0.01)
            assert len(flight.chunks) < 400


async def test_closing_the_engine_ends_what_is_under_way() -> None:
    with FakeServer(STALLED) as server:
        engine = Engine(profiles=ProfileStore(), cache=MemoryCache())
        task = asyncio.create_task(engine.complete(profile_for(server.url), "hi"))
        while not server.requests:
            await asyncio.sleep(0.01)
        await engine.close()
        with pytest.raises(RequestError, match="ended before its answer"):
            await task
