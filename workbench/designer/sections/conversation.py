"""What agents do with the conversation that reaches them."""

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from engine.flow.flow_spec import AgentSpec, AgentType
from workbench.designer.agent_details import type_texts
from workbench.designer.fields import MIXED, Choice, ChoiceField, bound
from workbench.designer.form_section import FormSection, translate
from workbench.designer.targets import AgentTarget


class ConversationSection(FormSection):
    """The agent type, and a line about it."""

    several = True

    def __init__(self, target: AgentTarget, parent: QWidget) -> None:
        super().__init__("conversation", translate("Inspector", "Conversation"), target, parent)
        self.type = ChoiceField(
            bound(target, "type", translate("Inspector", "Change conversation of %1")),
            "",
            translate("Inspector", "What the agent does with the conversation that reaches it"),
            self,
            choices=_types,
            name=self.head.text(),
        )
        self.add(self.type)
        self._line = self.say("")

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """Agents with a type: no graders, no flows."""
        return bool(agents) and all(agent.type is not None for agent in agents)

    def refresh(self) -> None:
        """Show the type and what it means."""
        super().refresh()
        value = self.type.binding.value()
        self._line.setText("" if value is None or value is MIXED else f"{type_texts(value)[1]}.")
        self._line.setVisible(bool(self._line.text()))


def _types() -> Sequence[Choice]:
    return [Choice(value=kind, text=type_texts(kind)[0], help_line=type_texts(kind)[1]) for kind in AgentType]
