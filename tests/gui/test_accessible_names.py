"""Every control of every view has a name for a screen reader, and is reached by keyboard in order."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QLabel, QWidget

from tests.helpers.model_answers import announcement_answers
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, focusable, opened_on
from workbench.pages import pages
from workbench.run_panel.input_form import InputForm

pytestmark = pytest.mark.usefixtures("qapp")


def named_by_text(widget: QWidget) -> bool:
    """Whether Qt tells a screen reader the text of the widget, or of the action behind it, as its name."""
    return isinstance(widget, QAbstractButton) and bool(widget.text())


def nameless(roots: list[QWidget]) -> list[str]:
    """The controls without a name, with where they are."""
    return [
        f"{type(widget).__name__} {widget.objectName()} in {type(widget.parent()).__name__}"
        for root in roots
        for widget in focusable(root)
        if not (widget.accessibleName() or named_by_text(widget) or labelled(widget))
    ]


def labelled(widget: QWidget) -> bool:
    """Whether a label is its buddy."""
    parent = widget.parentWidget()
    while parent is not None:
        if any(label.buddy() is widget for label in parent.findChildren(QLabel)):
            return True
        if parent.isWindow():
            return False
        parent = parent.parentWidget()
    return False


def roots(bench: Workbench) -> list[QWidget]:
    return [
        bench.window,
        *(one for one in QApplication.topLevelWidgets() if isinstance(one, QDialog) and one.isVisible()),
    ]


def test_every_view_names_its_controls(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path, cache=True) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            found: dict[str, list[str]] = {}
            for name, show in pages(bench.desk).items():
                if name == "empty":
                    continue
                show(bench.desk)
                await bench.settle()
                if missing := nameless(roots(bench)):
                    found[name] = missing
                for dialog in roots(bench)[1:]:
                    dialog.close()
                await bench.settle()
            assert found == {}
            bench.window.tabs.setCurrentIndex(0)
            bench.trigger("inputs")
            await bench.dialog(InputForm)
            assert nameless(roots(bench)) == []

    run_qt(story(), 120)
