"""What the executor keeps of one agent execution, and the queues its splits wait in."""

from collections import deque

from engine.flow.agent import Agent
from engine.flow.context import Context, Skip
from engine.flow.template import Parts
from engine.profile import ModelProfile

Position = tuple[int, ...]
"""Where a context stands among all branches, in the order of the results."""


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

    def take(self) -> tuple["Step", int]:
        """The next split, of the step that came last: a branch goes on before its siblings begin."""
        step = self.steps[0]
        index = step.taken
        step.taken += 1
        self.queued -= 1
        if step.taken == step.count:
            self.steps.popleft()
        return step, index


class Step:
    """One execution of an agent, with all its splits."""

    __slots__ = (
        "agent",
        "context",
        "count",
        "done",
        "keys",
        "kind",
        "label",
        "left",
        "number",
        "position",
        "profile",
        "skip",
        "system",
        "taken",
        "text",
        "warning",
    )

    def __init__(self, agent: Agent, context: Context, number: int, position: Position) -> None:
        self.agent = agent
        self.context = context
        self.number = number
        self.position = position
        self.kind = agent.type
        self.skip = Skip.NO
        self.profile: ModelProfile | None = None
        self.label = ""
        self.system: Parts = ()
        self.text: Parts = ()
        self.keys: tuple[str, ...] = ()
        self.count = 1
        self.taken = 0
        self.left = 1
        """Splits that have not ended."""
        self.done: list[Context | None] | None = None
        """The splits that succeeded, while they wait for the others to be merged."""
        self.warning = ""

    def place(self, index: int) -> Position:
        """The position of a split."""
        return self.position if self.count == 1 else (*self.position, index)
