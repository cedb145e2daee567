"""Identical requests at the same time are one: the first is sent, all get its chunks and its answer.

The request belongs to all who wait for it. It runs in a task of its own, so that it goes on when the one who asked
first is gone, and ends when the last one is. One of them pays: the first, or, when that one leaves, the next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from engine.completion import Chunk, Completion, Stream
from engine.errors import RequestError

CHUNKS_AHEAD = 256
"""Chunks a request may be ahead of its fastest reader; then its socket waits."""

Answered = Callable[[Completion], Awaitable[None]]


class Flight:
    """One request under way, for those who have a seat in it."""

    def __init__(self, upstream: AbstractAsyncContextManager[Stream], answered: Answered) -> None:
        """Begin at once; `answered` gets the whole answer and stores it."""
        self.chunks: list[Chunk] = []
        self.completion: Completion | None = None
        self.error: Exception | None = None
        self.seats: list[Seat] = []
        self.stream: Stream | None = None
        self._upstream = upstream
        self._answered = answered
        self._readers: list[asyncio.Future[None]] = []
        self._room: asyncio.Future[None] | None = None
        self._read = 0
        """Chunks the fastest reader has."""
        self.task = asyncio.get_running_loop().create_task(self._fly(), name="completion")
        self.task.add_done_callback(self._landed)

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.completion is not None or self.error is not None

    async def more(self, known: int) -> None:
        """Wait until there are more chunks than the caller knows, or nothing more comes."""
        if known > self._read:
            self._read = known
            if self._room is not None and not self._room.done():
                self._room.set_result(None)
        while len(self.chunks) <= known and not self.over:
            reader = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            await reader

    async def _fly(self) -> None:
        try:
            async with self._upstream as self.stream:
                async for chunk in self.stream:
                    self.chunks.append(chunk)
                    self._wake()
                    while len(self.chunks) - self._read > CHUNKS_AHEAD:
                        self._room = asyncio.get_running_loop().create_future()
                        await self._room
            self.completion = self.stream.completion
        except Exception as error:
            self.error = error
            return
        self._wake()
        await self._answered(self.completion)

    def _landed(self, task: "asyncio.Task[None]") -> None:
        """Called also for a task that was cancelled before its first step."""
        if not self.over:
            self.error = RequestError("The request was ended before its answer.", hint="Ask again.")
        if not task.cancelled():
            task.result()
        self._wake()

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)


class Seat:
    """One who waits for a flight: `more` until it gives None; `close` always."""

    def __init__(self, flight: Flight) -> None:
        self.flight = flight
        self.pays = not flight.seats
        """Whether the request is charged to this one."""
        self._place = 0
        flight.seats.append(self)

    async def more(self) -> Sequence[Chunk] | None:
        """The next chunks, None behind the last; raises what the request raised."""
        flight = self.flight
        if self._place == len(flight.chunks):
            await flight.more(self._place)
        if self._place < len(flight.chunks):
            chunks = flight.chunks[self._place :]
            self._place = len(flight.chunks)
            return chunks
        if flight.error is not None:
            raise flight.error if self.pays else again(flight.error)
        return None

    @property
    def content(self) -> str:
        """The text given out so far."""
        return "".join(chunk.content for chunk in self.flight.chunks[: self._place])

    @property
    def reasoning(self) -> str:
        """The reasoning given out so far."""
        return "".join(chunk.reasoning for chunk in self.flight.chunks[: self._place])

    async def close(self) -> None:
        """Leave; the last one ends the request and waits until its connection is closed."""
        flight = self.flight
        if self not in flight.seats:
            return
        flight.seats.remove(self)
        if flight.over:
            return
        if not flight.seats:
            flight.task.cancel()
            await asyncio.wait([flight.task])
        elif self.pays:
            self.pays, flight.seats[0].pays = False, True


class Flights:
    """The requests under way, by the key of the cache."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._all: set[Flight] = set()

    def join(self, key: str) -> Seat | None:
        """A seat in the request under way, if there is one."""
        flight = self._flights.get(key)
        return Seat(flight) if flight is not None and not flight.over else None

    async def stored(self, key: str) -> None:
        """Wait until an answer that has just come is stored."""
        flight = self._flights.get(key)
        if flight is not None and flight.over:
            await asyncio.wait([flight.task])

    def begin(
        self, key: str, upstream: AbstractAsyncContextManager[Stream], answered: Answered, *, alone: bool
    ) -> Seat:
        """Send a request; `alone`: nobody joins it."""
        flight = Flight(upstream, answered)
        self._all.add(flight)
        flight.task.add_done_callback(lambda _: self._gone(key, flight))
        if not alone:
            self._flights[key] = flight
        return Seat(flight)

    async def close(self) -> None:
        """Let answers be stored, end what is under way."""
        tasks = [flight.task for flight in self._all]
        for flight in self._all:
            if not flight.over:
                flight.task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _gone(self, key: str, flight: Flight) -> None:
        self._all.discard(flight)
        if self._flights.get(key) is flight:
            del self._flights[key]


def again(error: Exception) -> Exception:
    """The same error for another task: one that is raised twice would have the tracebacks of both."""
    copy: Exception = type(error).__new__(type(error))
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error
    return copy
