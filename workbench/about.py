"""The About box: version, licences, where things are kept."""

import platform
from importlib.metadata import version

from PySide6.QtCore import Qt, qVersion
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from engine.folders import Folders
from workbench.theme import theme

TEXT = """Flow Workbench {version}
Design agent flows, compare model profiles, test local models offline.

Licence: Apache-2.0. It uses Qt {qt} and PySide6 under the LGPL-3.0, which you may replace with your own builds, \
and the packages named in the file NOTICE.

Python {python}
Data folder: {folder}"""


class About(QDialog):
    """Shows it; `open` it."""

    def __init__(self, folders: Folders, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("About Flow Workbench"))
        text = QLabel(
            TEXT.format(
                version=version("flow-workbench"), qt=qVersion(), python=platform.python_version(), folder=folders.root
            ),
            self,
        )
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
