"""What can be added to a flow: kinds of agents, and snippets that come with the workbench."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from PySide6.QtCore import QCoreApplication

from engine import bundled
from engine.flow.flow_file import read_flow
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, RouteSpec
from workbench.agent_library import SavedAgent
from workbench.designer.card_content import icon_name

translate = QCoreApplication.translate

SNIPPETS = ("fan-out-and-merge", "grader-loop", "sort-and-answer", "use-a-tool")
"""Flows in the folder `snippets` of the resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Something that can be added: a part of a flow with what a person reads about it."""

    text: str
    detail: str
    icon: str
    part: FlowSpec | None
    """None asks for a flow first, which then runs as one node."""


def additions(saved: Sequence[SavedAgent] = ()) -> list[Addition]:
    """Everything that the palette offers, most usual first, with the person's own agents."""
    return [*_kinds(), *(_saved(one, one.part) for one in saved if one.part is not None), *_snippets()]


def subflow_part(source: str, title: str) -> FlowSpec:
    """An agent that runs another flow."""
    return one_agent(AgentSpec(name=title or source, flow=source))


def one_agent(agent: AgentSpec) -> FlowSpec:
    """A part of a single agent."""
    return FlowSpec(name=agent.name, start=agent.name, agents=(agent,))


def _kinds() -> list[Addition]:
    rows = (
        (
            AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT,
            translate("agent_kinds", "Start, with system prompt"),
            translate("agent_kinds", "new conversation with a role"),
        ),
        (
            AgentType.START_CONVERSATION,
            translate("agent_kinds", "Start"),
            translate("agent_kinds", "new conversation"),
        ),
        (
            AgentType.CONVERSATION,
            translate("agent_kinds", "Continue"),
            translate("agent_kinds", "answers in the same conversation"),
        ),
        (
            AgentType.CONVERSATION_WITH_SYSTEM_PROMPT,
            translate("agent_kinds", "Continue, with system prompt"),
            translate("agent_kinds", "keeps the role that is there"),
        ),
        (
            AgentType.COMPLETION,
            translate("agent_kinds", "Completion"),
            translate("agent_kinds", "one prompt, no memory"),
        ),
        (
            AgentType.PROCESSING_ONLY,
            translate("agent_kinds", "Processing only"),
            translate("agent_kinds", "no model call, works on the context"),
        ),
    )
    agent = translate("agent_kinds", "Agent")
    processing = translate("agent_kinds", "Processing")
    found = [
        _kind(AgentSpec(name=processing if kind is AgentType.PROCESSING_ONLY else agent, type=kind), text, detail)
        for kind, text, detail in rows
    ]
    grader = translate("agent_kinds", "Grader")
    passed = RouteSpec(when="passed")
    asks: dict[str, object] = {"question": "", "answer": "{{response}}", "descriptions": True}
    found.append(
        _kind(
            AgentSpec(name=grader, grader="AnswerGraderBinary", with_=asks, routes=(passed,)),
            grader,
            translate("agent_kinds", "passed or not, with feedback"),
        )
    )
    found.append(
        _kind(
            AgentSpec(name=grader, grader="AnswerGrader2", with_=asks, routes=(passed,)),
            translate("agent_kinds", "Grader with a rating"),
            translate("agent_kinds", "a grade with reasons, with feedback"),
        )
    )
    found.append(
        Addition(
            text=translate("agent_kinds", "Sub-flow…"),
            detail=translate("agent_kinds", "another flow as one node"),
            icon="subflow",
            part=None,
        )
    )
    return found


def _kind(agent: AgentSpec, text: str, detail: str) -> Addition:
    return Addition(text=text, detail=detail, icon=icon_name(agent), part=one_agent(agent))


def _saved(one: SavedAgent, part: FlowSpec) -> Addition:
    detail = translate("agent_kinds", "saved agent")
    return Addition(
        text=one.name,
        detail=f"{detail} · {one.about}" if one.about else detail,
        icon=icon_name(part.agents[0]),
        part=part,
    )


@cache
def _snippet(name: str) -> FlowSpec:
    return read_flow(bundled.read_bytes("resources", "snippets", f"{name}.flow.json"), name=name).spec


def _snippets() -> Sequence[Addition]:
    found = (_snippet(name) for name in SNIPPETS)
    return [Addition(text=part.name, detail=part.description, icon="flow", part=part) for part in found]
