"""The button in the head of the run panel that goes on with a run that broke off."""

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QPushButton

from workbench.run_panel.stream_page import StreamPage
from workbench.theme import theme


class ResumeButton(QPushButton):
    """There only while there is something to go on with, and no message on show that offers it, too."""

    def __init__(self, stream: StreamPage) -> None:
        super().__init__(stream)
        self._stream = stream
        self._offered = False
        self.clicked.connect(stream.resume_requested)
        stream.says_resume_changed.connect(self._show)
        stream.installEventFilter(self)
        self.setText(self.tr("Resume"))
        self.setToolTip(self.tr("Go on where this run broke off; what was answered is not asked again"))
        self.hide()
        theme.changed.connect(self._restyle)
        self._restyle()

    def offer(self, offered: bool) -> None:
        """Offer to go on with the run on show here and in its messages, or not."""
        self._offered = self._stream.offers_resume = offered
        self._stream.refresh()
        self._show()

    def _show(self) -> None:
        self.setVisible(self._offered and not (self._stream.says_resume and self._stream.isVisible()))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the streams, which come and go with their tab."""
        if watched is self._stream and event.type() in (QEvent.Type.Show, QEvent.Type.Hide):
            self._show()
        return super().eventFilter(watched, event)

    def _restyle(self) -> None:
        self.setIcon(theme.icon("resume", 14, "text"))
