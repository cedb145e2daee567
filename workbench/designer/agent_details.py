"""Kinds of agents in words."""

from PySide6.QtCore import QCoreApplication

from engine.flow.flow_spec import AgentSpec, AgentType

translate = QCoreApplication.translate


def type_texts(kind: AgentType) -> tuple[str, str]:
    """Name of an agent type, and one line about it."""
    texts = {
        AgentType.COMPLETION: (
            translate("AgentForm", "Completion"),
            translate("AgentForm", "Fresh conversation, one prompt"),
        ),
        AgentType.START_CONVERSATION: (
            translate("AgentForm", "Start"),
            translate("AgentForm", "Starts a new conversation"),
        ),
        AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT: (
            translate("AgentForm", "Start, with system prompt"),
            translate("AgentForm", "Starts a new conversation with a role"),
        ),
        AgentType.CONVERSATION: (
            translate("AgentForm", "Continue"),
            translate("AgentForm", "Answers in the same conversation"),
        ),
        AgentType.CONVERSATION_WITH_SYSTEM_PROMPT: (
            translate("AgentForm", "Continue, with system prompt"),
            translate("AgentForm", "Answers in the same conversation and keeps the role that is there"),
        ),
        AgentType.PROCESSING_ONLY: (
            translate("AgentForm", "Processing only"),
            translate("AgentForm", "No model call, works on the context"),
        ),
    }
    return texts[kind]


def kind_texts(agent: AgentSpec) -> tuple[str, str]:
    """Name of what an agent is, and one line about it."""
    if agent.flow is not None:
        return translate("AgentForm", "Sub-flow"), translate("AgentForm", "Runs another flow as one step")
    if agent.grader is not None:
        return agent.grader, translate("AgentForm", "Judges an answer")
    if agent.pattern is not None:
        return agent.pattern, translate("AgentForm", "A pattern of several steps")
    return type_texts(agent.type or AgentType.COMPLETION)
