"""The flow as a tree: what follows without a choice stands below, the ways an agent may lead on stand inside it."""

from dataclasses import dataclass

from engine.flow.flow_spec import AgentSpec, FlowSpec
from workbench.designer.card_content import agent_ports, icon_name
from workbench.designer.palettes import port_text


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineRow:
    """One line of the tree."""

    agent: str
    depth: int
    icon: str
    route: str = ""
    """The way that leads here, if there was a choice."""
    again: bool = False
    """The agent stands elsewhere in the tree, too, with all that follows: a link leads there once more."""


def outline_rows(spec: FlowSpec) -> tuple[OutlineRow, ...]:
    """The lines from the top; every agent has exactly one that is not `again`."""
    agents: dict[str, AgentSpec] = {}
    for agent in spec.agents:
        agents.setdefault(agent.name, agent)
    rows: list[OutlineRow] = []
    seen: set[str] = set()
    for root in (spec.start, *agents):
        if root in agents and root not in seen:
            _add(agents, root, rows, seen)
    return tuple(rows)


def _add(agents: dict[str, AgentSpec], root: str, rows: list[OutlineRow], seen: set[str]) -> None:
    waiting: list[tuple[str, int, str]] = [(root, 0, "")]
    while waiting:
        name, depth, route = waiting.pop()
        again = name in seen
        rows.append(OutlineRow(agent=name, depth=depth, icon=icon_name(agents[name]), route=route, again=again))
        if again:
            continue
        seen.add(name)
        ports = agent_ports(agents[name])
        onward = [port for port in ports if port.target in agents]
        if len(ports) == 1 and onward:
            waiting.append((str(onward[0].target), depth + 1 if route else depth, ""))
        else:
            waiting += [(str(port.target), depth + 1, port_text(port)) for port in reversed(onward)]
