"""Where things are kept, and what the log says."""

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from engine.folders import Folders
from workbench.actions import Actions
from workbench.engine_options import EngineOptions
from workbench.settings_dialog.numbers import whole_number
from workbench.settings_dialog.page import NumberField, Page


class DataPage(Page):
    """The data folder and the log."""

    def __init__(self, options: EngineOptions, folders: Folders, actions: Actions, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("DataPage", "Data and log"), parent)
        self._options = options
        self.add_head(self.tr("Data folder"))
        place = QLabel(str(folders.root), self)
        place.setTextFormat(Qt.TextFormat.PlainText)
        place.setWordWrap(True)
        place.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        place.setAccessibleName(self.tr("Data folder"))
        self.add_wide(place)
        words = self.tr("Profiles, flows, recorded runs, kept answers and settings. --data-dir chooses another one.")
        self.add_wide(self.hint(words))
        self.add_buttons(self._button(self.tr("Show folder"), actions, "data_folder"))
        self.add_head(self.tr("Recorded runs"))
        self.days = NumberField(self.tr("Days recorded runs are kept"), self._take_days, self)
        self.add_row(
            self.tr("Keep them for"),
            self.days,
            unit=self.tr("days; empty: for ever"),
            hint=self.tr("Older ones are deleted when the program starts. What they cost stays in the sums."),
        )
        self.add_head(self.tr("Log"))
        self.requests = self.add_box(
            self.tr("Note each request"),
            lambda on: options.change(logging=on),
            self.tr("One line with profile, tokens and seconds; never a text, never a key."),
        )
        self.add_buttons(self._button(self.tr("Open log file"), actions, "open_log"))
        options.changed.connect(self._show)
        self.finish()
        self._show()

    def _button(self, text: str, actions: Actions, action_id: str) -> QPushButton:
        button = QPushButton(text, self)
        button.setAutoDefault(False)
        button.clicked.connect(actions[action_id].trigger)
        return button

    def _take_days(self, text: str) -> str:
        days = whole_number(self.tr("Days"), text, 1, empty=self.tr("for ever")) or 0
        self._options.change(history_days=days)
        return _days_text(days)

    def _show(self) -> None:
        self.days.show_setting(_days_text(self._options.current.history_days))
        self.requests.setChecked(self._options.current.logging)


def _days_text(days: int) -> str:
    return f"{days:,}" if days else ""
