"""Makes, moves and removes links between agents, as pure functions.

A link is known by its agent and the number of the port it leaves: the routes in order, then a grader's feedback.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from engine.flow.flow_spec import AgentSpec, FlowSpec, RouteSpec

FEEDBACK = "feedback_to"


def routes_of(agent: AgentSpec) -> tuple[RouteSpec, ...]:
    """The routes that an agent has ports for: its own, or the one that ends the flow."""
    return agent.routes or (() if feedback_of(agent) else (RouteSpec(),))


def feedback_of(agent: AgentSpec) -> str:
    """Where a grader sends its first failed attempt, empty for nowhere."""
    target = agent.with_.get(FEEDBACK) if agent.grader else None
    return target if isinstance(target, str) else ""


def port_target(agent: AgentSpec, port: int) -> str | None:
    """Where a port leads, None for nowhere."""
    routes = routes_of(agent)
    return routes[port].to if port < len(routes) else feedback_of(agent) or None


def links_of(spec: FlowSpec) -> Iterator[tuple[str, int, str]]:
    """Agent, port and target of every link that has a target."""
    for agent in spec.agents:
        for port, route in enumerate(agent.routes):
            if route.to is not None:
                yield agent.name, port, route.to
        if feedback_of(agent):
            yield agent.name, len(routes_of(agent)), feedback_of(agent)


def connect(spec: FlowSpec, source: str, port: int, target: str | None) -> FlowSpec:
    """Lead a port to another agent, or with None to the end of the flow."""
    agent = spec.agent(source)
    return spec if agent is None else _with_agent(spec, source, _connected(agent, port, target))


def disconnect(spec: FlowSpec, source: str, port: int) -> FlowSpec:
    """Take a link away; a route with a condition stays, and ends the flow."""
    return connect(spec, source, port, None)


def add_route(spec: FlowSpec, source: str, target: str | None) -> FlowSpec:
    """Give an agent one more way out, tried after its others."""
    agent = spec.agent(source)
    if agent is None:
        return spec
    return _with_agent(spec, source, replace(agent, routes=(*agent.routes, RouteSpec(to=target))))


def may_add_route(agent: AgentSpec) -> bool:
    """Whether one more route could ever be taken: no other one always is."""
    return all(route.when is not None for route in agent.routes)


def move_start(spec: FlowSpec, source: str, port: int, new_source: str, new_port: int) -> FlowSpec:
    """Let a link begin at another port."""
    agent = spec.agent(source)
    target = port_target(agent, port) if agent is not None else None
    return connect(disconnect(spec, source, port), new_source, new_port, target)


def insert_between(spec: FlowSpec, source: str, port: int, first: str, last: str) -> FlowSpec:
    """Put agents that are there already on a link: it leads to the first, and the last one leads on."""
    agent = spec.agent(source)
    target = port_target(agent, port) if agent is not None else None
    spec = connect(spec, source, port, first)
    return connect(spec, last, 0, target) if target else spec


def may_connect(spec: FlowSpec, source: str, port: int, target: str) -> bool:
    """Whether a port may lead to an agent: not to itself for ever, and feedback only to where a way leads back from."""
    agent = spec.agent(source)
    if agent is None or spec.agent(target) is None:
        return False
    if port >= len(routes_of(agent)):
        return target != source and source in reached_from(spec, target)
    return target != source or routes_of(agent)[port].when is not None


def reached_from(spec: FlowSpec, name: str) -> set[str]:
    """Names of the agents that an agent leads to, over any number of links."""
    links: dict[str, list[str]] = {}
    for source, _, target in links_of(spec):
        links.setdefault(source, []).append(target)
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        for target in links.get(waiting.pop(), ()):
            if target not in reached:
                reached.add(target)
                waiting.append(target)
    return reached


def _with_agent(spec: FlowSpec, name: str, changed: AgentSpec) -> FlowSpec:
    if changed == spec.agent(name):
        return spec
    return replace(spec, agents=tuple(changed if one.name == name else one for one in spec.agents))


def _connected(agent: AgentSpec, port: int, target: str | None) -> AgentSpec:
    routes = routes_of(agent)
    if port >= len(routes):
        rest = {key: value for key, value in agent.with_.items() if key != FEEDBACK}
        return replace(agent, with_={**agent.with_, FEEDBACK: target} if target else rest)
    changed = tuple(replace(route, to=target) if index == port else route for index, route in enumerate(routes))
    return replace(agent, routes=() if changed == (RouteSpec(),) else changed)
