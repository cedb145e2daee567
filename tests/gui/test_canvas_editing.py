"""Editing on the canvas by mouse and keyboard: every action is one step, and undo and redo give identical files."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine import flow_text, read_flow
from engine.flow.flow_spec import EditorSpec, FlowSpec, RouteSpec
from tests.helpers.canvas import (
    before_port,
    check_agreement,
    check_undo,
    choose,
    drag,
    in_port,
    key,
    links,
    middle,
    out_port,
    palette,
)
from tests.helpers.sample_flows import agent, chain, sample
from workbench.designer.editor import FlowEditor
from workbench.designer.edits import change_agent
from workbench.designer.flow_document import FlowDocument
from workbench.designer.frame_edits import add_frame, frame_around, frames_of
from workbench.theme import DARK, theme
from workbench.widgets.dragged_flow import FLOW, dragged

Opened = Callable[..., FlowEditor]
SPACED = 360.0
"""Between agents, so that their links can be taken hold of."""


@pytest.fixture(autouse=True)
def still(qapp: QApplication) -> Iterator[None]:
    """Nothing travels, so that places are known at once."""
    theme.choose(DARK)
    theme.set_reduced_motion(True)
    yield
    theme.set_reduced_motion(False)


@pytest.fixture
def opened(qtbot: QtBot) -> Opened:
    def make(spec: FlowSpec, width: int = 1300, height: int = 700) -> FlowEditor:
        editor = FlowEditor(FlowDocument(spec))
        qtbot.addWidget(editor)
        editor.resize(width, height)
        editor.show()
        qtbot.waitExposed(editor)
        QApplication.processEvents()
        editor.view.setFocus()
        return editor

    return make


def text(editor: FlowEditor) -> str:
    return flow_text(editor.document.spec)


def names(editor: FlowEditor) -> list[str]:
    return [one.name for one in editor.document.spec.agents]


# -- adding -----------------------------------------------------------------------------------------------------------


def test_a_double_click_on_the_empty_canvas_adds_what_is_chosen_there(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    before, at = text(editor), QPoint(200, 600)
    QTest.mouseDClick(editor.view.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert palette(editor).rows[:3] == ["Start, with system prompt", "Start", "Continue"]
    choose(editor, "completion")
    assert names(editor) == ["A", "B", "Agent"]
    assert editor.selected() == ("Agent",)
    place = editor.scene.agents["Agent"].pos()
    assert (place - editor.view.mapToScene(at)).manhattanLength() < 2
    check_undo(editor, before)


def test_space_without_a_drag_adds_at_the_mouse_and_escape_adds_nothing(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    before = text(editor)
    QTest.mouseMove(editor.view.viewport(), QPoint(300, 500))
    key(editor, Qt.Key.Key_Space)
    QTest.keyClick(palette(editor).field, Qt.Key.Key_Escape)
    assert editor.commands.palettes.open_palette is None
    assert text(editor) == before
    key(editor, Qt.Key.Key_Space)
    choose(editor, "fan-out")
    assert names(editor) == ["A", "B", "List", "Each", "Together"]
    assert editor.selected() == ("List", "Each", "Together")
    check_undo(editor, before)


def test_an_empty_flow_begins_with_what_is_added_first(opened: Opened) -> None:
    editor = opened(FlowSpec(name="New"))
    before = text(editor)
    key(editor, Qt.Key.Key_Space)
    choose(editor, "grader loop")
    assert editor.document.spec.start == "Writer"
    assert links(editor.document.spec) == {("Writer", "Check"), ("Check", "Writer")}
    check_undo(editor, before)


def test_dragging_from_a_port_into_the_void_adds_and_connects(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    before = text(editor)
    drag(editor, out_port(editor, "B"), out_port(editor, "B") + QPoint(90, 160))
    choose(editor, "processing")
    assert ("B", "Processing") in links(editor.document.spec)
    check_undo(editor, before)


def test_dragging_from_an_in_port_into_the_void_adds_what_leads_there(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    before = text(editor)
    drag(editor, in_port(editor, "A"), in_port(editor, "A") + QPoint(-60, 200))
    choose(editor, "completion")
    assert ("Agent", "A") in links(editor.document.spec)
    check_undo(editor, before)


def test_a_double_click_on_a_link_adds_in_between(opened: Opened) -> None:
    editor = opened(chain("A", "B", spacing=SPACED))
    before = text(editor)
    at = before_port(editor, "B", 70.0)
    QTest.mouseDClick(editor.view.viewport(), Qt.MouseButton.LeftButton, pos=at)
    choose(editor, "completion")
    assert links(editor.document.spec) == {("A", "Agent"), ("Agent", "B")}
    check_undo(editor, before)


def test_a_flow_from_the_explorer_becomes_a_node(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    editor.commands.palettes.flows = lambda: [("Thinking", "thinking")]
    before, data = text(editor), dragged(FLOW, "thinking")
    drop = QDropEvent(
        QPointF(200, 550), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    editor.view.dropEvent(drop)
    added = editor.document.spec.agents[-1]
    assert (added.name, added.flow) == ("Thinking", "thinking")
    check_undo(editor, before)
    editor.commands.perform("add_agent")
    choose(editor, "sub-flow")
    choose(editor, "thinking")
    assert names(editor)[-1] == "Thinking 2"


def test_adding_after_an_agent_connects_its_free_port(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    before = text(editor)
    editor.select(["B"])
    editor.commands.perform("add_after")
    choose(editor, "completion")
    assert ("B", "Agent") in links(editor.document.spec)
    assert editor.scene.agents["Agent"].x() > editor.scene.agents["B"].x()
    check_undo(editor, before)


# -- links ------------------------------------------------------------------------------------------------------------


def test_dragging_from_an_out_port_connects(opened: Opened) -> None:
    spec = change_agent(chain("A", "B", "C"), "A", routes=())
    editor = opened(spec)
    before = text(editor)
    drag(editor, out_port(editor, "A"), middle(editor, "C"))
    assert ("A", "C") in links(editor.document.spec)
    check_undo(editor, before)


def test_dragging_from_an_in_port_connects_backwards(opened: Opened) -> None:
    editor = opened(sample("sort-messages"))
    editor.fit_all()
    before = text(editor)
    drag(editor, in_port(editor, "Sort"), out_port(editor, "Table") + QPoint(-10, 0))
    assert ("Table", "Sort") in links(editor.document.spec)
    check_undo(editor, before)


def test_what_a_link_cannot_lead_to_is_dimmed_and_escape_cancels(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    before = text(editor)
    drag(editor, out_port(editor, "A"), middle(editor, "C"), release=False)
    assert {name: item.opacity() for name, item in editor.scene.agents.items()} == {"A": 0.6, "B": 1.0, "C": 1.0}
    assert editor.scene.agents["C"].look.drop_target
    key(editor, Qt.Key.Key_Escape)
    QTest.mouseRelease(editor.view.viewport(), Qt.MouseButton.LeftButton)
    assert all(item.opacity() == 1.0 for item in editor.scene.agents.values())
    assert not editor.scene.agents["C"].look.drop_target
    assert text(editor) == before
    drag(editor, out_port(editor, "A"), middle(editor, "A"))
    assert text(editor) == before
    assert editor.undo_stack.count() == 0


def test_the_end_of_a_link_is_led_elsewhere(opened: Opened) -> None:
    spec = chain("A", "B", "C", spacing=SPACED)
    editor = opened(spec)
    before = text(editor)
    drag(editor, before_port(editor, "B"), middle(editor, "C"))
    assert links(editor.document.spec) == {("A", "C"), ("B", "C")}
    check_undo(editor, before)


def test_the_arrow_of_a_link_can_be_taken_hold_of(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C", spacing=SPACED))
    drag(editor, before_port(editor, "B", 10.0), middle(editor, "C"))
    assert links(editor.document.spec) == {("A", "C"), ("B", "C")}


def test_the_beginning_of_a_link_is_moved_to_another_agent(opened: Opened) -> None:
    spec = chain("A", "B", "C", spacing=SPACED)
    spec = change_agent(spec, "B", routes=())
    editor = opened(spec)
    before = text(editor)
    start = out_port(editor, "A") + QPoint(30, 0)
    drag(editor, start, middle(editor, "C"))
    assert links(editor.document.spec) == {("C", "B")}
    check_undo(editor, before)


def test_a_link_is_selected_and_deleted(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C", spacing=SPACED))
    before = text(editor)
    QTest.mouseClick(editor.view.viewport(), Qt.MouseButton.LeftButton, pos=before_port(editor, "B", 70.0))
    assert editor.scene.mark == ("A", 0)
    assert editor.selected() == ()
    editor.commands.perform("delete")
    assert links(editor.document.spec) == {("B", "C")}
    assert editor.scene.mark is None
    check_undo(editor, before)


def test_connecting_by_keyboard(opened: Opened) -> None:
    editor = opened(change_agent(chain("A", "B", "C"), "A", routes=()))
    before = text(editor)
    editor.select(["A"])
    editor.commands.perform("connect_to")
    assert palette(editor).rows == ["B", "C"]
    choose(editor, "C")
    assert ("A", "C") in links(editor.document.spec)
    check_undo(editor, before)
    editor.commands.perform("disconnect")
    choose(editor, "C")
    assert ("A", "C") not in links(editor.document.spec)


def test_connecting_an_agent_with_several_ways_out_asks_which(opened: Opened) -> None:
    spec = change_agent(chain("A", "B", "C"), "A", routes=(RouteSpec(when="x > 1", to="B"),))
    editor = opened(spec)
    before = text(editor)
    editor.select(["A"])
    editor.commands.perform("connect_to")
    assert palette(editor).rows == ["x > 1", "New route"]
    choose(editor, "new")
    choose(editor, "C")
    first = editor.document.spec.agents[0]
    assert [(route.when, route.to) for route in first.routes] == [("x > 1", "B"), (None, "C")]
    check_undo(editor, before)


# -- removing and copying ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "left"), [("delete", set()), ("delete_heal", {("A", "C")})])
def test_deleting(opened: Opened, command: str, left: set[tuple[str, str]]) -> None:
    editor = opened(chain("A", "B", "C"))
    before = text(editor)
    editor.select(["B"])
    editor.commands.perform(command)
    assert names(editor) == ["A", "C"]
    assert links(editor.document.spec) == left
    check_undo(editor, before)


def test_the_clipboard_holds_a_readable_flow(opened: Opened) -> None:
    editor = opened(sample("draft-grade-improve"))
    before = text(editor)
    editor.select_all()
    editor.commands.perform("copy")
    copied = read_flow(QGuiApplication.clipboard().text()).spec
    assert [one.name for one in copied.agents] == ["Writer", "Check"]
    QTest.mouseMove(editor.view.viewport(), QPoint(120, 520))
    editor.commands.perform("paste")
    assert editor.selected() == ("Writer 2", "Check 2")
    place = editor.scene.extent_of(editor.selected()).topLeft()
    assert (place - editor.view.mapToScene(QPoint(120, 520))).manhattanLength() < 3
    check_undo(editor, before)
    other = opened(FlowSpec(name="Other"))
    other.commands.perform("paste")
    assert names(other) == ["Writer", "Check"]


def test_cutting_and_pasting_with_the_links_that_came_in(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    before = text(editor)
    editor.select(["B"])
    editor.commands.perform("cut")
    assert names(editor) == ["A", "C"]
    check_undo(editor, before)
    editor.commands.perform("paste_linked")
    assert names(editor) == ["A", "C", "B"]
    assert links(editor.document.spec) == {("A", "B")}


def test_duplicating_leaves_the_clipboard_alone(opened: Opened) -> None:
    QGuiApplication.clipboard().setText("mine")
    editor = opened(chain("A", "B", "C"))
    before = text(editor)
    editor.select(["A", "B"])
    editor.commands.perform("duplicate")
    assert editor.selected() == ("A 2", "B 2")
    assert ("A 2", "B 2") in links(editor.document.spec)
    assert QGuiApplication.clipboard().text() == "mine"
    check_undo(editor, before)


@pytest.mark.parametrize("content", ["", "hello", '{"format": "workbench.flow", "version": 1, "name": "x"}', "{" * 50])
def test_what_is_no_flow_is_not_pasted(opened: Opened, qtbot: QtBot, content: str) -> None:
    QGuiApplication.clipboard().setText(content)
    editor = opened(chain("A"))
    with qtbot.waitSignal(editor.commands.told) as told:
        editor.commands.perform("paste")
    assert told.args == ["There are no agents on the clipboard."]
    assert editor.undo_stack.count() == 0


# -- agents -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["mute", "bypass"])
def test_muting_and_bypassing_and_back(opened: Opened, state: str) -> None:
    editor = opened(chain("A", "B"))
    before = text(editor)
    editor.select_all()
    editor.commands.perform(state)
    assert [one.state for one in editor.document.spec.agents] == [state, state]
    check_undo(editor, before)
    editor.commands.perform(state)
    assert text(editor) == before
    editor.select(["B"])
    key(editor, Qt.Key.Key_D)
    assert editor.document.spec.agents[1].state == "bypass"


def test_starting_at_another_agent(opened: Opened) -> None:
    editor = opened(chain("A", "B"))
    before = text(editor)
    editor.select(["B"])
    editor.commands.perform("set_start")
    assert editor.document.spec.start == "B"
    check_undo(editor, before)


@pytest.mark.parametrize("motion", [False, True])
def test_tidying_up(opened: Opened, qtbot: QtBot, motion: bool) -> None:
    theme.set_reduced_motion(not motion)
    spec = chain("A", "B", "C")
    spec = change_agent(spec, "A", template="x")
    spec = FlowSpec(
        name="x",
        start="A",
        agents=spec.agents,
        editor=EditorSpec(positions={"A": (300, 9), "B": (0, 300), "C": (100, 100)}),
    )
    editor = opened(spec)
    before = text(editor)
    editor.commands.perform("layout")
    assert editor.document.spec.editor.positions == {"A": (0, 9), "B": (246, 9), "C": (492, 9)}
    qtbot.waitUntil(lambda: editor.scene.agents["C"].x() == 492)
    check_undo(editor, before)


def test_arrows_walk_along_links_and_grow_the_selection_with_shift(opened: Opened) -> None:
    editor = opened(sample("sort-messages"))
    editor.select(["Sort"])
    key(editor, Qt.Key.Key_Right)
    first = editor.selected()
    assert first[0] in ("DeliveryReply", "PaymentReply", "AccountReply")
    key(editor, Qt.Key.Key_Right)
    assert editor.selected() == ("Table",)
    key(editor, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    assert len(editor.selected()) == 2
    editor.select(["PaymentReply"])
    key(editor, Qt.Key.Key_Up)
    assert editor.selected() == ("DeliveryReply",)
    key(editor, Qt.Key.Key_Down)
    assert editor.selected() == ("PaymentReply",)
    assert editor.undo_stack.count() == 0


def test_enter_and_a_double_click_ask_for_the_prompt(opened: Opened, qtbot: QtBot) -> None:
    editor = opened(chain("A", "B"))
    editor.select(["B"])
    with qtbot.waitSignal(editor.commands.prompt_wanted) as asked:
        key(editor, Qt.Key.Key_Return)
    assert asked.args == ["B"]
    with qtbot.waitSignal(editor.commands.prompt_wanted) as asked:
        QTest.mouseDClick(editor.view.viewport(), Qt.MouseButton.LeftButton, pos=middle(editor, "A"))
    assert asked.args == ["A"]


def test_finding_in_names_and_prompts(opened: Opened) -> None:
    editor = opened(sample("sort-messages"))
    editor.commands.perform("find")
    assert editor.find_bar.field.hasFocus()
    QTest.keyClicks(editor.find_bar.field, "customers kindly")
    assert editor.find_bar.count.text() == "1 of 3"
    assert editor.selected() == ("DeliveryReply",)
    QTest.keyClick(editor.find_bar.field, Qt.Key.Key_Return)
    assert editor.selected() == ("PaymentReply",)
    QTest.keyClick(editor.find_bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert editor.selected() == ("DeliveryReply",)
    editor.find_bar.field.setText("no such words")
    assert editor.find_bar.count.text() == "none"
    QTest.keyClick(editor.find_bar.field, Qt.Key.Key_Escape)
    assert not editor.find_bar.isVisible()
    assert editor.view.hasFocus()


# -- frames -----------------------------------------------------------------------------------------------------------


def test_framing_the_selection_and_naming_the_frame(opened: Opened) -> None:
    editor = opened(chain("A", "B", "C"))
    before = text(editor)
    editor.select(["A", "B"])
    editor.commands.perform("frame")
    assert editor.scene.mark == 0
    assert editor.frame_text.hasFocus()
    QTest.keyClicks(editor.frame_text, "Part one")
    QTest.keyClick(editor.frame_text, Qt.Key.Key_Return)
    (frame,) = frames_of(editor.document.spec)
    assert frame.title == "Part one"
    check_undo(editor, before, steps=2)
    editor.mark(0)
    editor.commands.color_frame(0, "ok")
    assert frames_of(editor.document.spec)[0].color == "ok"
    editor.commands.perform("delete")
    assert frames_of(editor.document.spec) == ()
    assert names(editor) == ["A", "B", "C"]


def test_a_frame_takes_its_agents_along(opened: Opened) -> None:
    editor = opened(frame_around(chain("A", "B", "C"), ["A"], "Part"))
    before = text(editor)
    title = editor.scene.frames.items()[0].title_rect()
    start = editor.view.mapFromScene(title.center())
    drag(editor, start, start + QPoint(0, 100))
    assert editor.document.spec.editor.positions["A"] == (0, 100)
    assert editor.document.spec.editor.positions["B"] == (280, 0)
    assert frames_of(editor.document.spec)[0].rect[1] == title.top() + 100
    check_undo(editor, before)


def test_a_frame_is_made_larger_at_its_corner_and_escape_cancels(opened: Opened) -> None:
    editor = opened(add_frame(chain("A", "B"), "Part", (0.0, 200.0, 300.0, 150.0)))
    before = text(editor)
    corner = editor.view.mapFromScene(QPointF(296.0, 346.0))
    drag(editor, corner, corner + QPoint(80, 40), release=False)
    key(editor, Qt.Key.Key_Escape)
    QTest.mouseRelease(editor.view.viewport(), Qt.MouseButton.LeftButton)
    assert text(editor) == before
    drag(editor, corner, corner + QPoint(80, 40))
    assert frames_of(editor.document.spec)[0].rect == (0, 200, 380, 190)
    check_undo(editor, before)


def test_links_to_agents_that_come_later_are_drawn_when_they_come(opened: Opened) -> None:
    spec = FlowSpec(name="x", start="A", agents=(agent("A", "Later"),))
    editor = opened(spec)
    check_agreement(editor)
    added = FlowSpec(name="x", start="A", agents=(*spec.agents, agent("Later", None)))
    editor.edit("Add", added)
    assert [link.target for link in editor.scene.links_of("A")] == ["Later"]
    check_undo(editor, flow_text(spec))
