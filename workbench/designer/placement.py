"""The order of agents along a flow, and places for agents whose file gives none."""

from collections import deque

from engine.flow.flow_spec import AgentSpec, FlowSpec

COLUMN = 280.0
ROW = 180.0


def targets(agent: AgentSpec) -> list[str]:
    """Names an agent's routes lead to, in order."""
    names = [route.to for route in agent.routes if route.to is not None]
    feedback = agent.with_.get("feedback_to") if agent.grader else None
    return [*names, feedback] if isinstance(feedback, str) and feedback else names


def flow_order(spec: FlowSpec) -> tuple[str, ...]:
    """All agents: from the start along the routes, nearest first, then what cannot be reached."""
    return tuple(_depths(spec))


def placed(spec: FlowSpec) -> dict[str, tuple[float, float]]:
    """A place for every agent: the file's, else in columns by distance from the start, below what is placed."""
    positions = {agent.name: spec.editor.positions.get(agent.name) for agent in spec.agents}
    known = [place for place in positions.values() if place is not None]
    top = max((y for _, y in known), default=-ROW) + ROW
    rows: dict[int, int] = {}
    places: dict[str, tuple[float, float]] = {}
    depths = _depths(spec) if len(known) < len(positions) else {}
    for name, place in positions.items():
        if place is None:
            depth = depths[name]
            row = rows[depth] = rows.get(depth, -1) + 1
            place = (depth * COLUMN, top + row * ROW)
        places[name] = place
    return places


def _depths(spec: FlowSpec) -> dict[str, int]:
    agents = {agent.name: agent for agent in spec.agents}
    depths: dict[str, int] = {}
    for first in (spec.start, *agents):
        if first not in agents or first in depths:
            continue
        depths[first] = 0
        waiting = deque([first])
        while waiting:
            name = waiting.popleft()
            for target in targets(agents[name]):
                if target in agents and target not in depths:
                    depths[target] = depths[name] + 1
                    waiting.append(target)
    return depths
