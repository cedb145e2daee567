"""One flow's editor: the canvas, what floats over it, and the undo stack."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QWidget

from engine.flow.flow_spec import FlowSpec
from workbench.designer.commands import EditFlow
from workbench.designer.flow_document import FlowDocument


class FlowEditor(QWidget):
    """Shows a flow on a canvas and lets a person select, move and, through the inspector, change its agents."""

    selection_changed = Signal(tuple)
    """Names of the selected agents, in flow order."""
    run_requested = Signal()
    """The first-start card's Run was pressed."""

    def __init__(self, document: FlowDocument, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.document = document
        self.undo_stack = QUndoStack(self)
        self._selected: tuple[str, ...] = ()

    def edit(self, text: str, spec: FlowSpec, merge_key: str | None = None) -> None:
        """Make an undoable edit; edits in a row with the same merge key are one step."""
        if spec != self.document.spec:
            self.undo_stack.push(EditFlow(self.document, text, spec, merge_key))

    def selected(self) -> tuple[str, ...]:
        """Names of the selected agents, in flow order."""
        return self._selected

    def select(self, names: Sequence[str]) -> None:
        """Select exactly these agents; unknown names are passed over."""
        wanted = set(names)
        selected = tuple(agent.name for agent in self.document.spec.agents if agent.name in wanted)
        if selected != self._selected:
            self._selected = selected
            self.selection_changed.emit(selected)
