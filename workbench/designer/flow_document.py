"""The flow under edit: its value, its file, and whether the two differ."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.errors import Problem
from engine.flow.flow_spec import FlowSpec


class FlowDocument(QObject):
    """Holds an immutable FlowSpec that only commands replace."""

    spec_changed = Signal(object, object)
    """The flow before and after an edit."""
    path_changed = Signal()
    """The file it is saved to became another."""
    modified_changed = Signal(bool)
    """Whether it differs from its file."""
    problems_changed = Signal()
    """The list of faults became another."""

    def __init__(self, spec: FlowSpec, path: Path | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._spec = spec
        self._saved: FlowSpec | None = spec
        self._path = path
        self._problems: tuple[Problem, ...] = ()
        self._was_modified = False

    @property
    def spec(self) -> FlowSpec:
        """The flow as it is now."""
        return self._spec

    @property
    def path(self) -> Path | None:
        """The file, None before the first save."""
        return self._path

    @property
    def title(self) -> str:
        """What a tab shows."""
        return self._spec.name or (self._path.name.removesuffix(".flow.json") if self._path else "Untitled")

    @property
    def is_modified(self) -> bool:
        """Whether there is something to save."""
        return self._spec is not self._saved and self._spec != self._saved

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Faults of the flow as it is now."""
        return self._problems

    def set_problems(self, problems: Sequence[Problem]) -> None:
        """Keep what validation found."""
        if tuple(problems) != self._problems:
            self._problems = tuple(problems)
            self.problems_changed.emit()

    def replace(self, spec: FlowSpec) -> None:
        """Set the flow; only commands call this."""
        if spec is self._spec:
            return
        before, self._spec = self._spec, spec
        self.spec_changed.emit(before, spec)
        self._tell_modified()

    def _tell_modified(self) -> None:
        if self.is_modified != self._was_modified:
            self._was_modified = self.is_modified
            self.modified_changed.emit(self._was_modified)
