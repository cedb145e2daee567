"""What was approved: flows that are trusted, tools allowed in a run, folders and hosts that tools may reach."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QStackedWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from workbench.text_format import plain_tip, visible_text
from workbench.theme import theme
from workbench.widgets.empty_place import EmptyPlace
from workbench.widgets.row_delegate import RowDelegate

GRANT_ROLE = Qt.ItemDataRole.UserRole + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One thing that was approved and can be taken back."""

    kind: str
    """`flow`, `run`, `folder` or `host`."""
    name: str
    detail: str = ""
    since: str = ""
    tip: str = ""
    key: object = None
    """What takes it back."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Its row in the table."""
        return self.kind, self.name, self.detail


class _Table(QTreeWidget):
    """Del takes back what is chosen."""

    delete_pressed = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Delete:
            self.delete_pressed.emit()
        else:
            super().keyPressEvent(event)


class ApprovalsView(QWidget):
    """A table with a head per kind."""

    taken_back = Signal(object)
    """A Grant the person wants no more."""
    folder_wanted = Signal()
    """The person wants to grant a folder."""
    host_wanted = Signal()
    """The person wants to grant a host."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._grants: Sequence[Grant] = ()
        self.table = _Table(self)
        self.table.setHeaderLabels([self.tr("What"), self.tr("Where"), self.tr("Since")])
        self.table.setRootIsDecorated(False)
        self.table.setUniformRowHeights(True)
        self.table.setAllColumnsShowFocus(True)
        self.table.setIndentation(theme.px(14))
        self.table.setItemDelegate(RowDelegate(28, self.table))
        self.table.setFrameShape(QFrame.Shape.NoFrame)
        self.table.setAccessibleName(self.tr("Approvals"))
        header = self.table.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        self.table.currentItemChanged.connect(lambda _now, _before: self._show_button())
        self.table.delete_pressed.connect(self._take_back)
        self.take_back = QPushButton(self.tr("Take &back"), self)
        self.take_back.clicked.connect(self._take_back)
        self.add_folder = QPushButton(self.tr("Grant a &folder…"), self)
        self.add_folder.clicked.connect(self.folder_wanted)
        self.add_host = QPushButton(self.tr("Grant a &host…"), self)
        self.add_host.clicked.connect(self.host_wanted)
        self._note = QLabel(self.tr("What is taken back is asked about again, or refused."), self)
        self._note.setProperty("role", "muted")
        text = self.tr("Flows that you trust, and folders and hosts that tools may reach, are listed here.")
        self._stack = QStackedWidget(self)
        self._stack.addWidget(EmptyPlace("unlock", self.tr("Nothing is approved"), text, self))
        self._stack.addWidget(self.table)
        row = QHBoxLayout()
        row.setContentsMargins(theme.px(16), theme.px(8), theme.px(12), theme.px(10))
        row.setSpacing(theme.px(8))
        row.addWidget(self.take_back)
        row.addWidget(self._note, 1)
        row.addWidget(self.add_folder)
        row.addWidget(self.add_host)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._stack, 1)
        layout.addLayout(row)
        self.setFocusProxy(self.table)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_grants(self, grants: Sequence[Grant]) -> None:
        """List these; the chosen one stays chosen."""
        self._grants = grants
        chosen = self._chosen()
        titles = {
            "flow": (self.tr("Trusted flows"), "flow"),
            "run": (self.tr("Tools allowed in runs that go on"), "tool"),
            "folder": (self.tr("Folders that tools may read"), "folder"),
            "host": (self.tr("Hosts that tools may ask"), "cloud"),
        }
        self.table.clear()
        for kind, (title, icon) in titles.items():
            rows = [grant for grant in grants if grant.kind == kind]
            if not rows:
                continue
            head = QTreeWidgetItem(self.table, [title])
            head.setFlags(Qt.ItemFlag.ItemIsEnabled)
            head.setFont(0, theme.font(12, 600))
            for grant in rows:
                item = QTreeWidgetItem(head, [visible_text(grant.name), visible_text(grant.detail), grant.since])
                item.setIcon(0, theme.icon(icon, 16))
                item.setToolTip(0, plain_tip(grant.tip or grant.name))
                item.setToolTip(1, plain_tip(grant.detail))
                item.setData(0, GRANT_ROLE, grant)
                if chosen is not None and grant.place == chosen.place:
                    self.table.setCurrentItem(item)
        self.table.expandAll()
        self._stack.setCurrentIndex(1 if grants else 0)
        self._show_button()

    def _chosen(self) -> Grant | None:
        item = self.table.currentItem()
        grant: Grant | None = item.data(0, GRANT_ROLE) if item is not None else None
        return grant

    def _take_back(self) -> None:
        grant = self._chosen()
        if grant is not None:
            self.taken_back.emit(grant)

    def _show_button(self) -> None:
        self.take_back.setEnabled(self._chosen() is not None)

    def _restyle(self) -> None:
        self.table.setFont(theme.font(12))
        self.table.header().setFont(theme.font(11))
        self.table.setIconSize(QSize(theme.px(16), theme.px(16)))
        self._note.setFont(theme.font(12))
        self.show_grants(self._grants)
