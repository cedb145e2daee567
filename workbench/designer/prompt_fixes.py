"""What can be done about the keys of a prompt that nothing provides, as pure functions."""

from dataclasses import dataclass

from msgspec.structs import replace

from engine.flow.flow_keys import known_keys, uses
from engine.flow.flow_spec import AgentSpec, FlowSpec, InputSpec
from engine.flow.key_renaming import CannotRename, rename_in_template
from engine.flow.report import nearest
from workbench.designer.edits import change_agent, change_flow

TEXTS = ("system_prompt", "template")
"""The fields of an agent that are its prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFix:
    """One way out for one key."""

    key: str
    """Nothing provides it."""
    near: str = ""
    """The known key that was probably meant; empty: the key becomes an input of the flow."""


def prompt_fixes(spec: FlowSpec, name: str) -> tuple[PromptFix, ...]:
    """A way out for each key of an agent's prompt that nothing provides, by key."""
    agent, known = spec.agent(name), known_keys(spec)
    if agent is None or known.open:
        return ()
    wanted = {f".{field}" for field in TEXTS}
    names = [use.names for use in uses(agent, "") if use.path in wanted]
    missing = sorted({key for one in names for key in one.keys | one.slots} - known.names)
    return tuple(PromptFix(key=key, near=_near(agent, key, known.names)) for key in missing)


def fixed(spec: FlowSpec, name: str, fix: PromptFix) -> FlowSpec:
    """The flow with one key corrected in the prompt of an agent, or declared as an input."""
    if not fix.near:
        return change_flow(spec, inputs=(*spec.inputs, InputSpec(key=fix.key)))
    agent = spec.agent(name)
    return spec if agent is None else change_agent(spec, name, **_corrected(agent, fix.key, fix.near))


def _near(agent: AgentSpec, key: str, known: frozenset[str]) -> str:
    near = nearest(key, known)
    if near:
        try:
            if replace(agent, **_corrected(agent, key, near)) == agent:
                return ""
        except CannotRename:
            return ""
    return near


def _corrected(agent: AgentSpec, key: str, near: str) -> dict[str, str]:
    jinja = agent.syntax == "jinja"
    return {field: rename_in_template(getattr(agent, field), key, near, jinja=jinja) for field in TEXTS}
