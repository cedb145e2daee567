"""What is kept of one agent execution while it lasts."""

from engine.checkpoints import Position
from engine.flow.agent import Agent
from engine.flow.context import Context, Skip
from engine.flow.template import Parts
from engine.profile import ModelProfile

__all__ = ["Position", "Step"]


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
        "splits",
        "system",
        "taken",
        "text",
        "todo",
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
        self.splits = 1
        """How many of them run: all, or those that are still to do when a recorded run goes on."""
        self.todo: list[int] | None = None
        """Their numbers; None: all."""
        self.taken = 0
        self.left = 1
        """Splits that have not ended."""
        self.done: list[Context | None] | None = None
        """The splits that succeeded, while they wait for the others to be merged."""
        self.warning = ""

    def place(self, index: int) -> Position:
        """The position of a split."""
        return self.position if self.count == 1 else (*self.position, index)
