"""Small flows for tests of the designer."""

from engine import bundled
from engine.flow.flow_file import read_flow
from engine.flow.flow_spec import AgentSpec, AgentType, EditorSpec, FlowSpec, RouteSpec


def sample(name: str) -> FlowSpec:
    """A flow that comes with the workbench."""
    return read_flow(bundled.read_bytes("resources", "flows", f"{name}.flow.json"), name=name).spec


def agent(name: str, *targets: str | None, template: str = "Say {{it}}.", **fields: object) -> AgentSpec:
    """An agent with unconditional routes to others."""
    routes = tuple(RouteSpec(to=target) for target in targets)
    return AgentSpec(name=name, type=AgentType.COMPLETION, template=template, routes=routes, **fields)  # type: ignore[arg-type]


def chain(*names: str, spacing: float = 280.0) -> FlowSpec:
    """Agents one after the other in a row."""
    agents = tuple(agent(name, target) for name, target in zip(names, (*names[1:], None), strict=True))
    positions = {name: (index * spacing, 0.0) for index, name in enumerate(names)}
    return FlowSpec(name="Chain", start=names[0], agents=agents, editor=EditorSpec(positions=positions))


def grid(count: int, columns: int = 20) -> FlowSpec:
    """Many agents in rows, each leading to the next and to the one below."""
    names = [f"Agent{index}" for index in range(count)]
    agents = tuple(
        agent(name, *(names[other] for other in (index + 1, index + columns) if other < count))
        for index, name in enumerate(names)
    )
    positions = {name: (index % columns * 260.0, index // columns * 190.0) for index, name in enumerate(names)}
    return FlowSpec(name="Grid", start=names[0], agents=agents, editor=EditorSpec(positions=positions))
