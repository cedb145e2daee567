"""The run panel: tree of what ran on the left, its streams, prompts, trace and statistics on the right."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from engine.events import AnyEvent
from workbench.run_panel.run_model import RunModel


@runtime_checkable
class RunPage(Protocol):
    """A further tab that follows the run by itself."""

    def apply(self, event: AnyEvent) -> None:
        """Take the next event."""

    def clear(self) -> None:
        """Forget the run."""


class RunPanel(QWidget):
    """Shows one run, live or recorded, from its events only."""

    run_requested = Signal()
    retry_requested = Signal()
    profile_requested = Signal(str)
    """Name of the profile to edit."""
    agent_selected = Signal(str)
    """The person chose a row of this agent."""
    title_changed = Signal(str)
    """What runs and since when, for the dock's title bar."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = RunModel(self)

    def start(self, title: str) -> None:
        """Get ready for a new run of the flow `title`."""
        self.model.clear()
        self.title_changed.emit(title)

    def apply(self, event: AnyEvent) -> None:
        """Take the next event of the run."""
        self.model.apply(event)

    def finish(self) -> None:
        """The run is over, whatever its last event was."""
        self.model.finish()

    def show_run(self, title: str, events: Iterable[AnyEvent]) -> None:
        """Show a recorded run."""
        self.start(title)
        for event in events:
            self.apply(event)
        self.finish()
