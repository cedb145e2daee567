"""Edits of a flow as pure functions: a FlowSpec goes in, a changed copy that shares the rest comes out.

Keys are renamed by `key_edits`, links and agents made and taken away by `link_edits` and `agent_edits`.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from engine.flow.flow_spec import AgentSpec, FlowSpec, OperationSpec, RouteSpec

_FEEDBACK_KEY = "qaFeedbackLoopDestination"


def change_flow(spec: FlowSpec, **fields: object) -> FlowSpec:
    """Give fields of the flow itself other values."""
    return replace(spec, **fields)


def change_agent(spec: FlowSpec, name: str, **fields: object) -> FlowSpec:
    """Give fields of one agent other values; use `rename_agent` for its name."""
    agents = (replace(agent, **fields) if agent.name == name else agent for agent in spec.agents)
    return replace(spec, agents=tuple(agents))


def move_agents(spec: FlowSpec, positions: Mapping[str, tuple[float, float]]) -> FlowSpec:
    """Place agents' top left corners, in scene units."""
    moved = {name: (_tidy_number(x), _tidy_number(y)) for name, (x, y) in positions.items()}
    return replace(spec, editor=replace(spec.editor, positions={**spec.editor.positions, **moved}))


def rename_agent(spec: FlowSpec, old: str, new: str) -> FlowSpec:
    """Rename an agent; routes, feedback, start and everything the editor keeps about it follow.

    Raises ValueError when the new name is empty or taken.
    """
    if old == new:
        return spec
    if not new or any(agent.name == new for agent in spec.agents):
        raise ValueError(f"{new!r} is not free as a name")
    editor = replace(
        spec.editor,
        positions={_renamed(name, old, new): place for name, place in spec.editor.positions.items()},
        breakpoints=tuple(_renamed(name, old, new) for name in spec.editor.breakpoints),
    )
    agents = tuple(_follow(agent, old, new) for agent in spec.agents)
    return replace(spec, start=_renamed(spec.start, old, new), agents=agents, editor=editor)


def _follow(agent: AgentSpec, old: str, new: str) -> AgentSpec:
    changes: dict[str, object] = {}
    if agent.name == old:
        changes["name"] = new
    if any(route.to == old for route in agent.routes):
        changes["routes"] = tuple(_follow_route(route, old, new) for route in agent.routes)
    if agent.with_.get("feedback_to") == old:
        changes["with_"] = {**agent.with_, "feedback_to": new}
    if any(operation.set == _FEEDBACK_KEY for operation in agent.before):
        changes["before"] = tuple(_follow_feedback(operation, old, new) for operation in agent.before)
    return replace(agent, **changes) if changes else agent


def _follow_feedback(operation: OperationSpec, old: str, new: str) -> OperationSpec:
    """An operation may name the agent that gets a grader's feedback, as a text in quotes."""
    if operation.set != _FEEDBACK_KEY or operation.to not in (f"'{old}'", f'"{old}"'):
        return operation
    return replace(operation, to=f"{operation.to[0]}{new}{operation.to[0]}")


def _follow_route(route: RouteSpec, old: str, new: str) -> RouteSpec:
    return replace(route, to=new) if route.to == old else route


def _renamed(name: str, old: str, new: str) -> str:
    return new if name == old else name


def _tidy_number(value: float) -> float:
    """Whole numbers as integers, so that files hold `280` and not `280.0`."""
    return int(value) if value == int(value) else round(value, 2)


def renamed_agents(before: FlowSpec, after: FlowSpec) -> dict[str, str]:
    """Old to new name of the agent that was renamed in an edit, if one was."""
    if len(before.agents) != len(after.agents):
        return {}
    pairs = zip(before.agents, after.agents, strict=True)
    return {old.name: new.name for old, new in pairs if old.name != new.name}
