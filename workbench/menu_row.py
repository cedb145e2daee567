"""The first row of the window: the menus at the left, the palette field in the middle."""

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QMenuBar, QWidget

from workbench.theme import theme

_FIELD_WIDTH, _SMALLEST_FIELD = 334, 100
_SMALLEST_BAR = 160


class MenuRow(QWidget):
    """Keeps the field in the middle as long as the menus leave it there; both give way in a narrow window."""

    def __init__(self, bar: QMenuBar, field: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("menu_row")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._bar, self._field = bar, field
        for part in (bar, field):
            part.setParent(self)

    def sizeHint(self) -> QSize:
        """Both side by side, and the line below."""
        height = max(self._bar.sizeHint().height(), self._field.sizeHint().height())
        return QSize(self._bar.sizeHint().width() + theme.px(_FIELD_WIDTH), height + 1)

    def minimumSizeHint(self) -> QSize:
        """Room for a few menus; Qt offers the others behind a button."""
        return QSize(theme.px(_SMALLEST_BAR + _SMALLEST_FIELD), self.sizeHint().height())

    def event(self, event: QEvent) -> bool:
        """Menus or field have another size."""
        if event.type() is QEvent.Type.LayoutRequest:
            self.updateGeometry()
            self._place()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Place both."""
        self._place()

    def _place(self) -> None:
        gap, height = theme.px(8), self.height() - 1
        bar = min(self._bar.sizeHint().width(), self.width() - theme.px(_SMALLEST_FIELD) - 2 * gap)
        wanted = max(theme.px(_FIELD_WIDTH), self._field.sizeHint().width())
        field = min(wanted, self.width() - bar - 2 * gap)
        left = max((self.width() - field) // 2, bar + gap)
        left = min(left, self.width() - gap - field)
        self._bar.setGeometry(0, 0, bar, height)
        field_height = min(self._field.sizeHint().height(), height)
        self._field.setGeometry(left, (height - field_height) // 2, field, field_height)
