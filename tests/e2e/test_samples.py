"""The samples on the embedded model, by the engine and in the window: the plumbing is checked, never the wit."""

import asyncio
import importlib.util
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine import EmbeddedServer, Engine, ProfileStore, RunHistory, build_flow, flow_text, inputs_context
from engine.cli_input import open_flow
from engine.embedded_server import bundled_model
from engine.events import (
    AgentStarted,
    AnyEvent,
    ChunkReceived,
    CompletionFinished,
    Graded,
    GradeOutcome,
    PhaseChanged,
    RunFinished,
    ToolCalled,
)
from engine.folders import Folders
from engine.statistics import CostProvenance
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import opened

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or bundled_model() is None,
        reason="no embedded model is installed",
    ),
]

SECONDS = 400
"""A busy machine with one thread for the model is slow."""

AGENTS = ["CodeSummarizer", "FeatureIdentifier", "FeatureAnalyzer", "AnswerGenerator"]
TRACE = "M, CodeSummarizer, ↴, M, FeatureIdentifier, →, ⇉ 1/4, M, FeatureAnalyzer, 4↣1, →, M, AnswerGenerator"


def symbols(trace: str) -> str:
    """A trace without durations, and without what tells how an answer ended."""
    return re.sub(r", (\([0-9.]+ m?s\)|✂)", "", trace)


@asynccontextmanager
async def engine_in(home: Path) -> AsyncIterator[Engine]:
    """An engine whose embedded model takes one thread."""
    folders = Folders(home)
    server = EmbeddedServer(data_dir=home, threads=1)
    async with Engine(
        profiles=ProfileStore(folders.profiles), server=server, history=RunHistory(folders.history)
    ) as engine:
        yield engine


async def run_sample(engine: Engine, name: str, **values: object) -> tuple[list[AnyEvent], RunFinished]:
    """All events of a run of a sample, with its own inputs but for `values`."""
    spec = replace(open_flow(name).spec, limits=None)  # a busy machine may need longer than they allow
    async with asyncio.timeout(SECONDS):
        async with engine.run(build_flow(spec), inputs_context(spec, values), flow_text=flow_text(spec)) as run:
            events = [event async for event in run]
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    return events, finished


async def test_the_release_announcement_runs_end_to_end(tmp_path: Path) -> None:
    async with engine_in(tmp_path) as engine:
        events, finished = await run_sample(engine, "release-announcement")
        assert finished.status == "finished"
        assert [event.agent for event in events if isinstance(event, AgentStarted)] == AGENTS
        assert [symbols(result.trace) for result in finished.results] == [TRACE]
        (context,) = (result.context for result in finished.results)
        assert len(context["feature"]) == len(context["analysis"]) == 4
        assert all(re.fullmatch(r"[a-z]{3,12} [a-z ]{3,36}", str(feature)) for feature in context["feature"])
        (announcement,), (benefits,) = finished.outputs["announcement"], finished.outputs["benefits"]
        assert str(announcement).strip()
        assert [line.startswith("- ") for line in str(benefits).splitlines()] == [True] * 4
        answers = [event for event in events if isinstance(event, CompletionFinished)]
        assert len(answers) == 7
        for answer in answers:
            streamed = [
                event.content
                for event in events
                if isinstance(event, ChunkReceived) and (event.step, event.branch) == (answer.step, answer.branch)
            ]
            assert "".join(streamed) == answer.content
            assert answer.statistics.in_tokens + answer.statistics.cached_in_tokens > 0
            assert answer.statistics.out_tokens > 0
            assert not answer.statistics.estimated
        totals = finished.statistics
        assert (totals.requests, totals.cost, totals.provenance) == (7, 0, CostProvenance.FREE)
        assert engine.history is not None
        (row,) = await engine.history.runs(5)
        assert (row.status, row.out_tokens) == ("finished", totals.out_tokens)


async def test_thinking_gives_thoughts_and_an_answer_apart(tmp_path: Path) -> None:
    async with engine_in(tmp_path) as engine:
        events, finished = await run_sample(engine, "thinking")
        assert finished.status == "finished"
        answer = next(event for event in events if isinstance(event, CompletionFinished))
        assert answer.reasoning.strip()
        assert answer.content.strip()
        assert "<think" not in answer.content
        phases = [event.phase.value for event in events if isinstance(event, PhaseChanged)]
        assert phases.index("thinking") < phases.index("answering")
        assert answer.statistics.reasoning_out_tokens > 0
        assert answer.statistics.out_tokens > 0
        assert finished.statistics.provenance is CostProvenance.FREE


async def test_draft_grade_improve_grades_and_sends_back_at_most_once(tmp_path: Path) -> None:
    async with engine_in(tmp_path) as engine:
        events, finished = await run_sample(engine, "draft-grade-improve")
        assert finished.status == "finished"
        (result,) = finished.results
        once, mark = "M, Writer, →, M, Check", {True: "✓", False: "✗"}
        grades = [event for event in events if isinstance(event, Graded)]
        verdicts = [mark[grade.passed] for grade in grades]
        assert verdicts in (["✓"], ["✗", "✓"], ["✗", "✗"])
        assert symbols(result.trace) == ", →, ".join(f"{once}, {verdict}" for verdict in verdicts)
        assert [grade.iteration for grade in grades] == list(range(1, len(grades) + 1))
        assert {grade.outcome for grade in grades} <= {GradeOutcome.PASSED, GradeOutcome.FAILED}
        assert result.context["qaIteration"] == [len(grades)]
        assert result.context["qaPassed"] == [grades[-1].passed]
        assert ("qaFeedback" in result.context) == (len(grades) == 2)
        assert str(finished.outputs["draft"][0]).strip()


async def test_messages_are_sorted_in_branches_and_gathered_in_one_table(tmp_path: Path) -> None:
    async with engine_in(tmp_path) as engine:
        messages = ["I cannot log in.", "Where is my package?", "I was charged twice for one order."]
        events, finished = await run_sample(engine, "sort-messages", message=messages, id=["2", "10", "1"])
        assert finished.status == "finished"
        (result,) = finished.results
        assert ", 3↣1, ○, Table" in symbols(result.trace)
        head, rule, *rows = str(finished.outputs["table"][0]).splitlines()
        assert (head, rule) == ("| id | topic | message | reply |", "|---|---|---|---|")
        cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
        assert [row[0] for row in cells] == ["1", "2", "10"]
        assert {row[1] for row in cells} <= {"delivery", "payment", "account"}
        assert [row[2] for row in cells] == [messages[2], messages[0], messages[1]]
        assert all(row[3] for row in cells)
        writers = {"delivery": "DeliveryReply", "payment": "PaymentReply", "account": "AccountReply"}
        started = [event.agent for event in events if isinstance(event, AgentStarted)]
        assert sorted(started) == sorted(["Sort", "Table", *(writers[row[1]] for row in cells)])
        assert finished.statistics.requests == 6


async def test_the_model_calls_the_calculator(tmp_path: Path) -> None:
    async with engine_in(tmp_path) as engine:
        events, finished = await run_sample(engine, "tools")
        assert finished.status == "finished"
        called = [event for event in events if isinstance(event, ToolCalled)]
        assert called
        assert {event.name for event in called} == {"calculator"}
        assert [event.failed for event in called] == [False] * len(called)
        (result,) = finished.results
        assert result.trace.startswith("M, Calculator, 🔧")
        # What the tool found is in the answer: even the smallest model repeats it.
        number = called[-1].output.rpartition(" = ")[2]
        assert number in str(finished.outputs["answer"][0])


@pytest.mark.usefixtures("qapp")
def test_the_first_sample_runs_in_the_window(tmp_path: Path) -> None:
    async def story() -> None:
        server = EmbeddedServer(data_dir=tmp_path, threads=1)
        async with opened(tmp_path, server=server) as bench, asyncio.timeout(SECONDS):
            tab = bench.tab
            tab.document.replace(replace(tab.document.spec, limits=None))
            bench.press("F5")
            while tab.is_running:
                await asyncio.sleep(0.05)
            assert tab.progress.status == "finished"
            assert [bench.card_state(agent) for agent in AGENTS] == ["finished"] * 4
            await bench.until(lambda: tab.panel.stream.content.text.toPlainText().strip())
            bench.click_tab(tab.panel._tabs, "Trace")
            assert symbols(tab.panel.trace.text) == TRACE
            assert bench.window.status.cost.text() == "Run free"
            assert bench.window.status.server.text() == "Embedded model ready"
            assert server.endpoint is not None
            assert server.endpoint.api_key not in tab.panel.summary_text()

    run_qt(story(), SECONDS + 60)


@pytest.mark.usefixtures("qapp")
def test_thinking_shows_both_panes_and_stop_frees_the_server(tmp_path: Path) -> None:
    async def story() -> None:
        server = EmbeddedServer(data_dir=tmp_path, threads=1)
        async with opened(tmp_path, ["thinking"], server=server) as bench, asyncio.timeout(SECONDS):
            tab = bench.tab
            tab.document.replace(replace(tab.document.spec, limits=None))
            stream = tab.panel.stream
            bench.press("F5")
            while not stream.reasoning.text.toPlainText().strip():
                assert tab.is_running
                await asyncio.sleep(0.01)
            assert stream.reasoning.isVisible()
            bench.press("Shift+F5")
            await bench.run_end()
            while await server.busy_slots():
                await asyncio.sleep(0.05)
            bench.press("F5")
            while tab.is_running:
                await asyncio.sleep(0.05)
            assert tab.progress.status == "finished"
            await bench.until(lambda: stream.content.text.toPlainText().strip())
            assert stream.reasoning.text.toPlainText().strip()

    run_qt(story(), SECONDS + 60)
