"""Rows of a designed height with a bar at the left edge of the chosen one."""

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QRect, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from workbench.theme import theme


def paint_selection(painter: QPainter, rect: QRect, *, focused: bool) -> None:
    """Fill a chosen row, or a cell of it; the focused row has a bar at the left edge of the view."""
    painter.fillRect(rect, theme.color("bg.selected" if focused else "bg.selected.idle"))
    if focused and rect.left() <= 0:
        _paint_bar(painter, rect)


def _paint_bar(painter: QPainter, rect: QRect) -> None:
    painter.fillRect(0, rect.top(), theme.px(2), rect.height(), theme.color("accent"))


class RowDelegate(QStyledItemDelegate):
    """Gives rows of trees (24 px) and tables (28 px) their height at the present zoom."""

    def __init__(self, height: float, parent: QObject) -> None:
        super().__init__(parent)
        self._height = height

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """The hint of the content in a row of the designed height."""
        return QSize(super().sizeHint(option, index).width(), theme.px(self._height))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """The focused row has a bar at its left edge instead of a dotted frame."""
        option.state &= ~QStyle.StateFlag.State_HasFocus
        super().paint(painter, option, index)
        if option.state & QStyle.StateFlag.State_Selected and option.state & QStyle.StateFlag.State_Active:
            _paint_bar(painter, option.rect)
