"""The status bar: state and progress of the run, speed, cost, embedded server, offline lock."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QProgressBar, QStatusBar, QToolButton, QWidget

from workbench.theme import theme


class IconText(QWidget):
    """A small icon with text beside it."""

    def __init__(self, parent: QWidget, name: str) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self._icon = QLabel(self)
        self._text = QLabel(self)
        self._shown = ("", "text2")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.px(6))
        layout.addWidget(self._icon)
        layout.addWidget(self._text)

    def show_text(self, text: str, icon: str, color: str = "text2", tip: str = "") -> None:
        """Show an icon in a colour and a text."""
        self._shown = (icon, color)
        self._text.setText(text)
        self.setToolTip(tip)
        self.setAccessibleDescription(text)
        self.restyle()

    def text(self) -> str:
        """The text shown."""
        return self._text.text()

    def restyle(self) -> None:
        """Draw the icon anew."""
        icon, color = self._shown
        if icon:
            self._icon.setPixmap(theme.pixmap(icon, 14, color, self.devicePixelRatio()))


class StatusLine(QStatusBar):
    """What is going on, in one line."""

    server_clicked = Signal()
    """The embedded server's text was clicked."""
    offline_clicked = Signal()
    """The offline lock was clicked."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setSizeGripEnabled(False)
        self.run = IconText(self, "Run state")
        self.progress = QProgressBar(self)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the run")
        self.clock = QLabel(self)
        self.rate = IconText(self, "Speed")
        self.cost = IconText(self, "Cost of the run")
        self.today = QLabel(self)
        self.server = QToolButton(self)
        self.server.setAccessibleName("Embedded model")
        self.server.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.server.clicked.connect(self.server_clicked)
        self.offline = QToolButton(self)
        self.offline.setAccessibleName("Offline lock")
        self.offline.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.offline.clicked.connect(self.offline_clicked)
        self._server = ("server", "text2")
        self._offline = False
        self.setContentsMargins(theme.px(8), 0, theme.px(8), 0)
        left: tuple[QWidget, ...] = (self.run, self.progress, self.clock, self._line(), self.rate)
        right: tuple[QWidget, ...] = (self.cost, self.today, self._line(), self.server, self._line(), self.offline)
        for widget in left:
            self.addWidget(widget)
        for widget in right:
            self.addPermanentWidget(widget)
        theme.changed.connect(self._restyle)
        self.show_idle("Ready", "ok")
        self.show_offline(False)

    def _line(self) -> QFrame:
        line = QFrame(self)
        line.setFrameShape(QFrame.Shape.VLine)
        line.setObjectName("separator")
        return line

    def show_idle(self, text: str, icon: str, color: str = "text2") -> None:
        """No run is going on; `text` says how the last one ended."""
        self.run.show_text(text, icon, color)
        self.progress.hide()
        self.clock.clear()
        self.rate.hide()

    def show_running(self, text: str, done: int, total: int, clock: str, rate: str) -> None:
        """A run is going on."""
        self.run.show_text(text, "spinner", "run")
        self.progress.setMaximum(max(1, total))
        self.progress.setValue(done)
        self.progress.show()
        self.clock.setText(clock)
        self.rate.show_text(rate, "speed")
        self.rate.setVisible(bool(rate))

    def show_cost(self, run: str, today: str) -> None:
        """Money spent on this run and today."""
        self.cost.show_text(f"Run {run}", "cost", tip="Cost of this run")
        self.today.setText(f"Today {today}")

    def show_server(self, text: str, color: str, tip: str) -> None:
        """State of the embedded server."""
        self._server = ("server", color)
        self.server.setText(text)
        self.server.setToolTip(tip)
        self._restyle()

    def show_offline(self, locked: bool) -> None:
        """State of the offline lock."""
        self._offline = locked
        self.offline.setText("Offline" if locked else "Online")
        self.offline.setToolTip(
            "Offline lock is on: only this machine may be reached. Click to unlock."
            if locked
            else "Click to refuse every connection that leaves this machine."
        )
        self._restyle()

    def _restyle(self) -> None:
        self.setFixedHeight(theme.px(27))
        self.progress.setFixedSize(theme.px(96), theme.px(4))
        for widget in (self.run, self.rate, self.cost):
            widget.restyle()
        for button in (self.server, self.offline):
            button.setFont(theme.font(12))
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        for label in (self.clock, self.today):
            label.setFont(theme.font(12))
        for text in (self.run, self.rate, self.cost):
            text.setFont(theme.font(12))
        icon, color = self._server
        self.server.setIcon(theme.icon(icon, 14, color, checked=None))
        self.offline.setIcon(theme.icon("lock" if self._offline else "unlock", 14))
        self.setStyleSheet(
            f"QStatusBar QToolButton {{ padding: 0 {theme.px(4)}px; }}"
            f" QFrame#separator {{ color: {theme.hex('line.strong')}; max-height: {theme.px(14)}px; }}"
        )
