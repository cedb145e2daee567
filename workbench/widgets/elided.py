"""Labels and buttons whose text is cut with an ellipsis where there is no room, so that none holds a window open."""

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import (
    QComboBox,
    QLabel,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QStyleOptionComboBox,
    QStyleOptionToolButton,
    QStylePainter,
    QToolButton,
    QToolTip,
    QWidget,
)

_COMBO_PADDING = 4
"""Pixels that a style leaves beside icon and text of a choice."""
_SMALLEST = 30
"""Pixels of text that stay in any case, at any text zoom."""


class ElidedLabel(QLabel):
    """One line of plain text; as wide as its text where there is room."""

    def minimumSizeHint(self) -> QSize:
        """A few letters wide."""
        whole = super().minimumSizeHint()
        return QSize(min(whole.width(), _SMALLEST), whole.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what fits."""
        if self.fontMetrics().horizontalAdvance(self.text()) <= self.contentsRect().width():
            super().paintEvent(event)
            return
        area = self.contentsRect()
        painter = QPainter(self)
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, area.width())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(area, self.alignment() | Qt.TextFlag.TextSingleLine, text)


class ElidedComboBox(QComboBox):
    """A choice whose long text loses its middle; the tip has it whole."""

    def event(self, event: QEvent) -> bool:
        """Give the whole text where a part of it is shown, else the tip."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            whole = self.currentText()
            QToolTip.showText(event.globalPos(), self.toolTip() if self.shown_text() == whole else whole, self)
            return True
        return super().event(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the form around it: scrolling must not choose."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def shown_text(self) -> str:
        """What there is room for."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        parts = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(parts[0], option, parts[1], self).width() - _COMBO_PADDING
        if not option.currentIcon.isNull():
            room -= self.iconSize().width() + _COMBO_PADDING
        return self.fontMetrics().elidedText(option.currentText, Qt.TextElideMode.ElideMiddle, room)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what fits."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        option.currentText = self.shown_text()
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)


class ElidedToolButton(QToolButton):
    """A tool button with icon and text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def minimumSizeHint(self) -> QSize:
        """The icon and a few letters wide."""
        whole = super().minimumSizeHint()
        return QSize(min(whole.width(), self.iconSize().width() + _SMALLEST), whole.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what fits."""
        if self.width() >= self.sizeHint().width():
            super().paintEvent(event)
            return
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        room = self.width() - (self.sizeHint().width() - self.fontMetrics().horizontalAdvance(self.text()))
        option.text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, max(0, room))
        QStylePainter(self).drawComplexControl(QStyle.ComplexControl.CC_ToolButton, option)


class ElidedPushButton(QPushButton):
    """A push button with icon and text."""

    def minimumSizeHint(self) -> QSize:
        """The icon and a few letters wide."""
        whole = super().minimumSizeHint()
        return QSize(min(whole.width(), self.iconSize().width() + 2 * _SMALLEST), whole.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what fits."""
        if self.width() >= self.sizeHint().width():
            super().paintEvent(event)
            return
        option = QStyleOptionButton()
        self.initStyleOption(option)
        room = self.width() - (self.sizeHint().width() - self.fontMetrics().horizontalAdvance(self.text()))
        option.text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, max(0, room))
        QStylePainter(self).drawControl(QStyle.ControlElement.CE_PushButton, option)
