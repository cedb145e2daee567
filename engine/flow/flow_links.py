"""Checks how the agents of a flow are linked: targets, reachability, loops without a way out."""

from collections.abc import Iterator, Mapping

from engine.flow.flow_spec import AgentSpec, FlowSpec
from engine.flow.report import Report


def check_links(spec: FlowSpec, report: Report) -> None:
    """Report unknown targets, routes never tried, unreachable agents, and loops nothing leaves."""
    names = {agent.name: index for index, agent in reversed(list(enumerate(spec.agents)))}
    _check_start(spec, names, report)
    for index, agent in enumerate(spec.agents):
        _check_targets(agent, index, names, report)
    links, start = links_of(spec), start_of(spec)
    reached = _reachable(start, links)
    for index, agent in enumerate(spec.agents):
        if start in links and agent.name not in reached:
            report.warning(f"$.agents[{index}]", f'No route leads to "{agent.name}", it never runs.', agent.name)
        back = agent.with_.get("feedback_to")
        if agent.grader and isinstance(back, str) and back in links and agent.name not in _reachable(back, links):
            message = f'"{agent.name}" sends feedback to "{back}", from where no route leads back to it.'
            report.warning(f"$.agents[{index}].with.feedback_to", message, agent.name)
    agents = {agent.name: agent for agent in reversed(spec.agents)}
    for loop in _components(links):
        if _is_closed(loop, agents, links):
            first = min(loop, key=names.__getitem__)
            members = ", ".join(f'"{name}"' for name in sorted(loop, key=names.__getitem__)[:5])
            message = f"Nothing leads out of the loop of {members}: it runs until a limit stops it."
            report.error(f"$.agents[{names[first]}].routes", message, first)


def reachable_agents(spec: FlowSpec) -> set[str]:
    """Names of the agents that a run may reach from the start."""
    links = links_of(spec)
    return _reachable(start_of(spec), links)


def in_loops(spec: FlowSpec) -> set[str]:
    """Names of the agents that a run may come to again."""
    links = links_of(spec)
    return {name for loop in _components(links) for name in loop if len(loop) > 1 or name in links[name]}


def agents_before(spec: FlowSpec, name: str) -> set[str]:
    """Names of the agents from which a run may come to this one; itself among them only in a loop."""
    back: dict[str, list[str]] = {agent.name: [] for agent in spec.agents}
    for source, targets in links_of(spec).items():
        for target in targets:
            back[target].append(source)
    found: set[str] = set()
    waiting = [name] if name in back else []
    while waiting:
        for source in back[waiting.pop()]:
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def links_of(spec: FlowSpec) -> dict[str, list[str]]:
    """Agent → the agents it may lead to; of agents with the same name the first counts."""
    names = {agent.name for agent in spec.agents}
    return {agent.name: [name for name in _targets(agent) if name in names] for agent in reversed(spec.agents)}


def start_of(spec: FlowSpec) -> str:
    """The agent a run begins with; empty when there is none."""
    return spec.start or (spec.agents[0].name if spec.agents else "")


def _check_start(spec: FlowSpec, names: Mapping[str, int], report: Report) -> None:
    if not spec.agents:
        report.error("$.agents", "The flow has no agents.")
    elif spec.start and spec.start not in names:
        message = f'The flow starts with "{spec.start}", which is not an agent'
        report.error("$.start", message + report.near(spec.start, names))
    else:
        first = spec.agents[names[spec.start] if spec.start else 0]
        if first.state == "mute":
            report.error("$.start", f'The flow starts with "{first.name}", which is muted.', first.name)


def _check_targets(agent: AgentSpec, index: int, names: Mapping[str, int], report: Report) -> None:
    always = -1
    for number, route in enumerate(agent.routes):
        path = f"$.agents[{index}].routes[{number}]"
        if route.to is not None and route.to not in names:
            message = f'"{agent.name}" leads to "{route.to}", which is not an agent'
            report.error(f"{path}.to", message + report.near(route.to, names), agent.name)
        if always >= 0:
            message = f'This route of "{agent.name}" is never tried: route {always + 1} has no condition.'
            report.warning(path, message, agent.name)
        elif route.when is None:
            always = number
    back = agent.with_.get("feedback_to")
    if agent.grader is not None and isinstance(back, str) and back not in names:
        message = f'"{agent.name}" sends feedback to "{back}", which is not an agent'
        report.error(f"$.agents[{index}].with.feedback_to", message + report.near(back, names), agent.name)


def _targets(agent: AgentSpec) -> Iterator[str]:
    """Where an agent may lead; routes after one without condition are never tried."""
    back = agent.with_.get("feedback_to")
    if agent.grader is not None and isinstance(back, str):
        yield back
    for route in agent.routes:
        if route.to is not None:
            yield route.to
        if route.when is None:
            return


def _may_end(agent: AgentSpec) -> bool:
    """Whether the flow can end at this agent: a route says so, or none may match."""
    for route in agent.routes:
        if route.to is None:
            return True
        if route.when is None:
            return False
    return True


def _reachable(start: str, links: Mapping[str, list[str]]) -> set[str]:
    reached = {start} & set(links)
    waiting = list(reached)
    while waiting:
        for name in links[waiting.pop()]:
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def _is_closed(loop: set[str], agents: Mapping[str, AgentSpec], links: Mapping[str, list[str]]) -> bool:
    if len(loop) == 1 and not loop & set(links[next(iter(loop))]):
        return False
    return not any(
        _may_end(agents[name]) or not loop.issuperset(links[name]) or _leads_nowhere(agents[name], agents)
        for name in loop
    )


def _leads_nowhere(agent: AgentSpec, agents: Mapping[str, AgentSpec]) -> bool:
    # A muted or unknown target ends the flow, too.
    return any(name not in agents or agents[name].state == "mute" for name in _targets(agent))


def _components(links: Mapping[str, list[str]]) -> Iterator[set[str]]:
    """The strongly connected parts of a graph (Tarjan), without recursion."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in links:
        if root in number:
            continue
        work = [(root, iter(links[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, rest = work[-1]
            child = next(rest, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    yield _pop(stack, on_stack, name)
            elif child not in number:
                number[child] = low[child] = len(number)
                stack.append(child)
                on_stack.add(child)
                work.append((child, iter(links[child])))
            elif child in on_stack:
                low[name] = min(low[name], number[child])


def _pop(stack: list[str], on_stack: set[str], name: str) -> set[str]:
    part: set[str] = set()
    while name not in part:
        part.add(stack.pop())
    on_stack -= part
    return part
