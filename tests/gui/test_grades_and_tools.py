"""Outcomes told apart: grades and calls of tools in the tree, the trace, the streams, on cards and links."""

from typing import Any

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QGraphicsScene, QLabel
from pytestqt.qtbot import QtBot

from engine.completion import FinishReason
from engine.events import (
    AnyEvent,
    BranchFailed,
    ErrorInfo,
    Graded,
    GradeOutcome,
    PromptReady,
    RunFinished,
    RunResult,
    ToolCalled,
)
from engine.flow.flow_spec import AgentSpec, FlowSpec
from tests.helpers.run_events import RUN, START, Script, statistics
from workbench.designer.agent_run import CardState, LinkRun
from workbench.designer.card_content import CardContent, Port, Verdict, card_content
from workbench.designer.card_footer import card_footer
from workbench.designer.links import LinkLook, LinkPicture
from workbench.designer.run_overlay import RunOverlay
from workbench.run_panel.panel import RunPanel
from workbench.run_panel.run_rows import Row
from workbench.run_panel.stream_text import View

FAULT = ErrorInfo("PARSING", "HandlerError", "The answer is no JSON.")


@pytest.fixture
def panel(qtbot: QtBot) -> RunPanel:
    made = RunPanel()
    qtbot.addWidget(made)
    made.resize(1400, 400)
    made.show()
    return made


def graded(script: Script, at: float, outcome: GradeOutcome, branch: str = "", **more: Any) -> Graded:
    """A verdict, or that there is none."""
    passed = outcome is GradeOutcome.PASSED
    return Graded(**script.place(at, branch), passed=passed, outcome=outcome, **more)


def check(script: Script, at: float, outcome: GradeOutcome, to: str | None, **more: Any) -> list[AnyEvent]:
    """One execution of the grader Check."""
    return [
        script.begin("Check", at),
        *script.ask(at + 0.1),
        script.answer(at + 0.5, "{}"),
        graded(script, at + 0.6, outcome, **more),
        script.leave(at + 0.7, to),
    ]


def row_of(panel: RunPanel, number: int) -> Row:
    row = panel.tree.rows.step_row(number)
    assert row is not None
    return row


@pytest.mark.parametrize(
    ("outcome", "rating", "look", "note"),
    [
        (GradeOutcome.PASSED, 88, ("check", "ok"), ("passed 88", "ok")),
        (GradeOutcome.FAILED, 0, ("cross", "err"), ("failed 0", "err")),
        (GradeOutcome.UNPARSABLE, None, ("warning", "warn"), ("unparsable", "warn")),
        (GradeOutcome.UNANSWERED, None, ("chat", "warn"), ("unanswered", "warn")),
    ],
)
def test_each_outcome_of_a_grade_has_its_own_look(
    panel: RunPanel, outcome: GradeOutcome, rating: float | None, look: tuple[str, str], note: tuple[str, str]
) -> None:
    script = Script()
    panel.start("Flow")
    panel.apply([script.run(), *check(script, 0, outcome, None, rating=rating, explanation="Says why", iteration=1)])
    row = row_of(panel, 1)
    assert row.look == look
    assert row.note == note
    index = panel.tree.rows.index_of(row)
    assert panel.tree.rows.data(index, Qt.ItemDataRole.AccessibleTextRole) == f"Check, Answered, {note[0]}"
    assert "round 1: Says why" in str(panel.tree.rows.data(index, Qt.ItemDataRole.ToolTipRole))
    panel.stream.refresh()
    assert panel.stream.line.text().startswith(f"Grade {note[0]}")
    assert panel.stream.banner.isVisible() is (rating is None)


def test_a_record_of_an_older_version_has_passed_only(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    begin, *rest = check(script, 0, GradeOutcome.FAILED, None)
    old = [Graded(**script.place(0.6), passed=False) if isinstance(one, Graded) else one for one in rest]
    panel.apply([script.run(), begin, *old])
    assert row_of(panel, 1).note == ("failed", "err")


def test_a_grader_of_many_branches_counts_its_verdicts(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    panel.apply([script.run(), script.begin("Check", 0, splits=3)])
    outcomes = (GradeOutcome.PASSED, GradeOutcome.PASSED, GradeOutcome.UNPARSABLE)
    for number, outcome in enumerate(outcomes, 1):
        panel.apply([script.split(number, 3, "x", 0.1), graded(script, 0.2, outcome, f"{number}/3")])
    assert row_of(panel, 1).note == ("2 passed, 1 unparsable", "text2")
    branch = panel.tree.rows.branch_row(1, "3/3")
    assert branch is not None
    assert branch.note == ("unparsable", "warn")


def test_the_trace_tells_the_outcomes_apart_live_and_finished(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    panel.apply([script.run(), *check(script, 0, GradeOutcome.UNPARSABLE, "Check", iteration=1)])
    panel.apply(check(script, 1, GradeOutcome.PASSED, None, rating=90.0, explanation="Good", iteration=2))
    panel.show_tab("Trace")
    marks = [entry for line in panel.trace.lines for entry in line.entries if entry.grade is not None]
    assert [mark.icon for mark in marks] == [("warning", "warn"), ("check", "ok")]
    trace = "M, Check, ✗, →, M, Check, ✓"
    result = RunResult(trace, trace, {})
    panel.apply([RunFinished(time=START + 2, run_id=RUN, status="finished", results=(result,))])
    panel.finish("finished")
    marks = [entry for line in panel.trace.lines for entry in line.entries if entry.text in "✓✗"]
    assert [mark.icon for mark in marks] == [("warning", "warn"), ("check", "ok")]
    assert [mark.explanation() for mark in marks] == ["Graded: unparsable, round 1", "Graded: passed 90, round 2: Good"]
    assert panel.trace.text == trace  # the symbols stay those of the format


def test_the_grades_of_split_branches_are_not_mixed_up(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    panel.apply([script.run(), script.begin("Check", 0, splits=2)])
    for number, rating in ((1, 30.0), (2, 95.0)):
        panel.apply([script.split(number, 2, "x", 0.1)])
        outcome = GradeOutcome.PASSED if rating > 60 else GradeOutcome.FAILED
        panel.apply([graded(script, 0.2, outcome, f"{number}/2", rating=rating)])
    results = tuple(RunResult(text, text, {}) for text in ("⇉ 1/2, M, Check, ✗", "⇉ 2/2, M, Check, ✓"))
    panel.apply([RunFinished(time=START + 2, run_id=RUN, status="finished", results=results)])
    panel.show_tab("Trace")
    said = [entry.explanation() for line in panel.trace.lines for entry in line.entries if entry.grade is not None]
    assert said == ["Graded: failed 30", "Graded: passed 95"]


def test_tools_are_rows_below_the_request_that_called_them(qtbot: QtBot, panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    called = {"finish_reason": FinishReason.TOOL_CALLS}
    panel.apply([script.run(), script.begin("Clerk", 0), *script.ask(0.1), script.answer(0.5, "", **called)])
    place = script.place(0.8)
    panel.apply(
        [
            ToolCalled(**place, name="lookup", arguments='{"word": "tea"}', output='{"found": 3}', seconds=0.3),
            ToolCalled(**place, name="send", arguments="", output="Error: no\x07 way", failed=True, seconds=0.1),
            *script.ask(1.0, attempt=2),
            script.answer(1.5, "Three.", attempt=2),
            script.leave(1.6, None),
        ]
    )
    top = row_of(panel, 1)
    assert [row.name for row in top.rows] == ["attempt 1", "attempt 2"]
    tools = top.rows[0].rows
    assert [(row.name, row.look, row.note[0]) for row in tools] == [
        ("lookup", ("tool", "text2"), '{"word": "tea"}'),
        ("send", ("failed", "err"), ""),
    ]
    cells = [str(panel.tree.rows.data(panel.tree.rows.index_of(tools[0], column))) for column in range(4)]
    assert cells == ["lookup", "0.3 s", "–", "–"]
    panel.tree.expandAll()
    area = panel.tree.visualRect(panel.tree.rows.index_of(tools[0]))
    qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=area.center())
    page = panel.stream.tool
    assert page.isVisible()
    qtbot.waitUntil(lambda: page.result.toPlainText() == '{\n  "found": 3\n}')
    assert page.result.view is View.JSON
    assert panel.stream.line.text() == "Tool lookup, Time 0.3 s, Outcome done"
    qtbot.keyClick(panel.tree, Qt.Key.Key_Down)
    qtbot.waitUntil(lambda: page.result.toPlainText().startswith("Error: no"))
    assert page.arguments.toPlainText() == ""
    assert "\x07" not in page.result.toPlainText()
    assert panel.stream.line.text() == "Tool send, Time 0.1 s, Outcome failed"
    panel.stream.show_branch(panel.model.steps[1].branches[""], None)
    assert "Retries 0" in panel.stream.line.text()  # asking again with the results is no retry


def test_a_card_says_what_its_grader_made_of_the_answers() -> None:
    script = Script()
    overlay = RunOverlay()
    for event in [script.run(), *check(script, 0, GradeOutcome.FAILED, "Check", rating=41.0, explanation="Thin")]:
        overlay.apply(event)
    footer = card_footer(_content(), overlay.agent("Check"), 0.7)
    assert footer is not None
    assert (footer.icon, footer.label, footer.label_color) == ("cross", "failed 41", "err")
    for event in check(script, 1, GradeOutcome.UNPARSABLE, None):
        overlay.apply(event)
    footer = card_footer(_content(), overlay.agent("Check"), 1.4)
    assert footer is not None
    assert (footer.icon, footer.label) == ("warning", "1 failed, 1 unparsable")
    assert overlay.links["Check", "Check", False].ungraded == 0
    assert overlay.links["Check", None, False].ungraded == 1


def test_a_grader_that_broke_off_is_no_bad_grade() -> None:
    script = Script()
    overlay = RunOverlay()
    events = [script.run(), script.begin("Check", 0), graded(script, 1, GradeOutcome.UNPARSABLE)]
    for event in [*events, BranchFailed(**script.place(1), error=FAULT)]:
        overlay.apply(event)
    run = overlay.agent("Check")
    assert run.state is CardState.FAILED
    footer = card_footer(_content(), run, 1.0)
    assert footer is not None
    assert footer.label == "unparsable: The answer is no JSON."


def test_a_link_taken_without_a_verdict_is_not_red() -> None:
    port = Port(target="Writer", label="feedback", verdict=Verdict.FAILED, is_feedback=True)
    link, scene = LinkPicture("Check", 0, port, "Writer"), QGraphicsScene()
    link.draw(scene, QPointF(300, 0), QPointF(0, 0), -60.0)
    looks = []
    for run in (LinkRun(), LinkRun(count=1), LinkRun(count=1, ungraded=1), LinkRun(count=2, ungraded=1)):
        link.show_run(run)
        looks.append((link.look, link.pill_text[1]))
    assert looks == [
        (LinkLook.LOOP, "≤ 2 rounds"),
        (LinkLook.FEEDBACK_TAKEN, "1 of 2"),
        (LinkLook.UNGRADED_TAKEN, "1 of 2, no verdict"),
        (LinkLook.FEEDBACK_TAKEN, "2 of 2, 1 without verdict"),
    ]


def _content() -> CardContent:
    agent = AgentSpec(name="Check", grader="AnswerGrader2")
    return card_content(FlowSpec(name="f", agents=(agent,)), agent)


@pytest.mark.parametrize(
    ("read", "more", "alarm"),
    [(2048, {}, True), (9000, {}, False), (2048, {"estimated": True}, False), (0, {}, False)],
)
def test_a_prompt_that_was_read_in_part_is_told(panel: RunPanel, read: int, more: dict[str, Any], alarm: bool) -> None:
    script = Script()
    panel.start("Flow")
    prompt = PromptReady(
        **{**script.place(0.1), "agent": "A", "step": 1}, attempt=1, profile="p", turns=(("user", "word " * 8000),)
    )
    panel.apply([script.run(), script.begin("A", 0), prompt])
    panel.apply([script.answer(1, "yes", statistics=statistics(in_tokens=read, **more)), script.leave(1.1, None)])
    panel.finish("finished")
    said = panel.stream.banner.findChildren(QLabel)
    told = any("read 2,048 tokens only, but about ~10,000 were sent" in one.text() for one in said if one.isVisible())
    assert told is alarm
