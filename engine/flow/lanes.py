"""Lanes: splits wait for the profile they ask, and a few workers take them.

A lane has as many workers as its profile allows requests at a time, so 10,000 splits are 10,000 turns of a few
workers, never 10,000 tasks.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from engine.flow.steps import Step

CONCURRENCY_WITHOUT_PROFILE = 4
"""Workers for steps that ask no model."""
CONCURRENCY_WITHOUT_LIMIT = 1000
"""Workers for a profile that allows any number of requests at a time: about as many sockets as a process may have."""
CONCURRENCY_OF_SUBFLOWS = 16
"""Flows that run as nodes at a time; the requests in them wait in lanes of their own."""
SUBFLOWS = "\0subflows"
"""Name of their lane."""


class Lane:
    """Splits that wait for the same profile, and the workers that take them."""

    __slots__ = ("active", "fresh", "limit", "queued", "steps")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.steps: deque[Step] = deque()
        self.queued = 0
        """Splits that no worker has taken."""
        self.active = 0
        """Workers."""
        self.fresh = 0
        """Workers that have not taken their first split yet."""

    def take(self) -> tuple[Step, int]:
        """The next split, of the step that came last: a branch goes on before its siblings begin."""
        step = self.steps[0]
        index = step.taken
        step.taken += 1
        self.queued -= 1
        if step.todo is not None:
            index = step.todo[index]
        if step.taken == step.splits:
            self.steps.popleft()
        return step, index


class Lanes:
    """The lanes of one walk; `run_split` does one split and never raises."""

    def __init__(self, workers: asyncio.TaskGroup, run_split: Callable[[Step, int, Lane], Awaitable[None]]) -> None:
        self._workers = workers
        self._run_split = run_split
        self._lanes: dict[str, Lane] = {}

    def push(self, step: Step, own: Lane | None) -> None:
        """Queue the splits of a step; `own` is the lane of the worker that calls, who will take one of them itself."""
        lane = self._lane(step)
        lane.steps.appendleft(step)
        lane.queued += step.splits
        for _ in range(min(lane.limit - lane.active, lane.queued - lane.fresh - (lane is own))):
            lane.active += 1
            lane.fresh += 1
            self._workers.create_task(self._work(lane))

    def _lane(self, step: Step) -> Lane:
        profile = step.profile
        is_flow = step.agent.subflow is not None
        name = SUBFLOWS if is_flow else "" if profile is None else profile.name
        lane = self._lanes.get(name)
        if lane is None:
            limit = CONCURRENCY_WITHOUT_PROFILE if profile is None else profile.options.max_concurrent
            if is_flow:
                limit = CONCURRENCY_OF_SUBFLOWS
            lane = self._lanes[name] = Lane(limit or CONCURRENCY_WITHOUT_LIMIT)
        return lane

    async def _work(self, lane: Lane) -> None:
        lane.fresh -= 1
        while lane.queued:
            step, index = lane.take()
            await self._run_split(step, index, lane)
        lane.active -= 1
