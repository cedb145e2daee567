"""The inspector's form for agents: one, or what several have in common."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine import Engine, Plugins, Problem
from engine.flow.flow_keys import keys_before, known_keys
from engine.flow.flow_spec import AgentSpec, FlowSpec
from engine.flow.plugin_tools import tool_names
from workbench.designer.agent_details import kind_texts
from workbench.designer.card_content import icon_name
from workbench.designer.editor import FlowEditor
from workbench.designer.edits import rename_agent
from workbench.designer.fields import Binding, LineField
from workbench.designer.form_head import Head
from workbench.designer.form_section import FormSection, Keys, translate
from workbench.designer.key_renamer import KeyRenamer
from workbench.designer.prompt_view import Sources
from workbench.designer.sections.conversation import ConversationSection
from workbench.designer.sections.few_shot import FewShotSection
from workbench.designer.sections.given import GraderSection, NodeSection
from workbench.designer.sections.limits import LimitsSection, NotesSection
from workbench.designer.sections.merge import MergeSection
from workbench.designer.sections.model import ModelSection
from workbench.designer.sections.operations import OperationsSection
from workbench.designer.sections.prompt import PromptSection
from workbench.designer.sections.response import ResponseSection
from workbench.designer.sections.routes import RoutesSection
from workbench.designer.sections.tools import ToolsSection
from workbench.designer.targets import AgentTarget, Refusals
from workbench.theme import theme
from workbench.widgets.tab_order import walk

_KEYS_MS = 150
"""After an edit, until the keys of the flow are looked up again."""


class AgentForm(QWidget):
    """Name and sections.

    A text that cannot be taken stays in its field, also while other agents are shown, until it is corrected or Esc.
    """

    def __init__(
        self,
        editor: FlowEditor,
        engine: Engine,
        parent: QWidget,
        *,
        plugins: Callable[[FlowSpec], Plugins],
        sources: Sources,
        inputs_of: Callable[[str], Sequence[str]],
        opened: Callable[[str], None],
    ) -> None:
        """Make the form.

        Args:
            editor: of the flow.
            engine: knows profiles and counts tokens.
            parent: the inspector.
            plugins: those a flow may name.
            sources: values for the preview of prompts.
            inputs_of: names what another flow takes.
            opened: shows another flow.
        """
        super().__init__(parent)
        self._editor = editor
        self.refusals = Refusals(self)
        self.target = AgentTarget(editor, self.refusals, self)
        self._head = Head(self)
        self._stops: list[QWidget] = []
        self._before: AgentSpec | None = None
        """The one agent that was shown last."""
        self._name = LineField(
            Binding(
                target=self.target,
                path=".name",
                read=lambda agent: agent.name,
                write=lambda agent, _name: agent,
                step="",
            ),
            "",
            translate("Inspector", "Every link to the agent follows when it is renamed"),
            self,
            name=translate("Inspector", "Name of the agent"),
            parse=self._checked_name,
            take=self._rename,
        )

        def named(kind: str) -> Callable[[], Sequence[str]]:
            return lambda: plugins(editor.document.spec).names(kind)

        def tools() -> Sequence[tuple[str, str]]:
            found = plugins(editor.document.spec)
            return [(name, _origin(found, name)) for name in tool_names(found)]

        target, renamer = self.target, KeyRenamer(self.target)
        self._model = ModelSection(target, engine, self)
        self._conversation = ConversationSection(target, self)
        self.prompt = PromptSection(target, engine, self._model.profile, sources, self)
        self.response = ResponseSection(target, named("handlers"), renamer, self)
        self.routes = RoutesSection(target, self)
        self.operations = OperationsSection(target, named("functions"), renamer, self)
        self.merge = MergeSection(target, named("merges"), renamer, self)
        self.tools = ToolsSection(target, tools, self)
        self.few_shot = FewShotSection(target, self)
        self.limits = LimitsSection(target, self)
        self.node = NodeSection(target, inputs_of, opened, renamer, self)
        self.grader = GraderSection(target, self)
        self.notes = NotesSection(target, self)
        self.sections: tuple[FormSection, ...] = (
            *(self.node, self.grader, self._model, self._conversation, self.prompt, self.response, self.routes),
            *(self.few_shot, self.operations, self.merge, self.tools, self.limits, self.notes),
        )
        self._build()
        self._keys_timer = QTimer(self)
        self._keys_timer.setSingleShot(True)
        self._keys_timer.setInterval(_KEYS_MS)
        self._keys_timer.timeout.connect(self._show_keys)
        editor.document.problems_changed.connect(self._show_problems)

    def _build(self) -> None:
        self.name = self._name.line
        self.model, self.type = self._model.model.box, self._conversation.type.box
        self.temperature, self.max_tokens = self._model.temperature.line, self._model.max_tokens.line
        self.system_prompt, self.template = self.prompt.system_prompt.edit, self.prompt.template.edit
        self.skip_cache = self.limits.skip_cache.box
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._head)
        name = QVBoxLayout()
        name.setContentsMargins(theme.px(12), 0, theme.px(12), theme.px(4))
        name.addWidget(self._name)
        layout.addLayout(name)
        for section in self.sections:
            layout.addWidget(section)
        layout.addStretch(1)

    # -- showing ----------------------------------------------------------------------------------------------------

    def show_agents(self, names: Sequence[str]) -> None:
        """Show agents as they are now."""
        same = tuple(names) == self.target.names
        self.target.show(names)
        agents = self.target.items()
        if not agents:
            return
        if same and self._only_prompts_changed(agents):
            self.prompt.refresh()
            self._keys_timer.start()
            return
        several = len(agents) > 1
        self._show_head(agents)
        self._name.setVisible(not several)
        self._name.refresh()
        for section in self.sections:
            fits = section.fits(agents) and (section.several or not several)
            section.setVisible(fits)
            if fits:
                section.refresh()
        if same:
            self._keys_timer.start()
        else:
            self._show_keys()
            self._show_problems()
        stops = [self.name, *(stop for section in self._shown() for stop in section.stops())]
        if stops != self._stops:
            self._stops = stops
            walk(stops)

    def _only_prompts_changed(self, agents: Sequence[AgentSpec]) -> bool:
        """Whether somebody is typing a prompt: then nothing else is shown anew."""
        before, self._before = self._before, agents[0] if len(agents) == 1 else None
        if before is None or self._before is None or self.prompt.isHidden():
            return False
        texts = {"template": self._before.template, "system_prompt": self._before.system_prompt}
        return before is not self._before and replace(before, **texts) == self._before

    def _shown(self) -> list[FormSection]:
        return [section for section in self.sections if not section.isHidden()]

    def _show_head(self, agents: Sequence[AgentSpec]) -> None:
        if len(agents) > 1:
            title = translate("Inspector", "%1 agents").replace("%1", str(len(agents)))
            names = ", ".join(agent.name for agent in agents[:6]) + (", …" if len(agents) > 6 else "")
            self._head.show_head(
                title, translate("Inspector", "What is changed here changes in all: %1").replace("%1", names), "flow"
            )
            return
        agent = agents[0]
        self._head.show_head(agent.name, kind_texts(agent)[1], icon_name(agent), self._model.category(agent))

    def _show_keys(self) -> None:
        spec, agent = self._editor.document.spec, self.target.agent
        if agent is None:
            return
        known = known_keys(spec)
        keys = Keys(
            known=None if known.open else known.names,
            before=tuple(keys_before(spec, agent.name)),
            passed=agent.grader is not None,
        )
        for section in self._shown():
            section.show_keys(keys)

    def _show_problems(self) -> None:
        found: dict[str, list[Problem]] = {}
        for problem in self._editor.document.problems:
            found.setdefault(problem.path, []).append(problem)
        for section in self._shown():
            section.show_problems(found)

    # -- editing ----------------------------------------------------------------------------------------------------

    def finish_editing(self) -> None:
        """Take or refuse what was typed and not yet left."""
        self._name.finish()
        for section in self.sections:
            for field in section.all_fields():
                field.finish()

    def faults(self) -> list[Problem]:
        """The texts of all agents that were refused, as errors with agent and place."""
        return self.refusals.problems(self._editor.document.spec)

    def focus_fault(self) -> None:
        """Put the cursor into the first field whose text was refused."""
        for section in (None, *self._shown()):
            for field in [self._name] if section is None else section.all_fields():
                if field.is_refused:
                    if section is not None:
                        section.set_open(True)
                    field.stops()[0].setFocus()
                    return

    def _checked_name(self, text: str) -> str:
        agent = self.target.names[0] if self.target.names else ""
        if not text:
            fault = translate("AgentForm", "An agent needs a name. The name is still “%1”.")
            raise ValueError(fault.replace("%1", agent))
        if text != agent and self._editor.document.spec.agent(text) is not None:
            fault = translate("AgentForm", "There is another agent named “%1”. The name is still “%2”.")
            raise ValueError(fault.replace("%2", agent).replace("%1", text))
        return text

    def _rename(self, new: str) -> None:
        old = self.target.names[0]
        spec = rename_agent(self._editor.document.spec, old, new)
        self.refusals.rename(old, new)
        self.target.show([new])
        step = translate("Inspector", "Rename %1 to %2").replace("%2", new).replace("%1", old)
        self._editor.edit(step, spec)
        self._editor.select([new])


def _origin(plugins: Plugins, name: str) -> str:
    plugin = plugins.find("tools", name)
    if plugin is None:
        return translate("Inspector", "Comes with the workbench")
    return translate("Inspector", "From %1").replace("%1", plugin.origin)
