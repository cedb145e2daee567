"""How the page *Profiles* looks: list and categories, form or source, test."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from engine.profile_store import ProfileEntry
from workbench.profiles.category_map import CategoryMap
from workbench.profiles.form import ProfileForm
from workbench.profiles.test_panel import TestPanel
from workbench.text_format import plain_tip
from workbench.theme import theme
from workbench.widgets.banner_stack import BannerStack
from workbench.widgets.chip import Chip
from workbench.widgets.elided import ElidedLabel
from workbench.widgets.icon_label import IconLabel
from workbench.widgets.row_delegate import RowDelegate
from workbench.widgets.tab_order import walk
from workbench.widgets.words import Words

NAME_ROLE = Qt.ItemDataRole.UserRole + 1


class ProfilesView(QWidget):
    """The parts; decides nothing."""

    chosen = Signal(str)
    """The name of the profile the person wants to see."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.banners = BannerStack(self)
        self.list = QListWidget(self)
        self.list.setAccessibleName(self.tr("Profiles"))
        self.list.setItemDelegate(RowDelegate(24, self.list))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.currentItemChanged.connect(self._current_changed)
        self.categories = CategoryMap(self)
        self._tools: list[tuple[QToolButton, str]] = []
        self.new = self._tool("plus", self.tr("New profile"))
        self.duplicate = self._tool("copy", self.tr("Duplicate"))
        self.find_here = self._tool("search", self.tr("Find servers on this computer"))
        self.compare = self._tool("diff", self.tr("Compare with another profile"))
        self.delete = self._tool("trash", self.tr("Delete"))
        self._heading = QLabel(self.tr("Profiles"), self)
        self.title = ElidedLabel("", self)
        self.chip = Chip(self)
        self.views = QTabBar(self)
        self.views.setProperty("flat", True)
        self.views.setDrawBase(False)
        self.views.setExpanding(False)
        self.views.setUsesScrollButtons(False)
        self.views.setAccessibleName(self.tr("Form or source"))
        for name in (self.tr("Form"), self.tr("Source")):
            self.views.addTab(name)
        self.revert, self.save = QPushButton(self.tr("&Revert"), self), QPushButton(self.tr("Save"), self)
        self.revert.setToolTip(self.tr("Take back all that is not saved"))
        self.save.setToolTip(self.tr("Write the file (Ctrl+S)"))
        self.save.setProperty("primary", True)
        self._info_icon = IconLabel("info", "accent", 14, self)
        self.info = Words("", self, wrap=True)
        self.stack = QStackedWidget(self)
        self.form = ProfileForm(self.stack)
        self.source = QPlainTextEdit(self.stack)
        self.source.setAccessibleName(self.tr("Source"))
        self.source.setProperty("pane", True)
        self.source.setTabChangesFocus(True)
        self.source.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.stack.addWidget(self.form)
        self.stack.addWidget(self.source)
        self.views.currentChanged.connect(self.stack.setCurrentIndex)
        self.problems = Words("", self, wrap=True)
        self.test = TestPanel(self)
        self._lay_out()
        theme.changed.connect(self._restyle)
        self._restyle()

    def _tool(self, icon: str, name: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(name)
        button.setAccessibleName(name)
        self._tools.append((button, icon))
        return button

    def _lay_out(self) -> None:
        left = QWidget(self)
        head = QHBoxLayout()
        head.setContentsMargins(theme.px(12), theme.px(6), theme.px(8), theme.px(6))
        head.addWidget(self._heading, 1)
        for button, _icon in self._tools:
            head.addWidget(button)
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(head)
        column.addWidget(self.list, 1)
        column.addWidget(self.categories)
        middle = QWidget(self)
        bar = QHBoxLayout()
        bar.setContentsMargins(theme.px(16), theme.px(6), theme.px(12), theme.px(6))
        bar.setSpacing(theme.px(8))
        bar.addWidget(self.title, 1)
        bar.addWidget(self.chip)
        bar.addWidget(self.views)
        bar.addWidget(self.revert)
        bar.addWidget(self.save)
        line = QHBoxLayout()
        line.setContentsMargins(theme.px(16), theme.px(4), theme.px(12), theme.px(4))
        line.setSpacing(theme.px(8))
        line.addWidget(self._info_icon, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self.info, 1)
        center = QVBoxLayout(middle)
        center.setContentsMargins(0, 0, 0, 0)
        center.setSpacing(0)
        center.addLayout(bar)
        center.addLayout(line)
        center.addWidget(self.stack, 1)
        center.addWidget(self.problems)
        split = QSplitter(Qt.Orientation.Horizontal, self)
        split.setHandleWidth(1)
        split.setChildrenCollapsible(False)
        for part in (left, middle, self.test):
            split.addWidget(part)
        split.setSizes([theme.px(220), theme.px(640), theme.px(280)])
        split.setStretchFactor(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.banners)
        layout.addWidget(split, 1)
        tools = [button for button, _icon in self._tools]
        walk([self.list, *tools, self.views, self.revert, self.save])
        self.setFocusProxy(self.list)

    def show_list(self, entries: Sequence[ProfileEntry], modified: Sequence[str], current: str) -> None:
        """List the profiles, those of the person first."""
        self.list.blockSignals(True)
        self.list.clear()
        own = [entry for entry in entries if not entry.bundled]
        bundled = [entry for entry in entries if entry.bundled]
        for title, group in ((self.tr("Yours"), own), (self.tr("With the workbench"), bundled)):
            if group:
                head = QListWidgetItem(title, self.list)
                head.setFlags(Qt.ItemFlag.NoItemFlags)
            for entry in group:
                mark = " •" if entry.name in modified else ""
                item = QListWidgetItem(theme.icon(*look(entry)), entry.name + mark, self.list)
                item.setData(NAME_ROLE, entry.name)
                item.setToolTip(plain_tip("\n".join(str(problem) for problem in entry.problems) or entry.name))
                if entry.name == current:
                    self.list.setCurrentItem(item)
        self.list.blockSignals(False)

    def _current_changed(self, item: QListWidgetItem | None) -> None:
        if item is not None and isinstance(name := item.data(NAME_ROLE), str):
            self.chosen.emit(name)

    def _restyle(self) -> None:
        self._heading.setFont(theme.font(13, 600))
        self.title.setFont(theme.font(15, 600))
        self.source.setFont(theme.font(12, mono=True))
        self.problems.setContentsMargins(theme.px(16), 0, theme.px(12), theme.px(4))
        for button, icon in self._tools:
            button.setIcon(theme.icon(icon, 14))
            button.setIconSize(QSize(theme.px(14), theme.px(14)))


def look(entry: ProfileEntry) -> tuple[str, int, str]:
    """Icon, size and colour of a profile: faulty, without its key, served here, usable."""
    if entry.profile is None:
        return "error", 14, "err"
    if not entry.usable:
        return "key", 14, "warn"
    return ("server", 14, "ok") if entry.profile.embedded else ("profile", 14, "text2")
