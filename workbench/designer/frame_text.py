"""The field in which title and comment of a frame are typed, over the frame itself."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from workbench.designer.frame_edits import TITLE_HEIGHT, change_frame, frames_of
from workbench.theme import theme

if TYPE_CHECKING:
    from workbench.designer.editor import FlowEditor

_LEAST_WIDTH = 160


class FrameText(QLineEdit):
    """Shown by `open`; Enter and leaving the field take what was typed, Esc does not."""

    def __init__(self, editor: "FlowEditor", parent: QWidget) -> None:
        super().__init__(parent)
        self._editor = editor
        self._index, self._part = -1, "title"
        self.setAccessibleName(self.tr("Title of the frame"))
        self.returnPressed.connect(self._take)
        self.installEventFilter(self)
        editor.view.view_changed.connect(self.hide)
        self.hide()

    def open(self, index: int, part: str) -> None:
        """Edit `title` or `comment` of a frame."""
        frame = next((one for one in frames_of(self._editor.document.spec) if one.index == index), None)
        item = self._editor.scene.frames.item(index)
        if frame is None or item is None:
            return
        titled = part == "title"
        self._editor.view.reveal(item.title_rect() if titled else item.rect())
        self._index, self._part = index, part
        self.setAccessibleName(self.tr("Title of the frame") if titled else self.tr("Comment of the frame"))
        self.setPlaceholderText(self.accessibleName())
        rect = item.title_rect()
        if not titled:
            rect.moveBottom(item.rect().bottom())
        box = self._editor.view.mapFromScene(rect).boundingRect()
        height = max(theme.px(TITLE_HEIGHT), self.sizeHint().height())
        self.setGeometry(box.left(), box.top(), max(theme.px(_LEAST_WIDTH), box.width()), height)
        self.setText(frame.title if titled else frame.comment)
        self.selectAll()
        self.show()
        self.raise_()
        self.setFocus()

    def _take(self) -> None:
        if not self.isVisible():
            return
        self.hide()
        text = self.tr("Name frame") if self._part == "title" else self.tr("Comment frame")
        self._editor.edit(text, change_frame(self._editor.document.spec, self._index, **{self._part: self.text()}))
        self._editor.view.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Esc leaves all as it was; leaving the field takes what was typed."""
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress and event.key() == Qt.Key.Key_Escape:
            self.hide()
            self._editor.view.setFocus()
            return True
        if event.type() is QEvent.Type.FocusOut:
            self._take()
        return super().eventFilter(watched, event)
