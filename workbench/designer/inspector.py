"""The inspector: the form of the selected agent, or of the flow when nothing is selected; every edit is undoable."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QScrollArea, QStackedWidget, QWidget

from engine import Engine
from workbench.designer.agent_form import AgentForm
from workbench.designer.editor import FlowEditor
from workbench.designer.flow_form import FlowForm


class Inspector(QStackedWidget):
    """Shows the form that fits the selection."""

    inputs_changed = Signal(dict)
    """The input texts of the flow form, by key."""

    def __init__(self, editor: FlowEditor, engine: Engine, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._editor = editor
        self.flow_form = FlowForm(editor, self)
        self.agent_form = AgentForm(editor, engine, self)
        self._several = QLabel(self)
        self._several.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._several.setProperty("role", "secondary")
        for form in (self.flow_form, self.agent_form):
            scroll = QScrollArea(self)
            scroll.setWidgetResizable(True)
            scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
            scroll.setWidget(form)
            self.addWidget(scroll)
        self.addWidget(self._several)
        self.flow_form.fields.values_changed.connect(lambda: self.inputs_changed.emit(self.flow_form.fields.texts()))
        editor.selection_changed.connect(self._show)
        editor.document.spec_changed.connect(lambda _before, _after: self._show(editor.selected()))
        self._show(editor.selected())

    def edit_prompt(self) -> None:
        """Put the cursor into the selected agent's prompt."""
        if self.currentIndex() == 1:
            self.agent_form.template.setFocus()

    def _show(self, names: tuple[str, ...]) -> None:
        if len(names) == 1:
            self.agent_form.show_agent(names[0])
            self.setCurrentIndex(1)
        elif names:
            self._several.setText(f"{len(names)} agents selected.\nSelect one to edit it.")
            self.setCurrentIndex(2)
        else:
            self.flow_form.refresh()
            self.setCurrentIndex(0)
