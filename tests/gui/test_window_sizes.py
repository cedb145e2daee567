"""The window at any text zoom: it never grows by itself, and nothing in it is cut."""

from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QLabel, QScrollArea, QToolTip, QWidget

from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened
from workbench.designer.card_content import FOOTER_HEIGHT
from workbench.theme import theme

pytestmark = pytest.mark.usefixtures("qapp")

LONG = "My Flow äöü 日本 with a very long name that does not fit into any inspector of any width"


def long_named(folder: Path) -> Path:
    inputs = [{"key": "a_key_that_is_also_much_longer_than_anybody_expects_it_to_be", "type": "text"}]
    agent = {"name": "AnAgentWithAVeryLongNameThatDoesNotFitAnywhere", "template": "x"}
    return flow_file(folder / "long.flow.json", agent, name=LONG, inputs=inputs)


async def zoomed(bench: Workbench, zoom: float) -> None:
    theme.set_zoom(zoom)
    for _ in range(3):
        await bench.settle()


def bottom_line(widget: QWidget) -> set[str]:
    """The colours of the last row of pixels."""
    picture = widget.grab().toImage()
    return {picture.pixelColor(x, picture.height() - 1).name() for x in range(picture.width())}


def inspector_fits(bench: Workbench) -> bool:
    scroll = bench.tab.inspector.currentWidget()
    assert isinstance(scroll, QScrollArea)
    return scroll.widget().width() <= scroll.viewport().width()


@pytest.mark.parametrize("zoom", [1.0, 1.5, 2.0, 2.5])
def test_the_window_fits_a_small_screen_at_any_zoom(zoom: float, tmp_path: Path) -> None:
    path = long_named(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path], size=(1280, 776)) as bench:
            bench.trigger("reset_layout")
            for name in bench.window.docks:
                bench.window.show_dock(name)
            bench.window.status.show_running("AnAgentWithALongName 3/10", 0.25, "00:12", "~120 tok/s")
            for names in ((), (bench.tab.document.spec.agents[0].name,)):
                bench.tab.editor.select(names)
                await zoomed(bench, zoom)
                least = bench.window.minimumSizeHint()
                assert (least.width() <= 900, least.height() <= 600) == (True, True), least
                assert (bench.window.width(), bench.window.height()) == (1280, 776)
                if zoom <= 1.5:
                    await bench.until(lambda: inspector_fits(bench))
                bench.window.resize(900, 600)
                await bench.settle()
                await bench.until(lambda: (bench.window.width(), bench.window.height()) == (900, 600))
                bench.window.resize(1280, 776)

    try:
        run_qt(story(), 60)
    finally:
        theme.set_zoom(1.0)


def test_the_docks_have_their_width_again_after_a_large_zoom(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, size=(1280, 776)) as bench:
            before = bench.window.docks["inspector"].width()
            for zoom in (1.5, 2.0, 2.5, 2.0, 1.0):
                await zoomed(bench, zoom)
            await bench.until(lambda: abs(bench.window.docks["inspector"].width() - before) <= 4)
            assert (bench.window.width(), bench.window.height()) == (1280, 776)

    try:
        run_qt(story(), 60)
    finally:
        theme.set_zoom(1.0)


@pytest.mark.parametrize("zoom", [1.0, 1.5])
def test_the_line_below_the_menus_runs_through(zoom: float, tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, size=(1280, 776)) as bench:
            await zoomed(bench, zoom)
            await bench.until(lambda: bottom_line(bench.window.menuWidget()) == {theme.color("line").name()})

    try:
        run_qt(story(), 60)
    finally:
        theme.set_zoom(1.0)


def test_a_long_name_loses_its_middle_in_the_tab_and_stands_whole_in_its_tip(tmp_path: Path) -> None:
    path = long_named(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.tab.editor.select([bench.tab.document.spec.agents[0].name])
            bench.type_text(bench.tab.inspector.agent_form.template, "Changed.")
            text = bench.window.tabs.tabText(0)
            assert text.startswith("My Flow")
            assert text.endswith(" •")
            assert len(text) < len(LONG) / 1.5
            assert LONG in bench.window.tabs.tabToolTip(0)
            assert str(path) in bench.window.tabs.tabToolTip(0)

    run_qt(story(), 60)


@pytest.mark.parametrize("sample", ["release-announcement", "sort-messages"])
def test_a_fitted_flow_has_room_for_the_footers_of_a_run(sample: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [sample], size=(1600, 1000)) as bench:
            editor = bench.tab.editor
            editor.show_first_run(None)
            await bench.settle()
            lowest = max(item.card_rect().bottom() for item in editor.scene.agents.values())
            for fit in (editor.fit_all, editor.fit_selection):
                fit()
                assert editor.view.visible_area().bottom() >= lowest + FOOTER_HEIGHT
            # Selected cards alone, at the bottom of what is shown.
            lowest_name = max(editor.scene.agents.values(), key=lambda item: item.card_rect().bottom()).name
            editor.select([lowest_name])
            editor.fit_selection()
            assert editor.view.visible_area().bottom() >= lowest + FOOTER_HEIGHT

    run_qt(story(), 60)


def test_the_input_fields_follow_the_text_zoom(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, ["release-announcement"]) as bench:
            fields = bench.tab.inspector.flow_form.fields
            code = fields.widgets()[0]

            def sizes() -> set[int]:
                return {label.font().pixelSize() for label in fields.findChildren(QLabel) if not label.isHidden()}

            await bench.until(lambda: (sizes(), code.font().pixelSize()) == ({11, 12}, 12))
            theme.set_zoom(2.0)
            await bench.until(lambda: (sizes(), code.font().pixelSize()) == ({22, 24}, 24))
            assert code.minimumHeight() == 220

    try:
        run_qt(story(), 60)
    finally:
        theme.set_zoom(1.0)


def test_a_choice_without_room_loses_its_middle_and_tells_all_in_its_tip(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, ["release-announcement"]) as bench:
            bench.tab.editor.select(["FeatureAnalyzer"])
            await bench.settle()
            model = bench.tab.inspector.agent_form.model
            whole = model.currentText()
            model.setFixedWidth(400)
            assert model.shown_text() == whole
            model.setFixedWidth(120)
            shown = model.shown_text()
            assert "…" in shown
            assert (shown[0], shown[-2:]) == (whole[0], whole[-2:])
            assert model.fontMetrics().horizontalAdvance(shown) < 120
            place = QPoint(5, 5)
            QApplication.sendEvent(model, QHelpEvent(QEvent.Type.ToolTip, place, model.mapToGlobal(place)))
            assert QToolTip.text() == whole
            QToolTip.hideText()

    run_qt(story(), 60)
