"""What tools of flows may reach: folders and hosts."""

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QFileDialog, QPushButton, QWidget

from workbench.engine_options import EngineOptions
from workbench.settings_dialog.checks import folder, host
from workbench.settings_dialog.page import Page
from workbench.settings_dialog.text_list import TextList


class ToolsPage(Page):
    """Granted folders and hosts; without one the tool refuses."""

    def __init__(self, options: EngineOptions, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("ToolsPage", "Tools"), parent)
        self._options = options
        self.add_wide(
            self.hint(self.tr("Two tools reach outside of a flow. Each asks before it does, and only what is listed."))
        )
        self.add_head(self.tr("Folders that read_file may read"))
        self.folders = TextList(
            self.tr("Folders"), self.tr("Whole path of a folder"), self.tr("None: read_file refuses."), folder, self
        )
        choose = QPushButton(self.tr("Choose…"), self)
        choose.setAccessibleName(self.tr("Choose a folder…"))
        choose.clicked.connect(self._choose)
        self.folders.add_button(choose)
        self.folders.changed.connect(lambda entries: options.change(tool_folders=entries))
        self.add_wide(self.folders)
        self.add_wide(self.hint(self.tr("And all folders inside; links that lead out of them are not followed.")))
        self.add_head(self.tr("Hosts that http_get may ask"))
        self.hosts = TextList(
            self.tr("Hosts"), self.tr("example.org or example.org:8443"), self.tr("None: http_get refuses."), host, self
        )
        self.hosts.changed.connect(lambda entries: options.change(tool_hosts=entries))
        self.add_wide(self.hosts)
        options.changed.connect(self._show)
        self.finish()
        self._show()

    def _choose(self) -> None:
        dialog = QFileDialog(self, self.tr("Folder that read_file may read"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(self.folders.take)
        dialog.open()

    def _show(self) -> None:
        self.folders.show_entries(self._options.current.tool_folders)
        self.hosts.show_entries(self._options.current.tool_hosts)
