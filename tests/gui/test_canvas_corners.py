"""What floats over the canvas at any size: zoom bar, minimap and first-start card hide neither cards nor each other."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from engine.flow.flow_spec import FlowSpec
from tests.helpers.sample_flows import sample
from workbench.designer.card_content import FOOTER_HEIGHT
from workbench.designer.editor import FlowEditor
from workbench.designer.flow_document import FlowDocument
from workbench.designer.view import FlowView
from workbench.theme import DARK, theme

Opened = Callable[[FlowSpec, int, int], FlowEditor]


@pytest.fixture(autouse=True)
def still(qapp: QApplication) -> Iterator[None]:
    """Nothing travels, so that places are known at once."""
    theme.choose(DARK)
    theme.set_reduced_motion(True)
    yield
    theme.set_zoom(1.0)
    theme.set_reduced_motion(False)


@pytest.fixture
def opened(qtbot: QtBot) -> Opened:
    def make(spec: FlowSpec, width: int, height: int) -> FlowEditor:
        editor = FlowEditor(FlowDocument(spec))
        qtbot.addWidget(editor)
        editor.resize(width, height)
        editor.show()
        qtbot.waitExposed(editor)
        QApplication.processEvents()
        return editor

    return make


def shown_cards(editor: FlowEditor) -> list[QRect]:
    """Where the cards and their footers are on the canvas."""
    rects = (item.card_rect().adjusted(0.0, 0.0, 0.0, FOOTER_HEIGHT) for item in editor.scene.agents.values())
    return [editor.view.mapFromScene(rect).boundingRect() for rect in rects]


def in_corners(editor: FlowEditor) -> list[QRect]:
    return [part.geometry() for part in (editor._zoom_bar, editor.minimap) if part.isVisible()]


@pytest.mark.parametrize("size", [(900, 260), (700, 200), (500, 420), (420, 180), (1200, 600)], ids=str)
def test_a_fitted_flow_is_not_below_the_zoom_bar(size: tuple[int, int], opened: Opened) -> None:
    editor = opened(sample("draft-grade-improve"), *size)
    editor.fit_all()
    assert editor._zoom_bar.isVisible()
    cards = shown_cards(editor)
    assert not [corner for corner in in_corners(editor) for card in cards if card.intersects(corner)]
    assert all(editor.view.viewport().rect().contains(card) for card in cards)


def test_a_flow_wider_than_the_canvas_opens_above_the_minimap(opened: Opened) -> None:
    editor = opened(sample("release-announcement"), 640, 190)
    assert editor.minimap.isVisible()
    assert editor.view.zoom == pytest.approx(0.75)
    assert not [corner for corner in in_corners(editor) for card in shown_cards(editor) if card.intersects(corner)]


def is_whole(editor: FlowEditor) -> bool:
    return editor.view.visible_area().contains(editor.scene.extent())


def steer_by_button(editor: FlowEditor) -> None:
    editor.zoom_out()


def steer_by_press(editor: FlowEditor) -> None:
    QTest.mouseClick(editor.view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(5, 5))


def steer_by_wheel(editor: FlowEditor) -> None:
    center = QPointF(editor.view.viewport().rect().center())
    event = QWheelEvent(
        center,
        editor.view.viewport().mapToGlobal(center),
        QPoint(),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(editor.view.viewport(), event)


def test_until_somebody_steers_the_flow_stays_as_it_opens_at_any_size(opened: Opened) -> None:
    editor = opened(sample("release-announcement"), 640, 300)
    assert not is_whole(editor)
    editor.resize(1400, 300)
    QApplication.processEvents()
    assert is_whole(editor)
    assert editor.view.zoom == 1.0
    theme.set_zoom(1.3)
    QApplication.processEvents()
    assert is_whole(editor)


@pytest.mark.parametrize("steer", [steer_by_button, steer_by_wheel, steer_by_press])
def test_a_view_that_somebody_steered_keeps_its_zoom(steer: Callable[[FlowEditor], None], opened: Opened) -> None:
    editor = opened(sample("release-announcement"), 1400, 300)
    steer(editor)
    zoom = editor.view.zoom
    editor.resize(700, 300)
    QApplication.processEvents()
    assert editor.view.zoom == zoom


@pytest.mark.parametrize("size", [(720, 240), (720, 150)], ids=str)
def test_on_a_low_canvas_the_first_run_card_is_small_and_the_head_of_the_start_is_seen(
    size: tuple[int, int], opened: Opened
) -> None:
    theme.set_zoom(1.4)
    editor = opened(sample("release-announcement"), *size)
    editor.show_first_run("The built-in model answers on this computer. No key and no network are needed.")
    QApplication.processEvents()
    card = editor._first_run.geometry()
    (button,) = [one for one in editor._first_run.findChildren(QPushButton) if one.isVisible()]
    assert card.height() <= button.height() + 3 * theme.px(12)
    start = shown_cards(editor)[0]
    assert start.top() >= 0
    assert start.top() + 34 * editor.view.transform().m11() <= card.top()


def test_the_flow_does_not_jump_when_the_first_run_begins(opened: Opened) -> None:
    editor = opened(sample("release-announcement"), 1200, 320)
    editor.show_first_run("The built-in model answers.")
    before = editor.view.visible_area()
    editor.show_first_run(None)
    assert editor.view.visible_area() == before


def test_on_a_very_low_canvas_nothing_stands_in_the_corners(opened: Opened) -> None:
    editor = opened(sample("release-announcement"), 640, 60)
    assert in_corners(editor) == []
    editor.resize(640, 300)
    QApplication.processEvents()
    assert len(in_corners(editor)) == 2


@pytest.mark.parametrize("size", [(1000, 500), (620, 220), (620, 110), (430, 130), (300, 130)], ids=str)
@pytest.mark.parametrize("zoom", [1.0, 1.5])
def test_the_first_run_card_never_covers_the_zoom_bar(size: tuple[int, int], zoom: float, opened: Opened) -> None:
    theme.set_zoom(zoom)
    editor = opened(sample("release-announcement"), *size)
    editor.show_first_run("The built-in model answers on this computer. No key and no network are needed.")
    QApplication.processEvents()
    (button,) = [one for one in editor.findChildren(QPushButton) if one.isVisible()]
    card = button.parentWidget()
    assert card is not None
    corners = [editor._zoom_bar.geometry()] if editor._zoom_bar.isVisible() else []
    assert not [corner for corner in corners if corner.intersects(card.geometry())]
    room = editor.view.viewport().rect()
    assert room.contains(button.geometry().translated(card.pos()))
    editor.show_first_run(None)
    assert editor._zoom_bar.isVisible() == (room.height() >= 2.5 * editor._zoom_bar.height())


def test_the_first_picture_already_shows_the_flow_whole(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[tuple[float, bool]] = []
    paint = FlowView.drawBackground

    def noted(view: FlowView, painter: QPainter, rect: QRectF) -> None:
        area = view.visible_area()
        painted.append((view.zoom, all(area.contains(item.card_rect()) for item in view._scene.agents.values())))
        paint(view, painter, rect)

    monkeypatch.setattr(FlowView, "drawBackground", noted)
    editor = opened(sample("release-announcement"), 900, 300)
    assert painted[0] == (editor.view.zoom, True)
    assert editor.view.zoom < 1.0
