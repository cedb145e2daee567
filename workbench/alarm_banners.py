"""Tells in banners when runs pass what a person wants to be told of."""

from collections.abc import Sequence
from decimal import Decimal

from PySide6.QtCore import QObject, Signal

from engine.alarms import CALLS, Alarm, AlarmKind, Alarms
from engine.events import AnyEvent, RunFinished
from engine.statistics import CostProvenance
from workbench.engine_options import EngineOptions
from workbench.flow_tab import FlowTab
from workbench.text_format import cost_text
from workbench.widgets.banner import Banner, BannerButton, Message


class AlarmBanners(QObject):
    """Follows the runs of all tabs; recorded runs on show raise nothing."""

    banner_made = Signal(object)
    """A Banner to show."""
    settings_wanted = Signal()

    def __init__(self, options: EngineOptions, parent: QObject) -> None:
        super().__init__(parent)
        self._options = options
        self._alarms = Alarms(options.current.alarms)

    def follow(self, tab: FlowTab) -> None:
        """Listen to the runs of a tab."""
        tab.runs.events_received.connect(lambda events: self._take(tab, events))

    def _take(self, tab: FlowTab, events: Sequence[AnyEvent]) -> None:
        self._alarms.limits = self._options.current.alarms
        for event in events:
            for alarm in self._alarms.follow(event):
                self._tell(tab.title, alarm)
            if isinstance(event, RunFinished):
                self._alarms.end(event.run_id)

    def _tell(self, flow: str, alarm: Alarm) -> None:
        title, text = self._words(alarm)
        for mark, value in (
            ("%2", _number(alarm.kind, alarm.value)),
            ("%3", _number(alarm.kind, alarm.limit)),
            ("%4", str(CALLS)),
            ("%1", flow if alarm.kind is AlarmKind.COST else alarm.subject),
        ):
            title, text = title.replace(mark, value), text.replace(mark, value)
        settings = BannerButton(self.tr("Settings"), self.settings_wanted.emit)
        self.banner_made.emit(Banner(Message(kind="warn", title=title, text=text), [settings]))

    def _words(self, alarm: Alarm) -> tuple[str, str]:
        if alarm.kind is AlarmKind.COST:
            return self.tr("The run of %1 has cost %2."), self.tr("You want to be told above %3. It goes on.")
        if alarm.kind is AlarmKind.ERRORS:
            fault = self.tr("%2 % of the requests of %1 fail.")
            return fault, self.tr("Of the last %4; you want to be told above %3 %.")
        if alarm.kind is AlarmKind.SLOW:
            return (
                self.tr("%1 is slow: 5 of 100 answers take longer than %2 s."),
                self.tr("You want to be told above %3 s."),
            )
        return (
            self.tr("The prompt of %1 lost %2 % of its tokens."),
            self.tr("It had more than the model may get. You want to be told from %3 % on."),
        )


def _number(kind: AlarmKind, value: Decimal) -> str:
    if kind is AlarmKind.COST:
        return cost_text(value, CostProvenance.MEASURED)
    return f"{value:.1f}".removesuffix(".0")
