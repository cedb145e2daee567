"""Levels of detail of the canvas."""

from enum import Enum


class Level(Enum):
    """How much of a card is drawn."""

    FULL = "full"
    TITLES = "titles"
    BOXES = "boxes"

    @staticmethod
    def of(scale: float) -> "Level":
        """The level for a scale of the view."""
        return Level.FULL if scale >= 0.5 else Level.TITLES if scale >= 0.35 else Level.BOXES
