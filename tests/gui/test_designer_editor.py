"""The editor as a person uses it: selecting, moving, walking, zooming, watching a run."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from engine.errors import Problem
from engine.events import RunFinished
from engine.flow.flow_spec import EditorSpec, FlowSpec
from tests.helpers.run_events import RUN, START, Script, simple_run
from tests.helpers.sample_flows import chain, grid, sample
from workbench.designer.agent_run import CardState
from workbench.designer.editor import FlowEditor
from workbench.designer.edits import change_agent, change_flow, rename_agent
from workbench.designer.flow_document import FlowDocument
from workbench.designer.level import Level
from workbench.theme import DARK, theme

Opened = Callable[..., FlowEditor]


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
    def make(spec: FlowSpec, width: int = 1100, height: int = 500) -> FlowEditor:
        editor = FlowEditor(FlowDocument(spec))
        qtbot.addWidget(editor)
        editor.resize(width, height)
        editor.show()
        qtbot.waitExposed(editor)
        QApplication.processEvents()
        editor.view.setFocus()
        return editor

    return make


def middle(editor: FlowEditor, name: str) -> QPoint:
    """Where an agent's header is, in the viewport."""
    rect = editor.scene.agents[name].card_rect()
    return editor.view.mapFromScene(rect.center().x(), rect.top() + 17.0)


def click(editor: FlowEditor, at: QPoint, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.mouseClick(editor.view.viewport(), Qt.MouseButton.LeftButton, modifier, at)


def drag(editor: FlowEditor, start: QPoint, end: QPoint, *, release: bool = True) -> None:
    canvas = editor.view.viewport()
    QTest.mousePress(canvas, Qt.MouseButton.LeftButton, pos=start)
    for share in (0.3, 0.6, 1.0):
        QTest.mouseMove(canvas, start + (end - start) * share)
    if release:
        QTest.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=end)


def key(editor: FlowEditor, what: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(editor.view, what, modifier)


def place(editor: FlowEditor, name: str) -> tuple[float, float]:
    return editor.document.spec.editor.positions[name]


# -- opening ----------------------------------------------------------------------------------------------------------


def test_a_small_flow_opens_whole_and_at_most_at_100_percent(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    assert editor.view.zoom == pytest.approx(1.0)
    assert editor.view.visible_area().contains(editor.scene.extent())


def test_a_wide_flow_opens_at_75_percent_from_its_start(opened: Opened) -> None:
    editor = opened(chain(*"ABCDEFGH"))
    assert editor.view.zoom == pytest.approx(0.75)
    visible = editor.view.visible_area()
    assert visible.contains(editor.scene.agents["A"].card_rect())
    assert not visible.contains(editor.scene.agents["H"].card_rect())


def test_100_percent_follows_the_text_zoom(opened: Opened) -> None:
    editor = opened(chain("A"))
    theme.set_zoom(1.5)
    assert editor.view.zoom == pytest.approx(1.0)
    assert editor.view.transform().m11() == pytest.approx(1.5)


def test_an_empty_flow_says_so_and_offers_a_sample(opened: Opened, qtbot: QtBot) -> None:
    editor = opened(FlowSpec(name="Nothing"))
    assert "Empty flow" in [label.text() for label in editor.findChildren(QLabel) if label.isVisible()]
    add, button = [one for one in editor.findChildren(QPushButton) if one.isVisible()]
    assert (add.text(), button.text()) == ("Add agent", "Start from a sample")
    with qtbot.waitSignal(editor.sample_requested):
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def test_the_first_run_is_offered_until_something_runs(opened: Opened, qtbot: QtBot) -> None:
    editor = opened(chain("A", "B"))
    editor.show_first_run("The built-in model answers.")
    (button,) = [one for one in editor.findChildren(QPushButton) if one.isVisible()]
    with qtbot.waitSignal(editor.run_requested):
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    editor.apply_event(Script().run())
    assert not button.isVisible()


def test_the_first_run_card_does_not_cover_a_fitted_flow(opened: Opened) -> None:
    editor = opened(sample("draft-grade-improve"), 900, 420)
    editor.show_first_run("The built-in model answers.")
    editor.fit_all()
    (button,) = [one for one in editor.findChildren(QPushButton) if one.isVisible()]
    card = button.parentWidget()
    assert card is not None
    flow = editor.view.mapFromScene(editor.scene.extent()).boundingRect()
    assert not flow.intersects(card.geometry())


# -- selecting --------------------------------------------------------------------------------------------------------


def test_a_click_selects_and_a_click_into_the_void_deselects(opened: Opened, qtbot: QtBot) -> None:
    editor = opened(chain("A", "B", "C"))
    with qtbot.waitSignal(editor.selection_changed) as signal:
        click(editor, middle(editor, "B"))
    assert signal.args == [("B",)]
    click(editor, middle(editor, "C"), Qt.KeyboardModifier.ControlModifier)
    assert editor.selected() == ("B", "C")
    click(editor, middle(editor, "B"), Qt.KeyboardModifier.ControlModifier)
    assert editor.selected() == ("C",)
    click(editor, QPoint(5, 5))
    assert editor.selected() == ()


def test_a_rubber_band_selects_what_it_touches_and_escape_takes_it_back(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    editor.select(["C"])
    start, end = middle(editor, "A") + QPoint(-120, -60), middle(editor, "B") + QPoint(0, 20)
    drag(editor, start, end)
    assert editor.selected() == ("A", "B")
    drag(editor, start, middle(editor, "C"), release=False)
    assert editor.selected() == ("A", "B", "C")
    key(editor, Qt.Key.Key_Escape)
    assert editor.selected() == ("A", "B")


def test_select_all_and_none(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    editor.select_all()
    assert editor.selected() == ("A", "B", "C")
    key(editor, Qt.Key.Key_Escape)
    assert editor.selected() == ()
    editor.select(["B", "no such agent"])
    assert editor.selected() == ("B",)


def test_the_selection_follows_a_rename_and_forgets_what_is_gone(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    editor.select(["B"])
    editor.edit("Rename", rename_agent(editor.document.spec, "B", "Better"))
    assert editor.selected() == ("Better",)
    editor.undo_stack.undo()
    assert editor.selected() == ("B",)
    spec = editor.document.spec
    editor.edit("Remove", change_flow(spec, agents=(spec.agents[0], spec.agents[2])))
    assert editor.selected() == ()


def test_screen_readers_are_told_what_is_selected(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    editor.select(["B"])
    assert editor.view.accessibleName() == "Flow Chain"
    assert editor.view.accessibleDescription() == "2 agents, selected: B"


# -- keyboard ---------------------------------------------------------------------------------------------------------


def test_tab_walks_along_the_flow_and_leaves_at_its_ends(opened: Opened, qtbot: QtBot) -> None:
    frame = QWidget()
    qtbot.addWidget(frame)
    before, editor, after = QPushButton("before"), FlowEditor(FlowDocument(chain("A", "B"))), QPushButton("after")
    column = QVBoxLayout(frame)
    for part in (before, editor, after):
        column.addWidget(part)
    frame.resize(900, 500)
    frame.show()
    qtbot.waitExposed(frame)
    frame.activateWindow()
    before.setFocus()
    qtbot.waitUntil(before.hasFocus)
    seen = []
    for _ in range(20):
        QTest.keyClick(QApplication.focusWidget() or frame, Qt.Key.Key_Tab)
        seen.append(editor.selected() if editor.view.hasFocus() else None)
        if after.hasFocus():
            break
    assert after.hasFocus()
    assert seen[:2] == [("A",), ("B",)]
    key(editor, Qt.Key.Key_Backtab)
    assert editor.selected() == ("A",)


def test_alt_and_arrow_keys_move_the_selection_in_one_step_of_undo(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    editor.select(["B"])
    alt = Qt.KeyboardModifier.AltModifier
    key(editor, Qt.Key.Key_Right, alt)
    key(editor, Qt.Key.Key_Down, alt)
    key(editor, Qt.Key.Key_Down, alt | Qt.KeyboardModifier.ShiftModifier)
    assert place(editor, "B") == (290, 110)
    assert editor.undo_stack.count() == 1
    editor.undo_stack.undo()
    assert place(editor, "B") == (280, 0)
    assert (editor.scene.agents["B"].x(), editor.scene.agents["B"].y()) == (280, 0)


def test_next_and_previous_agent_come_into_view(opened: Opened) -> None:
    editor = opened(chain(*"ABCDEFGH"))
    for _ in range(8):
        editor.select_next(1)
    assert editor.selected() == ("H",)
    assert editor.view.visible_area().contains(editor.scene.agents["H"].card_rect())
    editor.select_next(-1)
    assert editor.selected() == ("G",)


# -- moving -----------------------------------------------------------------------------------------------------------


def test_dragging_moves_on_the_grid_and_is_one_step_of_undo(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    start = middle(editor, "B")
    drag(editor, start, start + QPoint(63, 88))
    assert place(editor, "B") == (340, 90)
    assert editor.selected() == ("B",)
    assert editor.undo_stack.count() == 1
    assert editor.document.is_modified
    editor.undo_stack.undo()
    assert place(editor, "B") == (280, 0)
    assert not editor.document.is_modified


def test_dragging_near_another_agents_edge_aligns_with_it(opened: Opened) -> None:
    spec = chain("A", "B", "C")
    places = EditorSpec(positions={"A": (3, 3), "B": (280, 90), "C": (560, 200)})
    editor = opened(change_flow(spec, editor=places))
    start = middle(editor, "B")
    drag(editor, start, start + QPoint(0, -83))
    assert place(editor, "B") == (280, 3)


def test_a_drag_moves_all_that_is_selected_and_their_links(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    editor.select(["A", "B"])
    start = middle(editor, "B")
    link = next(link for link in editor.scene.links_of("B") if link.source == "A")
    before = link.line.path().boundingRect()
    drag(editor, start, start + QPoint(0, 100))
    assert place(editor, "A") == (0, 100)
    assert place(editor, "B") == (280, 100)
    assert link.line.path().boundingRect() == before.translated(0, 100)


def test_escape_cancels_a_drag(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    start = middle(editor, "B")
    drag(editor, start, start + QPoint(60, 60), release=False)
    assert editor.scene.agents["B"].x() != 280
    key(editor, Qt.Key.Key_Escape)
    QTest.mouseRelease(editor.view.viewport(), Qt.MouseButton.LeftButton)
    assert editor.scene.agents["B"].x() == 280
    assert editor.undo_stack.count() == 0


# -- zoom and pan -----------------------------------------------------------------------------------------------------


def test_the_wheel_zooms_at_the_cursor(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    at = middle(editor, "C")
    before = editor.view.mapToScene(at)
    wheel = QWheelEvent(
        QPointF(at), editor.view.viewport().mapToGlobal(QPointF(at)), QPoint(), QPoint(0, 240),
        Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(editor.view.viewport(), wheel)
    assert editor.view.zoom == pytest.approx(1.15**2)
    after = editor.view.mapToScene(at)
    assert (after - before).manhattanLength() < 2.0


@pytest.mark.parametrize("space", [False, True])
def test_the_middle_button_and_space_pan(opened: Opened, space: bool) -> None:
    editor = opened(chain("A", "B"))
    canvas, before = editor.view.viewport(), editor.view.visible_area().topLeft()
    button = Qt.MouseButton.LeftButton if space else Qt.MouseButton.MiddleButton
    if space:
        QTest.keyPress(editor.view, Qt.Key.Key_Space)
    QTest.mousePress(canvas, button, pos=QPoint(300, 200))
    QTest.mouseMove(canvas, QPoint(250, 180))
    QTest.mouseRelease(canvas, button, pos=QPoint(250, 180))
    if space:
        QTest.keyRelease(editor.view, Qt.Key.Key_Space)
    moved = editor.view.visible_area().topLeft() - before
    assert (moved.x(), moved.y()) == (pytest.approx(50), pytest.approx(20))
    assert editor.undo_stack.count() == 0


def test_fitting_shows_the_selection_or_everything(opened: Opened) -> None:
    editor = opened(grid(60))
    editor.fit_all()
    assert editor.view.visible_area().contains(editor.scene.extent())
    editor.select(["Agent59"])
    editor.fit_selection()
    assert editor.view.zoom == pytest.approx(1.0)
    assert editor.view.visible_area().contains(editor.scene.agents["Agent59"].card_rect())


def test_zoom_chooses_the_level_of_detail(opened: Opened) -> None:
    editor = opened(grid(60))
    levels = {1.0: Level.FULL, 0.5: Level.FULL, 0.45: Level.TITLES, 0.3: Level.BOXES, 0.6: Level.FULL}
    for zoom, level in levels.items():
        editor.view.zoom_to(zoom)
        assert editor.scene.level is level
    editor.zoom_out()
    assert editor.scene.level is Level.TITLES
    editor.zoom_reset()
    assert editor.view.zoom == pytest.approx(1.0)


def drawn(editor: FlowEditor, area: QRectF) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Links of a grid that can be seen in an area, and those of them that are drawn for the level shown."""
    seen, ready = set(), set()
    for name in editor.scene.agents:
        for link in editor.scene.links_of(name):
            start, end = (
                editor.scene.agents[link.source].out_port(link.index),
                editor.scene.agents[link.target].in_port(),
            )
            if QRectF(start, end).normalized().adjusted(-1, -1, 1, 1).intersects(area):
                seen.add((link.source, link.target))
                if link.line is not None and link.level is editor.scene.level:
                    ready.add((link.source, link.target))
    return seen, ready


def test_whatever_link_can_be_seen_is_drawn(opened: Opened) -> None:
    editor = opened(grid(400))
    editor.view.zoom_to(1.0)
    for zoom in (1.0, 0.6, 0.4, 0.2, 0.45, 1.0):
        for name in ("Agent0", "Agent210", "Agent399"):
            editor.view.zoom_to(zoom)
            editor.view.centerOn(editor.scene.agents[name])
            if editor.scene.level is not Level.BOXES:
                seen, ready = drawn(editor, editor.view.visible_area())
                assert seen
                assert seen == ready


def test_agents_can_be_selected_and_moved_from_far_away(opened: Opened) -> None:
    editor = opened(grid(60))
    editor.view.zoom_to(0.2)
    click(editor, middle(editor, "Agent25"))
    assert editor.selected() == ("Agent25",)
    start = middle(editor, "Agent25")
    drag(editor, start, start + QPoint(0, 40))
    assert place(editor, "Agent25")[1] == pytest.approx(190 + 200, abs=10)


# -- edits and runs ---------------------------------------------------------------------------------------------------


def test_the_canvas_follows_edits_of_one_agent(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    item = editor.scene.agents["B"]
    editor.edit("Edit", change_agent(editor.document.spec, "B", template="Rate [[feature]]."))
    assert editor.scene.agents["B"] is item
    assert item.content.preview == "Rate [[feature]]."
    assert item.content.fans_out
    editor.edit("Edit", change_agent(editor.document.spec, "A", routes=()))
    assert [link.source for link in editor.scene.links_of("B")] == ["B"]
    editor.undo_stack.undo()
    assert sorted(link.source for link in editor.scene.links_of("B")) == ["A", "B"]


def test_a_run_shows_states_links_and_the_last_output(opened: Opened, qtbot: QtBot) -> None:
    editor = opened(chain("Writer", "Next"))
    script = Script()
    events = [*simple_run(script, "Hello world")]
    for event in events[:-2]:
        editor.apply_event(event)
    item = editor.scene.agents["Writer"]
    qtbot.waitUntil(lambda: item.look.state is CardState.RUNNING)
    assert item.look.footer is not None
    assert item.look.footer.label == "answering"
    editor.apply_event(script.answer(2.1, "Hello world"))
    editor.apply_event(script.leave(2.2, "Next"))
    editor.apply_event(script.begin("Next", 2.2))
    qtbot.waitUntil(lambda: item.look.state is CardState.FINISHED)
    link = editor.scene.links_of("Writer")[0]
    assert len(link.dots) == 2
    editor.apply_event(RunFinished(time=START + 4, run_id=RUN, status="finished"))
    qtbot.waitUntil(lambda: not link.dots)
    QTest.mouseMove(editor.view.viewport(), middle(editor, "Writer"))
    qtbot.waitUntil(lambda: "Hello world" in [one.text() for one in editor.findChildren(QLabel) if one.isVisible()])
    editor.clear_run()
    assert item.look.state is CardState.IDLE
    assert item.look.footer is None


def test_nothing_moves_unless_something_runs_and_can_be_seen(opened: Opened, qtbot: QtBot) -> None:
    theme.set_reduced_motion(False)
    editor = opened(chain("Writer"))
    assert not editor.is_animating
    events = [*simple_run(Script())]
    for event in events[:-2]:
        editor.apply_event(event)
    assert editor.is_animating
    editor.hide()
    assert not editor.is_animating
    editor.show()
    assert editor.is_animating
    theme.set_reduced_motion(True)
    assert not editor.is_animating
    theme.set_reduced_motion(False)
    assert editor.is_animating
    for event in events[-2:]:
        editor.apply_event(event)
    qtbot.waitUntil(lambda: not editor.is_animating)


def test_a_running_agent_can_be_renamed(opened: Opened, qtbot: QtBot) -> None:
    editor = opened(chain("Writer", "Next"))
    events = [*simple_run(Script())]
    for event in events[:-2]:
        editor.apply_event(event)
    editor.edit("Rename", rename_agent(editor.document.spec, "Writer", "Author"))
    assert editor.scene.agents["Author"].look.state is CardState.RUNNING
    for event in events[-2:]:
        editor.apply_event(event)
    qtbot.waitUntil(lambda: editor.scene.agents["Author"].look.state is CardState.FINISHED)


def test_problems_mark_their_agents(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    editor.show_problems(
        [
            Problem(severity="error", message="no", agent="A"),
            Problem(severity="warning", message="hm", agent="A"),
            Problem(severity="warning", message="hm", agent="B"),
        ]
    )
    assert [item.look.problem for item in editor.scene.agents.values()] == ["error", "warning"]
    editor.show_problems([])
    assert [item.look.problem for item in editor.scene.agents.values()] == ["", ""]


def test_the_minimap_shows_only_when_the_flow_does_not_fit(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    assert not editor.minimap.isVisible()
    editor.view.zoom_to(3.0)
    assert editor.minimap.isVisible()
    before = editor.view.visible_area()
    QTest.mouseClick(editor.minimap, Qt.MouseButton.LeftButton, pos=QPoint(10, editor.minimap.height() // 2))
    assert editor.view.visible_area().center().x() < before.center().x()
    bar = QRectF(editor.minimap.geometry())
    assert QRectF(editor.rect()).contains(bar)


def test_what_floats_stays_in_its_corner_while_the_canvas_scrolls(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    editor.view.zoom_to(2.0)
    before = editor.minimap.pos()
    for _ in range(5):
        editor.view.horizontalScrollBar().setValue(editor.view.horizontalScrollBar().value() + 40)
        QApplication.processEvents()
    assert editor.minimap.pos() == before


def test_hovering_tells_what_is_wrong_in_full(opened: Opened, qtbot: QtBot) -> None:
    editor = opened(chain("A", "B"))
    message = "The route to Nowhere leads to no agent; the flow has A and B."
    editor.show_problems([Problem(severity="error", message=message, agent="B")])
    QTest.mouseMove(editor.view.viewport(), middle(editor, "B"))
    qtbot.waitUntil(lambda: message in [one.text() for one in editor.findChildren(QLabel) if one.isVisible()])
    QTest.mouseMove(editor.view.viewport(), QPoint(4, 4))
    assert message not in [one.text() for one in editor.findChildren(QLabel) if one.isVisible()]
