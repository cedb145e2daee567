"""The bounded way of events from a walk to whoever follows the run.

Made for it because a memory object stream of anyio passes the event loop once per event, ten times the cost of the
event itself. Same promises: closing ends the reader's `async for`, a reader that leaves frees blocked writers.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Generator

from engine.events import AnyEvent


class _Room(asyncio.Event):
    """Awaitable itself: unlike a coroutine it may also be dropped by who cannot wait."""

    def __await__(self) -> Generator[object, None, None]:
        yield from self.wait().__await__()


class EventBuffer:
    """Many writers, one reader, on one event loop. A full buffer holds the writers up until half of it is read."""

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._events: deque[AnyEvent] = deque()
        self._filled = asyncio.Event()
        self._ripe = asyncio.Event()
        self._room = _Room()
        self._closed = False
        self._abandoned = False

    def put(self, event: AnyEvent) -> Awaitable[None] | None:
        """Add an event, always at once; who can wait awaits what is returned, if anything, before the next."""
        if self._abandoned:
            return None
        self._events.append(event)
        if not self._filled.is_set():
            self._filled.set()
        if len(self._events) < self._size:
            return None
        self._room.clear()
        self._ripe.set()
        return self._room

    def close(self) -> None:
        """End the reader's loop once it has read what is left."""
        self._closed = True
        self._filled.set()
        self._ripe.set()

    def abandon(self) -> None:
        """Read no more: waiting writers go on, later events are dropped."""
        self._abandoned = True
        self._events.clear()
        self._room.set()
        self._filled.set()
        self._ripe.set()

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self

    async def take(self, within: float = 0.0) -> list[AnyEvent]:
        """Wait for an event; it and all that come within so many seconds, or until it is full; none at the end."""
        if await self._some() and within and not self._enough():
            self._ripe.clear()
            timer = asyncio.get_running_loop().call_later(within, self._ripe.set)
            await self._ripe.wait()
            timer.cancel()
        events = list(self._events)
        self._events.clear()
        self._room.set()
        return events

    def _enough(self) -> bool:
        return self._closed or self._abandoned or len(self._events) >= self._size

    async def _some(self) -> bool:
        """Wait for an event; whether there is one."""
        while not self._events:
            if self._closed or self._abandoned:
                return False
            self._filled.clear()
            await self._filled.wait()
        return True

    async def __anext__(self) -> AnyEvent:
        if not self._events and not await self._some():
            raise StopAsyncIteration
        event = self._events.popleft()
        if len(self._events) <= self._size // 2 and not self._room.is_set():
            self._room.set()
        return event
