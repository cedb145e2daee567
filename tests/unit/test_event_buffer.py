import asyncio

from engine.events import AnyEvent, CacheHit
from engine.flow.event_buffer import EventBuffer


def event(number: int) -> CacheHit:
    return CacheHit(time=0.0, run_id="r", step=number)


async def write(buffer: EventBuffer, numbers: range) -> None:
    for number in numbers:
        full = buffer.put(event(number))
        if full is not None:
            await full


async def test_everything_arrives_in_order_and_the_loop_ends() -> None:
    buffer = EventBuffer(4)

    async def run() -> None:
        try:
            await write(buffer, range(100))
        finally:
            buffer.close()

    task = asyncio.create_task(run())
    seen = [item.step async for item in buffer]
    await task
    assert seen == list(range(100))


async def test_a_full_buffer_holds_the_writer() -> None:
    buffer = EventBuffer(4)
    task = asyncio.create_task(write(buffer, range(10)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    read: list[AnyEvent] = []
    async for item in buffer:
        read.append(item)
        if len(read) == 10:
            break
    await task
    assert [item.step for item in read] == list(range(10))


async def test_a_failing_writer_still_ends_the_reader() -> None:
    buffer = EventBuffer()

    async def run() -> None:
        try:
            await write(buffer, range(3))
            raise ValueError("fault")
        finally:
            buffer.close()

    task = asyncio.create_task(run())
    assert [item.step async for item in buffer] == [0, 1, 2]
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], ValueError)


async def test_a_reader_that_leaves_frees_the_writers() -> None:
    buffer = EventBuffer(4)
    writers = [asyncio.create_task(write(buffer, range(50))) for _ in range(3)]
    async for _ in buffer:
        break
    buffer.abandon()
    await asyncio.gather(*writers)
    assert [item async for item in buffer] == []


async def test_cancelling_one_blocked_writer_leaves_the_others() -> None:
    buffer = EventBuffer(2)
    first, second = (asyncio.create_task(write(buffer, range(start, start + 3))) for start in (0, 10))
    for _ in range(10):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    seen: list[int] = []
    async for item in buffer:
        seen.append(item.step)
        if len(seen) == 5:
            break
    await second
    assert [step for step in seen if step >= 10] == [10, 11, 12]


async def test_taking_gives_all_that_came_in_order_and_nothing_at_the_end() -> None:
    buffer = EventBuffer(4)

    async def run() -> None:
        await write(buffer, range(100))
        buffer.close()

    task = asyncio.create_task(run())
    taken = []
    while events := await buffer.take():
        taken.append([item.step for item in events])
    await task
    assert [number for numbers in taken for number in numbers] == list(range(100))
    assert len(taken) < 100
    assert await buffer.take() == []


async def test_taking_gathers_for_a_while_but_not_longer_than_until_full_or_closed() -> None:
    buffer = EventBuffer(4)
    for number in (1, 2):
        buffer.put(event(number))
    taking = asyncio.create_task(buffer.take(0.01))
    await asyncio.sleep(0)
    buffer.put(event(3))
    assert [item.step for item in await taking] == [1, 2, 3]
    buffer.put(event(4))
    taking = asyncio.create_task(buffer.take(3600))
    await asyncio.sleep(0)
    for number in (5, 6, 7):
        buffer.put(event(number))
    assert [item.step for item in await taking] == [4, 5, 6, 7]
    buffer.put(event(8))
    taking = asyncio.create_task(buffer.take(3600))
    await asyncio.sleep(0)
    buffer.close()
    assert [item.step for item in await taking] == [8]


async def test_an_abandoned_buffer_ends_who_gathers() -> None:
    buffer = EventBuffer(4)
    buffer.put(event(1))
    taking = asyncio.create_task(buffer.take(3600))
    await asyncio.sleep(0)
    buffer.abandon()
    assert await taking == []
