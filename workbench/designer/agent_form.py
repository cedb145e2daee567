"""The inspector's form for one agent."""

import asyncio
from collections.abc import Mapping
from decimal import Decimal

from PySide6.QtCore import QCoreApplication, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtWidgets import QComboBox, QFormLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from engine import Category, Engine, EngineError, ModelProfile, Problem
from engine.flow.flow_keys import known_keys
from engine.flow.flow_spec import AgentSpec, AgentType, HandlerSpec, ModelSpec
from engine.profile import PREDEFINED_CATEGORIES
from engine.statistics import CostProvenance
from workbench.designer.card_content import icon_name
from workbench.designer.checked_line import CheckedLine
from workbench.designer.editor import FlowEditor
from workbench.designer.edits import change_agent, rename_agent
from workbench.designer.form_head import Head
from workbench.text_format import cost_text, tokens_text
from workbench.theme import theme
from workbench.widgets.section import Section
from workbench.widgets.tab_order import walk
from workbench.widgets.template_edit import TemplateEdit

translate = QCoreApplication.translate


def type_texts() -> Mapping[AgentType | None, tuple[str, str]]:
    """Agent type → its name, one line about it; None is a grader."""
    return {
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
        None: (translate("AgentForm", "Grader"), translate("AgentForm", "Judges an answer")),
    }


class AgentForm(QWidget):
    """One agent: name, model, conversation, prompts, and what becomes of its answer.

    A text that cannot be taken stays in its field, also while other agents are shown, until it is corrected or Esc.
    """

    faults_changed = Signal()
    """`faults` has others now."""

    def __init__(self, editor: FlowEditor, engine: Engine, parent: QWidget) -> None:
        super().__init__(parent)
        self._editor = editor
        self._engine = engine
        self._name = ""
        self._head = Head(self)
        self._refused: dict[tuple[str, str], str] = {}
        """(agent, field) → text that was typed and could not be taken."""
        self.name = CheckedLine(self.tr("Name of the agent"), self)
        self.model = QComboBox(self)
        self.model.setAccessibleName(self.tr("Model"))
        self.model.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.model.activated.connect(self._choose_model)
        self.temperature = self._override_field(self.tr("Temperature"))
        self.max_tokens = self._override_field(self.tr("Limit of the answer in tokens"))
        self.type = QComboBox(self)
        self.type.setAccessibleName(self.tr("Conversation"))
        self.type.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._type_texts = type_texts()
        for kind in AgentType:
            title, line = self._type_texts[kind]
            self.type.addItem(title, kind)
            self.type.setItemData(self.type.count() - 1, line, Qt.ItemDataRole.ToolTipRole)
        self.type.activated.connect(self._choose_type)
        self.system_prompt = TemplateEdit(self.tr("System prompt"), self, least_lines=2)
        self.system_prompt.edited.connect(
            lambda text: self._edit_text("system_prompt", self.tr("Edit system prompt of %1"), text)
        )
        self.template = TemplateEdit(self.tr("Prompt"), self, least_lines=4)
        self.template.edited.connect(lambda text: self._edit_text("template", self.tr("Edit prompt of %1"), text))
        self._hints: dict[str, QLabel] = {}
        self._foot = QLabel(self)
        self._foot.setProperty("role", "muted")
        self._response = QLabel(self)
        self._routes = QLabel(self)
        for label in (self._response, self._routes):
            label.setWordWrap(True)
            label.setProperty("role", "secondary")
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._lines = {"name": self.name, "temperature": self.temperature, "maxTokens": self.max_tokens}
        for key, field in self._lines.items():
            field.editingFinished.connect(lambda key=key: self._take(key))
            field.taken_back.connect(lambda key=key: self._accept(key))
        self._build()
        self._count_timer = QTimer(self)
        self._count_timer.setSingleShot(True)
        self._count_timer.setInterval(250)
        self._count_timer.timeout.connect(self._start_count)
        self._count_task: asyncio.Task[None] | None = None
        theme.changed.connect(self._restyle)
        self._restyle()

    def _override_field(self, name: str) -> CheckedLine:
        field = CheckedLine(name, self)
        field.setToolTip(self.tr("%1. Empty: as the profile says.").replace("%1", name))
        return field

    def _build(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._head)
        name = QVBoxLayout()
        name.setContentsMargins(theme.px(12), 0, theme.px(12), theme.px(4))
        name.setSpacing(0)
        name.addWidget(self.name)
        name.addWidget(self.name.note)
        layout.addLayout(name)
        model = Section(self.tr("Model"), self)
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(self.tr("Model"), self.model)
        for label, key, field in (
            (self.tr("Temperature"), "temperature", self.temperature),
            (self.tr("Max tokens"), "maxTokens", self.max_tokens),
        ):
            row = QHBoxLayout()
            field.setMaximumWidth(theme.px(72))
            hint = QLabel(self)
            hint.setProperty("role", "muted")
            self._hints[key] = hint
            row.addWidget(field)
            row.addWidget(hint, 1)
            form.addRow(label, row)
            form.addRow(field.note)
        model.body.addLayout(form)
        conversation = Section(self.tr("Conversation"), self)
        conversation.body.addWidget(self.type)
        prompt = Section(self.tr("Prompt"), self)
        captions = ((self.tr("System prompt"), self.system_prompt), (self.tr("Template"), self.template))
        for title, edit in captions:
            caption = QLabel(title, self)
            caption.setProperty("role", "secondary")
            caption.setBuddy(edit)
            prompt.body.addWidget(caption)
            prompt.body.addWidget(edit)
        prompt.body.addWidget(self._foot)
        response = Section(self.tr("Response"), self)
        response.body.addWidget(self._response)
        routes = Section(self.tr("Routes"), self)
        routes.body.addWidget(self._routes)
        for section in (model, conversation, prompt, response, routes):
            layout.addWidget(section)
        layout.addStretch(1)
        walk(
            (
                *(self.name, model.head, self.model, self.temperature, self.max_tokens, conversation.head, self.type),
                *(prompt.head, self.system_prompt, self.template, response.head, routes.head),
            )
        )

    # -- showing ----------------------------------------------------------------------------------------------------

    def show_agent(self, name: str) -> None:
        """Show an agent as it is now."""
        spec = self._editor.document.spec
        agent = spec.agent(name)
        if agent is None:
            return
        same, self._name = name == self._name, name
        profile = self._profile(agent)
        _, line = self._type_texts[agent.type]
        category = (agent.model.category if agent.model else None) or (profile.category if profile else "")
        if agent.model is None:
            category = "M"
        self._head.show_head(agent.name, line, icon_name(agent), category)
        for key, field in self._lines.items():
            if not (same and field.hasFocus() and field.isModified()):
                self._show_line(key)
        self._show_models(agent)
        self._show_hints(profile)
        with QSignalBlocker(self.type):
            self.type.setEnabled(agent.type is not None)
            self.type.setCurrentIndex(self.type.findData(agent.type))
        keys = known_keys(spec)
        for edit, text in ((self.system_prompt, agent.system_prompt), (self.template, agent.template)):
            edit.load(text)
            edit.show_known_keys(None if keys.open else keys.names)
        self._response.setText(response_text(agent))
        self._routes.setText(routes_text(agent))
        self._count_timer.start()

    def _profile(self, agent: AgentSpec) -> ModelProfile | None:
        model = agent.model or ModelSpec(category="M")
        try:
            if model.profile:
                return self._engine.resolve(model.profile)
            return self._engine.resolve(Category.named(model.category or "M"))
        except EngineError:
            return None

    def _show_models(self, agent: AgentSpec) -> None:
        """Categories with what they are mapped to, then profiles."""
        mapping = self._engine.profiles.categories()
        model = agent.model or ModelSpec(category="M")
        with QSignalBlocker(self.model):
            self.model.clear()
            labels = [*PREDEFINED_CATEGORIES, *(label for label in mapping if label not in PREDEFINED_CATEGORIES)]
            for label in labels:
                target = mapping.get(label) or self.tr("not mapped")
                self.model.addItem(f"{label}  →  {target}", ("category", label))
            self.model.insertSeparator(self.model.count())
            for name in self._engine.profiles.names():
                self.model.addItem(theme.icon("profile", 14, checked=None), name, ("profile", name))
            wanted = ("profile", model.profile) if model.profile else ("category", model.category or "M")
            position = next((i for i in range(self.model.count()) if self.model.itemData(i) == wanted), -1)
            if position < 0:
                self.model.addItem(self.tr("%1 (missing)").replace("%1", wanted[1]), wanted)
                position = self.model.count() - 1
            self.model.setCurrentIndex(position)
            self.model.setEnabled(model.inline is None)

    def _show_line(self, key: str) -> None:
        value, typed = self._value_text(key), self._refused.get((self._name, key))
        fault = "" if typed is None else self._fault(self._name, key, typed)
        if typed is not None and fault:
            self._lines[key].refuse(typed, fault, value)
        else:
            self._lines[key].show_value(value)

    def _value_text(self, key: str) -> str:
        """What a line shows of the agent as it is."""
        agent = self._agent()
        if key == "name" or agent is None:
            return self._name
        value = agent.model.overrides.get(key) if agent.model else None
        return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

    def _show_hints(self, profile: ModelProfile | None) -> None:
        of_profile = {
            "temperature": f"{profile.temperature:g}" if profile else "?",
            "maxTokens": f"{profile.max_tokens:,}" if profile else "?",
        }
        for key, text in of_profile.items():
            self._hints[key].setText(self.tr("profile: %1").replace("%1", text))

    # -- editing ----------------------------------------------------------------------------------------------------

    def _agent(self) -> AgentSpec | None:
        return self._editor.document.spec.agent(self._name)

    def _edit_text(self, field: str, step: str, text: str) -> None:
        spec = change_agent(self._editor.document.spec, self._name, **{field: text})
        self._editor.edit(step.replace("%1", self._name), spec, f"{self._name}:{field}")

    def finish_editing(self) -> None:
        """Take or refuse what was typed and not yet left."""
        for key, line in self._lines.items():
            if line.isModified():
                self._take(key)

    def faults(self) -> list[Problem]:
        """The texts of all agents that were refused, as errors with agent and place."""
        spec = self._editor.document.spec
        places = {agent.name: index for index, agent in enumerate(spec.agents)}
        found = []
        for (name, key), typed in self._refused.items():
            fault = self._fault(name, key, typed) if name in places else ""
            if fault:
                path = f"$.agents[{places[name]}].{'name' if key == 'name' else f'model.overrides.{key}'}"
                found.append(Problem(severity="error", message=f"{name}: {fault}", path=path, agent=name))
        return found

    def focus_fault(self) -> None:
        """Put the cursor into the first field of this agent whose text was refused."""
        for line in self._lines.values():
            if line.fault:
                line.setFocus()
                line.selectAll()
                return

    def _fault(self, agent: str, key: str, typed: str) -> str:
        """Why a typed text cannot be taken; empty when it can."""
        text = typed.strip()
        if key != "name":
            try:
                override_value(key, text)
            except ValueError as error:
                return str(error)
            return ""
        if not text:
            return self.tr("An agent needs a name. The name is still “%1”.").replace("%1", agent)
        if text != agent and self._editor.document.spec.agent(text) is not None:
            fault = self.tr("There is another agent named “%1”. The name is still “%2”.")
            return fault.replace("%2", agent).replace("%1", text)
        return ""

    def _take(self, key: str) -> None:
        """Take the text of a line into the flow, or refuse it."""
        line = self._lines[key]
        if self._agent() is None:
            return
        typed = line.text()
        fault = self._fault(self._name, key, typed)
        if fault:
            line.refuse(typed, fault, self._value_text(key))
            if self._refused.get((self._name, key)) != typed:
                self._refused[self._name, key] = typed
                self.faults_changed.emit()
            return
        line.show_value(typed.strip())
        self._accept(key)
        if key == "name":
            self._rename(typed.strip())
        else:
            self._change_override(key, override_value(key, typed.strip()))

    def _accept(self, key: str) -> None:
        if self._refused.pop((self._name, key), None) is not None:
            self.faults_changed.emit()

    def _rename(self, new: str) -> None:
        if new == self._name:
            return
        spec = rename_agent(self._editor.document.spec, self._name, new)
        old, self._name = self._name, new
        for key in self._lines:
            if (typed := self._refused.pop((old, key), None)) is not None:
                self._refused[new, key] = typed
        self._editor.edit(self.tr("Rename %1 to %2").replace("%2", new).replace("%1", old), spec)
        self._editor.select([new])

    def _choose_model(self, index: int) -> None:
        agent = self._agent()
        chosen = self.model.itemData(index)
        if agent is None or chosen is None:
            return
        kind, name = chosen
        overrides = agent.model.overrides if agent.model else {}
        model = ModelSpec(
            category=name if kind == "category" else None,
            profile=name if kind == "profile" else None,
            overrides=overrides,
            extra=agent.model.extra if agent.model else {},
        )
        spec = change_agent(self._editor.document.spec, self._name, model=model)
        self._editor.edit(self.tr("Change model of %1").replace("%1", self._name), spec)

    def _change_override(self, key: str, value: int | float | None) -> None:
        agent = self._agent()
        if agent is None:
            return
        model = agent.model or ModelSpec(category="M")
        overrides = {name: old for name, old in model.overrides.items() if name != key}
        if value is not None:
            # The place of a key in the file stays where it was.
            overrides = {**model.overrides, key: value}
        if overrides != model.overrides:
            changed = ModelSpec(
                category=model.category,
                profile=model.profile,
                inline=model.inline,
                overrides=overrides,
                extra=model.extra,
            )
            spec = change_agent(self._editor.document.spec, self._name, model=changed)
            self._editor.edit(self.tr("Change %1 of %2").replace("%1", key).replace("%2", self._name), spec)

    def _choose_type(self, index: int) -> None:
        kind = self.type.itemData(index)
        spec = change_agent(self._editor.document.spec, self._name, type=AgentType(kind))
        self._editor.edit(self.tr("Change conversation of %1").replace("%1", self._name), spec)

    # -- tokens and price -------------------------------------------------------------------------------------------

    def _start_count(self) -> None:
        agent = self._agent()
        if agent is None:
            return
        if self._count_task is not None:
            self._count_task.cancel()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._count_task = loop.create_task(self._count(agent))

    async def _count(self, agent: AgentSpec) -> None:
        profile = self._profile(agent)
        if profile is None:
            self._foot.setText(self.tr("No profile answers for this model."))
            return
        counted = await self._engine.count_tokens(profile, f"{agent.system_prompt}{agent.template}")
        if agent is not self._agent():
            return
        price = profile.prices.input
        tokens = tokens_text(counted.tokens, counted.approximate)
        text = self.tr("%1 tok before values").replace("%1", tokens)
        if price is not None:
            provenance = CostProvenance.ESTIMATED if price else CostProvenance.FREE
            text += f"   {cost_text(Decimal(counted.tokens) * price, provenance)}"
        self._foot.setText(text)

    def _restyle(self) -> None:
        self._foot.setFont(theme.font(11))
        for hint in self._hints.values():
            hint.setFont(theme.font(12))


def override_value(key: str, text: str) -> int | float | None:
    """A typed override, None for an empty text; raises ValueError with what is expected."""
    if not text:
        return None
    if key == "maxTokens":
        if not text.isdecimal() or len(text) > 9 or int(text) < 1:
            fault = translate("AgentForm", "Max tokens: found “%1”, expected a whole number from 1 to 999999999.")
            raise ValueError(fault.replace("%1", text[:20]))
        return int(text)
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:
        fault = translate("AgentForm", "Temperature: found “%1”, expected a number from 0 to 2.")
        raise ValueError(fault.replace("%1", text[:20]))
    return int(value) if value == int(value) else value


def response_text(agent: AgentSpec) -> str:
    """What becomes of the answer, in words."""
    handler = agent.handler or HandlerSpec()
    key = handler.key or "response"
    if handler.type == "text":
        return translate("AgentForm", "Text, into the key %1.").replace("%1", key)
    if handler.type == "accumulate":
        return translate("AgentForm", "Appended, into the key %1.").replace("%1", key)
    if handler.type == "json":
        text = translate("AgentForm", "JSON, into keys of their own names")
        if handler.prefix:
            prefixed = translate("AgentForm", "JSON, into keys of their own names with the prefix %1")
            text = prefixed.replace("%1", handler.prefix)
        schema = handler.schema.get("properties") if handler.schema else None
        return f"{text}: {', '.join(schema)}." if isinstance(schema, dict) and schema else f"{text}."
    return handler.type


def routes_text(agent: AgentSpec) -> str:
    """Where contexts go, one line per route."""
    if not agent.routes:
        return translate("AgentForm", "Ends the flow.")
    lines = []
    for number, route in enumerate(agent.routes, 1):
        plain = translate("AgentForm", "otherwise") if number > 1 else translate("AgentForm", "always")
        target = route.to or translate("AgentForm", "ends the flow")
        lines.append(f"{number}  {route.when or plain}  →  {target}")
    return "\n".join(lines)
