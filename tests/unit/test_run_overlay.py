"""What events make of agents and links on the canvas."""

from decimal import Decimal

import pytest

from engine.completion import Phase
from engine.events import (
    AgentFinished,
    AgentStarted,
    BranchFailed,
    CacheHit,
    ErrorInfo,
    Graded,
    HandlerFailed,
    Merged,
    Paused,
    Retrying,
    RunFinished,
    RunStarted,
    Warned,
)
from engine.flow.run_plan import PlannedAgent
from engine.statistics import CostProvenance
from tests.helpers.run_events import RUN, START, Script, fan_out, simple_run, statistics
from tests.helpers.sample_flows import chain
from workbench.designer.agent_run import CardState, FrozenMark
from workbench.designer.card_content import card_content
from workbench.designer.card_footer import card_footer
from workbench.designer.run_overlay import RunOverlay


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def played(*events: object, clock: Clock | None = None) -> RunOverlay:
    overlay = RunOverlay(clock or Clock())
    for event in events:
        overlay.apply(event)  # type: ignore[arg-type]
    return overlay


def test_an_agent_runs_streams_and_finishes() -> None:
    events = list(simple_run(Script(), "Hello world, again"))
    running = played(*events[:-2])
    writer = running.agent("Writer")
    assert writer.state is CardState.RUNNING
    assert writer.phase == Phase.ANSWERING
    assert writer.streamed == 5
    assert writer.live_tokens == 5
    assert running.is_active
    finished = played(*events)
    writer = finished.agent("Writer")
    assert writer.state is CardState.FINISHED
    assert (writer.in_tokens, writer.out_tokens, writer.streamed) == (100, 20, 0)
    assert writer.cost == Decimal("0.0004")
    assert writer.spent == pytest.approx(2.2)
    assert writer.output == "Hello world, again"
    assert not finished.is_active


def test_elapsed_time_goes_on_between_events() -> None:
    clock = Clock()
    overlay = played(*list(simple_run(Script()))[:2], clock=clock)
    clock.now = 3.5
    assert overlay.elapsed(overlay.agent("Writer")) == pytest.approx(3.5)


def test_branches_are_counted_until_all_are_answered() -> None:
    script = Script()
    overlay = played(*fan_out(script, ["a", "b", "c"]))
    splitter = overlay.agent("Splitter")
    assert (splitter.done, splitter.total) == (0, 3)
    overlay.apply(script.answer(1.0, "A", "1/3"))
    overlay.apply(script.answer(1.5, "C", "3/3"))
    assert (splitter.done, splitter.total) == (2, 3)
    assert splitter.state is CardState.RUNNING
    assert splitter.output == "C"
    assert splitter.output_branch == "3/3"
    overlay.apply(script.answer(2.0, "B", "2/3"))
    overlay.apply(Merged(**script.place(2.1), inputs=3, outputs=1))
    assert splitter.state is CardState.RUNNING
    overlay.apply(script.leave(2.2, "Next"))
    assert splitter.state is CardState.FINISHED
    assert splitter.out_tokens == 60


def test_a_branch_whose_answer_is_refused_is_open_again() -> None:
    script = Script()
    overlay = played(*fan_out(script, ["a", "b"]), script.answer(1.0, "{", "1/2"))
    assert overlay.agent("Splitter").done == 1
    overlay.apply(HandlerFailed(**script.place(1.1, "1/2"), attempt=1, reason="not valid JSON"))
    assert overlay.agent("Splitter").done == 0
    overlay.apply(script.answer(2.0, "{}", "1/2", attempt=2))
    assert overlay.agent("Splitter").done == 1
    assert overlay.agent("Splitter").retries == 1


def test_a_failed_branch_lets_the_others_go_on_and_marks_the_agent_at_the_end() -> None:
    script = Script()
    error = ErrorInfo(type="GENERAL", name="ConnectFailed", message="Nobody answers at http://localhost:9.")
    overlay = played(*fan_out(script, ["a", "b"]), BranchFailed(**script.place(1.0, "2/2"), error=error))
    splitter = overlay.agent("Splitter")
    assert splitter.state is CardState.RUNNING
    assert splitter.done == 1
    overlay.apply(script.answer(2.0, "A", "1/2"))
    overlay.apply(script.leave(2.1, None, "1/2"))
    assert splitter.state is CardState.FAILED
    assert splitter.reason == "2/2 Nobody answers at http://localhost:9."


def test_when_all_branches_fail_the_agent_has_failed() -> None:
    script = Script()
    error = ErrorInfo(type="GENERAL", name="ConnectFailed", message="No.")
    events = [*fan_out(script, ["a", "b"])]
    failures = [BranchFailed(**script.place(1.0, f"{index}/2"), error=error) for index in (1, 2)]
    overlay = played(*events, *failures)
    assert overlay.agent("Splitter").state is CardState.FAILED
    assert not overlay.is_active


def test_a_retry_ends_as_a_warning_with_its_count() -> None:
    script = Script()
    events = list(simple_run(script))
    events.insert(3, Retrying(**script.place(0.3), attempt=2, attempts=3, delay=1.0, reason="The server is busy."))
    writer = played(*events).agent("Writer")
    assert writer.state is CardState.WARNING
    assert writer.retries == 1
    assert writer.reason == "The server is busy."


def test_a_warning_of_the_engine_is_kept_in_words() -> None:
    script = Script()
    events = list(simple_run(script))
    events.insert(4, Warned(**script.place(0.4), message="The prompt was cut."))
    writer = played(*events).agent("Writer")
    assert (writer.state, writer.reason) == (CardState.WARNING, "The prompt was cut.")


def test_an_answer_from_the_cache_is_told() -> None:
    script = Script()
    events = list(simple_run(script))
    events.insert(3, CacheHit(**script.place(0.2)))
    assert played(*events).agent("Writer").state is CardState.CACHED


def test_a_stopped_run_stops_what_was_running_and_keeps_its_figures() -> None:
    events = list(simple_run(Script()))[:-2]
    overlay = played(*events, RunFinished(time=START + 1.0, run_id=RUN, status="stopped"))
    writer = overlay.agent("Writer")
    assert writer.state is CardState.STOPPED
    assert writer.live_tokens == 3
    assert not overlay.is_active


def test_the_totals_of_the_run_replace_the_sums() -> None:
    totals = {"Writer": statistics(in_tokens=7, out_tokens=9, cost="0", provenance=CostProvenance.FREE)}
    end = RunFinished(time=START + 3.0, run_id=RUN, status="finished", agents=totals)
    writer = played(*simple_run(Script()), end).agent("Writer")
    assert (writer.in_tokens, writer.out_tokens, writer.provenance) == (7, 9, CostProvenance.FREE)


def test_links_count_what_went_along_and_flow_while_their_end_runs() -> None:
    script = Script()
    overlay = played(script.run(), script.begin("A", 0.0), script.answer(1.0, "x"), script.leave(1.1, "B"))
    link = overlay.links["A", "B", None]
    assert (link.count, link.flowing) == (1, 0)
    overlay.apply(script.begin("B", 1.2, splits=4))
    assert (link.count, link.flowing) == (4, 1)
    for index in range(1, 5):
        overlay.apply(script.leave(2.0, None, f"{index}/4"))
    assert (link.count, link.flowing) == (4, 0)


def test_a_verdict_tells_the_ways_of_a_grader_apart() -> None:
    script = Script()
    overlay = played(script.run(), script.begin("Check", 0.0))
    overlay.apply(Graded(**script.place(1.0), passed=False))
    overlay.apply(script.leave(1.1, "Writer"))
    overlay.apply(script.begin("Check", 2.0))
    overlay.apply(Graded(**script.place(3.0), passed=True))
    overlay.apply(script.leave(3.1, None))
    assert overlay.links["Check", "Writer", False].count == 1
    assert overlay.links["Check", None, True].count == 1


def test_an_agent_that_runs_again_counts_its_branches_anew_and_its_figures_on() -> None:
    script = Script()
    first = [script.begin("A", 0.0), script.answer(1.0, "x"), script.leave(1.0, "A")]
    overlay = played(script.run(), *first, script.begin("A", 5.0, splits=2))
    run = overlay.agent("A")
    assert (run.done, run.total) == (0, 2)
    assert overlay.elapsed(run) == pytest.approx(1.0)
    assert run.out_tokens == 20


def test_executions_of_one_agent_at_the_same_time_add_up() -> None:
    overlay = played(Script().run())
    for step in (1, 2, 3):
        overlay.apply(AgentStarted(time=START, run_id=RUN, agent="A", step=step))
    overlay.apply(AgentFinished(time=START + 1, run_id=RUN, agent="A", step=2, to=None))
    run = overlay.agent("A")
    assert (run.done, run.total, run.state) == (1, 3, CardState.RUNNING)
    for step in (1, 3):
        overlay.apply(AgentFinished(time=START + 2, run_id=RUN, agent="A", step=step, to=None))
    assert run.state is CardState.FINISHED
    assert run.spent == pytest.approx(2.0)


def test_a_pause_is_shown_and_ends() -> None:
    script = Script()
    overlay = played(script.run(), script.begin("A", 0.0), Paused(**script.place(0.1)))
    assert overlay.agent("A").state is CardState.PAUSED
    overlay.apply(script.phase(Phase.CONNECTING, 0.2))
    assert overlay.agent("A").state is CardState.RUNNING


def test_renaming_an_agent_during_a_run_keeps_its_state_and_its_later_events() -> None:
    script = Script()
    overlay = played(script.run(), script.begin("A", 0.0), script.leave(1.0, "B"), script.begin("B", 1.0))
    overlay.rename({"B": "Better"})
    assert overlay.agent("Better").state is CardState.RUNNING
    overlay.apply(script.answer(2.0, "x"))
    overlay.apply(script.leave(2.1, "A"))
    assert overlay.agent("Better").state is CardState.FINISHED
    assert overlay.links["A", "Better", None].flowing == 0
    assert overlay.links["Better", "A", None].count == 1
    overlay.rename({"Better": "B"})
    overlay.apply(script.begin("B", 3.0))
    assert overlay.agent("B").state is CardState.RUNNING
    assert "Better" not in overlay.agents


def test_planned_agents_lose_their_tint_when_they_run_or_the_run_ends() -> None:
    overlay = RunOverlay(Clock())
    overlay.plan({"Writer": PlannedAgent(calls=2), "Other": PlannedAgent(calls=1)})
    assert overlay.agent("Other").state is CardState.PLANNED
    overlay.plan({"Writer": PlannedAgent(calls=2)})
    assert overlay.agent("Other").state is CardState.IDLE
    for event in simple_run(Script()):
        overlay.apply(event)
    assert overlay.agent("Writer").state is CardState.FINISHED


def test_changes_are_reported_once_and_a_cleared_run_reports_all() -> None:
    overlay = played(*simple_run(Script()))
    assert overlay.take_changes() == ({"Writer"}, {("Writer", None, None)})
    assert overlay.take_changes() == (set(), set())
    overlay.clear()
    assert overlay.take_changes() == ({"Writer"}, {("Writer", None, None)})
    assert overlay.agent("Writer").state is CardState.IDLE


def test_footers_say_the_state_in_words(qapp: object) -> None:
    content = card_content(chain("Writer"), chain("Writer").agents[0])
    events = list(simple_run(Script(), "Hello world, again"))
    running = card_footer(content, played(*events[:-2]).agent("Writer"), 6.4)
    assert running is not None
    assert (running.label, running.figures) == ("answering", ("6.4 s", "~5 t"))
    finished = card_footer(content, played(*events).agent("Writer"), 9.8)
    assert finished is not None
    assert (finished.label, finished.figures) == ("9.8 s", ("100 → 20", "$0.0004"))
    assert card_footer(content, RunOverlay().agent("Writer"), 0.0) is None
    script = Script()
    fanned = played(*fan_out(script, ["a", "b", "c"]), script.answer(1.0, "x", "1/3"))
    footer = card_footer(content, fanned.agent("Splitter"), 2.0)
    assert footer is not None
    assert footer.label == "1/3"
    assert footer.progress == pytest.approx(1 / 3)
    assert footer.figures == ("2.0 s", "~22 t", "~$0.0004")


def test_a_frozen_agent_is_marked_and_says_what_has_changed(qapp: object) -> None:
    script = Script()
    events = list(simple_run(script))
    events.insert(3, CacheHit(**script.place(0.2), frozen_from="old"))
    overlay = played(*events)
    assert overlay.agent("Writer").state is CardState.FROZEN
    events[3] = CacheHit(**script.place(0.2), frozen_from="old", stale=("inputs",))
    writer = played(*events).agent("Writer")
    assert (writer.state, writer.stale) == (CardState.STALE, ("inputs",))
    spec = chain(1)
    footer = card_footer(card_content(spec, spec.agents[0]), writer, 0.0)
    assert footer is not None
    assert (footer.icon, footer.label, footer.figures) == ("stale", "stale: inputs changed", ("$0",))


def test_marks_of_frozen_agents_are_not_of_one_run() -> None:
    overlay = played(*simple_run(Script()))
    overlay.take_changes()
    overlay.freeze({"Writer": FrozenMark(START)})
    assert overlay.take_changes()[0] == {"Writer"}
    overlay.freeze({"Writer": FrozenMark(START)})
    assert overlay.take_changes()[0] == set()
    overlay.clear()
    assert overlay.frozen == {"Writer": FrozenMark(START)}
    overlay.take_changes()
    overlay.freeze({})
    assert overlay.take_changes()[0] == {"Writer"}


def test_the_time_between_two_runs_is_nobodys_work() -> None:
    script = Script()
    began = RunStarted(time=START + 100.0, run_id=RUN, flow="f", origin="resume", parent="old", kept=3)
    kept = [script.begin("Writer", 0.0), *script.ask(0.5)]
    overlay = played(began, *kept, *script.ask(100.5, attempt=2))
    writer = overlay.agent("Writer")
    assert overlay.elapsed(writer) == pytest.approx(0.5)
