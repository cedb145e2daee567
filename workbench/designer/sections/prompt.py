"""The prompts of an agent: written, counted, and shown with values put in."""

from collections.abc import Callable, Sequence

from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from engine import Engine, ModelProfile
from engine.flow.flow_spec import AgentSpec
from workbench.designer.fields import Choice, ChoiceField, Field, LineField, Problems, TextField, bound
from workbench.designer.form_section import FormSection, Keys, translate
from workbench.designer.prompt_foot import PromptFoot
from workbench.designer.prompt_problems import PromptProblems
from workbench.designer.prompt_view import PromptView, Sources
from workbench.designer.targets import AgentTarget
from workbench.designer.typed_values import names, names_text
from workbench.theme import theme
from workbench.widgets.template_edit import TemplateEdit


class PromptSection(FormSection):
    """System prompt and template, and what becomes of them."""

    target: AgentTarget

    def __init__(
        self,
        target: AgentTarget,
        engine: Engine,
        profile: Callable[[AgentSpec], ModelProfile | None],
        sources: Sources,
        parent: QWidget,
    ) -> None:
        super().__init__("prompt", translate("Inspector", "Prompt"), target, parent)
        self._written = QWidget(self)
        column = QVBoxLayout(self._written)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(theme.px(6))
        system = translate("Inspector", "System prompt")
        self.system_prompt = TextField(
            bound(target, "system_prompt", translate("Inspector", "Edit system prompt of %1")),
            system,
            translate("Inspector", "Who the model is, and how it is to work"),
            self._written,
            editor=TemplateEdit(system, self._written, least_lines=2),
        )
        self.template = TextField(
            bound(target, "template", translate("Inspector", "Edit prompt of %1")),
            translate("Inspector", "Template"),
            translate("Inspector", "{{key}} puts values in, [[key]] makes a branch of each; Ctrl+Space completes"),
            self._written,
            editor=TemplateEdit(translate("Inspector", "Prompt"), self._written, least_lines=4),
        )
        self.foot = PromptFoot(engine, lambda: target.agent, profile, self._written)
        self.problems = PromptProblems(target, self._written)
        self.add(self.system_prompt, to=column)
        self.add(self.template, to=column)
        foot = QHBoxLayout()
        foot.addWidget(self.foot, 1)
        foot.addWidget(self.problems)
        column.addLayout(foot)
        self._add_more(column)
        self.view = PromptView(lambda: target.agent, sources, self)
        self.body.addWidget(self._written)
        self.body.addWidget(self.view)
        self._add_switch()
        self._turn(False)

    def _add_more(self, column: QVBoxLayout) -> None:
        self.syntax = ChoiceField(
            bound(self.target, "syntax", translate("Inspector", "Change syntax of %1")),
            translate("Inspector", "Syntax"),
            translate("Inspector", "How its texts are written"),
            self._written,
            choices=lambda: [
                Choice(value=None, text=translate("Inspector", "Keys in braces")),
                Choice(value="jinja", text=translate("Inspector", "Jinja2 templates")),
            ],
            name=translate("Inspector", "Syntax of the prompts"),
        )
        self.images = LineField(
            bound(self.target, "images", translate("Inspector", "Change images of %1")),
            translate("Inspector", "Images"),
            translate("Inspector", "Keys of the images that go along, with commas between"),
            self._written,
            name=translate("Inspector", "Keys of images"),
            parse=names,
            show=names_text,
        )
        self.add(self.syntax, to=column)
        self.add(self.images, to=column)

    def _add_switch(self) -> None:
        self.switch: list[QToolButton] = []
        group = QButtonGroup(self)
        for text, help_line in (
            (translate("Inspector", "Edit"), translate("Inspector", "Write the prompt")),
            (translate("Inspector", "Preview"), translate("Inspector", "Show the prompt with values put in")),
        ):
            button = QToolButton(self)
            button.setText(text)
            button.setCheckable(True)
            button.setToolTip(help_line)
            button.setAccessibleName(help_line)
            group.addButton(button)
            self._head_row.addWidget(button)
            self.switch.append(button)
        self.switch[0].setChecked(True)
        self.switch[1].toggled.connect(self._turn)
        theme.changed.connect(self._restyle_switch)
        self._restyle_switch()

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """An agent with prompts of its own."""
        if len(agents) != 1:
            return False
        agent = agents[0]
        return agent.type is not None or agent.grader is not None or bool(agent.template or agent.system_prompt)

    def stops(self) -> list[QWidget]:
        """Head, switch, and the side that is shown."""
        more = [stop for field in (self.syntax, self.images) for stop in field.stops()]
        texts = [self.system_prompt.edit, self.template.edit]
        return [self.head, *self.switch, *texts, *self.problems.stops(), *more, *self.view.stops()]

    def refresh(self) -> None:
        """Show the prompts as they are now, and count them."""
        super().refresh()
        agent = self.target.agent
        is_grader = agent is not None and agent.grader is not None
        hint = translate("Inspector", "Empty: the one built into the grader") if is_grader else ""
        for field in (self.system_prompt, self.template):
            field.edit.setPlaceholderText(hint)
        pictures = any(given.type == "image" for given in self.target.editor.document.spec.inputs)
        self.images.setVisible(agent is not None and (pictures or bool(agent.images) or self.images.is_refused))
        self.foot.count_soon()
        if self.switch[1].isChecked():
            self.view.start()

    def show_problems(self, problems: Problems) -> None:
        """Say at each text what is wrong with it, and offer to mend it."""
        super().show_problems(problems)
        self.problems.show_problems(problems)

    def show_keys(self, keys: Keys) -> None:
        """Underline other keys, complete these."""
        super().show_keys(keys)
        for field in (self.system_prompt, self.template):
            field.edit.show_known_keys(keys.known)
            field.edit.complete_keys(keys.before)

    def write(self) -> None:
        """Show the side that is written."""
        self.switch[0].setChecked(True)

    def all_fields(self) -> list[Field]:
        """Its fields."""
        return self.fields

    def _turn(self, previewed: bool) -> None:
        self._written.setVisible(not previewed)
        self.view.setVisible(previewed)
        if previewed:
            self.view.start()

    def _restyle_switch(self) -> None:
        for button in self.switch:
            button.setFont(theme.font(12))
