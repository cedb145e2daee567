"""What requests may use: limits a minute, budgets, a pause for servers that fail."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial

from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QCheckBox, QWidget

from engine import Engine, Plugins, Spending
from engine.statistics import RequestStatistic
from workbench.engine_options import EngineOptions
from workbench.settings_dialog.numbers import money, whole_number
from workbench.settings_dialog.page import NumberField, Page
from workbench.tasks import Tasks
from workbench.text_format import cost_text, tokens_text


class LimitsPage(Page):
    """Requests and tokens a minute, budgets of a run and of a day, the circuit breaker."""

    def __init__(self, options: EngineOptions, engine: Engine, tasks: Tasks, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("LimitsPage", "Limits and budgets"), parent)
        self._options = options
        self._engine = engine
        self._tasks = tasks
        self.fields: dict[str, NumberField] = {}
        """By the name of the setting, those of budgets as `run.cost`."""
        self._build_minute()
        self._build_budgets()
        self.add_head(self.tr("Servers that fail"))
        self.breaker = self.add_box(
            self.tr("Leave a server alone for a while after five failures in a row"),
            lambda on: options.change(breaker=on),
            self.tr("Then one request finds out if it is back. The pause begins with 30 s and doubles up to 300 s."),
        )
        self.interceptors = self._build_interceptors()
        options.changed.connect(self._show)
        self.finish()
        self._show()

    def _build_minute(self) -> None:
        self.add_head(self.tr("A minute"))
        self.add_wide(
            self.hint(self.tr("Of each server, for all flows together. What has to wait is shown as queued."))
        )
        none = self.tr("no limit")
        rows = (("requests_per_minute", self.tr("Requests")), ("tokens_per_minute", self.tr("Tokens")))
        for name, text in rows:
            field = self._field(name, text, partial(self._take_minute, name, text, none))
            self.add_row(text, field, unit=self.tr("a minute; empty: %1").replace("%1", none))

    def _build_budgets(self) -> None:
        self.add_head(self.tr("Budgets"))
        words = self.tr(
            "When one is used up nothing more is sent, and the run stops with what it has. Money is in the"
            " currency of the profiles' prices; free models still answer when there is none left."
        )
        self.add_wide(self.hint(words))
        self.today = self.hint("")
        self.add_columns(self.tr("A run"), self.tr("A day"))
        none = self.tr("empty: no limit")
        rows = (
            ("cost", self.tr("Money"), f"$; {none}"),
            ("tokens", self.tr("Tokens"), none),
            ("requests", self.tr("Requests"), none),
        )
        for part, text, unit in rows:
            both = []
            for whose, of in (("run", self.tr("%1 of a run")), ("day", self.tr("%1 of a day"))):
                name = of.replace("%1", text)
                field = self._field(f"{whose}.{part}", name, partial(self._take_budget, whose, part, name))
                both.append(field)
            self.add_row(text, *both, unit=unit)
        self.add_indented(self.today)

    def _build_interceptors(self) -> dict[str, QCheckBox]:
        """A box for each interceptor that is installed or switched on, by name."""
        plugins = Plugins()
        installed, chosen = plugins.names("interceptors"), self._options.current.interceptors
        names = [*chosen, *(name for name in installed if name not in chosen)]
        if names:
            self.add_head(self.tr("Interceptors of installed packages"))
            self.add_wide(
                self.hint(self.tr("Each sees all that is asked and answered, in the order they were chosen."))
            )
        boxes = {}
        for name in names:
            plugin = plugins.find("interceptors", name)
            missing = self.tr("Not installed: no request passes while it is on.")
            origin = missing if plugin is None else self.tr("Of %1.").replace("%1", plugin.origin)
            boxes[name] = self.add_box(name, self._interceptor_chooser(name), origin)
        return boxes

    def _interceptor_chooser(self, name: str) -> Callable[[bool], None]:
        def choose(on: bool) -> None:
            others = tuple(other for other in self._options.current.interceptors if other != name)
            self._options.change(interceptors=(*others, name) if on else others)

        return choose

    def _field(self, key: str, name: str, take: Callable[[str], str]) -> NumberField:
        self.fields[key] = NumberField(name, take, self)
        return self.fields[key]

    # -- taking -------------------------------------------------------------------------------------------------------

    def _take_minute(self, key: str, name: str, none: str, text: str) -> str:
        value = whole_number(name, text, 0, empty=none) or 0
        self._options.change(**{key: value})
        return f"{value:,}" if value else ""

    def _take_budget(self, whose: str, part: str, name: str, text: str) -> str:
        none = self.tr("no limit")
        value: Decimal | int | None = (
            money(name, text, empty=none) if part == "cost" else whole_number(name, text, 0, empty=none)
        )
        before: Spending = getattr(self._options.current, f"{whose}_budget")
        self._options.change(**{f"{whose}_budget": replace(before, **{part: value})})  # type: ignore[arg-type]
        return _budget_text(value)

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        settings = self._options.current
        for key in ("requests_per_minute", "tokens_per_minute"):
            self.fields[key].show_setting(f"{getattr(settings, key):,}" if getattr(settings, key) else "")
        for whose, budget in (("run", settings.run_budget), ("day", settings.day_budget)):
            for part in ("cost", "tokens", "requests"):
                self.fields[f"{whose}.{part}"].show_setting(_budget_text(getattr(budget, part)))
        self.breaker.setChecked(settings.breaker)
        for name, box in self.interceptors.items():
            box.setChecked(name in settings.interceptors)

    def showEvent(self, event: QShowEvent) -> None:
        """Read what was used today."""
        super().showEvent(event)
        self._tasks.start(self._read_today(), self)

    async def _read_today(self) -> None:
        if self._engine.history is not None:
            self._show_today(await self._engine.history.today())

    def _show_today(self, used: RequestStatistic) -> None:
        tokens = used.in_tokens + used.cached_in_tokens + used.out_tokens + used.reasoning_out_tokens
        text = self.tr("Used today: %1, %2 tokens, %3 requests.")
        text = text.replace("%1", cost_text(used.cost, used.cost_provenance))
        self.today.setText(text.replace("%2", tokens_text(tokens)).replace("%3", f"{used.requests:,}"))


def _budget_text(value: Decimal | int | None) -> str:
    """A limit as it stands in its field."""
    if value is None:
        return ""
    return f"{value:f}" if isinstance(value, Decimal) else f"{value:,}"
