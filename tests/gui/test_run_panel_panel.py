"""The run panel as a person sees it."""

import gc
import sys

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from engine.completion import FinishReason, Phase
from engine.events import AgentStarted, AnyEvent, BranchFailed, ErrorInfo, HandlerFailed, RunFinished, RunResult
from engine.statistics import CostProvenance
from tests.helpers.run_events import RUN, START, Script, fan_out, simple_run, statistics
from workbench.run_panel.branch_grid import BranchCell
from workbench.run_panel.labels import state_look
from workbench.run_panel.panel import RunPanel
from workbench.run_panel.phase_clock import LOOKS
from workbench.run_panel.run_rows import Column, Row
from workbench.run_panel.run_state import State
from workbench.run_panel.stream_text import View
from workbench.theme import theme

REFUSED = ErrorInfo(
    "GENERAL",
    "ConnectFailed",
    "The server at http://localhost:5001 refused the connection. Is it running?",
    "Start the server or choose another profile.",
    {"url": "http://localhost:5001/v1/chat/completions", "profile": "local-ollama"},
)


@pytest.fixture
def panel(qtbot: QtBot) -> RunPanel:
    made = RunPanel()
    qtbot.addWidget(made)
    made.resize(1400, 400)
    made.show()
    return made


def feed(panel: RunPanel, *events: AnyEvent) -> None:
    panel.apply(events)


def quiet(qtbot: QtBot, panel: RunPanel) -> None:
    qtbot.waitUntil(lambda: not panel.flusher.active)


def cells(panel: RunPanel, row: Row) -> list[str]:
    return [str(panel.tree.rows.data(panel.tree.rows.index_of(row, column))) for column in Column]


def button(inside: QWidget, text: str) -> QPushButton:
    return next(one for one in inside.findChildren(QPushButton) if one.text() == text)


def test_an_empty_panel_offers_to_run(qtbot: QtBot, panel: RunPanel) -> None:
    assert panel.empty.isVisible()
    with qtbot.waitSignal(panel.run_requested):
        qtbot.mouseClick(button(panel.empty, "Run"), Qt.MouseButton.LeftButton)


def test_words_stream_into_the_pane(qtbot: QtBot, panel: RunPanel) -> None:
    panel.start("Release announcement")
    events = list(simple_run(Script(), "Hello there, world"))
    feed(panel, *events[:-2])
    quiet(qtbot, panel)
    assert panel.stream.content.text.toPlainText() == "Hello there, world"
    assert panel.stream.content.text.live
    assert panel.title.startswith("Release announcement, started ")
    row = panel.tree.rows.step_row(1)
    assert row is not None
    assert panel.tree.current is row
    assert cells(panel, row)[2] == "~5"
    feed(panel, *events[-2:])
    quiet(qtbot, panel)
    assert cells(panel, row) == ["Writer", "2.2 s", "100 → 20", "$0.0004"]
    assert "Out 20" in panel.stream.line.text()
    assert "Cost $0.0004" in panel.stream.line.text()


def test_reasoning_stands_beside_the_answer_and_folds(qtbot: QtBot, panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("A", 0), *script.ask(0.1), script.phase(Phase.THINKING, 0.2))
    assert not panel.stream.reasoning.isVisible()
    feed(panel, script.text(0.3, reasoning="I think"))
    panel.stream.refresh()
    quiet(qtbot, panel)
    assert panel.stream.reasoning.isVisible()
    assert panel.stream.reasoning.text.toPlainText() == "I think"
    fold = next(
        one for one in panel.stream.reasoning.findChildren(QToolButton) if one.accessibleName() == "Fold reasoning"
    )
    qtbot.mouseClick(fold, Qt.MouseButton.LeftButton)
    assert not panel.stream.reasoning.isVisible()
    line = next(one for one in panel.stream.findChildren(QToolButton) if one.text().startswith("Thought ~1 tok"))
    qtbot.mouseClick(line, Qt.MouseButton.LeftButton)
    assert panel.stream.reasoning.isVisible()


def test_the_phase_clock_names_every_phase(qtbot: QtBot, panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("A", 0), *script.ask(0.1), script.phase(Phase.READING_PROMPT, 0.3))
    segments = {segment.name: segment.state for segment in panel.stream.clock.segments}
    assert segments == {
        "Queued": "done",
        "Connecting": "done",
        "Loading model": "done",
        "Reading prompt": "current",
        "Thinking": "future",
        "Answering": "future",
    }
    assert panel.stream.clock.accessibleName() == "Phases. Now: Reading prompt"
    feed(panel, BranchFailed(**script.place(1), error=REFUSED))
    assert panel.stream.clock.segments[3].state == "broken"


def test_a_stop_is_no_failure_of_the_phase_it_broke_off(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("A", 0), *script.ask(0.1), script.phase(Phase.READING_PROMPT, 0.3))
    feed(panel, RunFinished(time=START + 2, run_id=RUN, status="stopped"))
    panel.finish()
    assert panel.stream.clock.segments[3].state == "stopped"
    assert LOOKS["stopped"][1:3] == state_look(State.STOPPED)


def test_branches_stand_in_a_grid_and_open_alone(qtbot: QtBot, panel: RunPanel) -> None:
    panel.start("Flow")
    assert panel.findChildren(BranchCell) == []
    feed(panel, *fan_out(Script(), ["dark mode", "export", "keys"]))
    panel.stream.refresh()
    quiet(qtbot, panel)
    shown = panel.stream.grid.cells
    assert len({(cell.x(), cell.y()) for cell in shown}) == 3
    assert panel.stream.shows_grid
    assert [cell.text.toPlainText() for cell in shown] == ["text of dark mode", "text of export", "text of keys"]
    qtbot.mouseDClick(shown[1], Qt.MouseButton.LeftButton)
    quiet(qtbot, panel)
    assert not panel.stream.shows_grid
    assert panel.stream.content.text.toPlainText() == "text of export"


def test_many_branches_come_on_pages(qtbot: QtBot, panel: RunPanel) -> None:
    panel.start("Flow")
    feed(panel, *fan_out(Script(), [f"item {number}" for number in range(1, 12)]))
    panel.stream.refresh()
    size = panel.stream.grid.page_size
    assert size == 8
    assert len(panel.stream.grid.cells) == 8
    following = next(
        one for one in panel.stream.grid.findChildren(QToolButton) if one.accessibleName() == "Next branches"
    )
    qtbot.mouseClick(following, Qt.MouseButton.LeftButton)
    quiet(qtbot, panel)
    assert [cell.text.toPlainText() for cell in panel.stream.grid.cells] == [f"text of item {n}" for n in (9, 10, 11)]
    panel.resize(700, 400)
    panel.stream.refresh()
    assert panel.stream.grid.page_size == 4


def test_an_error_is_told_above_the_kept_text(qtbot: QtBot, panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("A", 0), *script.ask(0.1), script.text(0.5, "half an answ"))
    feed(panel, BranchFailed(**script.place(1), error=REFUSED))
    quiet(qtbot, panel)
    banner = panel.stream.banner
    assert banner.isVisible()
    assert banner.message is not None
    assert banner.message.title == REFUSED.message
    assert "Start the server" in banner.message.text
    assert "url: http://localhost:5001/v1/chat/completions" in banner.message.details
    assert panel.stream.content.text.toPlainText() == "half an answ"
    assert panel.stream.content.accessibleName() == "Content"
    assert "incomplete" in [label.text() for label in panel.stream.content.findChildren(type(panel._caption))]
    with qtbot.waitSignal(panel.retry_requested):
        qtbot.mouseClick(button(banner, "Retry"), Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(panel.profile_requested) as asked:
        qtbot.mouseClick(button(banner, "Edit profile"), Qt.MouseButton.LeftButton)
    assert asked.args == ["local-ollama"]


def test_a_closed_message_stays_closed(qtbot: QtBot, panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("A", 0), BranchFailed(**script.place(1), error=REFUSED))
    panel.stream.banner.closed.emit()
    panel.stream.refresh()
    assert not panel.stream.banner.isVisible()


def test_outside_text_in_a_message_is_shown_as_it_is(qtbot: QtBot, panel: RunPanel) -> None:
    script = Script()
    panel.start("<b>Flow</b>")
    error = ErrorInfo("GENERAL", "X", "<img src='x'> &amp; <b>bold</b>", facts={"excerpt": "<script>\x1b[31m"})
    feed(panel, script.run(), script.begin("<i>A</i>", 0), BranchFailed(**script.place(1), error=error))
    labels = [label for label in panel.stream.banner.findChildren(QWidget) if hasattr(label, "textFormat")]
    assert {label.textFormat() for label in labels} == {Qt.TextFormat.PlainText}
    texts = [label.text() for label in labels]
    assert "<img src='x'> &amp; <b>bold</b>" in texts
    assert any("‹ESC›[31m" in text for text in texts)


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        (
            {"no_answer": True, "reasoning": "hm", "statistics": statistics(100, 0, 4096)},
            "The answer is empty, but 4,096 tokens of thinking were spent.",
        ),
        ({"no_answer": True}, "The model answered nothing."),
        ({"finish_reason": FinishReason.TOKEN_LIMIT_REACHED}, "The answer was cut off at the token limit."),
    ],
)
def test_answers_that_are_none(panel: RunPanel, fields: dict[str, object], title: str) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("A", 0), *script.ask(0.1), script.answer(1, "", **fields))
    assert panel.stream.banner.message is not None
    assert panel.stream.banner.message.title == title
    assert panel.stream.banner.message.kind == "warn"


def test_attempts_get_lines_of_their_own(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("Json", 0), *script.ask(0.1), script.answer(1, "oops"))
    row = panel.tree.rows.step_row(1)
    assert row is not None
    assert row.rows == []
    feed(panel, HandlerFailed(**script.place(1.1), attempt=1, reason="no JSON"), *script.ask(1.2, attempt=2))
    feed(panel, script.answer(2, "{}", attempt=2))
    assert [child.name for child in row.rows] == ["attempt 1", "attempt 2"]
    panel.tree.choose(row.rows[0])
    assert panel.stream.content.text.full_text == "oops"


def test_every_line_tells_tokens_in_and_out(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, *fan_out(script, ["a", "b"]))
    step = panel.tree.rows.step_row(1)
    assert step is not None
    assert [cells(panel, row)[2] for row in (step, *step.rows)] == ["~2", "~1", "~1"]
    feed(panel, script.answer(2, "text", "1/2", statistics=statistics(115, 27)))
    assert [cells(panel, row)[2] for row in (step, *step.rows)] == ["115 → ~28", "115 → 27", "~1"]
    feed(panel, script.answer(2, "text", "2/2", statistics=statistics(100, 13, cached_in_tokens=5)))
    assert [cells(panel, row)[2] for row in (step, *step.rows)] == ["220 → 40", "115 → 27", "105 → 13"]


def test_executions_on_several_branches_are_told_apart(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, *fan_out(script, ["a", "b"]), script.leave(1, "Reply", "1/2"), script.leave(1, "Reply", "2/2"))
    for number in (1, 2):
        script.step, script.agent = number, "Reply"
        place = {**script.place(1, f"{number}/2"), "step": number + 1}
        feed(panel, AgentStarted(**place, category="M", from_step=1))
        names = [cells(panel, row)[0] for row in map(panel.tree.rows.step_row, range(2, number + 2)) if row]
        assert names == (["Reply"] if number == 1 else ["Reply · 1/2", "Reply · 2/2"])


def test_figures_make_room_for_names(panel: RunPanel) -> None:
    """Tokens go first, then cost, until a name has what it needs, up to its share."""
    panel.start("Flow")
    feed(panel, *fan_out(Script(), ["wash the dishes in the kitchen before noon", "b"]))
    tree = panel.tree
    hidden = []
    for width in (600, 430, 300):
        tree.setFixedWidth(width)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        QCoreApplication.processEvents()
        hidden.append((tree.isColumnHidden(Column.TOKENS), tree.isColumnHidden(Column.COST)))
        if width > 300:
            assert tree.columnWidth(Column.STEP) - 2 * tree.indentation() - theme.px(28) >= theme.px(160)
    assert hidden == [(False, False), (True, False), (True, True)]
    panel.start("Flow")
    feed(panel, *simple_run(Script()))
    tree.setFixedWidth(430)
    QCoreApplication.processEvents()
    assert not tree.isColumnHidden(Column.TOKENS)


def test_agents_to_come_wait_in_the_tree(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(First="p", Second="p"), script.begin("First", 0))
    rows = panel.tree.rows
    names = [str(rows.data(rows.index(number, 0))) for number in range(rows.rowCount())]
    assert names == ["First", "Second"]
    feed(panel, script.leave(1, "Second"), script.begin("Second", 1), script.leave(2, None))
    names = [str(rows.data(rows.index(number, 0))) for number in range(rows.rowCount())]
    assert names == ["First", "Second"]
    assert rows.row_of(rows.index(1, 0)).state is State.DONE


def test_the_panel_follows_the_run_until_the_person_chooses(qtbot: QtBot, panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("A", 0), script.leave(1, "B"), script.begin("B", 1))
    assert panel.tree.current is panel.tree.rows.step_row(2)
    first = panel.tree.rows.step_row(1)
    assert first is not None
    place = panel.tree.visualRect(panel.tree.rows.index_of(first)).center()
    with qtbot.waitSignal(panel.agent_selected) as chosen:
        qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert chosen.args == ["A"]
    feed(panel, script.leave(2, "C"), script.begin("C", 2))
    assert panel.tree.current is first


def test_the_canvas_can_select_an_agent(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("A", 0), script.leave(1, "B"), script.begin("B", 1))
    panel.select_agent("A")
    assert panel.tree.current is panel.tree.rows.step_row(1)
    panel.select_agent("Later")
    assert panel.tree.current is None
    assert panel.stream.content.text.placeholderText() == "Later has not begun."


def finished_run() -> list[AnyEvent]:
    script = Script()
    events = list(simple_run(script))
    final = statistics(100, 20, provenance=CostProvenance.UNKNOWN)
    results = (RunResult("M, Writer", "M, Writer, (2000 ms)", {}), RunResult("M, Writer, ⚠", "M, Writer, ⚠", {}))
    end = RunFinished(
        time=START + 3,
        run_id=RUN,
        status="finished",
        results=results,
        outputs={"text": ["Hello world"]},
        statistics=final,
        agents={"Writer": final},
    )
    return [*events, end]


def test_a_recorded_run_looks_like_a_live_one(qtbot: QtBot, panel: RunPanel) -> None:
    live = RunPanel()
    qtbot.addWidget(live)
    live.resize(1400, 400)
    live.show()
    live.start("Flow")
    feed(live, *finished_run())
    live.finish()
    panel.show_run("Flow", finished_run())
    quiet(qtbot, panel)
    quiet(qtbot, live)
    for one in (panel, live):
        assert one.stream.content.text.toPlainText() == "Hello world"
        assert [one.tree.rows.data(one.tree.rows.index(0, column)) for column in Column] == [
            "Writer",
            "2.2 s",
            "100 → 20",
            "$0.0004",
        ]
    assert panel.summary_text() == live.summary_text()


def test_the_summary_tells_answer_trace_and_figures(panel: RunPanel) -> None:
    panel.show_run("Flow", finished_run())
    text = panel.summary_text()
    assert "text:\nHello world" in text
    assert "M, Writer, ⚠" in text
    assert "Requests 1" in text
    assert "Cost ≥ $0.0004" in text


def test_traces_and_statistics_of_the_end(panel: RunPanel) -> None:
    panel.show_run("Flow", finished_run())
    panel.trace.refresh()
    panel.statistics.refresh()
    assert panel.trace.text == "M, Writer, (2000 ms)\nM, Writer, ⚠"
    assert "Writer" in panel.trace.timeline.accessibleDescription()
    table = panel.statistics.table
    texts = [[table.item(row, column).text() for column in (0, 1, 3, 5, 9)] for row in range(table.rowCount())]
    assert texts == [["Writer", "1", "100", "20", "≥ $0.0004"], ["Total", "1", "100", "20", "≥ $0.0004"]]


def test_a_narrow_table_leaves_figures_out_instead_of_scrolling(panel: RunPanel) -> None:
    panel.show_run("Flow", finished_run())
    panel.show_tab("Statistics")
    table = panel.statistics.table
    hidden = []
    for width in (1600, 900, 560):
        panel.resize(width, 300)
        hidden.append([table.isColumnHidden(column) for column in range(table.columnCount())].count(True))
    assert hidden[0] == 0 < hidden[1] < hidden[2]
    assert not table.isColumnHidden(0)
    assert not table.isColumnHidden(9)


def test_copying_gives_the_whole_text(qtbot: QtBot, panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    text = "nul\x00 " + "x" * 5000
    feed(panel, script.run(), script.begin("A", 0), *script.ask(0.1), script.text(0.5, text))
    panel.copy_shown()
    assert QGuiApplication.clipboard().text() == text.replace("\x00", "\ufffd")


def test_stop_is_seen_at_once_and_ends_as_stopped(panel: RunPanel) -> None:
    panel.start("Flow")
    feed(panel, *fan_out(Script(), ["a", "b"]))
    panel.stopping()
    assert panel._caption.text() == "stopping …"
    feed(panel, RunFinished(time=START + 2, run_id=RUN, status="stopped"))
    panel.finish()
    assert panel.model.steps[1].state is State.STOPPED
    assert panel.stream.banner.message is None


def test_an_error_before_the_run_is_told(panel: RunPanel) -> None:
    panel.show_error(REFUSED)
    assert panel.stream.banner.isVisible()
    panel.start("Flow")
    assert not panel.stream.banner.isVisible()


def test_the_view_is_chosen_by_the_person(qtbot: QtBot, panel: RunPanel) -> None:
    panel.show_run("Flow", simple_run(Script(), '{"a": 1}'))
    quiet(qtbot, panel)
    assert panel.stream.view is View.JSON
    raw = next(one for one in panel.findChildren(QToolButton) if one.accessibleName() == "Raw")
    qtbot.mouseClick(raw, Qt.MouseButton.LeftButton)
    quiet(qtbot, panel)
    assert panel.stream.view is View.RAW
    assert panel.stream.content.text.toPlainText() == '{"a": 1}'


def test_rows_with_json_and_prose_take_turns(qtbot: QtBot, panel: RunPanel) -> None:
    """The colours of JSON outlive the documents that rendered answers replace."""
    script = Script()
    answers = ['{"features": ["dark mode"]}', "# Title\n\nSome **words**.", '{"title": "x"}', "Plain words."]
    panel.start("Flow")
    feed(panel, script.run())
    for number, answer in enumerate(answers):
        feed(panel, script.begin(f"Agent{number}", number), *script.ask(number + 0.1))
        feed(panel, script.answer(number + 0.5, answer), script.leave(number + 0.6, None))
    panel.finish()
    shown = {0: "dark mode", 1: "Some words.", 2: '"title"', 3: "Plain words."}
    before = theme.zoom, theme.preference
    try:
        for turn, number in enumerate((0, 1, 0, 3, 2, 1, 1, 2, 0)):
            row = panel.tree.rows.step_row(number + 1)
            assert row is not None
            panel.tree.choose(row)
            quiet(qtbot, panel)
            gc.collect()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
            assert shown[number] in panel.stream.content.text.toPlainText()
            if turn % 2:
                theme.set_zoom(1.0 if theme.zoom > 1 else 1.2)
            else:
                theme.choose("light" if theme.dark else "dark")
            quiet(qtbot, panel)
            assert shown[number] in panel.stream.content.text.toPlainText()
        panel.start("Flow")
        assert panel.tree.rows.rowCount() == 0
    finally:
        theme.set_zoom(before[0])
        theme.choose(before[1])


def test_a_page_that_raises_holds_up_nothing_and_tells_once(
    qtbot: QtBot, panel: RunPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(QWidget):
        def apply(self, event: AnyEvent) -> None:
            raise ValueError("apply")

        def clear(self) -> None:
            raise ValueError("clear")

    class Whole(QWidget):
        seen = 0

        def apply(self, event: AnyEvent) -> None:
            self.seen += 1

        def clear(self) -> None:
            self.seen = 0

    told: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda _kind, error, _trace: told.append(error))
    whole = Whole()
    panel.add_page("Broken", Broken())
    panel.add_page("Whole", whole)

    def fail(*_given: object) -> None:
        raise ValueError("prompt")

    monkeypatch.setattr(panel.prompt, "show_attempt", fail)
    events = list(simple_run(Script(), "Hello there, world"))
    for _ in range(2):
        told.clear()
        panel.start("Flow")
        feed(panel, *events)
        panel.finish()
        quiet(qtbot, panel)
        assert whole.seen == len(events)
        assert panel.stream.content.text.toPlainText() == "Hello there, world"
        assert sorted(str(error) for error in told) == ["clear", "prompt"]


def test_a_pane_that_raises_does_not_keep_the_others_from_showing(
    qtbot: QtBot, panel: RunPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda _kind, error, _trace: told.append(error))

    def fail(_deadline: float) -> bool:
        raise ValueError("pane")

    panel.flusher.add(fail)
    panel.flusher._panes.reverse()
    panel.start("Flow")
    feed(panel, *simple_run(Script(), "Hello there, world"))
    quiet(qtbot, panel)
    assert panel.stream.content.text.toPlainText() == "Hello there, world"
    assert [str(error) for error in told] == ["pane"]


def test_further_pages_get_the_events(qtbot: QtBot, panel: RunPanel) -> None:
    class Counter(QWidget):
        seen = 0

        def apply(self, event: AnyEvent) -> None:
            self.seen += 1

        def clear(self) -> None:
            self.seen = 0

    page = Counter()
    panel.add_page("Counter", page)
    panel.start("Flow")
    feed(panel, *simple_run(Script()))
    assert page.seen > 5
    panel.clear()
    assert page.seen == 0
    with pytest.raises(TypeError):
        panel.add_page("None", QWidget())


def test_thousands_of_branches_do_not_hold_the_window(qtbot: QtBot, panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    feed(panel, script.run(), script.begin("Wide", 0, splits=3000))
    for number in range(1, 3001):
        feed(panel, script.split(number, 3000, f"item {number}", 0.1), script.answer(1, "x", f"{number}/3000"))
    panel.stream.refresh()
    row = panel.tree.rows.step_row(1)
    assert row is not None
    assert row.name == "3000/3000  Wide"
    assert len(panel.stream.grid.cells) == 8


def test_control_names_for_screen_readers(panel: RunPanel) -> None:
    panel.show_run("Flow", finished_run())
    for one in panel.findChildren(QToolButton):
        if one.isVisible():
            assert one.accessibleName() or one.text() or one.toolTip(), one
