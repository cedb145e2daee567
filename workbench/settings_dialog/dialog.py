"""The settings: pages at the left, the chosen one at the right; what is changed holds at once."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from engine import Engine
from engine.folders import Folders
from workbench.actions import Actions
from workbench.appearance import Appearance
from workbench.engine_options import EngineOptions
from workbench.key_bindings import KeyBindings
from workbench.settings_dialog.alarms_page import AlarmsPage
from workbench.settings_dialog.appearance_page import AppearancePage
from workbench.settings_dialog.cache_page import CachePage
from workbench.settings_dialog.data_page import DataPage
from workbench.settings_dialog.environment_page import EnvironmentPage
from workbench.settings_dialog.keys_page import KeysPage
from workbench.settings_dialog.limits_page import LimitsPage
from workbench.settings_dialog.masking_page import MaskingPage
from workbench.settings_dialog.network_page import NetworkPage
from workbench.settings_dialog.page import Page
from workbench.settings_dialog.tools_page import ToolsPage
from workbench.tasks import Tasks
from workbench.theme import theme
from workbench.widgets.row_delegate import RowDelegate


class SettingsDialog(QDialog):
    """All settings of the window and the engine; `show` it, the window stays usable."""

    def __init__(
        self,
        engine: Engine,
        options: EngineOptions,
        appearance: Appearance,
        folders: Folders,
        actions: Actions,
        keys: KeyBindings,
        tasks: Tasks,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("Settings"))
        self.appearance = AppearancePage(appearance, self)
        self.cache = CachePage(options, engine.cache, tasks, self)
        self.limits = LimitsPage(options, engine, tasks, self)
        self.keys = KeysPage(keys, actions, self)
        self.environment = EnvironmentPage(options, engine, folders, self)
        self.network = NetworkPage(options, engine, tasks, self)
        self.alarms = AlarmsPage(options, self)
        self.masking = MaskingPage(options, self)
        self.tools = ToolsPage(options, self)
        self.data = DataPage(options, folders, actions, self)
        self.by_name: dict[str, Page] = {
            "appearance": self.appearance,
            "keys": self.keys,
            "environment": self.environment,
            "network": self.network,
            "cache": self.cache,
            "limits": self.limits,
            "alarms": self.alarms,
            "masking": self.masking,
            "tools": self.tools,
            "data": self.data,
        }
        self.pages = tuple(self.by_name.values())
        self.list = QListWidget(self)
        self.list.setAccessibleName(self.tr("Pages of the settings"))
        self.list.setItemDelegate(RowDelegate(28, self))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._stack = QStackedWidget(self)
        for page in self.pages:
            self.list.addItem(page.title)
            self._stack.addWidget(page)
        self.list.currentRowChanged.connect(self._show_page)
        self._note = QLabel(self.tr("Changes hold at once, for the next request."), self)
        self._note.setProperty("role", "muted")
        self._note.setWordWrap(True)
        self._lay_out()
        theme.changed.connect(self._restyle)
        self._restyle()
        self.list.setCurrentRow(0)
        self.list.setFocus()

    def _lay_out(self) -> None:
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.button(QDialogButtonBox.StandardButton.Close).setAutoDefault(False)  # Enter ends a field, no more
        buttons.rejected.connect(self.reject)
        self._foot = QHBoxLayout()
        self._foot.addWidget(self._note, 1)
        self._foot.addWidget(buttons)
        middle = QHBoxLayout()
        middle.setSpacing(0)
        self._side = QHBoxLayout()
        self._side.addWidget(self.list)
        line = QFrame(self)
        line.setFrameShape(QFrame.Shape.VLine)
        line.setObjectName("line")
        middle.addLayout(self._side)
        middle.addWidget(line)
        middle.addWidget(self._stack, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(middle, 1)
        column.addLayout(self._foot)
        room = self.screen().availableSize()
        self.resize(min(theme.px(820), room.width() * 9 // 10), min(theme.px(600), room.height() * 9 // 10))

    def show_page(self, page: Page) -> None:
        """Bring a page to the front."""
        self.list.setCurrentRow(self.pages.index(page))

    def _show_page(self, row: int) -> None:
        self._stack.setCurrentIndex(row)

    def _restyle(self) -> None:
        self.list.setFixedWidth(theme.px(160))
        self.list.setFont(theme.font(13))
        self._note.setFont(theme.font(12))
        self._side.setContentsMargins(theme.px(8), theme.px(12), theme.px(8), 0)
        self.setStyleSheet(f"QFrame#line {{ color: {theme.hex('line')}; }}")
        self._foot.setContentsMargins(theme.px(16), theme.px(8), theme.px(16), theme.px(12))

    def reject(self) -> None:
        """Close, but first take what is being typed; what cannot be taken is shown once more."""
        for page in self.pages:
            fault = page.finish_editing()
            if fault is not None:
                self.show_page(page)
                fault.setFocus()
                fault.selectAll()
                return
        super().reject()
