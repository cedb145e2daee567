"""The inspector: the form of the selected agent, or of the flow when nothing is selected; every edit is undoable."""

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QLabel, QScrollArea, QStackedWidget, QWidget

from engine import Engine, Problem
from workbench.designer.agent_form import AgentForm
from workbench.designer.editor import FlowEditor
from workbench.designer.flow_form import FlowForm
from workbench.theme import theme

MOST_WIDTH = 400
"""Pixels that the inspector asks of the window at most, whatever its fields need."""


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
        self._scrolls: list[tuple[QScrollArea, QWidget]] = []
        for form in (self.flow_form, self.agent_form):
            scroll = QScrollArea(self)
            scroll.setWidgetResizable(True)
            scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            scroll.setWidget(form)
            self.addWidget(scroll)
            self._scrolls.append((scroll, form))
            form.installEventFilter(self)
        self.addWidget(self._several)
        self.flow_form.fields.values_changed.connect(lambda: self.inputs_changed.emit(self.flow_form.fields.texts()))
        editor.selection_changed.connect(self._show)
        editor.document.spec_changed.connect(lambda _before, _after: self._show(editor.selected()))
        theme.changed.connect(self._fit)
        self._fit()
        self._show(editor.selected())

    def _fit(self) -> None:
        """Be as wide as the fields need, so that nothing scrolls sideways unless text is very large."""
        for scroll, form in self._scrolls:
            form.ensurePolished()
            needed = form.minimumSizeHint().width() + scroll.verticalScrollBar().sizeHint().width()
            scroll.setMinimumWidth(min(needed, MOST_WIDTH))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow fields that came, went or changed."""
        done = super().eventFilter(watched, event)
        if event.type() is QEvent.Type.LayoutRequest:
            QTimer.singleShot(0, self, self._fit)
        return done

    def edit_prompt(self) -> None:
        """Put the cursor into the selected agent's prompt."""
        if self.currentIndex() == 1:
            self.agent_form.template.setFocus()
            self._scrolls[1][0].ensureWidgetVisible(self.agent_form.template)

    def invalid_fields(self) -> list[Problem]:
        """The texts of all agents that were typed and could not be taken, as errors with agent and place."""
        return self.agent_form.faults()

    def finish_editing(self) -> bool:
        """Take what is being typed; False, with the cursor in the first field that refuses its text, if one does."""
        self.agent_form.finish_editing()
        faults = self.invalid_fields()
        if faults:
            self._editor.select([faults[0].agent])
            self.agent_form.focus_fault()
        return not faults

    def _show(self, names: tuple[str, ...]) -> None:
        if len(names) == 1:
            self.agent_form.show_agent(names[0])
            self.setCurrentIndex(1)
        elif names:
            text = self.tr("%1 agents selected.\nSelect one to edit it.").replace("%1", str(len(names)))
            self._several.setText(text)
            self.setCurrentIndex(2)
        else:
            self.flow_form.refresh()
            self.setCurrentIndex(0)
