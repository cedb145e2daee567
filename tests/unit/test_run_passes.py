"""The canvas at one pass of a run, beside what the same events make of it as they come."""

from collections.abc import Iterable

import pytest

from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    BranchFailed,
    CacheHit,
    ErrorInfo,
    HandlerFailed,
    Retrying,
    RunFinished,
    Warned,
)
from tests.helpers.run_events import RUN, START, Script, fan_out, loop_run, simple_run
from workbench.designer.agent_run import CardState
from workbench.designer.run_overlay import RunOverlay
from workbench.run_panel.run_model import RunModel
from workbench.run_passes import pass_overlay

pytestmark = pytest.mark.usefixtures("qapp")
FIGURES = ("state", "total", "done", "failures", "cached", "retries", "in_tokens", "out_tokens", "cost", "provenance")
TEXTS = ("reason", "output", "output_branch", "grades", "rating", "explanation", "stale", "frozen")


def folded(events: Iterable[AnyEvent]) -> tuple[RunModel, RunOverlay]:
    model, overlay = RunModel(clock=lambda: START + 100), RunOverlay(lambda: 0.0)
    for event in events:
        model.apply(event)
        overlay.apply(event)
    return model, overlay


def end(status: str = "finished") -> RunFinished:
    return RunFinished(time=START + 50, run_id=RUN, status=status)


def failing(script: Script) -> list[AnyEvent]:
    error = ErrorInfo("GENERAL", "ConnectFailed", "refused")
    events = list(fan_out(script, ["a", "b"]))
    events += [script.answer(1, "fine\nmore", "1/2"), script.leave(1.1, "Next", "1/2")]
    return [*events, BranchFailed(**script.place(2, "2/2"), error=error)]


def troubled(script: Script) -> list[AnyEvent]:
    retry = Retrying(
        **script.place(0.2) | {"agent": "Writer", "step": 1}, attempt=2, attempts=3, delay=0, reason="busy"
    )
    events = [script.run(), script.begin("Writer", 0), *script.ask(0.1), retry, script.answer(0.5, "no")]
    events += [HandlerFailed(**script.place(0.6), attempt=1, reason="no JSON"), *script.ask(0.7, attempt=2)]
    return [*events, script.answer(0.9, "{}", attempt=2), script.leave(1, None)]


def cached(script: Script) -> list[AnyEvent]:
    events = [script.run(), script.begin("Writer", 0), *script.ask(0.1), CacheHit(**script.place(0.2))]
    return [*events, script.answer(0.3, "kept"), script.leave(0.4, None)]


def warned(script: Script) -> list[AnyEvent]:
    events = [*simple_run(script)]
    return [*events[:-2], Warned(**script.place(2), message="words may be missing"), *events[-2:]]


@pytest.mark.parametrize("make", [simple_run, failing, troubled, cached, warned])
@pytest.mark.parametrize("ending", [[], [end()], [end("stopped")]])
def test_the_last_pass_looks_as_the_run_does(make: object, ending: list[AnyEvent]) -> None:
    model, live = folded([*make(Script()), *ending])  # type: ignore[operator]
    shown = pass_overlay(model, model.passes[-1], live)
    assert shown.agents.keys() == live.agents.keys()
    for name, run in live.agents.items():
        for part in (*FIGURES, *TEXTS):
            assert getattr(shown.agents[name], part) == getattr(run, part), (name, part)
    assert shown.links == live.links


def test_each_pass_of_a_loop_has_figures_of_its_own() -> None:
    model, live = folded([*loop_run(Script()), end()])
    assert [model.steps[number].agent for number in model.passes] == ["Plan", *["Writer", "Check"] * 3]
    first = pass_overlay(model, model.passes[2], live)
    assert list(first.agents) == ["Plan", "Writer", "Check"]
    writer = first.agent("Writer")
    assert (writer.out_tokens, writer.own_pass, writer.passes, writer.output) == (20, 1, 3, "A short note")
    assert first.agent("Check").rating == 41
    assert {link: run.count for link, run in first.links.items()} == {
        ("Plan", "Writer", None): 1,
        ("Writer", "Check", None): 1,
        ("Check", "Writer", False): 1,
    }
    second = pass_overlay(model, model.passes[3], live)
    assert second.agent("Writer").own_pass == 2
    assert second.agent("Check").own_pass == 1  # its last one by then
    last = pass_overlay(model, model.passes[-1], live)
    assert last.links == live.links
    assert live.agent("Writer").out_tokens == 60
    assert last.agent("Writer").out_tokens == 20


def test_a_pass_that_goes_on_runs_and_its_link_flows() -> None:
    script = Script()
    events = [script.run(), script.begin("A", 0), *script.ask(0.1), script.answer(1, "x"), script.leave(1.1, "B")]
    model, live = folded([*events, script.begin("B", 1.2), *script.ask(1.3), script.text(1.4, "some words here")])
    assert pass_overlay(model, 1, live).links["A", "B", None].flowing == 0
    shown = pass_overlay(model, 2, live)
    assert shown.links == live.links
    run = shown.agent("B")
    assert (run.state, run.streamed, run.phase) == (CardState.RUNNING, live.agent("B").streamed, live.agent("B").phase)
    assert shown.elapsed(run) == pytest.approx(98.8)


def test_what_happens_inside_of_a_node_is_no_pass_of_its_own() -> None:
    script = Script()
    events = [script.run(), script.begin("Node", 0)]
    inner = {"time": START + 1, "run_id": RUN, "agent": "Node/In", "step": 2, "branch": ""}
    events += [AgentStarted(**inner, within=1), AgentFinished(**inner, to=None), script.leave(2, None)]
    model, live = folded(events)
    assert model.passes == [1]
    assert model.pass_of(2) == 1
    assert list(pass_overlay(model, 1, live).agents) == ["Node"]


def test_a_renamed_agent_keeps_its_pass() -> None:
    model, live = folded([*loop_run(Script()), end()])
    live.rename({"Writer": "Author"})
    shown = pass_overlay(model, model.passes[1], live)
    assert list(shown.agents) == ["Plan", "Author"]
    assert ("Plan", "Author", None) in shown.links
