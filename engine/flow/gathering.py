"""Agents that wait for all branches of a run that may still arrive (flow format, `gather`)."""

from collections.abc import Mapping
from typing import NamedTuple

from engine.flow.agent import Agent
from engine.flow.context import Context
from engine.flow.flow import Flow
from engine.flow.steps import Position


class Arrival(NamedTuple):
    """A context that waits."""

    position: Position
    context: Context
    from_step: int
    output: int
    """Number of the context among those that left its step."""


class Gathering:
    """Contexts that wait at gathering agents for the others."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._parked: dict[str, list[Arrival]] = {}

    @property
    def waits(self) -> bool:
        """Whether any context waits."""
        return bool(self._parked)

    def park(self, agent: Agent, arrival: Arrival) -> None:
        """Let a context wait at its agent."""
        self._parked.setdefault(agent.name, []).append(arrival)

    def release(self, live: Mapping[str, int]) -> tuple[Agent, list[Arrival]] | None:
        """An agent that no live step can reach any more, with what arrived in branch order; None when all must wait."""
        if not self._parked:
            return None
        busy = {name for name, number in live.items() if number > 0}
        for agent in self._flow.agents:
            others = busy | (self._parked.keys() - {agent.name})
            if agent.name in self._parked and not any(reaches(self._flow, name, agent.name) for name in others):
                return agent, self._take(agent)
        if busy:
            return None
        # They wait for each other in a circle: the first in the flow goes on.
        agent = next(agent for agent in self._flow.agents if agent.name in self._parked)
        return agent, self._take(agent)

    def _take(self, agent: Agent) -> list[Arrival]:
        return sorted(self._parked.pop(agent.name), key=lambda arrival: arrival.position)


def reaches(flow: Flow, name: str, goal: str) -> bool:
    """Whether the routes of one agent may lead to another."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        agent = flow.by_name.get(waiting.pop())
        if agent is None or agent.name in seen:
            continue
        seen.add(agent.name)
        if agent.targets is None or goal in agent.targets:
            return True
        waiting.extend(agent.targets)
    return False


def common_branch(branches: list[str]) -> str:
    """The path of splits the branches share."""
    common: list[str] = []
    for parts in zip(*(branch.split(".") for branch in branches), strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common)
