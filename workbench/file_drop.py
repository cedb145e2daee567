"""Files dropped on the window are opened, wherever on it they fall."""

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QWidget


class FileDrop(QObject):
    """Takes what a file manager drops on a window; views in it that take something else are asked first."""

    dropped = Signal(list)
    """Paths of local files."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Offer to take files, and hand them on."""
        if isinstance(event, QDragEnterEvent | QDragMoveEvent | QDropEvent):  # a leave event carries nothing
            files = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
            if files:
                event.acceptProposedAction()
                if event.type() == QEvent.Type.Drop:
                    self.dropped.emit(files)
                return True
        return super().eventFilter(watched, event)
