"""The state of a run, folded from its events."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.completion import FinishReason, Phase
from engine.events import (
    AnyEvent,
    BranchFailed,
    CacheHit,
    ErrorInfo,
    Graded,
    GradeOutcome,
    HandlerFailed,
    Merged,
    Retrying,
    RunFinished,
    RunResult,
    RunStarted,
    Statistics,
    Warned,
)
from engine.statistics import CostProvenance
from tests.helpers.run_events import RUN, START, Script, fan_out, simple_run, statistics
from workbench.run_panel.messages import branch_message
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_rows import Row
from workbench.run_panel.run_state import State, StreamedText, Totals, grade_outcome
from workbench.run_panel.statistics_line import step_figures
from workbench.run_panel.trace_entries import live_trace


def folded(events: list[AnyEvent]) -> RunModel:
    model = RunModel(clock=lambda: START + 10)
    for event in events:
        model.apply(event)
    return model


def test_an_answered_agent() -> None:
    model = folded(list(simple_run(Script())))
    step = model.steps[1]
    branch = step.branches[""]
    attempt = branch.attempt
    assert attempt is not None
    assert (step.agent, step.state, branch.state, attempt.state) == (
        "Writer",
        State.ANSWERED,
        State.ANSWERED,
        State.ANSWERED,
    )
    assert attempt.content.text == "Hello world"
    assert attempt.content_tokens() == (20, False)
    assert attempt.seconds(model.now()) == pytest.approx(2.0)
    assert [(span.phase, round(span.seconds(model.now()), 1)) for span in attempt.spans] == [
        (Phase.CONNECTING, 0.4),
        (Phase.ANSWERING, 1.6),
    ]
    assert attempt.turns[1] == ("user", "Describe it.")
    assert (attempt.profile, attempt.model) == ("small", "tiny-1")
    assert step.leaving == [None]
    assert model.running


def test_live_figures_are_estimates_until_the_server_counts() -> None:
    script = Script()
    events = list(simple_run(script))
    model = folded(events[:-2])
    attempt = model.steps[1].branches[""].attempt
    assert attempt is not None
    assert attempt.content_tokens() == (3, True)
    assert attempt.first_token() == pytest.approx(0.4)
    assert attempt.tokens_per_second(START + 3.5) == pytest.approx(1.0)


def test_long_pieces_are_estimated_by_their_characters() -> None:
    text = StreamedText()
    text.append("x" * 400)
    assert text.tokens == 100


def test_branches_of_a_split() -> None:
    script = Script()
    model = folded(list(fan_out(script, ["dark mode", "export", "keys"])))
    step = model.steps[1]
    assert [branch.name for branch in step.branches.values()] == ["1/3 dark mode", "2/3 export", "3/3 keys"]
    assert (step.finished_count, step.state) == (0, State.RUNNING)
    for number in (1, 2, 3):
        model.apply(script.answer(2.0, f"text of {number}", f"{number}/3"))
    assert (step.finished_count, step.state) == (3, State.ANSWERED)
    model.apply(Merged(**script.place(2.1), inputs=3, outputs=1))
    model.apply(script.leave(2.2, "Next", "1/3"))
    assert (step.merged, step.leaving) == ((3, 1), ["Next"])


def test_stopped_branches_are_over_but_not_done() -> None:
    script = Script()
    model = folded(list(fan_out(script, ["a", "b", "c", "d"])))
    model.apply(script.answer(1, "text", "2/4"))
    model.apply(RunFinished(time=START + 2, run_id=RUN, status="stopped"))
    step = model.steps[1]
    assert (step.finished_count, step.done_count) == (4, 1)
    assert Row(None, step=step).name == "1/4  Splitter"
    assert step_figures(step, START + 3)[0].value == "1/4"
    assert live_trace(model)[0].text == "⇉ 1/4"


def test_branches_that_have_not_begun_keep_the_step_running() -> None:
    script = Script()
    model = folded([script.run(), script.begin("Splitter", 0, splits=3), script.split(1, 3, "a", 0.1)])
    model.apply(script.answer(1, "x", "1/3"))
    assert model.steps[1].state is State.RUNNING
    assert model.steps[1].finished_count == 1


def test_a_branch_that_walks_on_alone_leaves_the_others_running() -> None:
    script = Script()
    model = folded(list(fan_out(script, ["a", "b"])))
    model.apply(script.answer(1, "text", "1/2"))
    model.apply(script.leave(1.1, "Next", "1/2"))
    step = model.steps[1]
    assert [branch.state for branch in step.branches.values()] == [State.ANSWERED, State.RUNNING]
    assert step.ended is None
    model.apply(script.answer(2, "text", "2/2"))
    model.apply(script.leave(2.1, "Next", "2/2"))
    assert (step.state, step.ended) == (State.ANSWERED, START + 2.1)


def test_a_second_attempt_after_the_handler_refused() -> None:
    script = Script()
    model = folded([script.run(), script.begin("Json", 0), *script.ask(0.1), script.answer(1, "oops")])
    model.apply(HandlerFailed(**script.place(1.1), attempt=1, reason="no JSON object"))
    branch = model.steps[1].branches[""]
    assert branch.state is State.RUNNING
    for event in [*script.ask(1.2, attempt=2), script.answer(2, '{"a": 1}', attempt=2), script.leave(2.1, None)]:
        model.apply(event)
    assert [attempt.state for attempt in branch.attempts] == [State.REJECTED, State.ANSWERED]
    assert branch.attempts[0].failure == "no JSON object"
    assert branch.state is State.ANSWERED
    assert branch.warned


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"finish_reason": FinishReason.TOKEN_LIMIT_REACHED}, State.CUT_OFF),
        ({"no_answer": True, "reasoning": "hm"}, State.NO_ANSWER),
        ({"no_answer": True, "finish_reason": FinishReason.TOKEN_LIMIT_REACHED}, State.NO_ANSWER),
        ({"finish_reason": FinishReason.ERROR}, State.FAILED),
        ({"finish_reason": FinishReason.TOOL_CALLS}, State.ANSWERED),
        ({"statistics": Statistics(cached_prompts=1)}, State.CACHED),
    ],
)
def test_outcomes(fields: dict[str, object], state: State) -> None:
    script = Script()
    model = folded([script.run(), script.begin("A", 0), *script.ask(0.1), script.answer(1, "text", **fields)])
    assert model.steps[1].branches[""].state is state
    assert model.steps[1].state is state


def test_a_failed_branch_keeps_its_text_and_the_others_go_on() -> None:
    script = Script()
    model = folded(list(fan_out(script, ["a", "b"])))
    error = ErrorInfo("GENERAL", "AnswerIncomplete", "The answer ended early.", partial="text of b")
    model.apply(BranchFailed(**script.place(1, "2/2"), error=error))
    failed = model.steps[1].branches["2/2"]
    assert failed.attempt is not None
    assert (failed.state, failed.attempt.state) == (State.FAILED, State.FAILED)
    assert failed.attempt.content.text == "text of b"
    assert failed.attempt.incomplete
    assert model.steps[1].branches["1/2"].state is State.RUNNING
    assert model.steps[1].state is State.RUNNING
    assert model.failed_branches() == [failed]


def test_the_text_of_an_error_is_kept_when_nothing_was_streamed() -> None:
    script = Script()
    model = folded([script.run(), script.begin("A", 0), *script.ask(0.1)])
    model.apply(BranchFailed(**script.place(1), error=ErrorInfo("GENERAL", "X", "No.", partial="half an ans")))
    attempt = model.steps[1].branches[""].attempt
    assert attempt is not None
    assert attempt.content.text == "half an ans"


def test_what_is_open_at_the_end_was_stopped_not_failed() -> None:
    script = Script()
    model = folded(list(fan_out(script, ["a", "b"])))
    model.apply(RunFinished(time=START + 2, run_id=RUN, status="stopped"))
    states = {branch.state for branch in model.steps[1].branches.values()}
    assert (states, model.steps[1].state, model.status) == ({State.STOPPED}, State.STOPPED, "stopped")
    assert model.failed_branches() == []
    attempt = model.steps[1].branches["1/2"].attempt
    assert attempt is not None
    assert attempt.incomplete
    assert attempt.ended == START + 2


def test_events_that_end_without_a_last_one() -> None:
    model = folded(list(simple_run(Script()))[:-2])
    model.finish()
    assert not model.running
    assert model.status == "stopped"
    assert model.steps[1].state is State.STOPPED


def test_an_agent_without_a_model() -> None:
    script = Script()
    model = folded([script.run(), script.begin("Process", 0, category="")])
    assert model.steps[1].state is State.RUNNING
    model.apply(script.leave(0.5, "Next"))
    assert model.steps[1].state is State.DONE


def test_retries_cache_grades_and_warnings() -> None:
    script = Script()
    model = folded([script.run(), script.begin("A", 0), *script.ask(0.1)])
    model.apply(Retrying(**script.place(0.2), attempt=2, attempts=3, delay=1.0, reason="503"))
    model.apply(CacheHit(**script.place(0.3)))
    model.apply(Graded(**script.place(0.4), passed=False))
    model.apply(Warned(time=START + 0.5, run_id=RUN, message="disk is full"))
    branch = model.steps[1].branches[""]
    assert branch.attempt is not None
    assert len(branch.attempt.retries) == 1
    assert branch.attempt.cached
    assert branch.grade is not None
    assert grade_outcome(branch.grade) is GradeOutcome.FAILED
    assert model.warnings == ["disk is full"]


def test_totals_and_their_provenance() -> None:
    parts = [
        statistics(100, 10, cost="0.5"),
        statistics(50, 5, cost="0.25", provenance=CostProvenance.ESTIMATED, estimated=True),
        Statistics(cached_prompts=1, in_tokens=999, provenance=CostProvenance.UNKNOWN),
    ]
    total = Totals.of(parts).statistics()
    assert (total.requests, total.cached_prompts, total.in_tokens, total.out_tokens) == (2, 1, 150, 15)
    assert (total.cost, total.provenance, total.estimated) == (Decimal("0.75"), CostProvenance.ESTIMATED, True)
    assert Totals.of([]).statistics().provenance is CostProvenance.FREE


def test_an_agent_takes_the_wall_time_of_its_executions() -> None:
    """Branches side by side, and executions that overlap, count once."""
    script = Script()
    model = folded(list(fan_out(script, ["a", "b", "c"])))
    for number in (1, 2, 3):
        model.apply(script.answer(4.0, "text", f"{number}/3", statistics=statistics(100, 20, seconds=3.8)))
    model.apply(script.leave(4.5, "Next"))
    assert model.agent_statistics()["Splitter"].effective_seconds == pytest.approx(4.5)
    later = Script()
    later.step = 1
    model.apply(later.begin("Next", 5.0))
    model.apply(later.begin("Next", 6.0))
    model.apply(later.leave(9.0, None))
    later.step = 2
    model.apply(later.leave(8.0, None))
    end = RunFinished(
        time=START + 10,
        run_id=RUN,
        status="finished",
        statistics=statistics(300, 60, seconds=11.4, effective_seconds=10.0),
        agents={"Splitter": statistics(300, 60, seconds=11.4), "Next": Statistics()},
    )
    model.apply(end)
    agents = model.agent_statistics()
    assert agents["Splitter"].effective_seconds == pytest.approx(4.5)
    assert agents["Splitter"].out_tokens == 60
    assert agents["Next"].effective_seconds == pytest.approx(4.0)
    assert model.statistics().effective_seconds == 10.0


def test_an_estimate_stays_one_in_the_sums_of_a_free_run() -> None:
    """What the run itself sums up tells by its cost only whether a count was estimated."""
    script = Script()
    used = statistics(102, 0, 60, cost="0", provenance=CostProvenance.FREE, estimated=True)
    model = folded([script.run(), script.begin("Packer", 0), *script.ask(0.1), script.answer(2, "x", statistics=used)])
    total = msgspec.structs.replace(used, estimated=False, effective_seconds=3.0)
    model.apply(RunFinished(time=START + 3, run_id=RUN, status="finished", statistics=total, agents={"Packer": total}))
    assert model.statistics().estimated
    assert model.statistics().effective_seconds == 3.0
    assert model.agent_statistics()["Packer"].estimated


def test_the_end_brings_the_final_totals() -> None:
    script = Script()
    model = folded(list(simple_run(script)))
    assert model.statistics().out_tokens == 20
    result = RunResult("M, Writer", "M, Writer, (2000 ms)", {})
    final = statistics(200, 40)
    model.apply(
        RunFinished(
            time=START + 3, run_id=RUN, status="finished", results=(result,), statistics=final, agents={"Writer": final}
        )
    )
    assert model.statistics().out_tokens == 40
    assert model.agent_statistics() == {"Writer": msgspec.structs.replace(final, effective_seconds=pytest.approx(2.2))}
    assert model.results == (result,)
    assert model.now() == START + 3


def test_signals_tell_what_changed() -> None:
    model = RunModel(clock=lambda: START)
    heard: list[str] = []
    model.run_started.connect(lambda: heard.append("run"))
    model.step_started.connect(lambda number: heard.append(f"step {number}"))
    model.branch_started.connect(lambda number, path: heard.append(f"branch {number} {path!r}"))
    model.attempt_started.connect(lambda number, path, attempt: heard.append(f"attempt {attempt}"))
    model.text_arrived.connect(lambda: heard.append("text"))
    model.step_finished.connect(lambda number: heard.append(f"left {number}"))
    for event in simple_run(Script()):
        model.apply(event)
    assert heard == ["run", "step 1", "branch 1 ''", "attempt 1", "text", "left 1"]
    assert model.take_fresh() == {(1, "")}
    assert model.take_fresh() == set()


def test_streamed_text_gives_readers_the_final_text() -> None:
    text = StreamedText()
    for piece in ("ab", "cd"):
        text.append(piece)
    text.settle("abcd")
    assert (text.text, text.revision) == ("abcd", 0)
    text.settle("abXd")
    assert (text.text, text.revision, text.length) == ("abXd", 1, 4)


@given(st.lists(st.text(max_size=20), max_size=40), st.data())
def test_streamed_text_loses_nothing(pieces: list[str], data: st.DataObject) -> None:
    text, read = StreamedText(), ""
    for piece in pieces:
        text.append(piece)
        if data.draw(st.booleans()):
            read += text.text[len(read) :]
    assert text.length == len("".join(pieces))
    assert read + text.text[len(read) :] == "".join(pieces)


# -- runs that go on ---------------------------------------------------------------------------------------------------


def resumed_run() -> list[AnyEvent]:
    """Writer was finished an hour before; Reader, which asked once then, is asked again now."""
    script, now = Script(), START + 3600.0
    before = Statistics(requests=1, in_tokens=12, out_tokens=20, cost=Decimal("0.001"))
    began = RunStarted(time=now, run_id=RUN, flow="f", origin="resume", parent="old", kept=8, before=before)
    kept = [event for event in simple_run(script) if not isinstance(event, RunStarted)]
    new = [
        script.begin("Reader", 3600.5),
        *script.ask(3600.6),
        script.answer(3601.5, "Fine."),
        script.leave(3602.0, None),
    ]
    own = Statistics(requests=1, in_tokens=100, out_tokens=20, effective_seconds=2.0)
    end = RunFinished(time=now + 2.0, run_id=RUN, status="finished", statistics=own, before=before)
    return [began, *kept, *new, end]


def test_what_is_kept_is_shown_and_not_counted() -> None:
    model = folded(resumed_run())
    writer, reader = model.steps[1], model.steps[2]
    assert (writer.state, writer.kept, reader.state, reader.kept) == (State.ANSWERED, True, State.ANSWERED, False)
    assert (writer.totals.requests, writer.spent.requests, reader.spent.requests) == (1, 0, 1)
    assert (model.origin, model.origin_run, model.edited) == ("resume", "old", False)
    assert model.before is not None
    assert (model.before.requests, model.statistics().requests) == (1, 1)
    assert list(model.agent_statistics()) == ["Reader"]


def test_the_time_between_two_runs_is_nobodys_work() -> None:
    model = folded(resumed_run())
    writer = model.steps[1]
    assert writer.seconds(model.now()) == pytest.approx(2.2)
    assert writer.ended == pytest.approx(START + 3600.0)  # right before the new run
    assert model.begun == pytest.approx(START + 3600.0 - 2.2)
    attempt = writer.branches[""].attempts[0]
    assert [span.end for span in attempt.spans][-1] == pytest.approx(START + 3600.0 - 0.1)


def test_a_branch_under_way_when_the_first_run_broke_goes_on() -> None:
    script = Script()
    events = list(fan_out(script, ["one", "two"]))[1:]
    began = RunStarted(time=START + 100.0, run_id=RUN, flow="f", origin="resume", parent="old", kept=len(events))
    again = [*script.ask(100.2, "1/2", attempt=2), script.answer(101.0, "done", "1/2", attempt=2)]
    model = folded([began, *events, *again])
    step = model.steps[1]
    first, second = step.branches.values()
    assert (step.kept, first.kept, second.kept) == (False, False, True)
    assert step.seconds(START + 101.0) == pytest.approx(0.3 + 1.0)


def test_a_frozen_answer_is_told_with_what_has_changed() -> None:
    script = Script()
    events = list(simple_run(script))
    free = Statistics(requests=0, cached_prompts=1)
    events[-2] = script.answer(2.1, "Hello", statistics=free)
    events.insert(-2, CacheHit(**script.place(2.0), frozen_from="old", stale=("prompt", "profile")))
    model = folded(events)
    branch = model.steps[1].branches[""]
    assert (branch.state, branch.warned, model.steps[1].state) == (State.FROZEN, True, State.FROZEN)
    assert branch.attempt is not None
    message = branch_message(branch, START)
    assert message is not None
    assert (message.kind, message.frozen) == ("warn", "Writer")
    assert message.title == "Writer is frozen, and its answer is stale: prompt and profile changed since."
    assert "❄" in [entry.text for entry in live_trace(model)]
