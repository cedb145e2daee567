"""What the tests of the cache share: answers, and an engine that keeps them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

from engine import Engine
from engine.cache import CompletionCache
from engine.completion import Chunk, Stream
from engine.profile_store import ProfileStore
from engine.statistics import Prices
from tests.helpers.fake_server import DONE, Answer, chat, delta

HELLO = chat("Hel", "lo!", usage=(7, 3))
PRICED = Prices(input=Decimal(2), cached_input=Decimal(1), output=Decimal(8))
SLOW = Answer(pieces=[delta("one "), 0.2, delta("two"), 0.2, delta(finish="stop"), DONE], framing="chunked")
STALLED = Answer(pieces=[delta("half")], framing="chunked", end="stall")


@asynccontextmanager
async def engine_with(cache: CompletionCache | None, **parts: Any) -> AsyncIterator[Engine]:
    async with Engine(profiles=ProfileStore(), cache=cache, **parts) as engine:
        yield engine


async def drain(stream: Stream) -> list[Chunk]:
    return [chunk async for chunk in stream]
