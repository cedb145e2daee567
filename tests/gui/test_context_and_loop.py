"""The Context and Loop tabs: what a step changed, and how the rounds of a grader went."""

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.events import AgentFinished, AgentStarted, AnyEvent
from tests.helpers.run_events import Script, loop_run
from workbench.run_panel.panel import RunPanel

INPUTS: dict[str, list[object]] = {"topic": ["tea"], "draft": ["old text here"], "scratch": ["x"]}


@pytest.fixture
def panel(qtbot: QtBot) -> RunPanel:
    made = RunPanel()
    qtbot.addWidget(made)
    made.resize(1400, 420)
    made.show()
    return made


def leave(
    script: Script, at: float, to: str | None, values: dict[str, list[object]], branch: str = ""
) -> AgentFinished:
    return AgentFinished(**script.place(at, branch), to=to, values=values)


def one_step(script: Script, values: dict[str, list[object]]) -> list[AnyEvent]:
    return [
        script.run(),
        script.begin("Writer", 0),
        *script.ask(0.1),
        script.answer(0.5, "x"),
        leave(script, 0.6, None, values),
    ]


def table(panel: RunPanel) -> list[list[str]]:
    shown = panel.context.table
    cells = [[shown.item(row, column) for column in range(3)] for row in range(shown.rowCount())]
    return [[item.text() if item is not None else "" for item in row] for row in cells]


def test_every_key_stands_beside_what_it_was_before(qtbot: QtBot, panel: RunPanel) -> None:
    panel.start("Flow", INPUTS)
    panel.show_tab("Context")
    after: dict[str, list[object]] = {"topic": ["tea"], "draft": ["new text here"], "score": [78]}
    panel.apply(one_step(Script(), after))
    panel.finish("finished")
    assert table(panel) == [
        ["score", "", "78"],
        ["draft", "old text here", "new text here"],
        ["scratch", "x", ""],
        ["topic", "tea", "unchanged"],
    ]
    assert panel.context.note.text() == "1 added, 1 changed, 1 removed"
    panel.context.table.selectRow(1)
    pieces = panel.context.difference.pieces
    assert [(one.kind, one.text) for one in pieces] == [("removed", "old"), ("added", "new"), ("same", " text here")]
    qtbot.keyClick(panel.context.only_changed, Qt.Key.Key_Space)
    assert len(table(panel)) == 3
    qtbot.keyClicks(panel.context.filter, "DRA")
    assert [row[0] for row in table(panel)] == ["draft"]
    assert panel.context.text == "topic\ntea\n\ndraft\nnew text here\n\nscore\n78"


def test_the_step_before_is_the_one_the_context_came_from(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow", INPUTS)
    panel.show_tab("Context")
    panel.apply([script.run(), script.begin("Split", 0, splits=2)])
    for number in (1, 2):
        branch = f"{number}/2"
        panel.apply([script.split(number, 2, "v", 0.1), leave(script, 0.2, "Next", {"v": [number]}, branch)])
    for number in (1, 2):
        step = 10 + number
        place = {**script.place(1, f"{number}/2"), "agent": "Next", "step": step}
        panel.apply([AgentStarted(**place, from_step=1)])
        panel.apply([AgentFinished(**place, values={"v": [number], "w": ["made"]})])
    panel.finish("finished")
    panel.select_agent("Next")  # the newest, on the second branch
    assert table(panel) == [["w", "", "made"], ["v", "2", "unchanged"]]


def test_before_a_step_ends_its_beginning_is_shown(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow", INPUTS)
    panel.show_tab("Context")
    panel.apply([script.run(), script.begin("Writer", 0), *script.ask(0.1)])
    panel.context.refresh()
    assert [row[0] for row in table(panel)] == ["topic", "draft", "scratch"]
    assert panel.context.note.text() == "The step has not ended: this is what it began with."


def test_an_unknown_beginning_is_not_called_a_change(panel: RunPanel) -> None:
    panel.start("Flow")
    panel.show_tab("Context")
    panel.apply(one_step(Script(), {"topic": ["tea"]}))
    panel.finish("finished")
    assert table(panel) == [["topic", "", "tea"]]
    assert panel.context.note.text() == "What it had before is not known."


def test_each_round_has_its_agents_and_its_score(qtbot: QtBot, panel: RunPanel) -> None:
    panel.start("Flow")
    panel.show_tab("Loop")
    assert panel.loop.rounds == []
    panel.apply(loop_run(Script()))
    panel.finish("finished")
    rows = [line.split("\t") for line in panel.loop.text.splitlines()]
    assert [row[:4] for row in rows[1:]] == [
        ["1", "Writer", "", ""],
        ["", "Check", "41", "failed"],
        ["2", "Writer", "", ""],
        ["", "Check", "–", "unparsable"],
        ["3", "Writer", "", ""],
        ["", "Check", "88", "passed"],
    ]
    assert rows[1][4:7] == ["120", "$0.0004", "0.2 s"]
    assert rows[2][7] == "Too short"
    points = panel.loop.curve.points()
    assert points[1] is None  # no score is not 0
    assert points[0] is not None
    assert points[2] is not None
    assert points[0].y() > points[2].y()
    assert panel.loop.curve.accessibleName() == "Score by round. 1: failed 41, 2: unparsable, 3: passed 88"


def test_any_two_rounds_are_compared_word_by_word(qtbot: QtBot, panel: RunPanel) -> None:
    panel.start("Flow")
    panel.show_tab("Loop")
    panel.apply(loop_run(Script()))
    panel.finish("finished")
    loop = panel.loop
    assert (loop.first.currentText(), loop.second.currentText()) == ("2", "3")
    qtbot.keyClick(loop.first, Qt.Key.Key_Up)
    assert [(one.kind, one.text) for one in loop.candidate.pieces] == [
        ("same", "A "),
        ("removed", "short"),
        ("added", "longer better"),
        ("same", " note"),
    ]
    assert [(one.kind, one.text) for one in loop.feedback.pieces] == [("removed", "Too short"), ("added", "Good")]
    loop.table.itemActivated.emit(loop.table.item(0, 1))
    assert panel.tree.current is panel.tree.rows.step_row(2)
