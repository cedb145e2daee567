"""Work that can wait until what was just opened is on the screen."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer


def after_paint(context: QObject, work: Callable[[], object]) -> None:
    """Do something as soon as all that is shown now has been laid out and painted, unless `context` goes before.

    The first turn of the loop lays out and opens views on what they show, and asks for painting; the second follows it.
    """
    QTimer.singleShot(0, context, lambda: QTimer.singleShot(0, context, work))
