"""The grid of answers: one painted area that holds only what can be seen; inputs stay at the left."""

import time
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTextBlockFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QAbstractScrollArea, QTextEdit, QToolTip, QWidget

from engine.comparison_values import Cell
from workbench.comparison.board import Board, Line, input_text
from workbench.comparison.cell_painter import CellPainter, Part
from workbench.comparison.cell_text import LINE, CellTexts, mark_format, places_of
from workbench.text_format import plain_tip, visible_text
from workbench.theme import theme

INPUT_WIDTH = 210
LEAST_WIDTH = 260
"""Design px of the columns."""
HEAD, ROW = 34, 178
REPAINT = 80
"""Milliseconds from a change to its repaint."""
LONGEST = 200_000
"""Characters of an answer that the selected cell shows."""


@dataclass(frozen=True, slots=True)
class Place:
    """What is at a point."""

    line: int
    profile: str
    """Empty in the column of inputs."""
    part: Part


class AnswerGrid(QAbstractScrollArea):
    """Shows a board; keys walk over the cells, each part of a cell answers to the mouse."""

    selected = Signal(object)
    """Another Cell is selected, None when none is."""
    opened = Signal(object)
    """The run of this Cell is wanted."""
    pressed = Signal(object, object)
    """A Part of this Cell was pressed, by mouse or key."""
    menu_wanted = Signal(object, QPoint)
    """A context menu is wanted for this Cell; where on the screen."""
    column_menu_wanted = Signal(str, QPoint)
    """The same for the column of this profile."""

    def __init__(self, board: Board, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._texts = CellTexts()
        self._painter = CellPainter(board, self._texts)
        self._current = (0, 0)
        self._hovered: Place | None = None
        self.lock_scrolling = True
        """Whether the other answers of a line scroll with the selected one."""
        self._full: tuple[Cell, str] | None = None
        self._text = QTextEdit(self.viewport())
        self._text.setReadOnly(True)
        self._text.setFrameShape(QTextEdit.Shape.NoFrame)
        self._text.setStyleSheet("border: none; border-radius: 0; padding: 0;")
        self._text.setAccessibleName(self.tr("The selected answer"))
        self._text.setTabChangesFocus(True)
        self._text.hide()
        self._text.verticalScrollBar().valueChanged.connect(lambda _value: self.viewport().update())
        self._repaint = QTimer(self)
        self._repaint.setSingleShot(True)
        self._repaint.setInterval(REPAINT)
        self._repaint.timeout.connect(self.refresh)
        self._clock = QTimer(self)
        self._clock.setInterval(250)
        self._clock.timeout.connect(self.viewport().update)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName(self.tr("Answers"))
        board.reset.connect(self._reset)
        board.cell_changed.connect(self._cell_changed)
        theme.changed.connect(self._restyle)
        self._restyle()

    # -- geometry -----------------------------------------------------------------------------------------------------

    @property
    def _column_width(self) -> int:
        count = max(1, len(self._board.job.profiles))
        return max(theme.px(LEAST_WIDTH), (self.viewport().width() - theme.px(INPUT_WIDTH)) // count)

    def cell_rect(self, line: int, column: int) -> QRect:
        """Where a cell is in the viewport."""
        width = self._column_width
        left = theme.px(INPUT_WIDTH) + column * width - self.horizontalScrollBar().value()
        top = theme.px(HEAD) + line * theme.px(ROW) - self.verticalScrollBar().value()
        return QRect(left, top, width, theme.px(ROW))

    def _visible_lines(self) -> range:
        top, height = self.verticalScrollBar().value(), theme.px(ROW)
        first = top // height
        last = (top + self.viewport().height() - theme.px(HEAD)) // height + 1
        return range(max(0, first), min(len(self._board.lines), last))

    def place_at(self, pos: QPoint) -> Place | None:
        """What is at a point of the viewport; the heads are line -1."""
        inputs = theme.px(INPUT_WIDTH)
        column = (
            -1 if pos.x() < inputs else (pos.x() - inputs + self.horizontalScrollBar().value()) // self._column_width
        )
        if column >= len(self._board.job.profiles):
            return None
        if pos.y() < theme.px(HEAD):
            return Place(-1, "" if column < 0 else self._board.job.profiles[column], Part.BODY)
        line = (pos.y() - theme.px(HEAD) + self.verticalScrollBar().value()) // theme.px(ROW)
        if not 0 <= line < len(self._board.lines):
            return None
        if column < 0:
            return Place(line, "", Part.BODY)
        shown = self._board.lines[line]
        profile = self._board.columns(shown)[column]
        part = self._painter.part_at(shown, profile, self.cell_rect(line, column), pos)
        return Place(line, profile, part)

    def _arrange(self) -> None:
        lines = len(self._board.lines) * theme.px(ROW)
        room = self.viewport().height() - theme.px(HEAD)
        self.verticalScrollBar().setRange(0, max(0, lines - room))
        self.verticalScrollBar().setPageStep(max(1, room))
        self.verticalScrollBar().setSingleStep(theme.px(ROW) // 3)
        columns = self._column_width * len(self._board.job.profiles)
        room = self.viewport().width() - theme.px(INPUT_WIDTH)
        self.horizontalScrollBar().setRange(0, max(0, columns - room))
        self.horizontalScrollBar().setPageStep(max(1, room))
        self.horizontalScrollBar().setSingleStep(theme.px(40))
        self._place_text()

    # -- selection ----------------------------------------------------------------------------------------------------

    @property
    def current(self) -> Cell | None:
        """The selected cell."""
        line, column = self._current
        if line >= len(self._board.lines) or column >= len(self._board.job.profiles):
            return None
        shown = self._board.lines[line]
        return shown.cell(self._board.columns(shown)[column])

    def select(self, line: int, column: int) -> None:
        """Select a cell and bring it into sight."""
        lines, columns = len(self._board.lines), len(self._board.job.profiles)
        if not lines or not columns:
            return
        place = min(max(0, line), lines - 1), min(max(0, column), columns - 1)
        changed, self._current = place != self._current, place
        rect = self.cell_rect(*self._current)
        bar = self.verticalScrollBar()
        if rect.top() < theme.px(HEAD):
            bar.setValue(bar.value() + rect.top() - theme.px(HEAD))
        elif rect.bottom() > self.viewport().height():
            bar.setValue(bar.value() + rect.bottom() - self.viewport().height() + 1)
        across = self.horizontalScrollBar()
        if rect.left() < theme.px(INPUT_WIDTH):
            across.setValue(across.value() + rect.left() - theme.px(INPUT_WIDTH))
        elif rect.right() > self.viewport().width():
            across.setValue(across.value() + rect.right() - self.viewport().width() + 1)
        if changed:
            self._told()
        self.viewport().update()

    def _told(self) -> None:
        self._full = None
        self._text.hide()
        cell = self.current
        self.setAccessibleDescription(
            "" if cell is None else self._painter.said(self._board.lines[self._current[0]], cell)
        )
        self.selected.emit(cell)

    def show_full(self, cell: Cell, text: str) -> None:
        """Show the whole answer in the selected cell, to be read, scrolled and copied."""
        if cell == self.current and self._board.is_open(self._board.lines[self._current[0]]):
            self._full = cell, text[:LONGEST]
            self._fill_text(cell, visible_text(self._full[1]))
            self._place_text()

    def _fill_text(self, cell: Cell, text: str) -> None:
        """Have the text look as it does in the other cells."""
        self._text.setPlainText(text)
        form = QTextBlockFormat()
        form.setLineHeight(100 * LINE, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        cursor = QTextCursor(self._text.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.mergeBlockFormat(form)
        for start, length in places_of(text, self._board.own_words(self._board.lines[self._current[0]], cell.profile)):
            cursor.setPosition(start)
            cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)
            cursor.mergeCharFormat(mark_format())
        self._text.moveCursor(QTextCursor.MoveOperation.Start)

    def _place_text(self) -> None:
        cell = self.current
        if self._full is None or cell != self._full[0] or cell in self._board.live:
            self._text.hide()
            return
        line = self._board.lines[self._current[0]]
        place = self._painter.content_rect(line, cell.profile, self.cell_rect(*self._current))
        heads = QRect(theme.px(INPUT_WIDTH), theme.px(HEAD), self.viewport().width(), self.viewport().height())
        self._text.setVisible(heads.contains(place.topLeft()) and place.height() > 0)
        self._text.setGeometry(place)

    # -- events -------------------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        self._current = 0, 0
        self._arrange()
        self._told()
        self.viewport().update()

    def _cell_changed(self, cell: Cell) -> None:
        if not self._repaint.isActive():
            self._repaint.start()

    def refresh(self) -> None:
        """Draw the cells as they are now."""
        if self._board.live and not self._clock.isActive():
            self._clock.start()
        elif not self._board.live:
            self._clock.stop()
        cell = self.current
        if cell is not None:
            self.setAccessibleDescription(self._painter.said(self._board.lines[self._current[0]], cell))
        self._place_text()
        self.viewport().update()

    def _restyle(self) -> None:
        self._text.setFont(theme.font(13))
        self._text.document().setDocumentMargin(0)
        self._arrange()
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the columns their widths."""
        super().resizeEvent(event)
        self._arrange()

    def scrollContentsBy(self, dx: int, dy: int) -> None:  # noqa: N802
        """Draw what is in sight now."""
        self._place_text()
        self.viewport().update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the focus."""
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Show that it is elsewhere."""
        super().focusOutEvent(event)
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk, open, mark."""
        line, column = self._current
        page = max(1, (self.viewport().height() - theme.px(HEAD)) // theme.px(ROW))
        moves = {
            Qt.Key.Key_Up: (line - 1, column),
            Qt.Key.Key_Down: (line + 1, column),
            Qt.Key.Key_Left: (line, column - 1),
            Qt.Key.Key_Right: (line, column + 1),
            Qt.Key.Key_PageUp: (line - page, column),
            Qt.Key.Key_PageDown: (line + page, column),
            Qt.Key.Key_Home: (0, column),
            Qt.Key.Key_End: (len(self._board.lines) - 1, column),
        }
        parts = {
            Qt.Key.Key_Plus: Part.UP,
            Qt.Key.Key_Minus: Part.DOWN,
            Qt.Key.Key_Asterisk: Part.STAR,
            Qt.Key.Key_D: Part.DIFF,
        }
        key, cell = Qt.Key(event.key()), self.current
        if key in moves:
            self.select(*moves[key])
        elif cell is not None and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.opened.emit(cell)
        elif cell is not None and key in parts:
            self.pressed.emit(cell, parts[key])
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select a cell, or press a part of it."""
        pos = event.position().toPoint()
        place = self.place_at(pos)
        if place is None or event.button() is not Qt.MouseButton.LeftButton:
            return
        if place.line < 0:
            if place.profile:
                self.column_menu_wanted.emit(place.profile, self.viewport().mapToGlobal(pos))
            return
        if not place.profile:
            self.select(place.line, self._current[1])
            return
        line = self._board.lines[place.line]
        self.select(place.line, self._board.columns(line).index(place.profile))
        cell = line.cell(place.profile)
        if place.part is Part.MENU:
            self.menu_wanted.emit(cell, self.viewport().mapToGlobal(pos))
        elif place.part is not Part.BODY:
            self.pressed.emit(cell, place.part)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Open the run of a cell."""
        place = self.place_at(event.position().toPoint())
        if place is not None and place.line >= 0 and place.profile and place.part is Part.BODY:
            self.opened.emit(self._board.lines[place.line].cell(place.profile))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Show what can be pressed."""
        place = self.place_at(event.position().toPoint())
        if place != self._hovered:
            self._hovered = place
            hand = place is not None and place.part is not Part.BODY
            self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if hand else Qt.CursorShape.ArrowCursor)
            self.viewport().update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of a cell."""
        by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        place = None if by_key else self.place_at(event.pos())
        if place is not None and place.line >= 0 and place.profile:
            line = self._board.lines[place.line]
            self.select(place.line, self._board.columns(line).index(place.profile))
        cell = self.current
        if cell is not None and (by_key or place is not None):
            where = self.cell_rect(*self._current).center() if by_key else event.pos()
            self.menu_wanted.emit(cell, self.viewport().mapToGlobal(where))
        event.accept()

    def viewportEvent(self, event: QEvent) -> bool:
        """Tell in a tip what there is no room for."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            place = self.place_at(event.pos())
            QToolTip.showText(event.globalPos(), self._tip(place), self.viewport())
            return True
        return super().viewportEvent(event)

    def _tip(self, place: Place | None) -> str:
        if place is None or place.line < 0:
            return ""
        line = self._board.lines[place.line]
        if not place.profile:
            return plain_tip(input_text(line.row))
        return plain_tip(self._painter.tip(line, place.profile, place.part))

    # -- painting -----------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw heads, inputs and the cells that can be seen."""
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), theme.color("bg.field"))
        head, inputs = theme.px(HEAD), theme.px(INPUT_WIDTH)
        columns = len(self._board.job.profiles)
        now = time.monotonic()
        painter.save()
        painter.setClipRect(QRect(inputs, head, self.viewport().width(), self.viewport().height()))
        offset = self._text.verticalScrollBar().value() if self._text.isVisible() else 0
        for number in self._visible_lines():
            line = self._board.lines[number]
            for column, profile in enumerate(self._board.columns(line)):
                rect = self.cell_rect(number, column)
                if rect.right() < inputs or rect.left() > self.viewport().width():
                    continue
                own = (number, column) == self._current
                hovered = self._hovered
                part = hovered.part if hovered and (hovered.line, hovered.profile) == (number, profile) else None
                self._painter.paint(
                    painter,
                    line,
                    profile,
                    rect,
                    now,
                    hovered=part,
                    scrolled=offset if self.lock_scrolling and number == self._current[0] and not own else 0,
                    without_text=own and self._text.isVisible(),
                )
                if own:
                    self._paint_ring(painter, rect)
        painter.restore()
        self._paint_inputs(painter, head, inputs)
        self._paint_heads(painter, head, inputs, columns)

    def _paint_ring(self, painter: QPainter, rect: QRect) -> None:
        painter.setPen(QPen(theme.color("accent" if self.hasFocus() else "line.control"), theme.px(2)))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(rect).adjusted(1, 1, -2, -2))

    def _paint_inputs(self, painter: QPainter, head: int, inputs: int) -> None:
        painter.save()
        painter.setClipRect(QRect(0, head, inputs, self.viewport().height()))
        painter.fillRect(QRect(0, head, inputs, self.viewport().height()), theme.color("bg.dock"))
        for number in self._visible_lines():
            line = self._board.lines[number]
            rect = self.cell_rect(number, 0)
            rect.setLeft(0)
            rect.setWidth(inputs)
            self._paint_input(painter, line, rect)
        painter.restore()
        painter.fillRect(QRect(inputs - 1, 0, 1, self.viewport().height()), theme.color("line"))

    def _paint_input(self, painter: QPainter, line: Line, rect: QRect) -> None:
        painter.fillRect(QRect(rect.left(), rect.bottom(), rect.width(), 1), theme.color("line"))
        margin = theme.px(12)
        painter.setFont(theme.font(11))
        painter.setPen(theme.color("muted"))
        name = f"#{line.row.row}"
        if self._board.job.repeats > 1:
            name += self.tr(", repeat %1").replace("%1", str(line.repeat))
        top = rect.top() + theme.px(8)
        painter.drawText(QPointF(margin, top + theme.px(11)), name)
        painter.save()
        inside = rect.adjusted(margin, theme.px(28), -margin, -theme.px(8))
        painter.setClipRect(inside, Qt.ClipOperation.IntersectClip)
        self._texts.paint(painter, input_text(line.row), QPointF(inside.topLeft()), inside.width())
        painter.restore()

    def _paint_heads(self, painter: QPainter, head: int, inputs: int, columns: int) -> None:
        painter.fillRect(QRect(0, 0, self.viewport().width(), head), theme.color("bg.chrome"))
        painter.fillRect(QRect(0, head - 1, self.viewport().width(), 1), theme.color("line"))
        painter.save()
        painter.setClipRect(QRect(inputs, 0, self.viewport().width(), head))
        for column in range(columns):
            rect = self.cell_rect(0, column)
            self._painter.paint_head(painter, column, QRect(rect.left(), 0, rect.width(), head))
        painter.restore()
        painter.fillRect(QRect(0, 0, inputs, head - 1), theme.color("bg.chrome"))
        painter.setFont(theme.font(12, 600))
        painter.setPen(theme.color("text2"))
        rect = QRect(theme.px(12), 0, inputs, head)
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, self.tr("Input"))
