"""A list of rows with fields: put in order by dragging or by Alt+Up and Alt+Down, removed by their button."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QKeySequence, QMouseEvent, QShortcut
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from workbench.theme import theme


class Grip(QToolButton):
    """The number of a row; by it the row is dragged."""

    dragged = Signal(QPoint)
    """The mouse moved with the row in hand, place in the window."""
    dropped = Signal(QPoint)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._pressed: QPoint | None = None
        self._dragging = False
        self.setCursor(Qt.CursorShape.SizeVerCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold."""
        super().mousePressEvent(event)
        if event.button() is Qt.MouseButton.LeftButton:
            self._pressed = event.globalPosition().toPoint()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag, from a few pixels on."""
        place = event.globalPosition().toPoint()
        if self._pressed is None:
            return
        far = (place - self._pressed).manhattanLength() >= QApplication.startDragDistance()
        self._dragging = self._dragging or far
        if self._dragging:
            self.dragged.emit(place)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go."""
        super().mouseReleaseEvent(event)
        if self._dragging:
            self.dropped.emit(event.globalPosition().toPoint())
        self._pressed, self._dragging = None, False


class Row(QFrame):
    """One entry: its grip, what belongs to it, and the button that removes it."""

    def __init__(self, body: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self.body = body
        self.grip = Grip(self)
        self.remove = QToolButton(self)
        body.setParent(self)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(theme.px(4))
        row.addWidget(self.grip, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(body, 1)
        row.addWidget(self.remove, 0, Qt.AlignmentFlag.AlignTop)
        theme.changed.connect(self._restyle)
        self._restyle()

    def name(self, number: int, kind: str) -> None:
        """Give the parts their names, `kind` is what the row is, `Route %1` for instance."""
        text = kind.replace("%1", str(number))
        self.grip.setText(str(number))
        self.grip.setAccessibleName(self.tr("%1: order").replace("%1", text))
        self.grip.setToolTip(self.tr("Drag, or Alt+Up and Alt+Down, to change the order; Del removes"))
        self.remove.setAccessibleName(self.tr("Remove %1").replace("%1", text))
        self.remove.setToolTip(self.remove.accessibleName())

    def _restyle(self) -> None:
        self.grip.setFont(theme.font(11, 600))
        self.grip.setFixedSize(QSize(theme.px(24), theme.px(28)))
        self.remove.setIcon(theme.icon("trash", 14))
        self.remove.setIconSize(QSize(theme.px(14), theme.px(14)))
        self.remove.setFixedSize(QSize(theme.px(24), theme.px(28)))


class RowList(QWidget):
    """Keeps its rows while their number is the same, so that the cursor stays where it is."""

    moved = Signal(int, int)
    """An entry shall go from one place to another."""
    removed = Signal(int)
    """An entry shall go."""

    def __init__(self, name: str, kind: str, make: Callable[[int], QWidget], parent: QWidget) -> None:
        """`kind` names a row by its number, %1; `make` makes what belongs to entry n."""
        super().__init__(parent)
        self.setAccessibleName(name)
        self._kind, self._make = kind, make
        self.rows: list[Row] = []
        self._spare: list[Row] = []
        """Rows that were there, for the next entries."""
        self._line = QFrame(self)
        self._line.setObjectName("drop_line")
        self._line.hide()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(theme.px(6))

    def show_count(self, count: int) -> bool:
        """Have this many rows; True when some came or went."""
        changed = count != len(self.rows)
        while len(self.rows) > count:
            row = self.rows.pop()
            row.hide()
            self._spare.append(row)
        while len(self.rows) < count:
            if self._spare:
                self.rows.append(self._spare.pop())
                self.rows[-1].show()
            else:
                self._add(len(self.rows))
        self.setVisible(count > 0)
        return changed

    def bodies(self) -> Sequence[QWidget]:
        """What belongs to the entries."""
        return [row.body for row in self.rows]

    def _add(self, index: int) -> None:
        row = Row(self._make(index), self)
        row.name(index + 1, self._kind)
        row.remove.clicked.connect(lambda: self._remove(row))
        row.grip.dragged.connect(lambda place: self._mark(self._gap(place)))
        row.grip.dropped.connect(lambda place: self._drop(row, place))
        for keys, step in (("Alt+Up", -1), ("Alt+Down", 1)):
            shortcut = QShortcut(QKeySequence(keys), row)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(lambda step=step: self._step(row, step))
        delete = QShortcut(QKeySequence(Qt.Key.Key_Delete), row.grip)
        delete.setContext(Qt.ShortcutContext.WidgetShortcut)
        delete.activated.connect(lambda: self._remove(row))
        self.rows.append(row)
        self._layout.addWidget(row)
        row.show()

    def _remove(self, row: Row) -> None:
        index = self.rows.index(row)
        self.removed.emit(index)
        if self.rows:
            self.rows[min(index, len(self.rows) - 1)].grip.setFocus()

    def _step(self, row: Row, step: int) -> None:
        index = self.rows.index(row)
        if not 0 <= index + step < len(self.rows):
            return
        focus = QApplication.focusWidget()
        inside = row.findChildren(QWidget)
        place = inside.index(focus) if focus in inside else -1
        self.moved.emit(index, index + step)
        there = self.rows[index + step]
        fellows = there.findChildren(QWidget)
        # The same field of the entry, where it is now.
        same = 0 <= place < len(fellows) and len(fellows) == len(inside) and fellows[place].isVisible()
        (fellows[place] if same else there.grip).setFocus()

    def _gap(self, place: QPoint) -> int:
        """Before which row something at this place of the screen would go."""
        y = self.mapFromGlobal(place).y()
        return sum(1 for row in self.rows if y > row.geometry().center().y())

    def _mark(self, gap: int) -> None:
        last = gap == len(self.rows)
        y = self.rows[-1].geometry().bottom() + 2 if last else self.rows[gap].geometry().top() - theme.px(4)
        self._line.setStyleSheet(f"background: {theme.hex('accent')};")
        self._line.setGeometry(0, max(0, min(y, self.height() - 2)), self.width(), 2)
        self._line.show()
        self._line.raise_()

    def _drop(self, row: Row, place: QPoint) -> None:
        self._line.hide()
        index, gap = self.rows.index(row), self._gap(place)
        end = gap - 1 if gap > index else gap
        if end != index:
            self.moved.emit(index, end)
            self.rows[end].grip.setFocus()
