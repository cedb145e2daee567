"""The test of a profile, step by step with ticks; a step that fails says what to change."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from engine.profile_probe import Check, Outcome, Probe, Step
from workbench.text_format import rate_text, seconds_text, visible_text
from workbench.theme import theme
from workbench.widgets.icon_label import IconLabel
from workbench.widgets.words import Words

LOOKS = {
    Outcome.PASSED: ("ok", "ok"),
    Outcome.WARNING: ("warning", "warn"),
    Outcome.FAILED: ("failed", "err"),
    Outcome.SKIPPED: ("minus", "muted"),
}
"""Outcome → icon and colour."""


class StepRow(QWidget):
    """One step: its state, what was found and how long it took."""

    def __init__(self, title: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._name = title
        self.icon = IconLabel("pending", "muted", 16, self)
        self.title = QLabel(title, self)
        self.text = Words("", self, wrap=True)
        self.text.setTextFormat(Qt.TextFormat.PlainText)
        self.time = Words("", self)
        head = QHBoxLayout()
        head.addWidget(self.title, 1)
        head.addWidget(self.time)
        words = QVBoxLayout()
        words.setSpacing(theme.px(2))
        words.addLayout(head)
        words.addWidget(self.text)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, theme.px(4), 0, theme.px(4))
        row.setSpacing(theme.px(8))
        row.addWidget(self.icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(words, 1)
        theme.changed.connect(self._restyle)
        self._restyle()
        self.show_check(None)

    def show_check(self, check: Check | None, *, is_next: bool = False) -> None:
        """Show a result, or that there is none yet."""
        text = ""
        if check is None:
            self.icon.show_icon("spinner" if is_next else "pending", "run" if is_next else "muted")
        else:
            self.icon.show_icon(*LOOKS[check.outcome])
            text = "\n".join(filter(None, (check.text, check.hint)))
        self.text.setText(visible_text(text))
        self.text.setVisible(bool(text))
        self.time.setText(seconds_text(check.seconds) if check is not None and check.seconds is not None else "")
        outcome = check.outcome.value if check is not None else ""
        self.setAccessibleName(f"{self._name}: {outcome} {text}")

    def _restyle(self) -> None:
        self.title.setFont(theme.font(13, 600))


class TestPanel(QWidget):
    """Its owner runs the test and tells what comes."""

    __test__ = False  # no test of pytest's

    wanted = Signal()
    stop_wanted = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.is_running = False
        self._title = QLabel(self.tr("Test"), self)
        self.button = QPushButton(self.tr("&Test"), self)
        self.button.setToolTip(self.tr("Send two or three short requests with the profile as it stands here"))
        self.button.clicked.connect(self._pressed)
        self.rows = {step: StepRow(name, self) for step, name in self._names().items()}
        self.measured = Words("", self, wrap=True)
        head = QHBoxLayout()
        head.addWidget(self._title, 1)
        head.addWidget(self.button)
        scroll = QScrollArea(self)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        body = QWidget(scroll)
        scroll.setWidget(body)
        steps = QVBoxLayout(body)
        steps.setContentsMargins(0, 0, theme.px(12), 0)
        for row in self.rows.values():
            steps.addWidget(row)
        steps.addWidget(self.measured)
        steps.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(theme.px(12), theme.px(8), theme.px(12), theme.px(8))
        column.addLayout(head)
        column.addWidget(scroll, 1)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _names(self) -> dict[Step, str]:
        return {
            Step.REACH: self.tr("Reach"),
            Step.AUTHENTICATE: self.tr("Authenticate"),
            Step.MODELS: self.tr("List models"),
            Step.ANSWER: self.tr("One answer"),
            Step.STREAMING: self.tr("Streaming"),
            Step.USAGE: self.tr("Usage reported"),
            Step.REASONING: self.tr("Reasoning separated"),
            Step.TOOLS: self.tr("Tools"),
            Step.TOKENIZER: self.tr("Tokenizer"),
        }

    def _pressed(self) -> None:
        (self.stop_wanted if self.is_running else self.wanted).emit()

    def clear(self) -> None:
        """Forget the last test."""
        for row in self.rows.values():
            row.show_check(None)
        self.measured.setText("")

    def show_running(self, is_running: bool) -> None:
        """A test began or is over."""
        self.is_running = is_running
        self.button.setText(self.tr("&Stop") if is_running else self.tr("&Test again"))
        if is_running:
            self.clear()
            self.rows[Step.REACH].show_check(None, is_next=True)
        else:
            for row in self.rows.values():
                if row.text.text() == "":
                    row.show_check(None)

    def show_check(self, check: Check) -> None:
        """Show the result of a step; the next one is under way."""
        self.rows[check.step].show_check(check)
        following = next((row for row in self.rows.values() if not row.text.text()), None)
        if self.is_running and following is not None:
            following.show_check(None, is_next=True)

    def show_probe(self, found: Probe) -> None:
        """Show what was measured."""
        for check in found.checks:
            self.rows[check.step].show_check(check)
        parts = []
        if found.first_token is not None:
            parts.append(self.tr("First token %1").replace("%1", seconds_text(found.first_token)))
        if found.reading is not None:
            parts.append(self.tr("Reading %1").replace("%1", rate_text(found.reading)))
        if found.writing is not None:
            parts.append(self.tr("Writing %1").replace("%1", rate_text(found.writing)))
        self.measured.setText("\n".join(parts))

    def _restyle(self) -> None:
        self._title.setFont(theme.font(13, 600))
