"""The status bar: state and progress of the run, speed, cost, embedded server, offline lock."""

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QMenu, QProgressBar, QStatusBar, QToolButton, QWidget

from workbench.theme import theme
from workbench.widgets.elided import ElidedLabel, ElidedToolButton
from workbench.widgets.icon_label import IconText

NOTE_MILLISECONDS = 6000
PART_GAP = 6
"""Pixels that a QStatusBar puts between its parts."""
QWIDGETSIZE_MAX = 16_777_215
"""Qt's width without a limit."""
PROGRESS_STEPS = 1000
"""Steps of the progress bar."""
MOST_PROGRESS = 144
"""Pixels the progress bar is wide at most."""


class StatusLine(QStatusBar):
    """What is going on, in one line."""

    offline_clicked = Signal(bool)
    """The offline lock was clicked; whether it should be on."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setSizeGripEnabled(False)
        self.run = IconText(self.tr("Run state"), self)
        self.progress = QProgressBar(self)
        self.progress.setTextVisible(False)
        self.progress.setMaximum(PROGRESS_STEPS)
        self.progress.setAccessibleName(self.tr("Progress of the run"))
        self.clock = ElidedLabel(self)
        self.rate = IconText(self.tr("Speed"), self)
        self.cost = IconText(self.tr("Cost of the run"), self)
        self.today = ElidedLabel(self)
        self.server = ElidedToolButton(self)
        self.server.setAccessibleName(self.tr("Embedded model"))
        self.server.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.server.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.offline = ElidedToolButton(self)
        self.offline.setAccessibleName(self.tr("Offline lock"))
        self.offline.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.offline.setCheckable(True)
        self.offline.clicked.connect(self.offline_clicked)
        self._note = ElidedLabel(self)
        self._note.hide()
        self._note_ends = QTimer(self)
        self._note_ends.setSingleShot(True)
        self._note_ends.setInterval(NOTE_MILLISECONDS)
        self._note_ends.timeout.connect(self._end_note)
        self._server = ("server", "text2")
        self._offline = False
        self.setContentsMargins(theme.px(8), 0, theme.px(8), 0)
        left: tuple[QWidget, ...] = (self.run, self.progress, self.clock, self._line(), self.rate, self._note)
        right: tuple[QWidget, ...] = (self.cost, self.today, self._line(), self.server, self._line(), self.offline)
        self._parts = (*left, *right)
        self._yielding: tuple[QWidget, ...] = (self.server, self.run, self.today)
        """What is cut where the room is short, in this order; figures and the lock come after them."""
        for widget in left:
            self.addWidget(widget)
        for widget in right:
            self.addPermanentWidget(widget)
        theme.changed.connect(self._restyle)
        self.show_idle(self.tr("Ready"), "ok")
        self.show_offline(False)

    def _line(self) -> QFrame:
        line = QFrame(self)
        line.setFrameShape(QFrame.Shape.VLine)
        line.setObjectName("separator")
        return line

    def show_idle(self, text: str, icon: str, color: str = "text2", *, share: float | None = None) -> None:
        """No run is going on; `text` says how the last one ended, `share` how far it came."""
        self.run.show_text(text, icon, color)
        self.progress.setVisible(share is not None)
        self.progress.setValue(round((share or 0.0) * PROGRESS_STEPS))
        self.clock.clear()
        self.rate.hide()
        self._make_room()

    def show_running(self, text: str, share: float, clock: str, rate: str) -> None:
        """A run is going on; `share` (0 to 1) of it is done."""
        self.run.show_text(text, "spinner", "run")
        self.progress.setValue(round(share * PROGRESS_STEPS))
        self.progress.show()
        self.clock.setText(clock)
        self.rate.show_text(rate, "speed")
        self.rate.setVisible(bool(rate))
        self._make_room()

    def set_server_menu(self, menu: QMenu) -> None:
        """What the embedded server's text offers when it is clicked."""
        self.server.setMenu(menu)

    def show_note(self, text: str) -> None:
        """Tell for a few seconds what an action did, beside the state of the run."""
        self._note.setText(text)
        self._note.show()
        self._note_ends.start()
        self._make_room()

    def _end_note(self) -> None:
        self._note.hide()
        self._make_room()

    def note(self) -> str:
        """The note shown, empty for none."""
        return "" if self._note.isHidden() else self._note.text()

    def show_cost(self, run: str, today: str) -> None:
        """Money spent on this run and today."""
        self.cost.show_text(self.tr("Run %1").replace("%1", run), "cost", tip=self.tr("Cost of this run"))
        self.today.setText(self.tr("Today %1").replace("%1", today))
        self._make_room()

    def show_server(self, text: str, color: str, tip: str) -> None:
        """State of the embedded server."""
        self._server = ("server", color)
        self.server.setText(text)
        self.server.setToolTip(tip)
        self._restyle()

    def show_offline(self, locked: bool) -> None:
        """State of the offline lock."""
        self._offline = locked
        self.offline.setChecked(locked)
        self.offline.setText(self.tr("Offline") if locked else self.tr("Online"))
        self.offline.setToolTip(
            self.tr("Offline lock is on: only this machine may be reached. Click to unlock.")
            if locked
            else self.tr("Click to refuse every connection that leaves this machine.")
        )
        self._restyle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Cut what matters least."""
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Cut the texts that matter least, so that the layout does not take a little from all."""
        for widget in self._yielding:
            widget.setMaximumWidth(QWIDGETSIZE_MAX)
        shown = [part for part in self._parts if not part.isHidden()]
        wanted = sum(max(part.sizeHint().width(), part.minimumWidth()) + PART_GAP for part in shown)
        lacking = wanted + 2 * theme.px(8) + PART_GAP - self.width()
        for widget in self._yielding:
            if lacking <= 0:
                return
            whole, least = widget.sizeHint().width(), widget.minimumSizeHint().width()
            cut = min(lacking, max(0, whole - least))
            widget.setMaximumWidth(whole - cut)
            lacking -= cut

    def _restyle(self) -> None:
        self.setFixedHeight(theme.px(27))
        self.progress.setFixedSize(min(theme.px(96), MOST_PROGRESS), theme.px(4))
        for button in (self.server, self.offline):
            button.setFont(theme.font(12))
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            button.setIconSize(QSize(theme.px(14), theme.px(14)))
        for label in (self.clock, self.today, self._note):
            label.setFont(theme.font(12))
        for text in (self.run, self.rate, self.cost):
            text.setFont(theme.font(12))
        icon, color = self._server
        self.server.setIcon(theme.icon(icon, 14, color, checked=None))
        self.offline.setIcon(theme.icon("lock" if self._offline else "unlock", 14))
        self.setStyleSheet(
            f"QStatusBar QToolButton {{ padding: 0 {theme.px(4)}px; }}"
            " QStatusBar QToolButton::menu-indicator { image: none; }"
            f" QStatusBar QToolButton:checked {{ background: {theme.hex('bg.selected')};"
            f" border: 1px solid {theme.hex('accent')}; }}"
            f" QFrame#separator {{ color: {theme.hex('line.strong')}; max-height: {theme.px(14)}px; }}"
        )
        self._make_room()
