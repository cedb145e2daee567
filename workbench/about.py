"""The About box: version, licences, where things are kept."""

import platform
from importlib.metadata import version

from PySide6.QtCore import Qt, qVersion
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from engine.folders import Folders
from workbench.theme import theme


class About(QDialog):
    """Shows it; `open` it."""

    def __init__(self, folders: Folders, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("About Flow Workbench"))
        text = QLabel(self._text(folders), self)
        text.setTextFormat(Qt.TextFormat.PlainText)
        text.setWordWrap(True)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(theme.px(24),) * 4)
        layout.setSpacing(theme.px(16))
        layout.addWidget(text)
        layout.addWidget(buttons)
        self.setMinimumWidth(theme.px(440))

    def _text(self, folders: Folders) -> str:
        licence = self.tr(
            "Licence: Apache-2.0. It uses Qt %1 and PySide6 under the LGPL-3.0, which you may replace with your own"
            " builds, and the packages named in the file NOTICE."
        )
        lines = (
            f"Flow Workbench {version('flow-workbench')}",
            self.tr("Design agent flows, compare model profiles, test local models offline."),
            "",
            licence.replace("%1", str(qVersion())),
            "",
            f"Python {platform.python_version()}",
            self.tr("Data folder: %1").replace("%1", str(folders.root)),
        )
        return "\n".join(lines)
