"""Limits how many requests an endpoint serves at once; those that wait are let in in order of arrival."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from engine.completion import Completion
from engine.interceptors import Passage


class Gate:
    """One per endpoint. The limit comes with each request, since profiles of one endpoint may differ; 0 = none."""

    def __init__(self) -> None:
        self._inside = 0
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()

    @property
    def running(self) -> int:
        """How many are inside or wait."""
        return self._inside + len(self._queue)

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


class Admission:
    """A call on its way to its server: `blocked`, `wait`, and so on until nothing blocks; leaving the block gives back.

    First `to` a gate, so that guards judge what goes out now. They are told what `so_far` says at the end.
    """

    def __init__(self, limit: int, passage: Passage | None, so_far: Callable[[], Completion]) -> None:
        self._gate: Gate | None = None
        self._limit = limit
        self._passage = passage
        self._so_far = so_far
        self._inside = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.step_back()
        if self._passage is not None:
            self._passage.leave(self._so_far(), error)

    def to(self, gate: Gate) -> None:
        """Go to this gate, out of the one the call is inside of."""
        if gate is not self._gate:
            self.step_back()
            self._gate = gate

    def step_back(self) -> None:
        """Give back the place inside the gate: the call waits for something else."""
        if self._inside and self._gate is not None:
            self._gate.leave()
        self._inside = False

    def blocked(self) -> bool:
        """Go on as far as possible; whether the call has to wait. Raises what a guard refuses it with."""
        assert self._gate is not None  # noqa: S101 - the order of calls
        self._inside = self._inside or self._gate.enter_now(self._limit)
        return not self._inside or (self._passage is not None and self._passage.blocked())

    async def wait(self) -> None:
        """Wait for what blocks."""
        assert self._gate is not None  # noqa: S101 - the order of calls
        if not self._inside:
            await self._gate.enter(self._limit)
            self._inside = True
        elif self._passage is not None:
            await self._passage.wait()
