"""The views a screenshot can show."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QWidget

from tests.helpers.fake_server import chat
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import opened_on
from workbench.pages import pages
from workbench.run_comparison import RunComparisonDialog
from workbench.screenshot import whole
from workbench.settings_dialog.dialog import SettingsDialog

pytestmark = pytest.mark.usefixtures("qapp")


def before(window: QWidget) -> list[QWidget]:
    return [one for one in QApplication.topLevelWidgets() if one is not window and one.isVisible()]


def test_every_page_comes_to_the_front(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "one.flow.json", {"name": "Writer", "template": "Write a line."})

    async def story() -> None:
        async with opened_on(chat("A line."), tmp_path, [path]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            known = pages(bench.desk)
            assert {"stream", "prompt", "trace", "statistics", "chart"} <= known.keys()
            alone = bench.window.grab().toImage()
            for name, show in known.items():
                if name == "empty":
                    continue
                show(bench.desk)
                await bench.settle()
                shown = before(bench.window)
                if name.startswith("settings"):
                    assert any(isinstance(one, SettingsDialog) for one in shown)
                if name == "compare-runs":
                    assert any(isinstance(one, RunComparisonDialog) for one in shown)
                if shown:
                    picture = whole(bench.window).toImage()
                    assert picture.size() == alone.size()
                    assert picture != bench.window.grab().toImage()  # the dialog is on it
                for one in shown:
                    one.close()
                await bench.settle()
            known["empty"](bench.desk)
            await bench.until(lambda: bench.desk.documents.current is None)

    run_qt(story(), 90)
