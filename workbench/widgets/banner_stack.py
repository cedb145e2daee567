"""The banners over a view: the newest is shown, a count opens the rest."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.banner import Banner


class BannerStack(QWidget):
    """One banner after the other, none twice."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._banners: list[Banner] = []
        self._more = QToolButton(self)
        self._more.setCheckable(True)
        self._more.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._more.toggled.connect(self._show)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(1)
        self._layout.addWidget(self._more, 0, Qt.AlignmentFlag.AlignRight)
        theme.changed.connect(self._show)
        self._show()

    @property
    def banners(self) -> list[Banner]:
        """All that are open, newest first."""
        return list(self._banners)

    def push(self, banner: Banner) -> None:
        """Show a banner; one that says the same is replaced."""
        for older in self.banners:
            if older.copied == banner.copied:
                self._drop(older)
        self._banners.insert(0, banner)
        self._layout.insertWidget(0, banner)
        for done in (banner.closed, banner.answered):
            done.connect(partial(self._drop, banner))
        self._show()

    def _drop(self, banner: Banner) -> None:
        if banner in self._banners:
            self._banners.remove(banner)
            self._layout.removeWidget(banner)
            banner.leave()
        self._show()

    def _show(self) -> None:
        hidden = len(self._banners) - 1
        for banner in self._banners[1:]:
            banner.setVisible(self._more.isChecked())
        if self._banners:
            self._banners[0].show()
        if hidden < 1:
            self._more.setChecked(False)
        self._more.setVisible(hidden > 0)
        opened = self._more.isChecked()
        text = self.tr("Only the newest") if opened else self.tr("1 more message")
        if hidden > 1 and not opened:
            text = self.tr("%1 more messages").replace("%1", str(hidden))
        self._more.setText(text)
        self._more.setIcon(theme.icon("chevron-up" if opened else "chevron-down", 12, checked="text2"))
        self._more.setFont(theme.font(12))
