"""Labels and buttons whose text is cut with an ellipsis where there is no room, so that none holds a window open."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QLabel,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QStyleOptionToolButton,
    QStylePainter,
    QToolButton,
    QWidget,
)

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
