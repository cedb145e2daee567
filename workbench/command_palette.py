"""`Ctrl+K`: one field that finds actions, flows, agents, profiles and runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent, QPainter, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
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

PREFIXES = {">": "action", "#": "agent", "@": "profile"}
"""A first character that narrows the search to one group."""

ENTRY_ROLE = Qt.ItemDataRole.UserRole + 1
HITS_ROLE = Qt.ItemDataRole.UserRole + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing the palette can do."""

    group: str
    """`action`, `flow`, `profile`, `saved_agent`, `run` or `agent`."""
    text: str
    run: Callable[[], object]
    detail: str = ""
    icon: str = ""
    shortcut: str = ""
    enabled: bool = True


def find(query: str, entries: Sequence[Entry], limit: int = 50) -> list[tuple[Entry, tuple[int, ...]]]:
    """The entries that match, best first within their groups, groups in the order given."""
    group = PREFIXES.get(query[:1])
    text = (query[1:] if group else query).strip()
    found = []
    for order, entry in enumerate(entries):
        if not entry.enabled or (group and entry.group != group):
            continue
        hit = match(text, entry.text)
        if hit is not None:
            found.append((hit[0], -order, entry, hit[1]))
    found.sort(key=lambda row: (row[0], row[1]), reverse=True)
    best = found[:limit]
    groups = list(dict.fromkeys(entry.group for entry in entries))
    best.sort(key=lambda row: groups.index(row[2].group))
    return [(entry, hits) for _, _, entry, hits in best]


class EntryDelegate(QStyledItemDelegate):
    """Paints group heads and rows: icon, text with bold hit letters, detail, shortcut."""

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Rows are 30 px, heads 26."""
        return QSize(0, theme.px(26 if index.data(ENTRY_ROLE) is None else 30))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw one line."""
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        entry: Entry | None = index.data(ENTRY_ROLE)
        painter.save()
        if entry is None:
            painter.setFont(theme.font(11, 600))
            painter.setPen(theme.color("muted"))
            left = rect.adjusted(theme.px(16), 0, 0, 0)
            painter.drawText(left, Qt.AlignmentFlag.AlignVCenter, str(index.data()).upper())
            painter.restore()
            return
        if state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("bg.selected"))
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.drawRoundedRect(rect.adjusted(theme.px(6), 0, -theme.px(6), 0), 4, 4)
        if entry.icon:
            painter.drawPixmap(
                rect.left() + theme.px(18),
                rect.center().y() - theme.px(8) + 1,
                theme.pixmap(entry.icon, 16, "text2", painter.device().devicePixelRatio()),
            )
        x = self._paint_text(painter, rect, entry.text, frozenset(index.data(HITS_ROLE)))
        self._paint_details(painter, rect, x, entry)
        painter.restore()

    def _paint_text(self, painter: QPainter, rect: QRect, text: str, hits: frozenset[int]) -> int:
        x = rect.left() + theme.px(44)
        for position, letter in enumerate(text):
            hit = position in hits
            painter.setFont(theme.font(13, 600 if hit else 400))
            painter.setPen(theme.color("accent" if hit else "text"))
            painter.drawText(x, rect.top(), rect.right() - x, rect.height(), Qt.AlignmentFlag.AlignVCenter, letter)
            x += painter.fontMetrics().horizontalAdvance(letter)
        return x

    def _paint_details(self, painter: QPainter, rect: QRect, x: int, entry: Entry) -> None:
        painter.setFont(theme.font(12))
        painter.setPen(theme.color("text2"))
        right = rect.right() - theme.px(18)
        if entry.shortcut:
            width = painter.fontMetrics().horizontalAdvance(entry.shortcut)
            right -= width
            painter.drawText(right, rect.top(), width, rect.height(), Qt.AlignmentFlag.AlignVCenter, entry.shortcut)
        left = x + theme.px(12)
        room = right - left - theme.px(12)
        if entry.detail and room > theme.px(24):
            detail = painter.fontMetrics().elidedText(entry.detail, Qt.TextElideMode.ElideMiddle, room)
            painter.drawText(left, rect.top(), room, rect.height(), Qt.AlignmentFlag.AlignVCenter, detail)


class CommandPalette(QFrame):
    """The floating palette; `open_with` shows it over its window."""

    closed = Signal()
    """It went away, with or without a choice."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._host = parent
        self.setObjectName("palette")
        self.setAccessibleName(self.tr("Command palette"))
        self._entries: Sequence[Entry] = ()
        self._field = QLineEdit(self)
        self._field.setPlaceholderText(self.tr("Search actions, flows, agents, runs"))
        self._field.setAccessibleName(self.tr("Search"))
        self._list = QListView(self)
        self._list.setAccessibleName(self.tr("Results"))
        self._list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._model = QStandardItemModel(self)
        self._list.setModel(self._model)
        self._list.setItemDelegate(EntryDelegate(self))
        self._help = QLabel(self.tr("↑ ↓ choose    Enter open    > actions   # agents   @ profiles"), self)
        self._help.setProperty("role", "muted")
        self._count = QLabel(self)
        self._count.setProperty("role", "muted")
        foot = QHBoxLayout()
        foot.setContentsMargins(theme.px(14), 0, theme.px(14), 0)
        foot.addWidget(self._help)
        foot.addStretch(1)
        foot.addWidget(self._count)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, theme.px(8), 1, theme.px(8))
        layout.setSpacing(theme.px(6))
        layout.addWidget(self._field)
        layout.addWidget(self._list)
        layout.addLayout(foot)
        self._field.textChanged.connect(self._search)
        self._field.installEventFilter(self)
        self._list.clicked.connect(self._choose)

    def open_with(self, entries: Sequence[Entry]) -> None:
        """Show the palette with these entries."""
        self._entries = entries
        self._style()
        self._field.clear()
        self._search("")
        window = self._host.window()
        width, height = theme.px(600), theme.px(420)
        corner = window.mapToGlobal(window.rect().topLeft())
        self.setGeometry(
            corner.x() + (window.width() - width) // 2, corner.y() + theme.px(60), width, min(height, window.height())
        )
        self.show()
        self._field.setFocus()

    def _style(self) -> None:
        self.setStyleSheet(
            f"#palette {{ background: {theme.hex('bg.overlay')}; border: 1px solid {theme.hex('line.strong')};"
            f" border-radius: 10px; }} #palette QLineEdit {{ border: none; background: transparent; }}"
            f" #palette QListView {{ background: transparent; }}"
        )
        self._field.setFont(theme.font(15))
        self._field.setContentsMargins(theme.px(8), 0, theme.px(8), 0)
        for label in (self._help, self._count):
            label.setFont(theme.font(11))

    def _search(self, query: str) -> None:
        self._model.clear()
        titles = {
            "action": self.tr("Actions"),
            "flow": self.tr("Flows"),
            "profile": self.tr("Profiles"),
            "saved_agent": self.tr("Saved agents"),
            "run": self.tr("Runs"),
            "agent": self.tr("Agents"),
        }
        group = ""
        found = find(query, self._entries)
        for entry, hits in found:
            if entry.group != group:
                group = entry.group
                head = QStandardItem(titles.get(group, group))
                head.setFlags(Qt.ItemFlag.NoItemFlags)
                self._model.appendRow(head)
            row = QStandardItem(entry.text)
            row.setData(entry, ENTRY_ROLE)
            row.setData(hits, HITS_ROLE)
            row.setEditable(False)
            self._model.appendRow(row)
        count = self.tr("1 result") if len(found) == 1 else self.tr("%1 results").replace("%1", str(len(found)))
        self._count.setText(count)
        self._step(1, start=-1)

    def _step(self, by: int, start: int | None = None) -> None:
        """Move the choice by rows, over group heads, around the ends."""
        rows = self._model.rowCount()
        at = self._list.currentIndex().row() if start is None else start
        for _ in range(rows):
            at = (at + by) % rows
            index = self._model.index(at, 0)
            if index.data(ENTRY_ROLE) is not None:
                self._list.setCurrentIndex(index)
                return

    def _choose(self, index: QModelIndex) -> None:
        entry: Entry | None = index.data(ENTRY_ROLE)
        if entry is not None:
            self.hide()
            entry.run()

    def hideEvent(self, event: QHideEvent) -> None:
        """Tell that it closed."""
        super().hideEvent(event)
        self.closed.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrow keys move the choice while the field keeps the focus."""
        if watched is self._field and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
            if event.key() in steps:
                self._step(steps[Qt.Key(event.key())])
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._choose(self._list.currentIndex())
                return True
        return super().eventFilter(watched, event)
