"""The head of the page: which prompt is shown, how its text stands, and what can be done with it."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QTabBar, QWidget

from workbench.theme import theme
from workbench.widgets.chip import Chip
from workbench.widgets.elided import ElidedLabel
from workbench.widgets.icon_label import IconLabel


class PromptHead(QWidget):
    """Title, chips, the choice between text and versions, Reset and Save."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.title = ElidedLabel(self)
        self.unsaved, self.differs = Chip(self, kind="warn"), Chip(self, kind="accent")
        self.views = QTabBar(self)
        self.views.setProperty("flat", True)
        self.views.setDrawBase(False)
        self.views.setExpanding(False)
        self.views.setAccessibleName(self.tr("What is shown of the prompt"))
        for name in (self.tr("Text"), self.tr("Versions")):
            self.views.addTab(name)
        self.reset = QPushButton(self.tr("&Reset"), self)
        self.reset.setToolTip(self.tr("Take the shipped text again; yours stays among the versions"))
        self.save = QPushButton(self.tr("Save"), self)
        self.save.setProperty("primary", True)
        self.save.setToolTip(self.tr("Save all changed prompts (Ctrl+S); they hold from the next run"))
        row = QHBoxLayout(self)
        row.setContentsMargins(theme.px(16), theme.px(6), theme.px(12), theme.px(6))
        row.setSpacing(theme.px(8))
        row.addWidget(IconLabel("content", "text2", 16, self))
        row.addWidget(self.title)
        row.addWidget(self.differs)
        row.addWidget(self.unsaved)
        row.addStretch(1)
        for widget in (self.views, self.reset, self.save):
            row.addWidget(widget)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_state(self, *, unsaved: bool, differs: bool, resettable: bool, savable: bool) -> None:
        """Say how the text stands."""
        self.unsaved.say(self.tr("not saved") if unsaved else "")
        self.differs.say(self.tr("differs from the shipped text") if differs else "")
        self.reset.setEnabled(resettable)
        self.save.setEnabled(savable)

    def _restyle(self) -> None:
        self.title.setFont(theme.font(15, 600))
        self.views.setFont(theme.font(12, 500))
        self.reset.setIcon(theme.icon("undo", 16, "text"))
        self.reset.setIconSize(QSize(theme.px(16), theme.px(16)))
