"""Adds, removes, copies and pastes agents, as pure functions."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from engine.flow.flow_spec import AgentSpec, EditorSpec, FlowSpec, RouteSpec
from workbench.designer.edits import move_agents, rename_agent
from workbench.designer.link_edits import FEEDBACK, feedback_of, routes_of
from workbench.designer.placement import placed

_NUMBERED = re.compile(r"(.*?)\s*(\d*)")
_INCOMING = "incoming"
"""Where a copied part of a flow keeps the links that came in: a field that other readers of flows pass over."""


def free_name(wanted: str, taken: Collection[str]) -> str:
    """The name itself, or with the first number that makes it free: `Writer 2`."""
    if wanted not in taken:
        return wanted
    found = _NUMBERED.fullmatch(wanted)
    stem = (found[1] if found else "") or wanted
    number = 2
    while f"{stem} {number}" in taken:
        number += 1
    return f"{stem} {number}"


def toggle_breakpoints(spec: FlowSpec, names: Collection[str]) -> FlowSpec:
    """Have a breakpoint before all of these agents; when all have one, before none of them."""
    known = spec.editor.breakpoints
    if all(name in known for name in names):
        kept = tuple(name for name in known if name not in names)
    else:
        kept = (*known, *(agent.name for agent in spec.agents if agent.name in names and agent.name not in known))
    return replace(spec, editor=replace(spec.editor, breakpoints=kept))


def set_state(spec: FlowSpec, names: Collection[str], state: Literal["bypass", "mute"] | None) -> FlowSpec:
    """Mute or bypass agents, or with None let them run."""
    agents = (replace(one, state=state) if one.name in names and one.state != state else one for one in spec.agents)
    return replace(spec, agents=tuple(agents))


def set_start(spec: FlowSpec, name: str) -> FlowSpec:
    """Let the flow begin at an agent."""
    return replace(spec, start=name)


# -- removing ----------------------------------------------------------------------------------------------------------


def remove_agents(spec: FlowSpec, names: Collection[str], *, heal: bool = False) -> FlowSpec:
    """Take agents away with their links; `heal` leads what led to them on to where they led."""
    gone = set(names)
    agents = {agent.name: agent for agent in reversed(spec.agents)}
    onward = {name: _onward(agents, name, gone) if heal else None for name in gone if name in agents}
    kept = tuple(_without_links(agent, gone, onward) for agent in spec.agents if agent.name not in gone)
    start = spec.start
    if start in gone:
        start = onward.get(start) or (kept[0].name if kept else "")
    editor = replace(
        spec.editor,
        positions={name: place for name, place in spec.editor.positions.items() if name not in gone},
        breakpoints=tuple(name for name in spec.editor.breakpoints if name not in gone),
    )
    return replace(spec, agents=kept, start=start, editor=editor)


def _onward(agents: Mapping[str, AgentSpec], name: str, gone: set[str]) -> str | None:
    """The agent that follows, past all that go: along the route that is taken when no condition holds."""
    seen: set[str] = set()
    at: str | None = name
    while at is not None and at in gone and at in agents and at not in seen:
        seen.add(at)
        routes = agents[at].routes
        always = next((route.to for route in routes if route.when is None), None)
        at = always or next((route.to for route in routes if route.to is not None), None)
    return at if at is not None and at not in gone else None


def _without_links(agent: AgentSpec, gone: set[str], onward: Mapping[str, str | None]) -> AgentSpec:
    changes: dict[str, object] = {}
    if any(route.to in gone for route in agent.routes):
        routes = tuple(
            replace(route, to=onward.get(route.to)) if route.to is not None and route.to in gone else route
            for route in agent.routes
        )
        changes["routes"] = () if routes == (RouteSpec(),) else routes
    feedback = feedback_of(agent)
    if feedback in gone:
        target = onward.get(feedback)
        rest = {key: value for key, value in agent.with_.items() if key != FEEDBACK}
        changes["with_"] = {**agent.with_, FEEDBACK: target} if target and target != agent.name else rest
    return replace(agent, **changes) if changes else agent


def unlinked(agent: AgentSpec) -> AgentSpec:
    """The agent without its links: its routes keep their conditions and lead nowhere."""
    targets = {route.to for route in agent.routes if route.to is not None}
    return _without_links(agent, targets | {feedback_of(agent) or ""}, {})


# -- copying -----------------------------------------------------------------------------------------------------------


def copied_part(spec: FlowSpec, names: Collection[str]) -> FlowSpec:
    """Some agents as a flow of their own, with the links that lead out of and into them kept aside."""
    wanted = set(names)
    agents = tuple(agent for agent in spec.agents if agent.name in wanted)
    incoming = [
        {"from": one.name, "to": route.to, "when": route.when, "graded": route.graded}
        for one in spec.agents
        if one.name not in wanted
        for route in one.routes
        if route.to in wanted
    ]
    start = spec.start if spec.start in wanted else agents[0].name if agents else ""
    places = {name: place for name, place in placed(spec).items() if name in wanted}
    editor = EditorSpec(positions=places, extra={_INCOMING: incoming} if incoming else {})
    part = FlowSpec(name=spec.name, start=start, agents=agents, editor=editor)
    return move_agents(part, places)


def paste_part(
    spec: FlowSpec, part: FlowSpec, at: tuple[float, float], *, incoming: bool = False
) -> tuple[FlowSpec, tuple[str, ...]]:
    """Put the agents of a part into a flow, its upper left corner at a place; also the names they have now.

    Only links among them stay; with `incoming` also those from agents that led to them where they were copied.
    """
    names = {agent.name for agent in part.agents}
    copies = [_linked_inside(agent, names) for agent in _first_of_each(part.agents)]
    fragment = replace(part, agents=tuple(copies), editor=EditorSpec(positions=placed(part)))
    taken = {agent.name for agent in spec.agents} | names
    renamed: dict[str, str] = {}
    for agent in copies:
        clashes = spec.agent(agent.name) is not None
        renamed[agent.name] = free_name(agent.name, taken) if clashes else agent.name
        taken.add(renamed[agent.name])
        fragment = rename_agent(fragment, agent.name, renamed[agent.name])
    left = min((x for x, _ in fragment.editor.positions.values()), default=0.0)
    top = min((y for _, y in fragment.editor.positions.values()), default=0.0)
    places = {name: (x - left + at[0], y - top + at[1]) for name, (x, y) in fragment.editor.positions.items()}
    agents = (*spec.agents, *fragment.agents)
    pasted = replace(spec, agents=agents, start=spec.start or ("" if spec.agents else fragment.start))
    pasted = move_agents(pasted, {agent.name: places[agent.name] for agent in fragment.agents})
    if incoming:
        pasted = _with_incoming(pasted, part.editor.extra.get(_INCOMING), renamed)
    return pasted, tuple(agent.name for agent in fragment.agents)


def _first_of_each(agents: Sequence[AgentSpec]) -> Iterable[AgentSpec]:
    return {agent.name: agent for agent in reversed(agents)}.values().__reversed__()


def _linked_inside(agent: AgentSpec, names: Collection[str]) -> AgentSpec:
    changes: dict[str, object] = {}
    if any(route.to is not None and route.to not in names for route in agent.routes):
        changes["routes"] = tuple(route for route in agent.routes if route.to is None or route.to in names)
    if feedback_of(agent) and feedback_of(agent) not in names:
        changes["with_"] = {key: value for key, value in agent.with_.items() if key != FEEDBACK}
    return replace(agent, **changes) if changes else agent


def _with_incoming(spec: FlowSpec, links: object, renamed: Mapping[str, str]) -> FlowSpec:
    """Lead the agents that led to the copied ones also to the copies, by a route after each of theirs."""
    for link in links if isinstance(links, list) else ():
        agent = spec.agent(str(link.get("from"))) if isinstance(link, dict) else None
        copy = renamed.get(str(link.get("to"))) if isinstance(link, dict) else None
        if agent is None or copy is None:
            continue
        found = [index for index, route in enumerate(agent.routes) if _is_link(route, link)]
        at = found[0] + 1 if found else len(agent.routes)
        when, graded = link.get("when"), link.get("graded")
        route = RouteSpec(
            to=copy,
            when=when if isinstance(when, str) else None,
            graded=graded if isinstance(graded, bool) else None,
        )
        changed = replace(agent, routes=(*agent.routes[:at], route, *agent.routes[at:]))
        spec = replace(spec, agents=tuple(changed if one is agent else one for one in spec.agents))
    return spec


def _is_link(route: RouteSpec, link: Mapping[str, object]) -> bool:
    return (route.to, route.when) == (link.get("to"), link.get("when"))


def way_out(spec: FlowSpec, names: Sequence[str]) -> str:
    """Which of some agents leads on when they are put before others: the last one that ends the flow."""
    ends = [name for name in names if (one := spec.agent(name)) is not None and routes_of(one)[:1] == (RouteSpec(),)]
    return (ends or list(names))[-1]
