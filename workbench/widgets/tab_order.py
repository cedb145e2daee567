"""The order in which Tab walks through widgets."""

from collections.abc import Iterable
from itertools import pairwise

from PySide6.QtWidgets import QWidget


def walk(widgets: Iterable[QWidget]) -> None:
    """Let Tab go through these widgets in this order, whatever the order they were made in."""
    for before, after in pairwise(widgets):
        QWidget.setTabOrder(before, after)
