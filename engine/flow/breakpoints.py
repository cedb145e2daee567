"""Where a run waits for a person: before agents with a breakpoint, and before each next one while it is stepped."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, time

from engine.events import Paused, Warned
from engine.flow.context import Context
from engine.flow.deadline import Deadline
from engine.flow.place import Emit, Place, send


@dataclass(slots=True, eq=False)
class Waiting:
    """A branch that waits before an agent; its context may be edited meanwhile."""

    agent: str
    step: int
    branch: str
    context: Context
    edited: list[str] = field(default_factory=list)
    """Keys that were changed while it waited."""
    _go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def edit(self, values: Mapping[str, Sequence[object]]) -> None:
        """Replace the values of these keys; an empty list removes the key."""
        for key, new in values.items():
            if new:
                self.context[key] = list(new)
            else:
                self.context.remove(key)
            if key not in self.edited:
                self.edited.append(key)


class Breakpoints:
    """The breakpoints of one run; they may be set and removed while it goes on."""

    def __init__(self, agents: Iterable[str] = ()) -> None:
        self._agents = frozenset(agents)
        self.is_held = False
        """Whether the run waits before each next agent, breakpoint or not."""
        self._waiting: list[Waiting] = []

    @property
    def waiting(self) -> Sequence[Waiting]:
        """The branches that wait, the first to come first."""
        return tuple(self._waiting)

    def set(self, agents: Collection[str]) -> None:
        """Have breakpoints before exactly these agents from now on; who waits goes on waiting."""
        self._agents = frozenset(agents)

    def stops(self, agent: str) -> bool:
        """Whether a branch that comes to this agent waits."""
        return self.is_held or agent in self._agents

    async def wait(self, waiting: Waiting) -> None:
        """Wait until `step` or `resume` lets this branch go on."""
        self._waiting.append(waiting)
        try:
            await waiting._go_on.wait()
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def pause(self) -> None:
        """Wait before each agent from now on; what is under way ends first."""
        self.is_held = True

    def step(self) -> None:
        """Let the branch that came first go on, and wait again before the agent that comes next."""
        self.is_held = True
        if self._waiting:
            self._release(self._waiting[0])

    def resume(self) -> None:
        """Let all branches go on to the next breakpoint."""
        self.is_held = False
        for waiting in self.waiting:
            self._release(waiting)

    def _release(self, waiting: Waiting) -> None:
        self._waiting.remove(waiting)
        waiting._go_on.set()


async def paused(
    breakpoints: Breakpoints, context: Context, place: Place, emit: Emit, deadline: Deadline | None
) -> None:
    """Wait before an agent; that a person changed the context meanwhile is told."""
    await send(emit, Paused(time=time(), **place))
    waiting = Waiting(place["agent"], place["step"], place["branch"], context)
    began = monotonic()
    await breakpoints.wait(waiting)
    if deadline is not None:
        deadline.put_off(monotonic() - began)  # the limit is for models, not for who thinks
    if waiting.edited:
        message = f'The context was edited before "{waiting.agent}": {", ".join(waiting.edited)}.'
        await send(emit, Warned(time=time(), message=message, **place))
