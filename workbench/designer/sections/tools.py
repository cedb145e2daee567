"""The tools an agent's model may call."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace
from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from engine.flow.flow_spec import AgentSpec
from workbench.designer.fields import LineField, Problems, bound
from workbench.designer.form_section import FormSection, asks_model, translate
from workbench.designer.targets import AgentTarget
from workbench.designer.typed_values import whole_number
from workbench.theme import theme
from workbench.widgets.fault_note import FaultNote


class ToolsSection(FormSection):
    """A check box for each tool there is, and for each the agent names."""

    target: AgentTarget

    def __init__(self, target: AgentTarget, tools: Callable[[], Sequence[tuple[str, str]]], parent: QWidget) -> None:
        """`tools` are name and origin of those there are."""
        super().__init__("tools", translate("Inspector", "Tools"), target, parent, is_open=False)
        self._tools = tools
        self.boxes: dict[str, QCheckBox] = {}
        self._column = QVBoxLayout()
        self._column.setSpacing(theme.px(4))
        self.body.addLayout(self._column)
        self._below = FaultNote(self)
        self.body.addWidget(self._below)
        self._approval = self.say(
            translate("Inspector", "Before a tool of a plug-in is called, the window asks; each run anew.")
        )
        self.rounds = LineField(
            bound(target, "max_tool_call_rounds", translate("Inspector", "Change tool rounds of %1")),
            translate("Inspector", "Rounds"),
            translate("Inspector", "How often the model may ask for tools before it has to answer"),
            self,
            name=translate("Inspector", "Rounds of tool calls"),
            parse=whole_number(1),
            hint="8",
        )
        self.add(self.rounds)

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """One agent that asks a model."""
        return len(agents) == 1 and asks_model(agents[0]) and agents[0].grader is None

    def stops(self) -> list[QWidget]:
        """Head, boxes, rounds."""
        return [self.head, *self.boxes.values(), *self.rounds.stops()]

    def refresh(self) -> None:
        """Show the tools as they are now."""
        super().refresh()
        agent = self.target.agent
        chosen = agent.tools if agent else ()
        tools = dict(self._tools())
        names = [*tools, *(name for name in dict.fromkeys(chosen) if name not in tools)]
        if names != list(self.boxes):
            self._build(names)
        for name, box in self.boxes.items():
            box.setChecked(name in chosen)
            missing = translate("Inspector", "%1 (missing)").replace("%1", name)
            box.setText(name if name in tools else missing)
            box.setToolTip(tools.get(name, translate("Inspector", "Neither this version nor a plug-in has it")))
        self.set_note(str(len(chosen)) if chosen else "")
        for field in (self.rounds, self._approval):
            field.setVisible(bool(chosen))

    def show_problems(self, problems: Problems) -> None:
        """Say what the check found about the tools."""
        super().show_problems(problems)
        agent, places = self.target.agent, self.target.places()
        found = None
        if agent is not None and places:
            paths = [f"{places[0]}.tools", *(f"{places[0]}.tools[{index}]" for index in range(len(agent.tools)))]
            found = next((problems[path][0] for path in paths if problems.get(path)), None)
        is_warning = found is not None and found.severity != "error"
        self._below.show_fault(found.message if found else "", is_warning=is_warning)

    def _build(self, names: Sequence[str]) -> None:
        for box in self.boxes.values():
            box.hide()
            box.deleteLater()
        self.boxes = {name: QCheckBox(name, self) for name in names}
        for name, box in self.boxes.items():
            box.setAccessibleName(translate("Inspector", "Tool %1").replace("%1", name))
            box.clicked.connect(lambda checked, name=name: self._choose(name, checked))
            self._column.addWidget(box)

    def _choose(self, name: str, checked: bool) -> None:
        def changed(agent: AgentSpec) -> AgentSpec:
            others = tuple(one for one in agent.tools if one != name)
            return replace(agent, tools=(*others, name) if checked else others)

        self.target.change(translate("Inspector", "Change tools of %1"), changed)
