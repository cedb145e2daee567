"""Which environment's profiles hold, and the language of the prompts."""

from PySide6.QtCore import QCoreApplication, QSignalBlocker
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from engine import Engine, EngineError
from engine.folders import Folders
from workbench.engine_options import EngineOptions
from workbench.settings_dialog.page import Field, Page
from workbench.text_format import language_name
from workbench.widgets.elided import ElidedComboBox


class EnvironmentPage(Page):
    """Environment and language of the prompts."""

    def __init__(self, options: EngineOptions, engine: Engine, folders: Folders, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("EnvironmentPage", "Environment"), parent)
        self._options = options
        self._engine = engine
        self._profiles = folders.profiles
        self.add_head(self.tr("Environment"))
        self.environment = Field(self.tr("Name of the environment"), self._take, self)
        self.environment.setPlaceholderText(self.tr("None; dev, test and prod are usual"))
        self.environment.setClearButtonEnabled(True)
        self.add_row(self.tr("Name"), self.environment)
        self.where = self.hint("")
        self.add_indented(self.where)
        self.add_head(self.tr("Language"))
        self.prompts = ElidedComboBox(self)
        self.prompts.setAccessibleName(self.tr("Language of the prompts"))
        self.prompts.setMinimumContentsLength(18)
        self.prompts.activated.connect(lambda row: options.change(prompt_language=self.prompts.itemData(row)))
        words = self.tr("Of the prompts of agents and tools, from the next run on. The window itself is in English.")
        self.add_row(self.tr("Prompts"), self.prompts, hint=words)
        options.changed.connect(self._show)
        self.finish()
        self._show()

    def _take(self, text: str) -> str:
        try:
            self._options.change(environment=text)
        except ValueError:
            fault = self.tr("Found “%1”, expected letters, digits, - and _, at most 40 of them.")
            raise ValueError(fault.replace("%1", text[:60])) from None
        return text

    def _show(self) -> None:
        name = self._options.current.environment
        self.environment.show_setting(name)
        text = self.tr(
            "The files in %1 lie over the profiles of the same name, key by key. The keyring is asked for %2/KEY only."
        )
        folder = self._profiles.with_name(f"{self._profiles.name}.{name or self.tr('NAME')}")
        self.where.setText(text.replace("%2", name or self.tr("NAME")).replace("%1", str(folder)))
        language = self._options.current.prompt_language
        with QSignalBlocker(self.prompts):
            if self.prompts.findData(language) < 0:
                self.prompts.addItem(language_name(language), language)
            self.prompts.setCurrentIndex(self.prompts.findData(language))

    def showEvent(self, event: QShowEvent) -> None:
        """Offer the languages there are texts in now."""
        super().showEvent(event)
        try:
            languages = {entry.language for entry in self._engine.prompts.entries()}
        except EngineError:  # the page of the prompts tells why
            languages = set()
        with QSignalBlocker(self.prompts):
            self.prompts.clear()
            for language in sorted({*languages, self._options.current.prompt_language}):
                self.prompts.addItem(language_name(language), language)
        self._show()
