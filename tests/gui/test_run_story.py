"""The story of a run, as a person lives it: F5, words, figures, Stop, faults, close; against a scripted server."""

import asyncio
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMessageBox

from engine.completion import FinishReason
from engine.events import CompletionFinished
from engine.folders import Folders
from tests.helpers.fake_server import DONE, Answer, FakeServer, Received, chat, delta, failure
from tests.helpers.model_answers import (
    ANNOUNCEMENT,
    FEATURES,
    announcement_answers,
    flow_file,
    prompt_of,
    stalled,
    write_profile,
)
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, find_button, opened, opened_on
from workbench.run_panel.panel import RunPanel
from workbench.run_panel.run_state import State

pytestmark = pytest.mark.usefixtures("qapp")

TRACE = (
    "M, CodeSummarizer, ↴, M, FeatureIdentifier, →, ⇉ 1/4, M, FeatureAnalyzer, 4↣1, →, M, AnswerGenerator"
)  # fmt: skip
AGENTS = ["CodeSummarizer", "FeatureIdentifier", "FeatureAnalyzer", "AnswerGenerator"]


def symbols(panel: RunPanel) -> str:
    """The trace on show without its durations."""
    return re.sub(r", \([0-9.]+ m?s\)", "", panel.trace.text)


def one_agent(folder: Path) -> Path:
    return flow_file(folder / "one.flow.json", {"name": "Writer", "template": "Write a line."})


# -- a run that goes well ---------------------------------------------------------------------------------------------


def test_f5_runs_the_sample_and_shows_words_states_figures_trace_and_statistics(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path) as (bench, server):
            assert bench.window.windowTitle() == "Release announcement[*] – Flow Workbench"
            assert bench.window.status.run.text() == "Ready"
            assert await bench.run_to_end() == "finished"
            assert len(server.requests) == 7
            panel = bench.tab.panel
            assert [step.agent for step in panel.model.steps.values()] == AGENTS
            await bench.shows(ANNOUNCEMENT)
            assert [bench.card_state(agent) for agent in AGENTS] == ["finished"] * 4
            analyzer = bench.tab.editor._overlay.agent("FeatureAnalyzer")
            assert (analyzer.done, analyzer.total) == (4, 4)
            # 30 + 40 + 4 x 20 + 50 tokens in at $2, 6 + 20 + 4 x 10 + 12 out at $8 the million.
            assert (analyzer.in_tokens, analyzer.out_tokens, analyzer.cost) == (80, 40, Decimal("0.00048"))
            totals = panel.model.statistics()
            assert (totals.requests, totals.in_tokens, totals.out_tokens) == (7, 200, 78)
            assert totals.cost == Decimal("0.001024")
            bench.click_tab(panel._tabs, "Trace")
            assert symbols(panel) == TRACE
            assert bench.window.status.run.text() == "Finished"
            assert bench.window.status.cost.text() == "Run $0.001"
            await bench.until(lambda: bench.window.status.today.text() == "Today $0.001")
            runs = bench.desk.overview.explorer.items("run")
            assert ["Release announcement" in run.text for run in runs] == [True]

    run_qt(story(), 90)


def test_the_branches_of_a_fan_out_stand_side_by_side_and_one_can_be_chosen(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path) as (bench, _server):
            await bench.run_to_end()
            bench.click_agent("FeatureAnalyzer")
            panel = bench.tab.panel
            assert panel.stream.shows_grid
            await bench.until(lambda: len(panel.stream.grid.cells) == 4)
            for feature in FEATURES:
                assert f"This saves the time to {feature.lower()}." in panel.stream.full_text
            second = panel.tree.rows.branch_row(3, "2/4")
            assert second is not None
            index = panel.tree.rows.index_of(second)
            bench.click(panel.tree, panel.tree.visualRect(index).center())
            assert not panel.stream.shows_grid
            await bench.shows("This saves the time to cut the vegetables.")
            assert bench.tab.editor.selected() == ("FeatureAnalyzer",)

    run_qt(story(), 90)


def test_words_appear_while_the_answer_is_still_coming(tmp_path: Path) -> None:
    thinking = Answer(
        pieces=[delta(reasoning_content="Let me think."), delta("The first "), delta("words")], end="stall"
    )

    async def story() -> None:
        async with opened_on(thinking, tmp_path, [one_agent(tmp_path)]) as (bench, _server):
            bench.press("F5")
            stream = bench.tab.panel.stream
            await bench.shows("The first words")
            await bench.until(lambda: stream.reasoning.text.toPlainText() == "Let me think.")
            assert stream.reasoning.isVisible()
            assert bench.card_state("Writer") == "running"
            await bench.until(lambda: bench.window.status.run.text() == "Writer")
            assert bench.window.actions_by_id["stop"].isEnabled()
            assert not bench.window.actions_by_id["run"].isEnabled()

    run_qt(story(), 90)


def test_a_required_input_without_a_value_is_asked_for_and_remembered(tmp_path: Path) -> None:
    inputs = [{"key": "topic", "type": "text", "required": True}]
    agent = {"name": "Writer", "template": "Write about {{topic}}."}
    path = flow_file(tmp_path / "asks.flow.json", agent, inputs=inputs)

    async def story() -> None:
        from workbench.run_panel.input_form import InputForm

        async with opened_on(chat("done"), tmp_path / "home", [path]) as (bench, server):
            bench.press("F5")
            form = await bench.dialog(InputForm)
            run = button(form, "Run")
            assert not run.isEnabled()
            bench.type_text(form._fields._fields["topic"], "robots")
            assert run.isEnabled()
            bench.click(run)
            await bench.until(lambda: bench.tab.is_running or server.requests)
            assert await bench.run_end() == "finished"
            assert prompt_of(server.requests[0]) == "Write about robots."
        async with opened_on(chat("done"), tmp_path / "home", [path]) as (bench, server):
            assert await bench.run_to_end() == "finished"
            assert prompt_of(server.requests[0]) == "Write about robots."

    run_qt(story(), 90)


def test_a_recorded_run_opens_as_it_looked(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path) as (bench, _server):
            await bench.run_to_end()
            explorer = bench.desk.overview.explorer
            await bench.until(lambda: explorer.items("run"))
            bench.desk.overview.open_item(explorer.items("run")[0])
            await bench.until(lambda: len(bench.desk.documents.tabs) == 2)
            await bench.until(lambda: bench.tab.source.startswith("run ") and bench.tab.progress.status)
            bench.click_tab(bench.tab.panel._tabs, "Trace")
            assert symbols(bench.tab.panel) == TRACE
            bench.click_tab(bench.tab.panel._tabs, "Stream")
            assert [bench.card_state(agent) for agent in AGENTS] == ["finished"] * 4
            await bench.shows(ANNOUNCEMENT)

    run_qt(story(), 90)


# -- Stop and close ---------------------------------------------------------------------------------------------------


def test_stop_closes_the_connection_keeps_the_words_and_the_next_run_works(tmp_path: Path) -> None:
    answers = iter([stalled(delta("Half an "), delta("answer")), chat("A whole answer.")])

    async def story() -> None:
        async with opened_on(lambda _request: next(answers), tmp_path, [one_agent(tmp_path)]) as (bench, server):
            panel = bench.tab.panel
            bench.press("F5")
            await bench.shows("Half an answer")
            bench.press("Shift+F5")
            # Seen at once, before anything was awaited.
            assert panel._caption.text() == "stopping …"
            assert await bench.run_end() == "stopped"
            await asyncio.to_thread(server.hung_up.wait, 30)
            assert server.hung_up.is_set()
            await bench.shows("Half an answer")
            (branch,) = panel.model.steps[1].branches.values()
            assert branch.state is State.STOPPED
            assert branch.attempt is not None
            assert branch.attempt.incomplete
            assert panel.stream.content._mark.text() == "incomplete"
            assert panel.stream.content._mark.isVisible()
            assert bench.card_state("Writer") == "stopped"
            assert bench.window.status.run.text() == "Stopped"
            assert bench.engine.history is not None
            row = (await bench.engine.history.runs(1))[0]
            assert row.status == "stopped"
            assert row.out_tokens > 0
            recorded = await bench.engine.history.run(row.id)
            (answer,) = (event for event in recorded.events if isinstance(event, CompletionFinished))
            assert (answer.content, answer.finish_reason) == ("Half an answer", FinishReason.STOPPED)
            assert await bench.run_to_end() == "finished"
            await bench.shows("A whole answer.")

    run_qt(story(), 90)


def test_stopping_ends_all_branches_at_once(tmp_path: Path) -> None:
    def answers(request: Received) -> Answer:
        if prompt_of(request).startswith("A robot can"):
            return stalled(delta("This saves "))
        return announcement_answers(request)

    async def story() -> None:
        async with opened_on(answers, tmp_path) as (bench, server):
            await bench.until(lambda: len(asyncio.all_tasks()) == 1)
            bench.press("F5")
            await bench.until(lambda: len(server.requests) == 6)
            await bench.until(lambda: bench.tab.panel.stream.full_text.count("This saves ") == 4)
            bench.press("Shift+F5")
            assert await bench.run_end() == "stopped"
            states = [branch.state for branch in bench.tab.panel.model.steps[3].branches.values()]
            assert states == [State.STOPPED] * 4
            await bench.until(lambda: len(asyncio.all_tasks()) == 1)

    run_qt(story(), 90)


def test_closing_during_a_run_asks_once_and_cancel_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(stalled(delta("Half")), tmp_path, [one_agent(tmp_path)]) as (bench, server):
            bench.press("F5")
            await bench.until(lambda: server.requests)
            bench.window.close()
            bench.window.close()
            words = await bench.answer("Cancel")
            assert words == "Test flow is running. Closing stops it and keeps what came."
            await bench.settle()
            assert bench.tab.is_running
            assert bench.window.isVisible()
            assert not bench.quits
            assert not [box for box in bench.window.findChildren(QMessageBox) if box.isVisible()]
            bench.window.close()
            await bench.answer("Stop and close")
            assert bench.quits == [True]

    run_qt(story(), 90)


def test_after_closing_during_a_run_nothing_of_it_is_left(tmp_path: Path) -> None:
    async def story() -> None:
        tasks, sockets = asyncio.all_tasks(), open_sockets()
        async with opened_on(stalled(delta("Half")), tmp_path, [one_agent(tmp_path)]) as (bench, server):
            bench.press("F5")
            await bench.shows("Half")
            engine = bench.engine
        assert server.hung_up.is_set()
        assert engine.history is not None
        assert (await engine.history.runs(1))[0].status == "stopped"
        await engine.history.close()
        assert asyncio.all_tasks() == tasks
        assert open_sockets() <= sockets

    run_qt(story(), 90)


def open_sockets() -> int:
    """How many sockets this process holds; Linux only, elsewhere always 0."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        return 0
    count = 0
    for link in folder.iterdir():
        with suppress(OSError):  # the folder's own handle is gone by now
            count += link.readlink().name.startswith("socket:")
    return count


# -- faults -----------------------------------------------------------------------------------------------------------


@dataclass
class Fault:
    """What a server does, and what the person reads."""

    script: Answer | Callable[[Received], Answer]
    title: str
    hint: str
    partial: str = ""
    settings: dict[str, str] = field(default_factory=dict)


BEGINNING = (delta("The words "), delta("so far"))
FAULTS = {
    "401": Fault(failure(401, "bad key"), "refused the key (401): bad key", "Check apiKey in the profile fake"),
    "404": Fault(failure(404, "no such model"), "(404): no such model", "Check url and modelName in the profile fake"),
    "429 for long": Fault(
        failure(429, "slow down", headers={"Retry-After": "3600"}), "(429): slow down", "Wait 3600 seconds"
    ),
    "503 loading": Fault(
        failure(503, "Loading model", type="unavailable_error"),
        "is still loading its model",
        "Wait until the model is loaded",
        settings={"firstTokenTimeout": "1.5"},
    ),
    "500": Fault(failure(500, "out of memory"), "failed (500): out of memory", "the server's own log says more"),
    "html": Fault(
        Answer(headers={"Content-Type": "text/html"}, pieces=[b"<html><h1>It works!</h1></html>"]),
        "answered with text/html instead of an event stream or JSON",
        "it usually ends in /v1",
    ),
    "cut in the middle": Fault(
        Answer(pieces=BEGINNING, end="cut"),
        "ended before its end was announced",
        "try again",
        partial="The words so far",
    ),
    "reset in the middle": Fault(
        Answer(pieces=BEGINNING, end="reset"),
        "ended before its end was announced",
        "try again",
        partial="The words so far",
    ),
    "stall": Fault(
        Answer(pieces=BEGINNING, end="stall"),
        "sent nothing for longer than idleTimeout",
        "The server or the network hangs",
        partial="The words so far",
        settings={"idleTimeout": "0.5"},
    ),
    "silence": Fault(
        Answer(pieces=[], end="stall"),
        "wrote no text for longer than firstTokenTimeout",
        "A slow model needs a higher limit",
        settings={"firstTokenTimeout": "0.5"},
    ),
    "endless line": Fault(
        Answer(pieces=[*BEGINNING, b"data: " + b"x" * (9 << 20)]),
        "longer than 8 MiB",
        "check the url of the profile",
        partial="The words so far",
    ),
    "no events at all": Fault(
        Answer(pieces=[b"data: {]\n\n"] * 30),
        "More than 20 events of the answer are malformed",
        "check the url of the profile",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_server_is_told_at_the_node_and_in_the_run_dock(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]

    async def story() -> None:
        async with opened_on(fault.script, tmp_path, [one_agent(tmp_path)], **fault.settings) as (bench, _server):
            assert await bench.run_to_end() == "failed"
            await check_fault(bench, fault.title, fault.hint, fault.partial)

    run_qt(story(), 90)


async def check_fault(bench: Workbench, title: str, hint: str, partial: str = "") -> None:
    """The run failed in Writer: node, dock, banner and status say so, and partial words are kept and marked."""
    panel = bench.tab.panel
    message = panel.stream.banner.message
    assert message is not None
    assert title in message.title
    assert hint in message.text
    assert "Profile fake, agent Writer." in message.text
    assert message.profile == "fake"
    assert message.retry
    assert panel.stream.banner.isVisible()
    assert bench.card_state("Writer") == "failed"
    assert title in bench.tab.editor._overlay.agent("Writer").reason
    assert bench.window.status.run.text() == "Failed"
    pane = panel.stream.content
    await bench.until(lambda: pane.text.toPlainText() == partial)
    assert pane._mark.text() == ("incomplete" if partial else "")


def test_an_event_that_is_no_utf8_is_passed_over_and_told(tmp_path: Path) -> None:
    broken = b'data: {"choices":[{"index":0,"delta":{"content":"caf\xff\xe9"}}]}\n\n'
    answer = Answer(pieces=[delta("All "), broken, delta("else."), delta(finish="stop"), DONE])

    async def story() -> None:
        async with opened_on(answer, tmp_path, [one_agent(tmp_path)]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            await bench.shows("All else.")
            message = bench.tab.panel.stream.banner.message
            assert message is not None
            assert message.title == "1 event of the answer was malformed and passed over: words may be missing."
            assert bench.card_state("Writer") == "warning"

    run_qt(story(), 90)


def test_a_refused_connection_names_the_address_and_retry_works_once_the_server_is_there(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        async def story() -> None:
            write_profile(Folders(tmp_path), "fake", url, category="M")
            async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
                assert await bench.run_to_end() == "failed"
                await check_fault(
                    bench,
                    f"127.0.0.1:{taken.getsockname()[1]}",
                    "Start the server, or correct url in the profile fake.",
                )
                with FakeServer(chat("Here I am.")) as server:
                    write_profile(Folders(tmp_path), "fake", server.url)
                    bench.trigger("reload_profiles")
                    bench.click(button(bench.tab.panel.stream.banner, "Retry"))
                    assert await bench.run_end() == "finished"
                    assert not bench.tab.panel.stream.banner.isVisible()

        run_qt(story(), 90)


def test_a_request_to_wait_is_counted_down_and_stop_ends_the_waiting(tmp_path: Path) -> None:
    limited = failure(429, "slow down", headers={"Retry-After": "50"})

    async def story() -> None:
        async with opened_on(limited, tmp_path, [one_agent(tmp_path)], maxRetries="2") as (bench, server):
            panel = bench.tab.panel
            bench.press("F5")
            await bench.until(lambda: panel.stream.banner.message is not None)
            message = panel.stream.banner.message
            assert message is not None
            assert "(429): slow down" in message.title
            assert message.text.startswith("Attempt 2 of 3 in ")
            shown = message.text
            await bench.until(lambda: panel.stream.banner.message and panel.stream.banner.message.text != shown)
            bench.press("Shift+F5")
            assert await bench.run_end() == "stopped"
            assert len(server.requests) == 1

    run_qt(story(), 90)


def test_a_short_wait_is_obeyed_and_the_run_then_succeeds_with_a_mark(tmp_path: Path) -> None:
    answers = iter([failure(429, "slow down", headers={"Retry-After-Ms": "300"}), chat("At last.")])

    async def story() -> None:
        script = lambda _request: next(answers)  # noqa: E731
        async with opened_on(script, tmp_path, [one_agent(tmp_path)], maxRetries="2") as (bench, _server):
            assert await bench.run_to_end() == "finished"
            assert bench.card_state("Writer") == "warning"
            await bench.shows("At last.")
            assert bench.tab.panel.stream.banner.message is None

    run_qt(story(), 90)


def test_one_failed_branch_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    def answers(request: Received) -> Answer:
        if "bake the bread" in prompt_of(request):
            return failure(500, "the oven is cold")
        return announcement_answers(request)

    async def story() -> None:
        async with opened_on(answers, tmp_path) as (bench, _server):
            assert await bench.run_to_end() == "failed"
            assert bench.card_state("FeatureAnalyzer") == "failed"
            bench.click_agent("FeatureAnalyzer")
            message = bench.tab.panel.stream.banner.message
            assert message is not None
            assert "the oven is cold" in message.title
            assert "1 of 4 branches failed." in message.text

    run_qt(story(), 90)


# -- recording --------------------------------------------------------------------------------------------------------


def test_a_history_that_cannot_be_written_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "history.sqlite").mkdir()  # nobody can write a database there, root neither
        async with opened_on(chat("Not recorded."), tmp_path, [one_agent(tmp_path)]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            await bench.shows("Not recorded.")
            await bench.until(lambda: find_button(bench.window, "Try again"))
            told = next(banner for banner in bench.banners if find_button(banner, "Try again"))
            assert "The database history.sqlite cannot be used" in told.title()
            assert f"Check that the folder {tmp_path} exists, is writable and has free space" in told.copied
            assert len(bench.banners) == len(set(bench.banner_texts()))
            (tmp_path / "history.sqlite").rmdir()
            bench.click(button(told, "Try again"))
            await bench.until(lambda: "The runs are saved now." in bench.banner_texts())
            assert bench.engine.history is not None
            assert [row.status for row in await bench.engine.history.runs(5)] == ["finished"]

    run_qt(story(), 90)
