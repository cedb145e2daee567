"""The inspector: the form of the selected agents, or of the flow when nothing is selected; every edit is undoable."""

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QScrollArea, QStackedWidget, QWidget

from engine import Engine, EngineError, Plugins, Problem, inputs_context
from engine.events import AgentFinished, AnyEvent
from engine.flow.flow_spec import FlowSpec
from engine.flow.subflow_files import FlowFiles
from workbench.designer.agent_form import AgentForm
from workbench.designer.editor import FlowEditor
from workbench.designer.flow_form import FlowForm
from workbench.designer.form_section import FormSection
from workbench.theme import theme

MOST_WIDTH = 400
"""Pixels that the inspector asks of the window at most, whatever its fields need."""
_LOOSE_MS = 60


class Inspector(QStackedWidget):
    """Shows the form that fits the selection."""

    inputs_changed = Signal(dict)
    """The input texts of the flow form, by key."""
    flow_requested = Signal(str)
    """Another flow shall be shown: its file or the name of a sample, as the flow names it."""
    folded = Signal(dict)
    """A person opened or closed a section: key → whether it is open, of all that were."""

    def __init__(
        self,
        editor: FlowEditor,
        engine: Engine,
        parent: QWidget | None = None,
        *,
        plugins: Callable[[FlowSpec], Plugins] = lambda _spec: Plugins(),
    ) -> None:
        """`plugins` are those a flow may name."""
        super().__init__(parent)
        self._editor = editor
        self._arrived: dict[str, Mapping[str, object]] = {}
        """Agent → what it had in the last run, before its work."""
        self._open: dict[str, bool] = {}
        self._fit_timer = QTimer(self)
        self._fit_timer.setSingleShot(True)
        self._fit_timer.timeout.connect(self._fit)
        self.agent_form = AgentForm(
            *(editor, engine, self),
            plugins=plugins,
            sources=self._sources,
            inputs_of=self._inputs_of,
            opened=self.flow_requested.emit,
        )
        self.flow_form = FlowForm(editor, self.agent_form.refusals, self)
        self._scrolls: list[tuple[QScrollArea, QWidget]] = []
        for form in (self.flow_form, self.agent_form):
            scroll = QScrollArea(self)
            scroll.setWidgetResizable(True)
            scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            scroll.setWidget(form)
            self.addWidget(scroll)
            self._scrolls.append((scroll, form))
            form.installEventFilter(self)
        for section in self._sections():
            section.head.clicked.connect(lambda _checked, section=section: self._remember(section))
        self.flow_form.fields.values_changed.connect(lambda: self.inputs_changed.emit(self.flow_form.fields.texts()))
        editor.selection_changed.connect(self._show)
        editor.document.spec_changed.connect(lambda _before, _after: self._show(editor.selected()))
        theme.changed.connect(self._loosen)
        self._fit()
        self._show(editor.selected())

    def _fit(self) -> None:
        """Be as wide as the fields need, so that nothing scrolls sideways unless text is very large."""
        for scroll, form in self._scrolls:
            form.ensurePolished()
            needed = form.minimumSizeHint().width() + scroll.verticalScrollBar().sizeHint().width()
            scroll.setMinimumWidth(min(needed, MOST_WIDTH))

    def _loosen(self) -> None:
        """Ask for no width until all fields have their new sizes: the window gives its docks theirs meanwhile."""
        for scroll, _ in self._scrolls:
            scroll.setMinimumWidth(0)
        self._fit_timer.start(_LOOSE_MS)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow fields that came, went or changed."""
        done = super().eventFilter(watched, event)
        if event.type() is QEvent.Type.LayoutRequest and not self._fit_timer.isActive():
            self._fit_timer.start(0)
        return done

    # -- what the window does with it -------------------------------------------------------------------------------

    def edit_prompt(self) -> None:
        """Put the cursor into the selected agent's prompt."""
        if self.currentIndex() == 1:
            self.agent_form.prompt.write()
            self.agent_form.prompt.set_open(True)
            self.agent_form.template.setFocus()
            self._scrolls[1][0].ensureWidgetVisible(self.agent_form.template)

    def edit_name(self) -> None:
        """Put the cursor into the selected agent's name, all of it chosen."""
        if self.currentIndex() == 1:
            self.agent_form.name.setFocus()
            self.agent_form.name.selectAll()
            self._scrolls[1][0].ensureWidgetVisible(self.agent_form.name)

    def invalid_fields(self) -> list[Problem]:
        """All texts that were typed and could not be taken, as errors with agent and place."""
        return self.agent_form.faults()

    def finish_editing(self) -> bool:
        """Take what is being typed; False, with the cursor in the first field that refuses its text, if one does."""
        self.agent_form.finish_editing()
        self.flow_form.finish_editing()
        faults = self.invalid_fields()
        if faults and faults[0].agent:
            self._editor.select([faults[0].agent])
            self.agent_form.focus_fault()
        elif faults:
            self._editor.select_none()
            self.flow_form.focus_fault()
        return not faults

    def show_events(self, events: Sequence[AnyEvent], *, afresh: bool = False) -> None:
        """Know what agents had in a run; `afresh`: another run than before."""
        if afresh:
            self._arrived.clear()
        for event in events:
            if isinstance(event, AgentFinished) and event.to:
                self._arrived[event.to] = event.values

    def set_open(self, sections: Mapping[str, bool]) -> None:
        """Open and close sections as somebody left them."""
        self._open = dict(sections)
        for section in self._sections():
            section.set_open(self._open.get(section.key, section.opens))

    # -- inside -----------------------------------------------------------------------------------------------------

    def _sections(self) -> tuple[FormSection, ...]:
        return (*self.agent_form.sections, *self.flow_form.sections)

    def _remember(self, section: FormSection) -> None:
        self._open[section.key] = section.is_open
        self.folded.emit(dict(self._open))

    def _sources(self, agent: str) -> dict[str, Mapping[str, object]]:
        """Values for the preview of an agent's prompt: of the last run, if it came there, and those of the inputs."""
        found: dict[str, Mapping[str, object]] = {}
        if agent in self._arrived:
            found[self.tr("Last run")] = self._arrived[agent]
        try:
            inputs = inputs_context(self._editor.document.spec, self.flow_form.texts())
            found[self.tr("Inputs")] = inputs.values_copy()
        except EngineError:
            found[self.tr("Inputs (not complete)")] = dict(self.flow_form.texts())
        return found

    def _inputs_of(self, reference: str) -> list[str]:
        files = FlowFiles(self._editor.document.origin)
        try:
            return [item.key for item in files.open(reference, files.origin).spec.inputs]
        except EngineError:
            return []

    def _show(self, names: tuple[str, ...]) -> None:
        if names:
            self.agent_form.show_agents(names)
            self.setCurrentIndex(1)
        else:
            self.flow_form.refresh()
            self.setCurrentIndex(0)
