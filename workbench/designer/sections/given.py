"""What graders, sub-flows and patterns are, what they are given, and what comes back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from PySide6.QtWidgets import QPushButton, QWidget

from engine.flow.flow_spec import AgentSpec
from engine.flow.graders import GRADERS
from workbench.designer.fields import Binding, Choice, ChoiceField, Field, LineField, TextField, TickField, bound
from workbench.designer.form_section import FormSection, translate
from workbench.designer.key_renamer import KeyRenamer
from workbench.designer.pairs import PairsPart
from workbench.designer.targets import AgentTarget

PATTERNS = ("react", "plan_execute", "summary")


class GraderSection(FormSection):
    """Kind of grader, what it judges, where it sends what is not good enough."""

    target: AgentTarget

    def __init__(self, target: AgentTarget, parent: QWidget) -> None:
        super().__init__("grader", translate("Inspector", "Grader"), target, parent)
        step = translate("Inspector", "Change grader %1")
        self.kind = ChoiceField(
            bound(target, "grader", step),
            translate("Inspector", "Kind"),
            translate("Inspector", "Whether it gives points or only a verdict"),
            self,
            choices=_graders,
            name=translate("Inspector", "Kind of grader"),
            unknown=translate("Inspector", "%1 (missing)"),
        )
        self.question = TextField(
            _given(target, "question", step, ""),
            translate("Inspector", "Question"),
            translate("Inspector", "What was asked; empty: the key qaQuestion"),
            self,
            parse=lambda text: text or None,
        )
        self.answer = TextField(
            _given(target, "answer", step, ""),
            translate("Inspector", "Answer to judge"),
            translate("Inspector", "What is judged; empty: the key qaAnswer"),
            self,
            parse=lambda text: text or None,
        )
        self.descriptions = TickField(
            _given(target, "descriptions", step, True),
            translate("Inspector", "Let it give its reasons"),
            translate("Inspector", "The reasons are the feedback; without them a verdict costs less"),
            self,
        )
        self.back = ChoiceField(
            _given(target, "feedback_to", step, None),
            translate("Inspector", "Feedback to"),
            translate("Inspector", "Who writes again after a first attempt that failed; it has to lead back here"),
            self,
            choices=self._agents,
            unknown=translate("Inspector", "%1 (missing)"),
        )
        for field in (self.kind, self.question, self.answer, self.descriptions, self.back):
            self.add(field)
        self._threshold = self.say("")

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """A grader."""
        return len(agents) == 1 and agents[0].grader is not None

    def refresh(self) -> None:
        """Show the grader as it is now."""
        super().refresh()
        agent = self.target.agent
        text = ""
        if agent is not None and agent.grader == "AnswerGrader2":
            text = translate(
                "Inspector",
                "It passes from 61 of 100 points on. Another bar is a route: qaRating | int >= 80.",
            )
        self._threshold.setText(text)
        self._threshold.setVisible(bool(text))

    def _agents(self) -> Sequence[Choice]:
        names = [one.name for one in self.target.editor.document.spec.agents if one.name not in self.target.names]
        none = Choice(value=None, text=translate("Inspector", "Nobody"))
        return [none, *(Choice(value=name, text=name) for name in names)]


def _graders() -> Sequence[Choice]:
    words = {
        "AnswerGrader2": translate("Inspector", "0 to 100"),
        "AnswerGraderBinary": translate("Inspector", "Yes or no"),
    }
    return [Choice(value=name, text=words.get(name, name), help_line=name) for name in GRADERS]


def _given(target: AgentTarget, key: str, step: str, default: object) -> Binding:
    """A binding to an entry of `with`; the default is not written."""

    def written(agent: AgentSpec, value: object) -> AgentSpec:
        values = {name: old for name, old in agent.with_.items() if name != key}
        if value not in (None, default):
            values = {**agent.with_, key: value}
        return replace(agent, with_=values)

    return Binding(
        target=target,
        path=f".with.{key}",
        read=lambda agent: agent.with_.get(key, default),
        write=written,
        step=step,
    )


class NodeSection(FormSection):
    """A flow that runs as one node, or a pattern: its file or kind, what it is given and gives back."""

    target: AgentTarget

    def __init__(
        self,
        target: AgentTarget,
        inputs_of: Callable[[str], Sequence[str]],
        opened: Callable[[str], None],
        renamer: KeyRenamer,
        parent: QWidget,
    ) -> None:
        """`inputs_of` names what a flow takes; `opened` shows a flow."""
        super().__init__("given", translate("Inspector", "What it is given"), target, parent)
        self._inputs_of, self._renamer = inputs_of, renamer
        self.flow = LineField(
            bound(target, "flow", translate("Inspector", "Change flow of %1")),
            translate("Inspector", "Flow"),
            translate("Inspector", "A file beside this flow, `chapter.flow.json`, or the name of a sample"),
            self,
            name=translate("Inspector", "File of the flow"),
            parse=_reference,
        )
        self.pattern = ChoiceField(
            bound(target, "pattern", translate("Inspector", "Change pattern of %1")),
            translate("Inspector", "Pattern"),
            translate("Inspector", "How it works by itself"),
            self,
            choices=lambda: [Choice(value=name, text=name) for name in PATTERNS],
            name=translate("Inspector", "Kind of pattern"),
        )
        self.add(self.flow)
        self.add(self.pattern)
        self.open = QPushButton(translate("Inspector", "Open flow"), self)
        self.open.setAccessibleName(self.open.text())
        self.open.setToolTip(translate("Inspector", "Show the flow in a tab of its own"))
        self.open.clicked.connect(lambda: opened(self._reference()))
        self.body.addWidget(self.open)
        self.given = self._pairs("with", "with_", translate("Inspector", "It is given"), wanted="input")
        self.outputs = self._pairs("outputs", "outputs", translate("Inspector", "It gives back"), wanted="output")
        self.plus = self.add_button("plus", translate("Inspector", "Give it another input"))
        self.plus.clicked.connect(self._add_given)
        self.back_plus = QPushButton(translate("Inspector", "Take another output"), self)
        self.back_plus.setAccessibleName(self.back_plus.text())
        self.back_plus.clicked.connect(self.outputs.add_pair)
        self.body.addWidget(self.back_plus)

    def _pairs(self, name: str, field: str, title: str, *, wanted: str) -> PairsPart:
        head = self.say(title)
        part = PairsPart(
            *(self, self.target, name),
            read=lambda agent: getattr(agent, field),
            write=lambda agent, values: replace(agent, **{field: values}),
            title=title,
            step=translate("Inspector", "Change what %1 is given"),
            value_help=_HELP[name](),
            values_are_text=name == "outputs",
            wanted=wanted,
            rename=self._renamer.made_once if name == "outputs" else None,
        )
        head.setBuddy(part.list)
        self.body.addWidget(part.list)
        return part

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """A sub-flow or a pattern."""
        return len(agents) == 1 and (agents[0].flow is not None or agents[0].pattern is not None)

    def all_fields(self) -> list[Field]:
        """Its fields and those of the rows."""
        return [*self.fields, *self.given.fields(), *self.outputs.fields()]

    def stops(self) -> list[QWidget]:
        """From top to bottom."""
        own = [stop for field in self.fields for stop in field.stops()]
        return [self.head, self.plus, *own, self.open, *self.given.stops(), *self.outputs.stops(), self.back_plus]

    def refresh(self) -> None:
        """Show the node as it is now."""
        self.given.refresh()
        self.outputs.refresh()
        super().refresh()
        agent = self.target.agent
        is_flow = agent is not None and agent.flow is not None
        for part in (self.flow, self.open, self.back_plus, self.outputs.list):
            part.setVisible(is_flow)
        self.outputs.list.setVisible(is_flow and bool(self.outputs.entries()))
        self.pattern.setVisible(agent is not None and agent.pattern is not None)

    def _reference(self) -> str:
        agent = self.target.agent
        return (agent.flow if agent else None) or ""

    def _add_given(self) -> None:
        """Another entry: an input that is not given yet, if the flow has one."""
        agent = self.target.agent
        given: Mapping[str, Any] = agent.with_ if agent else {}
        missing = [key for key in self._inputs_of(self._reference()) if key not in given]
        if missing:
            self.given.add_named(missing[0])
        else:
            self.given.add_pair()


_HELP: Mapping[str, Callable[[], str]] = {
    "with": lambda: translate("Inspector", "A text with {{keys}}, or JSON; [[key]] runs the flow for each value"),
    "outputs": lambda: translate("Inspector", "A key of the flow inside, or an expression"),
}


def _reference(text: str) -> str:
    if not text:
        raise ValueError(translate("Inspector", "A node needs the file of a flow or the name of a sample."))
    return text
