"""Asks about a flow from elsewhere: a banner when it is opened, a dialog when it shall run."""

import asyncio

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from engine import EngineError
from engine.flow_access import Access
from workbench.flow_tab import FlowTab
from workbench.text_format import visible_text
from workbench.widgets.banner import Banner, BannerButton, Message


class TrustQuestion(QObject):
    """The question about the flow of one tab."""

    banner_made = Signal(object)
    """A Banner to show."""
    failed = Signal(object)
    """The EngineError that kept trust from being written down."""

    def __init__(self, tab: FlowTab, window: QWidget) -> None:
        super().__init__(tab)
        self._tab = tab
        self._window = window
        self._banner: Banner | None = None
        tab.trust_needed.connect(self.ask)

    async def begin(self) -> None:
        """Look at the flow that was opened, and say when it is restricted."""
        self.offer(await asyncio.to_thread(self._tab.trust.begin))

    def offer(self, access: Access | None) -> None:
        """Say that the flow is restricted, if it is and nothing says so yet."""
        if (fault := self._tab.trust.fault) is not None:
            self.failed.emit(fault)
        if access is None or self._banner is not None:
            return
        if access.trust.state == "changed":
            title = self.tr("%1 has changed since it was trusted, and is restricted.")
        else:
            title = self.tr("%1 was not made here, and is restricted.")
        text = self.tr("It can be looked at and edited. To run, it needs your trust.")
        message = Message(kind="warn", title=title.replace("%1", visible_text(access.name)), text=text, icon="lock")
        self._banner = Banner(message, [BannerButton(self.tr("Trust…"), self._look)])
        for gone in (self._banner.answered, self._banner.closed):
            gone.connect(self._forget)
        self.banner_made.emit(self._banner)

    def ask(self, access: Access) -> None:
        """Show all the flow can do, and ask."""
        from workbench.trust_dialog import TrustDialog

        dialog = TrustDialog(access, self._window)
        dialog.trusted.connect(self._trust)
        dialog.rejected.connect(lambda: self.offer(access))
        dialog.open()

    def _look(self) -> None:
        access = self._tab.trust.restricted
        if access is not None:
            self.ask(access)

    def _forget(self) -> None:
        self._banner = None

    def _trust(self, access: Access) -> None:
        try:
            self._tab.trust.trust(access)
        except EngineError as error:
            self.failed.emit(error)
            return
        if self._banner is not None:
            self._banner.closed.emit()
