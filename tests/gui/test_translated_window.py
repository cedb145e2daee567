"""A window in another language: with a catalogue that marks every text, what has no mark is the person's own data."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QTranslator
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QTabBar, QWidget

from engine import bundled
from engine.flow.plugin_tools import SAMPLE_TOOLS
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import opened
from workbench.overview import sample_title

pytestmark = pytest.mark.usefixtures("qapp")

WORD = re.compile(r"[^\W\d_]{2}")
OF_THE_ENGINE = {"Stopped"}
"""What the embedded server says of itself."""


class Marks(QTranslator):
    """Translates every text into itself between marks."""

    def isEmpty(self) -> bool:  # noqa: N802
        """It knows everything."""
        return False

    def translate(self, context: str, text: str, disambiguation: str | None = None, n: int = -1) -> str:
        """Mark a text."""
        return f"«{text}»"


def shown_texts(window: QWidget) -> Iterator[str]:
    """What can be read, or heard from a screen reader."""
    for widget in window.findChildren(QWidget):
        yield from (widget.toolTip(), widget.accessibleName(), widget.windowTitle())
        if isinstance(widget, QAbstractButton | QLabel):
            yield widget.text()
        if isinstance(widget, QLineEdit):
            yield widget.placeholderText()
        if isinstance(widget, QTabBar):
            yield from (widget.tabText(index) for index in range(widget.count()))
    for action in window.findChildren(QAction):
        yield from (action.text(), action.toolTip(), action.statusTip())


def test_every_text_is_translated(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "one.flow.json", {"name": "Xyz", "template": "Qrst."})

    async def story() -> list[str]:
        async with opened(tmp_path, [path]) as bench:
            found = list(shown_texts(bench.window))
            bench.tab.editor.select(["Xyz"])
            await bench.settle()
            found += shown_texts(bench.window)
            bench.desk.overview.open_palette()
            found += shown_texts(bench.window)
            return found

    marks = Marks()
    QCoreApplication.installTranslator(marks)
    try:
        texts = run_qt(story(), 60)
    finally:
        QCoreApplication.removeTranslator(marks)
    assert "«&Open flow…»" in texts
    own = {*SAMPLE_TOOLS, "response"}  # names a flow file holds
    own |= {"Xyz", "Test flow", str(path), *map(sample_title, bundled.names("resources", "flows", suffix=".flow.json"))}
    assert {text for text in texts if "«" not in text and WORD.search(text)} - own == OF_THE_ENGINE
