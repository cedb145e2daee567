"""The inspector's form for the flow itself."""

from collections.abc import Mapping

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QLabel, QLineEdit, QVBoxLayout, QWidget

from engine.flow.flow_spec import FlowSpec
from workbench.designer.editor import FlowEditor
from workbench.designer.edits import change_flow
from workbench.designer.form_head import Head
from workbench.widgets.input_fields import InputFields
from workbench.widgets.section import Section
from workbench.widgets.tab_order import walk
from workbench.widgets.template_edit import TemplateEdit

translate = QCoreApplication.translate


class FlowForm(QWidget):
    """The flow itself: name, description, inputs."""

    def __init__(self, editor: FlowEditor, parent: QWidget) -> None:
        super().__init__(parent)
        self._editor = editor
        self._head = Head(self)
        self._about = about = Section(self.tr("Flow"), self)
        self.name = QLineEdit(self)
        self.name.setAccessibleName(self.tr("Name of the flow"))
        self.name.textEdited.connect(self._rename)
        self.description = TemplateEdit(self.tr("Description of the flow"), self, least_lines=2, most_lines=6)
        self.description.edited.connect(self._describe)
        about.body.addWidget(self.name)
        about.body.addWidget(self.description)
        self._inputs = Section(self.tr("Inputs"), self)
        self.fields = InputFields(self)
        self._inputs.body.addWidget(self.fields)
        self._limits = Section(self.tr("Limits"), self)
        self._limits_text = QLabel(self)
        self._limits_text.setProperty("role", "secondary")
        self._limits_text.setWordWrap(True)
        self._limits.body.addWidget(self._limits_text)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for widget in (self._head, self._inputs, about, self._limits):
            layout.addWidget(widget)
        layout.addStretch(1)
        self.values: dict[str, str] = {}
        """Input texts, by key; keys that were never typed are missing."""
        self.fields.values_changed.connect(self._take_values)

    def refresh(self) -> None:
        """Show the flow as it is now."""
        spec = self._editor.document.spec
        count = len(spec.agents)
        agents = self.tr("1 agent") if count == 1 else self.tr("%1 agents").replace("%1", str(count))
        self._head.show_head(spec.name or self.tr("Untitled"), agents, "flow")
        if self.name.text() != spec.name:
            self.name.setText(spec.name)
        self.description.load(spec.description)
        self.fields.show_inputs(spec.inputs, self.values)
        walk(
            (
                *(self._inputs.head, *self.fields.widgets()),
                *(self._about.head, self.name, self.description, self._limits.head),
            )
        )
        self._inputs.set_note(str(len(spec.inputs)) if spec.inputs else self.tr("none"))
        self._limits_text.setText(limits_text(spec))

    def show_values(self, values: Mapping[str, str]) -> None:
        """Fill the input fields with texts typed before."""
        self.values = dict(values)
        self.fields.show_inputs(self._editor.document.spec.inputs, self.values)

    def texts(self) -> dict[str, str]:
        """The input texts as they are now."""
        self.fields.show_inputs(self._editor.document.spec.inputs, self.values)
        return self.fields.texts()

    def _take_values(self) -> None:
        self.values = self.fields.texts()

    def _rename(self, name: str) -> None:
        self._editor.edit(self.tr("Rename flow"), change_flow(self._editor.document.spec, name=name), "flow:name")

    def _describe(self, text: str) -> None:
        spec = change_flow(self._editor.document.spec, description=text)
        self._editor.edit(self.tr("Edit description"), spec, "flow:description")


def limits_text(spec: FlowSpec) -> str:
    """A flow's limits in words."""
    limits = spec.limits
    if limits is None:
        return translate("FlowForm", "200 steps and 100 tool calls a run.")
    parts = [translate("FlowForm", "%1 steps").replace("%1", str(limits.max_steps or 200))]
    if limits.max_seconds is not None:
        parts.append(translate("FlowForm", "%1 seconds").replace("%1", f"{limits.max_seconds:g}"))
    if limits.max_cost is not None:
        parts.append(f"${limits.max_cost:g}")
    return translate("FlowForm", "%1 a run.").replace("%1", ", ".join(parts))
