"""Flows: agents with a start, limits and declared inputs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType

from engine.errors import FlowError, FlowInvalid, Problem
from engine.flow.agent import Agent
from engine.flow.flow_spec import InputSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may use; None = no limit."""

    max_steps: int = 200
    """Agent executions on one path; an execution with all its splits counts once."""
    max_seconds: float | None = None
    max_cost: Decimal | None = None
    """Currency units of the profiles' prices."""
    max_tool_calls: int = 100

    def smaller(self, other: "Limits") -> "Limits":
        """The stricter of each limit."""
        seconds = [limit for limit in (self.max_seconds, other.max_seconds) if limit is not None]
        costs = [limit for limit in (self.max_cost, other.max_cost) if limit is not None]
        return Limits(
            max_steps=min(self.max_steps, other.max_steps),
            max_seconds=min(seconds, default=None),
            max_cost=min(costs, default=None),
            max_tool_calls=min(self.max_tool_calls, other.max_tool_calls),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A directed graph of agents. Making one checks nothing; `check` does, and a run calls it."""

    name: str
    agents: tuple[Agent, ...]
    start: str = ""
    """Empty: the first agent."""
    inputs: tuple[InputSpec, ...] = ()
    outputs: tuple[str, ...] = ()
    """Keys a run reports as its result; empty: none in particular."""
    limits: Limits = Limits()
    origin: str = field(default="", compare=False)
    """That of the LoadedFlow it was built from, where a run that goes on from its record looks for files beside it."""
    by_name: Mapping[str, Agent] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A list is welcome too: flows written in Python read better with one.
        object.__setattr__(self, "agents", tuple(self.agents))
        object.__setattr__(self, "by_name", MappingProxyType({agent.name: agent for agent in self.agents}))

    def agent(self, name: str) -> Agent:
        """The agent of this name; raises FlowError."""
        found = self.by_name.get(name)
        if found is None:
            known = ", ".join(self.by_name)
            raise FlowError(f'There is no agent "{name}" in the flow.', hint=f"Its agents are: {known}.")
        return found

    @property
    def first(self) -> str:
        """Name of the agent a run starts with."""
        return self.start or (self.agents[0].name if self.agents else "")

    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong with the flow; a run needs it free of errors."""
        found: list[Problem] = []

        def error(message: str, agent: str = "", severity: str = "error") -> None:
            found.append(Problem(severity=severity, message=message, agent=agent))

        if not self.agents:
            error("The flow has no agents.")
        elif self.first not in self.by_name:
            error(f'The flow starts with "{self.first}", but has no agent of that name.')
        for name, count in Counter(agent.name for agent in self.agents).items():
            if not name:
                error("An agent has no name.")
            elif count > 1:
                error(f'{count} agents are named "{name}".', name)
        for agent in self.agents:
            if agent.gather and not agent.merges:
                error(f'"{agent.name}" gathers branches but has no merge that makes one of them.', agent.name)
            for target in agent.targets or ():
                if target not in self.by_name:
                    error(f'"{agent.name}" leads to "{target}", which is not an agent.', agent.name, "warning")
        if self.limits.max_steps < 1:
            error(f"The limit of steps is {self.limits.max_steps}, expected at least 1.")
        return tuple(found)

    def check(self) -> None:
        """Raise FlowInvalid with all problems when one of them is an error."""
        problems = self.problems()
        if any(problem.severity == "error" for problem in problems):
            raise FlowInvalid.of(problems)
