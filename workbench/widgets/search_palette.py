"""A floating list with a search field at a place: two-line rows, chosen by typing, arrows and Enter, or by a click."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent, QPainter, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from workbench.theme import theme
from workbench.widgets.fuzzy_match import match

_CHOICE = Qt.ItemDataRole.UserRole + 1
_WIDTH, _ROW, _MOST_ROWS = 320, 40, 11
_LONGEST = 200
"""Rows shown at most: more are found by typing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One row."""

    text: str
    run: Callable[[], object]
    detail: str = ""
    icon: str = ""


class _Rows(QStyledItemDelegate):
    """Icon, name in bold, one line about it."""

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Rows are 40 px."""
        return QSize(0, theme.px(_ROW))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw one row."""
        choice: Choice = index.data(_CHOICE)
        rect: QRect = option.rect.adjusted(theme.px(6), 0, -theme.px(6), 0)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("bg.selected"))
            painter.drawRoundedRect(rect, 4, 4)
        if choice.icon:
            picture = theme.pixmap(choice.icon, 16, "text2", painter.device().devicePixelRatio())
            painter.drawPixmap(rect.left() + theme.px(12), rect.center().y() - theme.px(8) + 1, picture)
        words = rect.adjusted(theme.px(38), theme.px(3), -theme.px(10), -theme.px(3))
        upper = QRect(words.left(), words.top(), words.width(), words.height() // 2)
        lower = upper.translated(0, upper.height())
        if not choice.detail:
            upper = words
        self._line(painter, upper, choice.text, "text", 13, 600)
        self._line(painter, lower, choice.detail, "text2", 11, 400)
        painter.restore()

    @staticmethod
    def _line(painter: QPainter, rect: QRect, text: str, color: str, size: float, weight: int) -> None:
        painter.setFont(theme.font(size, weight))
        painter.setPen(theme.color(color))
        shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, shown)


class SearchPalette(QFrame):
    """The palette; `open_at` shows it over its window."""

    closed = Signal()
    """It went away, with or without a choice."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("search_palette")
        self._choices: Sequence[Choice] = ()
        self.field = QLineEdit(self)
        self._icon = self.field.addAction(theme.icon("search", 14), QLineEdit.ActionPosition.LeadingPosition)
        self._list = QListView(self)
        self._list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._list.setAccessibleName(self.tr("Results"))
        self._list.setItemDelegate(_Rows(self))
        self._model = QStandardItemModel(self)
        self._list.setModel(self._model)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, theme.px(8), 1, theme.px(6))
        column.setSpacing(theme.px(6))
        column.addWidget(self.field)
        column.addWidget(self._list)
        self.field.textChanged.connect(self._search)
        self.field.installEventFilter(self)
        self._list.clicked.connect(self._choose)

    @property
    def rows(self) -> list[str]:
        """The texts on show, from the top."""
        return [self._model.item(row).text() for row in range(self._model.rowCount())]

    def open_at(self, place: QPoint, title: str, choices: Sequence[Choice]) -> None:
        """Show choices with the upper left corner at a place of the screen, or as near as the screen allows."""
        self._choices = choices
        self.setAccessibleName(title)
        self.field.setAccessibleName(title)
        self.field.setPlaceholderText(title)
        self._style()
        self.field.clear()
        self._search("")
        rows = min(_MOST_ROWS, max(2, len(choices)))
        width, height = theme.px(_WIDTH), theme.px(_ROW) * rows + self.field.sizeHint().height() + theme.px(24)
        room = self.screen().availableGeometry()
        height = min(height, room.height())
        self.setGeometry(
            max(room.left(), min(place.x(), room.right() - width)),
            max(room.top(), min(place.y(), room.bottom() - height)),
            width,
            height,
        )
        self.show()
        self.field.setFocus()

    def _style(self) -> None:
        self.setStyleSheet(
            f"#search_palette {{ background: {theme.hex('bg.overlay')}; border: 1px solid {theme.hex('line.strong')};"
            f" border-radius: 10px; }} #search_palette QLineEdit {{ border: none; background: transparent; }}"
            f" #search_palette QListView {{ background: transparent; }}"
        )
        self.field.setFont(theme.font(13))
        self._icon.setIcon(theme.icon("search", 14))

    def _search(self, query: str) -> None:
        self._model.clear()
        found = []
        for order, choice in enumerate(self._choices):
            by_text, by_detail = match(query.strip(), choice.text), match(query.strip(), choice.detail)
            if by_text is not None:
                found.append((by_text[0], -order, choice))
            elif by_detail is not None and by_detail[0] >= 500:  # letters here and there in a sentence say nothing
                found.append((by_detail[0] - 1000, -order, choice))
        found.sort(key=lambda row: row[:2], reverse=True)
        for _, _, choice in found[:_LONGEST]:
            row = QStandardItem(choice.text)
            row.setData(choice, _CHOICE)
            row.setAccessibleText(", ".join(filter(None, (choice.text, choice.detail))))
            row.setToolTip(choice.detail)
            row.setEditable(False)
            self._model.appendRow(row)
        self._list.setCurrentIndex(self._model.index(0, 0))

    def _step(self, by: int) -> None:
        rows = self._model.rowCount()
        if rows:
            self._list.setCurrentIndex(self._model.index((self._list.currentIndex().row() + by) % rows, 0))

    def _choose(self, index: QModelIndex) -> None:
        choice: Choice | None = index.data(_CHOICE)
        if choice is not None:
            self.hide()
            choice.run()

    def hideEvent(self, event: QHideEvent) -> None:
        """Tell that it closed."""
        super().hideEvent(event)
        self.closed.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrow keys move the choice while the field keeps the focus."""
        if watched is self.field and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
            if event.key() in steps:
                self._step(steps[Qt.Key(event.key())])
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._choose(self._list.currentIndex())
                return True
        return super().eventFilter(watched, event)
