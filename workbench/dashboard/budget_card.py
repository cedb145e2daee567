"""Budgets with what is used of them, and what is over the limits of the alarms."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QProgressBar, QToolButton, QVBoxLayout, QWidget

from engine import Spending
from engine.alarms import CALLS, AlarmLimits
from engine.dashboard_queries import Dashboard
from engine.statistics import CostProvenance
from workbench.text_format import cost_text, seconds_text, visible_text
from workbench.theme import theme
from workbench.widgets.elided import ElidedLabel

translate = QCoreApplication.translate
NEAR = 80
"""Percent of a budget from which on it is marked."""


@dataclass(frozen=True, slots=True)
class Used:
    """One budget."""

    name: str
    text: str
    percent: int


def used_of(used: Spending, limit: Spending, names: Sequence[str], *, unknown: bool = False) -> list[Used]:
    """The budgets that are set, in the order money, tokens, calls; `unknown`: the money is a lower bound."""
    pairs = (
        (names[0], used.cost or Decimal(0), limit.cost, True),
        (names[1], Decimal(used.tokens or 0), None if limit.tokens is None else Decimal(limit.tokens), False),
        (names[2], Decimal(used.requests or 0), None if limit.requests is None else Decimal(limit.requests), False),
    )
    found = []
    for name, amount, most, money in pairs:
        if most is None:
            continue
        text = translate("Dashboard", "%1 of %2")
        provenance = CostProvenance.UNKNOWN if unknown else CostProvenance.MEASURED
        text = text.replace("%1", cost_text(amount, provenance) if money else f"{amount:,}")
        text = text.replace("%2", cost_text(most, CostProvenance.MEASURED) if money else f"{most:,}")
        percent = int(100 * amount / most) if most else (100 if amount else 0)
        found.append(Used(name, text, percent))
    return found


def alarms_of(found: Dashboard, limits: AlarmLimits) -> list[str]:
    """What is over a limit within the time shown, in words."""
    told = []
    for name, share in found.by_profile.items():
        answers, profile = share.answers, visible_text(name)
        errors, slow = answers.error_share, answers.seconds.quantile(0.95)
        if answers.answered + answers.failed < CALLS:
            continue
        if limits.error_percent and errors is not None and 100 * errors > limits.error_percent:
            text = translate("Dashboard", "%1: %2 % failed")
            told.append(text.replace("%2", f"{100 * errors:.0f}").replace("%1", profile))
        if limits.slow_seconds and slow is not None and slow > limits.slow_seconds:
            text = translate("Dashboard", "%1: p95 ~%2")
            told.append(text.replace("%2", seconds_text(slow)).replace("%1", profile))
    dear = sum(1 for run in found.runs if limits.run_cost is not None and run.cost > limits.run_cost)
    if dear and limits.run_cost is not None:
        text = translate("Dashboard", "%1 runs cost more than %2").replace("%1", str(dear))
        told.append(text.replace("%2", cost_text(limits.run_cost, CostProvenance.MEASURED)))
    return told


class BudgetCard(QFrame):
    """Lines with bars, alarms below."""

    settings_wanted = Signal(str)
    """A page of the settings."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._lines: list[QWidget] = []
        self._heads = QLabel(self.tr("Budgets"), self), QLabel(self.tr("Alarms"), self)
        self.edit, self.edit_alarms = QToolButton(self), QToolButton(self)
        for button, name, page in (
            (self.edit, self.tr("Change the budgets"), "limits"),
            (self.edit_alarms, self.tr("Change the alarms"), "alarms"),
        ):
            button.setAccessibleName(name)
            button.setToolTip(name)
            button.clicked.connect(lambda _checked=False, page=page: self.settings_wanted.emit(page))
        self._budgets, self._alarms = QVBoxLayout(), QVBoxLayout()
        self._layout = QVBoxLayout(self)
        for head, button, lines in zip(
            self._heads, (self.edit, self.edit_alarms), (self._budgets, self._alarms), strict=True
        ):
            row = QHBoxLayout()
            row.addWidget(head, 1)
            row.addWidget(button)
            self._layout.addLayout(row)
            self._layout.addLayout(lines)
        self._layout.addStretch(1)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_state(self, budgets: Sequence[Used], alarms: Sequence[str]) -> None:
        """Show others."""
        for line in self._lines:
            line.hide()
            line.deleteLater()
        self._lines = []
        for one in budgets:
            self._add_budget(one)
        if not budgets:
            self._add(self._budgets, self.tr("No limit is set."), "muted")
        else:
            note = self.tr("At a limit nothing more is sent: the run keeps what came and names the limit.")
            self._add(self._budgets, note, "muted")
        for text in alarms:
            self._add(self._alarms, f"⚠ {text}", "warn")
        if not alarms:
            self._add(self._alarms, self.tr("Nothing is over a limit."), "muted")

    def bars(self) -> list[QProgressBar]:
        """Those of the budgets, from the top."""
        found = [line.findChild(QProgressBar) for line in self._lines]
        return [bar for bar in found if isinstance(bar, QProgressBar)]

    def _add(self, layout: QVBoxLayout, text: str, color: str) -> None:
        label = QLabel(text, self)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        label.setFont(theme.font(11))
        label.setStyleSheet(f"color: {theme.hex(color)};")
        layout.addWidget(label)
        self._lines.append(label)

    def _add_budget(self, one: Used) -> None:
        line = QWidget(self)
        name, text = ElidedLabel(line), QLabel(one.text, line)
        name.setText(one.name)
        name.setFont(theme.font(11))
        text.setFont(theme.font(11, 600))
        near = one.percent >= NEAR
        if near:
            text.setText(f"⚠ {one.text}")
            text.setStyleSheet(f"color: {theme.hex('warn')};")
        bar = QProgressBar(line)
        bar.setTextVisible(False)
        bar.setFixedHeight(theme.px(3))
        bar.setValue(min(100, one.percent))
        bar.setAccessibleName(f"{one.name}: {one.text}")
        bar.setStyleSheet(f"QProgressBar::chunk {{ background: {theme.hex('warn' if near else 'ok')}; }}")
        row = QHBoxLayout()
        row.addWidget(name, 1)
        row.addWidget(text)
        rows = QVBoxLayout(line)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(theme.px(2))
        rows.addLayout(row)
        rows.addWidget(bar)
        self._budgets.addWidget(line)
        self._lines.append(line)

    def _restyle(self) -> None:
        self._layout.setContentsMargins(theme.px(12), theme.px(6), theme.px(8), theme.px(8))
        self._layout.setSpacing(theme.px(6))
        for head in self._heads:
            head.setFont(theme.font(13, 600))
        for button in (self.edit, self.edit_alarms):
            button.setIcon(theme.icon("edit", 14))
