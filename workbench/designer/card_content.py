"""What a card on the canvas says about its agent: derived from the file's values, without painting."""

import re
from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QCoreApplication

from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, HandlerSpec, RouteSpec

translate = QCoreApplication.translate

CARD_WIDTH = 208.0
HEADER_HEIGHT = 34.0
PREVIEW_HEIGHT = 40.0
CHIPS_HEIGHT = 26.0
ROW_HEIGHT = 22.0
ROWS_PADDING = 4.0
FOOTER_HEIGHT = 27.0
PORT_Y = 17.0
"""Of the in-port and of a single unlabelled out-port."""

_TYPE_ICONS = {
    AgentType.COMPLETION: "agent-completion",
    AgentType.START_CONVERSATION: "agent-start",
    AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT: "agent-start-system",
    AgentType.CONVERSATION: "agent-conversation",
    AgentType.CONVERSATION_WITH_SYSTEM_PROMPT: "agent-conversation-system",
    AgentType.PROCESSING_ONLY: "agent-processing",
}
_SPLIT = re.compile(r"\[\[([^\[\]|]+)(?:\|hidden)?\]\]")
_FEEDBACK = "feedback_to"


class Verdict(StrEnum):
    """The colour and glyph of a port: what a grader said, or nothing."""

    NONE = "none"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A small mark for what makes an agent special."""

    text: str
    icon: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One way out of an agent."""

    target: str | None
    """None ends the flow."""
    label: str = ""
    """Empty for a single plain route, which then has no row."""
    is_expression: bool = False
    verdict: Verdict = Verdict.NONE
    is_end: bool = False
    """Its label says no more than that the flow ends."""
    is_feedback: bool = False
    """The first failed attempt goes this way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardContent:
    """All that a card shows at rest."""

    name: str
    icon: str
    badge: str
    preview: str
    chips: tuple[Chip, ...]
    ports: tuple[Port, ...]
    fans_out: bool
    is_start: bool
    muted: bool
    bypassed: bool
    breakpoint: bool
    has_rows: bool
    """Whether the out-ports stand in labelled rows."""
    rows_top: float
    body_height: float
    """Without footer."""

    def port_y(self, index: int) -> float:
        """Height of an out-port's middle."""
        return self.rows_top + ROW_HEIGHT * (index + 0.5) if self.has_rows else PORT_Y


def card_content(spec: FlowSpec, agent: AgentSpec) -> CardContent:
    """Derive what the card of an agent shows."""
    splits = split_keys(agent.template)
    chips, ports = _chips(agent, splits), agent_ports(agent)
    has_rows = bool(ports[0].label)
    rows_top = HEADER_HEIGHT + PREVIEW_HEIGHT + (CHIPS_HEIGHT if chips else 0.0)
    return CardContent(
        name=agent.name,
        icon=icon_name(agent),
        badge=_badge(agent),
        preview=_preview(agent),
        chips=chips,
        ports=ports,
        fans_out=bool(splits),
        is_start=agent.name == spec.start,
        muted=agent.state == "mute",
        bypassed=agent.state == "bypass",
        breakpoint=agent.name in spec.editor.breakpoints,
        has_rows=has_rows,
        rows_top=rows_top,
        body_height=rows_top + (ROW_HEIGHT * len(ports) + ROWS_PADDING if has_rows else 0.0),
    )


def icon_name(agent: AgentSpec) -> str:
    """The icon of an agent's kind."""
    if agent.grader:
        return "grader"
    if agent.flow:
        return "subflow"
    if agent.type is None:
        return "flow" if agent.pattern else "agent-completion"
    return _TYPE_ICONS[agent.type]


def split_keys(template: str) -> tuple[str, ...]:
    """Keys that fan the agent out, in order, each once."""
    return tuple(dict.fromkeys(_SPLIT.findall(template))) if "[[" in template else ()


def _badge(agent: AgentSpec) -> str:
    if agent.model is None:
        return "" if agent.flow or agent.type is AgentType.PROCESSING_ONLY else "M"
    if agent.model.inline is not None:
        return str(agent.model.inline.get("name", "inline"))
    return agent.model.category or agent.model.profile or "M"


def _preview(agent: AgentSpec) -> str:
    question = agent.with_.get("question")
    if agent.flow:
        text = translate("card_content", "Runs %1").replace("%1", agent.flow)
    elif agent.grader and isinstance(question, str) and question:
        text = question
    else:
        text = f"{agent.system_prompt} {agent.template}"
    words = " ".join(text[:400].split())
    if not words and agent.before:
        keys = [operation.set for operation in agent.before if operation.set]
        words = translate("card_content", "Sets %1").replace("%1", ", ".join(keys)) if keys else ""
    if words:
        return words[:200]
    if agent.type is AgentType.PROCESSING_ONLY:
        return translate("card_content", "Works on the context")
    return translate("card_content", "No prompt")


def _chips(agent: AgentSpec, splits: tuple[str, ...]) -> tuple[Chip, ...]:
    chips = [Chip(text=key, icon="split") for key in splits]
    if agent.gather:
        chips.append(Chip(text=translate("card_content", "gather"), icon="merge"))
    if agent.merge is not None:
        chips.append(Chip(text=agent.merge.type, icon="merge"))
    if not (agent.grader or agent.flow or agent.type is AgentType.PROCESSING_ONLY):
        chips.append(_handler_chip(agent.handler or HandlerSpec()))
    if agent.tools:
        chips.append(Chip(text=str(len(agent.tools)), icon="tool"))
    return tuple(chips)


def _handler_chip(handler: HandlerSpec) -> Chip:
    if handler.type == "json":
        return Chip(text=handler.key or handler.prefix or _only_property(handler), icon="json")
    labels = {
        "text": translate("card_content", "Text"),
        "accumulate": translate("card_content", "Accumulate"),
        "csv": translate("card_content", "CSV"),
        "tools": translate("card_content", "Tools"),
    }
    return Chip(text=labels.get(handler.type, handler.type))


def _only_property(handler: HandlerSpec) -> str:
    properties = (handler.schema or {}).get("properties")
    return str(next(iter(properties))) if isinstance(properties, dict) and len(properties) == 1 else ""


def agent_ports(agent: AgentSpec) -> tuple[Port, ...]:
    """The ways out of an agent, from the top."""
    feedback = agent.with_.get(_FEEDBACK) if agent.grader else None
    routes = agent.routes or (() if feedback else (RouteSpec(),))
    if len(routes) == 1 and not feedback and routes[0].when is None and routes[0].graded is None:
        target = routes[0].to
        label = "" if target else translate("card_content", "ends the flow")
        return (Port(target=target, label=label, is_end=target is None),)
    ports = [_route_port(route) for route in routes]
    if isinstance(feedback, str) and feedback:
        ports.append(
            Port(target=feedback, label=translate("card_content", "feedback"), verdict=Verdict.FAILED, is_feedback=True)
        )
    return tuple(ports)


def _route_port(route: RouteSpec) -> Port:
    verdict, label, is_expression = Verdict.NONE, translate("card_content", "otherwise"), False
    condition = " ".join((route.when or "").split())
    if condition == "passed" or (route.graded and not condition):
        verdict, label = Verdict.PASSED, translate("card_content", "passed")
    elif condition == "not passed" or (route.graded is False and not condition):
        verdict, label = Verdict.FAILED, translate("card_content", "not passed")
    elif condition:
        label, is_expression = condition, True
        if route.graded is not None:
            verdict = Verdict.PASSED if route.graded else Verdict.FAILED
    if route.to is None and not is_expression:
        label = translate("card_content", "%1, ends the flow").replace("%1", label)
    return Port(target=route.to, label=label, is_expression=is_expression, verdict=verdict)
