"""What a view that fills a document tab is."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget


class Page(QWidget):
    """A view that fills a document tab. It is made when its tab opens and reads nothing before it is first shown."""

    changed = Signal()
    """It has other unsaved changes."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)

    @property
    def is_modified(self) -> bool:
        """Whether it has unsaved changes."""
        return False

    async def save(self) -> bool:
        """Save all its changes; whether that was possible. It tells why not by itself."""
        return True

    def discard(self) -> None:
        """Forget its unsaved changes for good."""

    async def close_page(self) -> None:
        """End what it has under way; its tab goes. Unsaved changes stay where the next start finds them."""
