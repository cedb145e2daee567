"""The live charts of a run."""

import subprocess
import sys

from pytestqt.qtbot import QtBot

from engine.events import RunFinished
from engine.statistics import CostProvenance
from tests.helpers.run_events import RUN, START, Script, statistics
from workbench.charts.live_chart import LiveChart


def test_pyqtgraph_is_loaded_when_the_chart_is_first_seen() -> None:
    code = (
        "import sys; from PySide6.QtWidgets import QApplication; app = QApplication([])\n"
        "from workbench.charts.live_chart import LiveChart; chart = LiveChart()\n"
        "assert 'pyqtgraph' not in sys.modules and 'numpy' not in sys.modules\n"
        "chart.show(); assert 'pyqtgraph' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_curves_follow_the_run_and_rest_at_its_end(qtbot: QtBot) -> None:
    script = Script()
    chart = LiveChart(clock=lambda: START + 3)
    qtbot.addWidget(chart)
    chart.resize(900, 300)
    chart.show()
    chart.apply(script.run())
    chart.apply(script.begin("A", 0))
    assert chart._timer.isActive()
    for number in range(20):
        chart.apply(script.text(1 + number / 20, "word"))
    chart.apply(script.answer(2.5, "text", statistics=statistics(cost="0.0031")))
    chart.refresh()
    _, rates = chart._curves["both"].getData()
    assert list(rates) == [0, 0, 20, 20, 0, 0]
    times, costs = chart._curves["cost"].getData()
    assert list(zip(times, costs, strict=True)) == [(0, 0), (2.5, 0), (2.5, 0.0031), (3, 0.0031)]
    assert chart.accessibleName() == "Now ~10 tok/s; Cost $0.0031"
    chart.apply(RunFinished(time=START + 3, run_id=RUN, status="finished"))
    assert not chart._timer.isActive()
    assert chart.accessibleName().startswith("Peak ~20 tok/s")


def test_a_hidden_chart_rests(qtbot: QtBot) -> None:
    script = Script()
    chart = LiveChart(clock=lambda: START + 3)
    qtbot.addWidget(chart)
    chart.show()
    chart.apply(script.run())
    chart.hide()
    assert not chart._timer.isActive()


def test_an_unknown_price_is_told_and_no_line_drawn_at_zero(qtbot: QtBot) -> None:
    script = Script()
    chart = LiveChart(clock=lambda: START + 3)
    qtbot.addWidget(chart)
    chart.show()
    chart.apply(script.run())
    chart.apply(script.begin("A", 0))
    chart.apply(script.answer(2, "x", statistics=statistics(cost="0", provenance=CostProvenance.UNKNOWN)))
    chart.refresh()
    assert "Cost unknown: a price is missing in the profile" in chart.accessibleName()
    _, costs = chart._curves["cost"].getData()
    assert costs is None or len(costs) == 0


def test_a_free_run_has_no_empty_axis_of_money(qtbot: QtBot) -> None:
    script = Script()
    chart = LiveChart(clock=lambda: START + 3)
    qtbot.addWidget(chart)
    chart.resize(900, 300)
    chart.show()
    rate, cost = chart._plots
    qtbot.waitUntil(lambda: rate.isVisible() and cost.isVisible())
    for event in (script.run(), script.begin("A", 0)):
        chart.apply(event)
    free = statistics(cost="0", provenance=CostProvenance.FREE)
    chart.apply(script.answer(2, "x", statistics=free))
    chart.refresh()
    assert rate.isVisible()
    assert not cost.isVisible()
    assert chart._free.isVisible()
    assert chart._free.text() == "Free: nothing to draw"
    chart.apply(script.answer(2.5, "y", statistics=statistics(cost="0.0031")))
    chart.refresh()
    assert cost.isVisible()
    assert not chart._free.isVisible()
