"""A flow as a Mermaid flowchart: the planned graph, for README files and wikis."""

import re
from collections.abc import Iterator

from engine.flow.flow_keys import placeholders
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, RouteSpec

_ESCAPED = re.compile(r'[&#"<>`|{}\[\]\\;]')
_LONGEST = 60
"""Characters of a condition."""


def mermaid_text(spec: FlowSpec) -> str:
    """The flowchart; any name is safe in it."""
    ids = {agent.name: f"a{index}" for index, agent in reversed(list(enumerate(spec.agents)))}
    lines = [*_head(spec), "flowchart LR"]
    start = spec.start or (spec.agents[0].name if spec.agents else "")
    lines += ["  start((start))", "  done((end))"]
    for index, agent in enumerate(spec.agents):
        lines.append(f"  a{index}{_box(agent)}")
    if start in ids:
        lines.append(f"  start --> {ids[start]}")
    for index, agent in enumerate(spec.agents):
        lines += [f"  a{index} {line}" for line in _links(agent, ids)]
    muted = [f"a{index}" for index, agent in enumerate(spec.agents) if agent.state is not None]
    if muted:
        lines += ["  classDef off stroke-dasharray: 4 4", f"  class {','.join(muted)} off"]
    return "\n".join(lines) + "\n"


def _head(spec: FlowSpec) -> Iterator[str]:
    yield "---"
    yield f'title: "{_escaped(spec.name)}"'
    yield "---"


def _box(agent: AgentSpec) -> str:
    rows = [_escaped(agent.name)]
    model = agent.model
    if agent.flow is not None:
        rows.append(_escaped(agent.flow))
    elif agent.type is not AgentType.PROCESSING_ONLY:
        named = model and (model.profile or model.category or ("inline" if model.inline is not None else None))
        rows.append(_escaped(named or "M"))
    texts = [agent.template, agent.system_prompt, *(value for value in agent.with_.values() if isinstance(value, str))]
    split = sorted({slot for text in texts for slot in placeholders(text).slots})
    if split:
        rows.append("⇉ " + _escaped(", ".join(split)))
    if agent.merge is not None:
        rows.append(f"{'gather ' if agent.gather else ''}↣ {_escaped(agent.merge.type)}")
    label = '"' + "<br>".join(rows) + '"'
    if agent.flow is not None:
        return f"[[{label}]]"
    if agent.grader is not None:
        return f"{{{{{label}}}}}"
    return f"({label})" if agent.type is AgentType.PROCESSING_ONLY else f"[{label}]"


def _links(agent: AgentSpec, ids: dict[str, str]) -> Iterator[str]:
    back = agent.with_.get("feedback_to")
    if agent.grader is not None and isinstance(back, str) and back in ids:
        yield f'-->|"✗ feedback"| {ids[back]}'
    for route in agent.routes:
        target = "done" if route.to is None else ids.get(route.to)
        if target is not None:
            words = _words(route)
            yield f'-->|"{words}"| {target}' if words else f"--> {target}"
        if route.when is None:
            return
    yield '-->|"else"| done' if agent.routes else "--> done"


def _words(route: RouteSpec) -> str:
    mark = "" if route.graded is None else "✓ " if route.graded else "✗ "
    when = " ".join((route.when or "").split())
    if len(when) > _LONGEST:
        when = f"{when[: _LONGEST - 1]}…"
    return f"{mark}{_escaped(when)}".strip()


def _escaped(text: str) -> str:
    """Text for inside of quotes: signs Mermaid reads become numbers of characters, control characters blanks."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return _ESCAPED.sub(lambda match: f"#{ord(match[0])};", line)
