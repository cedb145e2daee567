"""The five figures at the top of the dashboard."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QVBoxLayout, QWidget

from engine.dashboard_queries import Dashboard
from engine.statistics import CostProvenance
from workbench.text_format import cost_text, rate_text, seconds_text
from workbench.theme import theme

NONE = "–"


class FigureCard(QFrame):
    """A name, a figure, a remark."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._name = name
        self.head, self.figure, self.remark = QLabel(name, self), QLabel(NONE, self), QLabel(self)
        self._layout = QVBoxLayout(self)
        for label in (self.head, self.figure, self.remark):
            label.setTextFormat(Qt.TextFormat.PlainText)
            self._layout.addWidget(label)
        self.head.setProperty("role", "muted")
        self.remark.setProperty("role", "secondary")
        self.remark.setWordWrap(True)
        theme.changed.connect(self._restyle)
        self._restyle()

    def say(self, figure: str, remark: str = "") -> None:
        """Show another figure."""
        self.figure.setText(figure)
        self.remark.setText(remark)
        self.setAccessibleName(f"{self._name}: {figure}. {remark}".rstrip(" ."))

    def _restyle(self) -> None:
        self._layout.setContentsMargins(theme.px(12), theme.px(8), theme.px(12), theme.px(8))
        self._layout.setSpacing(theme.px(2))
        self.head.setFont(theme.font(11, 600))
        self.figure.setFont(theme.font(20, 600))
        self.remark.setFont(theme.font(11))


class FigureCards(QWidget):
    """The cards beside each other."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.cost = FigureCard(self.tr("Cost"), self)
        self.calls = FigureCard(self.tr("Calls"), self)
        self.saved = FigureCard(self.tr("Saved by cache"), self)
        self.first = FigureCard(self.tr("First token, p50"), self)
        self.speed = FigureCard(self.tr("Speed, p50"), self)
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self.arrange(5)
        theme.changed.connect(self._restyle)
        self._restyle()

    def arrange(self, columns: int) -> None:
        """Have so many beside each other."""
        for place, card in enumerate((self.cost, self.calls, self.saved, self.first, self.speed)):
            self._layout.addWidget(card, place // columns, place % columns)
        for column in range(5):
            self._layout.setColumnStretch(column, int(column < columns))

    def show_figures(self, found: Dashboard) -> None:
        """Show the sums of all that was found."""
        total = found.total
        used, answers = total.used, total.answers
        unpriced = sum(share.used.cost_provenance is CostProvenance.UNKNOWN for share in found.by_profile.values())
        remark = ""
        if unpriced:
            remark = self.tr("one profile has no price") if unpriced == 1 else self.tr("%1 profiles have no price")
        self.cost.say(
            cost_text(used.cost, used.cost_provenance) if used.provenances else NONE,
            remark.replace("%1", str(unpriced)),
        )
        ended = self.tr("%1 failed, %2 cut off").replace("%1", f"{answers.failed:,}")
        self.calls.say(f"{used.requests:,}", ended.replace("%2", f"{answers.cut_off:,}"))
        saved = found.saved
        reused = self.tr("one answer reused") if answers.reused == 1 else self.tr("%1 answers reused")
        self.saved.say(
            cost_text(saved.cost, saved.provenance) if answers.reused else NONE,
            reused.replace("%1", f"{answers.reused:,}"),
        )
        first, slow = answers.first_token.quantile(0.5), answers.first_token.quantile(0.95)
        self.first.say(
            NONE if first is None else f"~{seconds_text(first)}",
            "" if slow is None else f"p95 ~{seconds_text(slow)}",
        )
        speed, least = answers.speed.quantile(0.5), answers.speed.quantile(0.05)
        slowest = self.tr("95 of 100 above %1")
        self.speed.say(
            NONE if speed is None else rate_text(speed, estimated=True),
            "" if least is None else slowest.replace("%1", rate_text(least, estimated=True)),
        )

    def _restyle(self) -> None:
        self._layout.setSpacing(theme.px(12))
