"""Limits how many requests an endpoint serves at once; those that wait are let in in order of arrival."""

import asyncio
from collections import deque
from contextlib import suppress


class Gate:
    """One per endpoint. The limit comes with each request, since profiles of one endpoint may differ; 0 = none."""

    def __init__(self) -> None:
        self._inside = 0
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()

    def enter_now(self, limit: int) -> bool:
        """Take a place if one is free and nobody waits."""
        if self._queue or (limit and self._inside >= limit):
            return False
        self._inside += 1
        return True

    async def enter(self, limit: int) -> None:
        """Take a place, after those who came before."""
        turn = asyncio.get_running_loop().create_future()
        entry = (turn, limit)
        self._queue.append(entry)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            else:
                with suppress(ValueError):
                    self._queue.remove(entry)
                self._admit()
            raise

    def leave(self) -> None:
        """Give the place to the next in the queue."""
        self._inside -= 1
        self._admit()

    def _admit(self) -> None:
        while self._queue and (not self._queue[0][1] or self._inside < self._queue[0][1]):
            turn, _ = self._queue.popleft()
            if not turn.done():
                self._inside += 1
                turn.set_result(None)
