"""What a further tab of the run panel must be able to do."""

from typing import Protocol, runtime_checkable

from engine.events import AnyEvent


@runtime_checkable
class RunPage(Protocol):
    """A further tab that follows the run by itself."""

    def apply(self, event: AnyEvent) -> None:
        """Take the next event."""

    def clear(self) -> None:
        """Forget the run."""


@runtime_checkable
class TextPage(Protocol):
    """A tab whose content can be copied."""

    @property
    def text(self) -> str:
        """All of it."""
        ...
