"""How servers are reached: a proxy, and certificates of one's own organisation."""

from pathlib import Path

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QFileDialog, QLabel, QPushButton, QWidget

from engine import Engine, EngineError
from workbench.engine_options import EngineOptions
from workbench.settings_dialog.checks import ca_file, certificate_count, proxy
from workbench.settings_dialog.page import Field, Page
from workbench.tasks import Tasks


class NetworkPage(Page):
    """Proxy and CA file, for all requests of all profiles."""

    def __init__(self, options: EngineOptions, engine: Engine, tasks: Tasks, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("NetworkPage", "Network"), parent)
        self._options = options
        self._engine = engine
        self._tasks = tasks
        self.add_head(self.tr("Proxy"))
        self.proxy = Field(self.tr("Address of the proxy"), self._take_proxy, self)
        self.proxy.setPlaceholderText(self.tr("None: servers are asked directly"))
        self.proxy.setClearButtonEnabled(True)
        self.test = QPushButton(self.tr("Test"), self)
        self.test.setAccessibleName(self.tr("Test the proxy"))
        self.test.setAutoDefault(False)
        self.test.clicked.connect(self._start_test)
        words = self.tr(
            "http://host:port. Never used for this machine. The variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY of the"
            " environment are not looked at."
        )
        self.add_row(self.tr("Address"), self.proxy, self.test, hint=words)
        self.outcome = self.hint("")
        self.outcome.setAccessibleName(self.tr("Outcome of the test"))
        self.add_indented(self.outcome)
        self.add_head(self.tr("Certificates"))
        self.ca_file = Field(self.tr("CA file"), self._take_ca_file, self)
        self.ca_file.setPlaceholderText(self.tr("None: only the usual authorities are trusted"))
        self.ca_file.setClearButtonEnabled(True)
        choose = QPushButton(self.tr("Choose…"), self)
        choose.setAccessibleName(self.tr("Choose a CA file…"))
        choose.setAutoDefault(False)
        choose.clicked.connect(self._choose)
        words = self.tr(
            "A PEM file whose certificates are trusted besides the usual ones, for every profile; caFile of a profile"
            " adds its own. Checking cannot be switched off, SSL_CERT_FILE is not looked at."
        )
        self.add_row(self.tr("CA file"), self.ca_file, choose, hint=words)
        self.certificates = self.hint("")
        self.add_indented(self.certificates)
        options.changed.connect(self._show)
        self.finish()
        self._show()

    # -- taking -------------------------------------------------------------------------------------------------------

    def _take_proxy(self, text: str) -> str:
        address = proxy(text)
        self._options.change(proxy=address)
        return address

    def _take_ca_file(self, text: str) -> str:
        path = ca_file(text)
        self._options.change(ca_file=path)
        return path

    def _choose(self) -> None:
        dialog = QFileDialog(self, self.tr("CA file"), str(Path(self.ca_file.value).parent))
        dialog.setNameFilters([self.tr("Certificates (*.pem *.crt *.cer)"), self.tr("All files (*)")])
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(self._enter)
        dialog.open()

    def _enter(self, path: str) -> None:
        self.ca_file.setText(path)
        self.ca_file.setModified(True)
        self.ca_file.finish_editing()

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        settings = self._options.current
        self.proxy.show_setting(settings.proxy)
        self.test.setEnabled(bool(settings.proxy))
        self._tell(self.outcome, "")
        self.ca_file.show_setting(settings.ca_file)
        self._tell(self.certificates, self._certificates(settings.ca_file))
        if settings.ca_file and not self.ca_file.fault:
            try:
                ca_file(settings.ca_file)
                self.ca_file.show_problem("")
            except ValueError as error:  # it was good when it was chosen
                self.ca_file.show_problem(str(error))
        else:
            self.ca_file.show_problem("")

    @staticmethod
    def _tell(label: QLabel, text: str) -> None:
        label.setText(text)
        label.setVisible(bool(text))

    def _certificates(self, path: str) -> str:
        try:
            count = certificate_count(Path(path)) if path else 0
        except ValueError:
            return ""
        if count == 1:
            return self.tr("1 certificate")
        return self.tr("%1 certificates").replace("%1", str(count)) if count else ""

    def _start_test(self) -> None:
        if self.proxy.finish_editing() and self._options.current.proxy:
            self._tell(self.outcome, self.tr("Connecting…"))
            self.test.setEnabled(False)
            self._tasks.start(self._test(), self)

    async def _test(self) -> None:
        try:
            await self._engine.check_proxy()
            text = self.tr("The proxy takes connections.")
        except EngineError as error:
            text = f"{error} {error.hint}"
        finally:
            self.test.setEnabled(True)
        self._tell(self.outcome, text)
