"""The inspector's form for the flow itself."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from engine import Problem
from engine.flow.flow_spec import FlowSpec, LimitsSpec
from workbench.designer.editor import FlowEditor
from workbench.designer.edits import change_flow
from workbench.designer.fields import Choice, ChoiceField, LineField, TextField, bound
from workbench.designer.form_head import Head
from workbench.designer.form_section import FormSection, translate
from workbench.designer.key_edits import rename_key
from workbench.designer.sections.flow_inputs import DeclaredInputs
from workbench.designer.targets import FlowTarget, PartTarget, Refusals
from workbench.designer.typed_values import names, names_text, number, number_text, whole_number
from workbench.widgets.input_fields import InputFields
from workbench.widgets.section import Section
from workbench.widgets.tab_order import walk


class FlowForm(QWidget):
    """The flow itself: what a run is given, what it is called, its inputs, outputs and limits."""

    def __init__(self, editor: FlowEditor, refusals: Refusals, parent: QWidget) -> None:
        super().__init__(parent)
        self._editor = editor
        self.target = FlowTarget(editor, refusals, self)
        self._head = Head(self)
        self._inputs = Section(self.tr("Inputs"), self)
        self.fields = InputFields(self)
        self._inputs.body.addWidget(self.fields)
        self.about = FormSection("flow", self.tr("Flow"), self.target, self)
        self._fill_about()
        self.declared = DeclaredInputs(self.target, self._rename_key, self)
        self.limits = FormSection("flow_limits", self.tr("Limits"), self.target, self, is_open=False)
        self._fill_limits()
        self.sections = (self.about, self.declared, self.limits)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for widget in (self._head, self._inputs, *self.sections):
            layout.addWidget(widget)
        layout.addStretch(1)
        self.values: dict[str, str] = {}
        """Input texts, by key; keys that were never typed are missing."""
        self.fields.values_changed.connect(self._take_values)
        editor.document.problems_changed.connect(self._show_problems)

    def _fill_about(self) -> None:
        about, target = self.about, self.target
        self.name = QLineEdit(self)
        self.name.setAccessibleName(self.tr("Name of the flow"))
        self.name.setToolTip(self.tr("What tabs and lists call it"))
        self.name.textEdited.connect(self._rename)
        about.body.addWidget(self.name)
        description, notes = self.tr("Description"), self.tr("Notes")
        purpose = self.tr("What it does, for who runs it")
        texts = (
            ("description", description, purpose, self.tr("Edit description"), self.tr("Description of the flow")),
            ("notes", notes, self.tr("For who works on it: no model reads them"), self.tr("Edit notes"), notes),
        )
        edits = []
        for field, label, help_line, step, name in texts:
            text = TextField(bound(target, field, step), label, help_line, about, name=name)
            text.edit.show_known_keys(None)
            about.add(text)
            edits.append(text.edit)
        self.description, self.notes = edits
        self.start = ChoiceField(
            bound(target, "start", self.tr("Change start")),
            self.tr("Starts with"),
            self.tr("The agent a run begins with"),
            about,
            choices=self._agents,
            unknown=self.tr("%1 (missing)"),
        )
        about.add(self.start)
        self.outputs = LineField(
            bound(target, "outputs", self.tr("Change outputs")),
            self.tr("Outputs"),
            self.tr("Keys that are the result of a run, with commas between"),
            about,
            name=self.tr("Outputs of the flow"),
            parse=names,
            show=names_text,
        )
        about.add(self.outputs)

    def _fill_limits(self) -> None:
        part = PartTarget(
            self.target,
            "limits",
            read=lambda spec: spec.limits or LimitsSpec(),
            write=lambda spec, limits: replace(spec, limits=None if limits == LimitsSpec() else limits),
        )
        self.limits.say(self.tr("Of one run; the settings may set narrower ones."))
        rows = (
            ("max_steps", self.tr("Steps"), self.tr("Agents that work one after the other"), whole_number(1), "200"),
            ("max_seconds", self.tr("Seconds"), self.tr("How long a run may take"), number(0, above=True), ""),
            ("max_cost", self.tr("Cost"), self.tr("What a run may cost, in dollars"), number(0), ""),
            ("max_tool_calls", self.tr("Tool calls"), self.tr("Calls of tools in a run"), whole_number(0), "100"),
        )
        self.limit_fields = {}
        for field, label, help_line, parse, hint in rows:
            line = LineField(
                bound(part, field, self.tr("Change limits")),
                *(label, help_line, self.limits),
                name=self.tr("Limit: %1").replace("%1", label),
                parse=parse,
                show=number_text,
                hint=hint,
            )
            self.limits.add(line)
            self.limit_fields[field] = line

    def refresh(self) -> None:
        """Show the flow as it is now."""
        spec = self._editor.document.spec
        count = len(spec.agents)
        agents = self.tr("1 agent") if count == 1 else self.tr("%1 agents").replace("%1", str(count))
        self._head.show_head(spec.name or self.tr("Untitled"), agents, "flow")
        if self.name.text() != spec.name:
            self.name.setText(spec.name)
        self.fields.show_inputs(spec.inputs, self.values)
        for section in self.sections:
            section.refresh()
        about = self.about.stops()
        rest = (*self.declared.stops(), *self.limits.stops())
        walk((self._inputs.head, *self.fields.widgets(), about[0], self.name, *about[1:], *rest))
        self._inputs.set_note(str(len(spec.inputs)) if spec.inputs else self.tr("none"))
        self.limits.set_note(limits_text(spec))

    def finish_editing(self) -> None:
        """Take or refuse what was typed and not yet left."""
        for section in self.sections:
            for field in section.all_fields():
                field.finish()

    def focus_fault(self) -> None:
        """Put the cursor into the first field whose text was refused."""
        for section in self.sections:
            for field in section.all_fields():
                if field.is_refused:
                    section.set_open(True)
                    field.stops()[0].setFocus()
                    return

    def show_values(self, values: Mapping[str, str]) -> None:
        """Fill the input fields with texts typed before."""
        self.values = dict(values)
        self.fields.show_inputs(self._editor.document.spec.inputs, self.values)

    def texts(self) -> dict[str, str]:
        """The input texts as they are now."""
        self.fields.show_inputs(self._editor.document.spec.inputs, self.values)
        return self.fields.texts()

    def _agents(self) -> Sequence[Choice]:
        spec = self._editor.document.spec
        first = self.tr("(the first one)")
        return [Choice(value="", text=first), *(Choice(value=one.name, text=one.name) for one in spec.agents)]

    def _show_problems(self) -> None:
        found: dict[str, list[Problem]] = {}
        for problem in self._editor.document.problems:
            found.setdefault(problem.path, []).append(problem)
        for section in self.sections:
            section.show_problems(found)

    def _take_values(self) -> None:
        self.values = self.fields.texts()

    def _rename(self, name: str) -> None:
        self._editor.edit(self.tr("Rename flow"), change_flow(self._editor.document.spec, name=name), "flow:name")

    def _rename_key(self, old: str, new: str) -> None:
        if old in self.values:
            self.values[new] = self.values.pop(old)
        spec = rename_key(self._editor.document.spec, old, new)
        self._editor.edit(translate("Inspector", "Rename key %1 to %2").replace("%2", new).replace("%1", old), spec)


def limits_text(spec: FlowSpec) -> str:
    """A flow's limits in a few words."""
    limits = spec.limits or LimitsSpec()
    parts = [translate("FlowForm", "%1 steps").replace("%1", str(limits.max_steps or 200))]
    if limits.max_seconds is not None:
        parts.append(translate("FlowForm", "%1 s").replace("%1", f"{limits.max_seconds:g}"))
    if limits.max_cost is not None:
        parts.append(f"${limits.max_cost:g}")
    return ", ".join(parts)
