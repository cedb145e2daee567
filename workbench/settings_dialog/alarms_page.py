"""When to tell that runs cost much, fail, are slow, or lose parts of their prompts."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QWidget

from workbench.engine_options import EngineOptions
from workbench.settings_dialog.numbers import money, whole_number
from workbench.settings_dialog.page import NumberField, Page


class AlarmsPage(Page):
    """Thresholds; passing one shows a banner and stops nothing."""

    def __init__(self, options: EngineOptions, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("AlarmsPage", "Alarms"), parent)
        self._options = options
        self.fields: dict[str, NumberField] = {}
        """By the name of the threshold."""
        words = self.tr("A banner tells when one is passed. Nothing is stopped: that is what budgets do.")
        self.add_wide(self.hint(words))
        self.add_head(self.tr("Of a run"))
        self._add("run_cost", self.tr("Cost"), "$", self.tr("More than this for one run; empty: never"), self._money)
        self._add(
            "shortened_percent",
            self.tr("Shortened prompt"),
            "%",
            self.tr("So much of its tokens is left out; empty: never"),
            partial(self._number, most=100),
        )
        self.add_head(self.tr("Of a profile"))
        self._add(
            "error_percent",
            self.tr("Failures"),
            "%",
            self.tr("More of the last 20 attempts than this; empty: never"),
            partial(self._number, most=100),
        )
        self._add(
            "slow_seconds",
            self.tr("Slow answers"),
            "s",
            self.tr("Five of a hundred answers take longer; empty: never"),
            partial(self._number, most=86_400),
        )
        self.add_wide(self.hint(self.tr("Counted since the program started, from 20 requests on.")))
        options.changed.connect(self._show)
        self.finish()
        self._show()

    def _add(self, key: str, name: str, unit: str, hint: str, read: Callable[[str, str], Decimal | int | None]) -> None:
        self.fields[key] = NumberField(name, partial(self._take, key, name, read), self)
        self.add_row(name, self.fields[key], unit=unit, hint=hint)

    def _take(self, key: str, name: str, read: Callable[[str, str], Decimal | int | None], text: str) -> str:
        value = read(name, text)
        if key != "run_cost":
            value = value or 0
        limits = replace(self._options.current.alarms, **{key: value})  # type: ignore[arg-type]
        self._options.change(alarms=limits)
        return _shown(value)

    def _money(self, name: str, text: str) -> Decimal | None:
        return money(name, text, empty=self.tr("never"))

    def _number(self, name: str, text: str, most: int) -> int | None:
        return whole_number(name, text, 1, most, empty=self.tr("never"))

    def _show(self) -> None:
        for key, field in self.fields.items():
            field.show_setting(_shown(getattr(self._options.current.alarms, key)))


def _shown(value: Decimal | int | None) -> str:
    """A threshold as it stands in its field; never is nothing."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    return f"{value:,}" if value else ""
