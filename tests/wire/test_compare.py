"""Comparisons over real connections: scheduled by server, resumable, judged, never paid twice."""

import asyncio
import csv
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine import Engine, EngineSettings, ProfileStore, RunHistory, SqliteCache
from engine.cli import app
from engine.comparison import Comparison
from engine.comparison_export import ComparisonExport
from engine.comparison_rows import prompt_flow, typed_rows
from engine.comparison_store import ComparisonStore
from engine.comparison_values import Cell, CellResult, CellStatus, CompareJob, CompareOptions, GraderColumn, Mark
from engine.errors import ComparisonError
from engine.events import GradeOutcome
from engine.flow.flow_build import build_flow
from engine.flow.flow_file import flow_text
from engine.folders import Folders
from tests.helpers.fake_server import DONE, Answer, FakeServer, Received, chat, event, failure
from tests.helpers.model_answers import prompt_of, write_profile

PROMPT = "Say {{word}}"
WORDS = ("one", "two", "three")


def echo(request: Received) -> Answer:
    return chat(f"{request.json()['model']} {prompt_of(request)}", usage=(10, 5))


class Bench:
    """A data folder with profiles of fake servers, and the stores on it."""

    def __init__(self, home: Path) -> None:
        self.folders = Folders(home)
        self.store = ComparisonStore(self.folders.comparisons)
        self.spec = prompt_flow(PROMPT)

    def profile(self, name: str, server: FakeServer | str, **settings: str) -> None:
        url = server if isinstance(server, str) else server.url
        write_profile(self.folders, name, url, **({"modelName": f"model-{name}"} | settings))

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[Engine]:
        engine = Engine(
            profiles=ProfileStore(self.folders.profiles),
            history=RunHistory(self.folders.history),
            cache=SqliteCache(self.folders.cache),
            settings=EngineSettings(),
        )
        async with engine:
            yield engine

    async def begin(
        self,
        engine: Engine,
        *profiles: str,
        words: Sequence[str] = WORDS,
        repeats: int = 1,
        graders: Sequence[GraderColumn] = (),
        **options: Any,
    ) -> Comparison:
        job = CompareJob(
            title="Words",
            flow_text=flow_text(self.spec),
            prompt=True,
            profiles=profiles,
            repeats=repeats,
            graders=tuple(graders),
        )
        rows = typed_rows([{"word": word, "expected": word.upper()} for word in words])
        flow = build_flow(self.spec)
        return await Comparison.begin(engine, self.store, job, rows, flow=flow, options=CompareOptions(**options))

    async def resume(self, engine: Engine, comparison_id: str, **options: Any) -> Comparison:
        flow = build_flow(self.spec)
        return await Comparison.resume(comparison_id, engine, self.store, flow=flow, options=CompareOptions(**options))

    def results(self, comparison: Comparison) -> dict[Cell, CellResult]:
        return {result.cell: result for result in self.store.each_result(comparison.id)}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path / "home")
    async with bench.store:
        yield bench


async def test_every_profile_is_asked_the_same(bench: Bench) -> None:
    with FakeServer(echo) as left, FakeServer(echo) as right:
        bench.profile("left", left)
        bench.profile("right", right)
        async with bench.engine() as engine:
            comparison = await bench.begin(engine, "left", "right")
            progress = await comparison.run()
        assert [prompt_of(request) for request in left.requests] == [f"Say {word}" for word in WORDS]
        assert [prompt_of(request) for request in right.requests] == [f"Say {word}" for word in WORDS]
    results = bench.results(comparison)
    assert (progress.status, progress.done, progress.total, progress.failed) == ("finished", 6, 6, 0)
    # 10 tokens in at 2, 5 out at 8 a million, six times.
    assert progress.statistics.cost == Decimal("0.00036")
    assert {cell: one.content for cell, one in results.items()} == {
        Cell(row, name, 1): f"model-{name} Say {word}"
        for row, word in enumerate(WORDS, 1)
        for name in ("left", "right")
    }
    for row in (1, 2, 3):
        assert results[Cell(row, "left", 1)].prompt == results[Cell(row, "right", 1)].prompt != ""
    assert len({one.run_id for one in results.values()}) == 6
    history = RunHistory(bench.folders.history)
    recorded = {row.id: row for row in await history.runs(10)}
    await history.close()
    for one in results.values():
        assert recorded[one.run_id].in_tokens == one.statistics.in_tokens == 10
        assert recorded[one.run_id].cost == one.statistics.cost == Decimal("0.00006")


async def test_a_prompt_is_the_same_in_whichever_form_a_provider_gets_it(bench: Bench) -> None:
    text = Answer(pieces=[event({"choices": [{"text": "Words.", "index": 0, "finish_reason": "stop"}]}), DONE])
    with FakeServer(echo) as chats, FakeServer(text) as completes:
        bench.profile("chat", chats)
        bench.profile("text", completes, modelProvider="OAI_TEXT_COMPLETION", prompts="chatml")
        async with bench.engine() as engine:
            comparison = await bench.begin(engine, "chat", "text", words=["one"])
            await comparison.run()
    results = bench.results(comparison)
    assert results[Cell(1, "text", 1)].content == "Words."
    assert results[Cell(1, "chat", 1)].prompt == results[Cell(1, "text", 1)].prompt != ""


async def test_servers_work_in_parallel_and_each_does_one_thing_at_a_time(bench: Bench) -> None:
    busy = Counter[str]()
    most = Counter[str]()
    both = asyncio.Event()
    loop = asyncio.get_running_loop()

    def watched(name: str) -> Any:
        def answer(request: Received) -> Answer:
            return chat(request.json()["model"])

        return answer

    def watch(cell: Cell, event: object) -> None:
        kind = type(event).__name__
        server = "one" if cell.profile in ("a", "b") else "two"
        if kind == "RunStarted":
            busy[server] += 1
            most[server] = max(most[server], busy[server])
            if busy["one"] and busy["two"]:
                loop.call_soon(both.set)
        elif kind == "RunFinished":
            busy[server] -= 1

    with FakeServer(watched("one")) as one, FakeServer(watched("two")) as two:
        for name, server in (("a", one), ("b", one), ("c", two)):
            bench.profile(name, server)
        async with bench.engine() as engine:
            comparison = await bench.begin(engine, "a", "b", "c")
            await comparison.run(watch=watch)
        models = [request.json()["model"] for request in one.requests]
    assert most == {"one": 1, "two": 1}
    assert both.is_set()
    # A local model is loaded once: all of the first profile, then all of the second.
    assert models == ["model-a"] * 3 + ["model-b"] * 3


async def test_repeats_are_asked_anew_and_the_first_may_come_from_the_cache(bench: Bench) -> None:
    with FakeServer(echo) as server:
        bench.profile("a", server)
        bench.profile("b", server)
        async with bench.engine() as engine:
            await (await bench.begin(engine, "a", "b", words=["one"])).run()
            assert len(server.requests) == 2
            comparison = await bench.begin(engine, "a", "b", words=["one"], repeats=3)
            await comparison.run()
            assert len(server.requests) == 2 + 4
    results = bench.results(comparison)
    assert results[Cell(1, "a", 1)].statistics.cached_prompts == 1
    assert results[Cell(1, "a", 2)].statistics.requests == 1


async def test_a_stopped_comparison_goes_on_and_asks_for_no_finished_cell_again(bench: Bench) -> None:
    with FakeServer(echo) as server:
        bench.profile("a", server)
        bench.profile("b", server)
        async with bench.engine() as engine:
            comparison = await bench.begin(engine, "a", "b", use_cache=False)

            def stop_after_two(progress: object, result: CellResult | None) -> None:
                if len(bench.results(comparison)) == 2:
                    comparison.stop()

            progress = await comparison.run(stop_after_two)
            assert progress.status == "stopped"
            done = bench.results(comparison)
            assert 2 <= len(done) < 6
            asked = len(server.requests)
        async with bench.engine() as engine:
            again = await bench.resume(engine, comparison.id, use_cache=False)
            progress = await again.run()
        assert (progress.status, progress.done) == ("finished", 6)
        repeated = [(request.json()["model"], prompt_of(request)) for request in server.requests[asked:]]
        before = [(f"model-{one.profile}", f"Say {WORDS[one.row - 1]}") for one in done.values()]
        assert not set(repeated) & set(before)
    assert len(bench.results(comparison)) == 6


async def test_a_dead_server_leaves_its_cells_and_the_other_goes_on(bench: Bench) -> None:
    words = [f"word {number}" for number in range(8)]
    with FakeServer(echo) as server:
        bench.profile("alive", server)
        bench.profile("dead", "http://127.0.0.1:9")
        async with bench.engine() as engine:
            comparison = await bench.begin(engine, "alive", "dead", words=words)
            progress = await comparison.run()
            assert (progress.status, progress.done) == ("failed", 8)
            assert "127.0.0.1:9 was not reached" in progress.reason
            assert not comparison.reached_nobody
            record = await bench.store.comparison(comparison.id)
            assert (record.status, record.done, record.cells) == ("failed", 8, 16)


async def test_failures_stay_in_their_cells_and_are_asked_again_if_wanted(bench: Bench) -> None:
    answers: list[Answer] = [failure(400, "too odd"), chat("fine")]

    def script(_request: Received) -> Answer:
        return answers.pop(0) if answers else chat("fine")

    with FakeServer(script) as server:
        bench.profile("a", server)
        bench.profile("b", server)
        async with bench.engine() as engine:
            comparison = await bench.begin(engine, "a", "b", words=["one"])
            progress = await comparison.run()
            assert (progress.status, progress.failed) == ("failed", 1)
            failed = bench.results(comparison)[Cell(1, "a", 1)]
            assert failed.status is CellStatus.FAILED
            assert failed.error is not None
            assert "too odd" in failed.error.message
            again = await bench.resume(engine, comparison.id, retry_failed=True)
            progress = await again.run()
            assert (progress.status, progress.failed, progress.done) == ("finished", 0, 2)


async def test_a_cell_is_asked_anew(bench: Bench) -> None:
    with FakeServer(echo) as server:
        bench.profile("a", server)
        bench.profile("b", server)
        async with bench.engine() as engine:
            comparison = await bench.begin(engine, "a", "b")
            await comparison.run()
            before = bench.results(comparison)
            again = await bench.resume(engine, comparison.id, again=frozenset([Cell(2, "b", 1)]))
            progress = await again.run()
            assert (progress.status, progress.done) == ("finished", 6)
        assert len(server.requests) == 7
        after = bench.results(comparison)
    assert [cell for cell in before if before[cell].run_id != after[cell].run_id] == [Cell(2, "b", 1)]
    assert after[Cell(2, "b", 1)].statistics.requests == 1


async def test_answers_are_judged_once_and_what_was_judged_stays(bench: Bench) -> None:
    def script(request: Received) -> Answer:
        if request.json()["model"] == "model-judge":
            good = "model-a" in prompt_of(request)
            return chat(json.dumps({"qaExplanation": "seen", "qaRating": 90 if good else 20}), usage=(100, 10))
        return chat(f"{request.json()['model']} says {prompt_of(request)[4:].upper()}")

    graders = [
        GraderColumn(name="right", kind="expected", key="expected"),
        GraderColumn(name="exact", kind="expected", key="expected", match="equal"),
        GraderColumn(name="quality", kind="rating", profile="judge"),
    ]
    with FakeServer(script) as server:
        for name in ("a", "b", "judge"):
            bench.profile(name, server)
        async with bench.engine() as engine:
            comparison = await bench.begin(engine, "a", "b", words=["one", "two"], graders=graders)
            progress = await comparison.run()
        judged = [request for request in server.requests if request.json()["model"] == "model-judge"]
        assert len(judged) == 4
        # All answers first: a local model is loaded once for each purpose.
        assert [request.json()["model"] for request in server.requests[-4:]] == ["model-judge"] * 4
        results = bench.results(comparison)
        given = {cell: {one.grader: one.rating for one in result.grades} for cell, result in results.items()}
        assert given[Cell(1, "a", 1)] == {"right": 100, "exact": 0, "quality": 90}
        assert given[Cell(2, "b", 1)] == {"right": 100, "exact": 0, "quality": 20}
        assert progress.grading.requests == 4
        assert progress.statistics.requests == 4
        async with bench.engine() as engine:
            again = await bench.resume(engine, comparison.id)
            assert (await again.run()).status == "finished"
        assert len(server.requests) == 8
    figures = {one.name: one for one in (await ComparisonExport.of(bench.store, comparison.id)).figures()}
    assert figures["a"].by_grader == {"right": 100, "exact": 0, "quality": 90}
    assert figures["a"].score == pytest.approx((100 + 0 + 90) / 3)
    assert figures["b"].score == pytest.approx((100 + 0 + 20) / 3)


async def test_a_verdict_that_cannot_be_read_counts_nowhere(bench: Bench) -> None:
    def script(request: Received) -> Answer:
        model = request.json()["model"]
        if model != "model-judge":
            return chat(f"from {model}")
        return chat("no idea" if "model-a" in str(request.json()["messages"]) else '{"qaPassed": true}')

    with FakeServer(script) as server:
        for name in ("a", "b", "judge"):
            bench.profile(name, server)
        async with bench.engine() as engine:
            graders = [GraderColumn(name="good", kind="binary", profile="judge")]
            comparison = await bench.begin(engine, "a", "b", words=["one"], graders=graders)
            await comparison.run()
    outcomes = {cell: result.grades[0].outcome for cell, result in bench.results(comparison).items()}
    assert outcomes == {Cell(1, "a", 1): GradeOutcome.UNPARSABLE, Cell(1, "b", 1): GradeOutcome.PASSED}
    figures = {one.name: one for one in (await ComparisonExport.of(bench.store, comparison.id)).figures()}
    assert (figures["a"].score, figures["b"].score) == (None, 100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"profiles": ("a",)}, "Found 1 profiles, expected 2 to 8."),
        ({"profiles": ("a", "a")}, 'Found the profile "a" twice.'),
        ({"repeats": 0}, "Found 0 repeats, expected at least 1."),
    ],
)
async def test_a_comparison_without_sense_is_refused(bench: Bench, change: dict[str, Any], message: str) -> None:
    bench.profile("a", "http://127.0.0.1:9")
    bench.profile("b", "http://127.0.0.1:9")
    job = {"title": "", "flow_text": flow_text(bench.spec), "profiles": ("a", "b")} | change
    async with bench.engine() as engine:
        with pytest.raises(ComparisonError, match=message):
            await Comparison.begin(
                engine, bench.store, CompareJob(**job), typed_rows([{}]), flow=build_flow(bench.spec)
            )
    assert await bench.store.comparisons() == []


async def test_marks_and_exports(bench: Bench, tmp_path: Path) -> None:
    with FakeServer(echo) as server:
        bench.profile("a", server)
        bench.profile("b", server)
        async with bench.engine() as engine:
            comparison = await bench.begin(engine, "a", "b", words=["<b>one</b>", "=two"])
            await comparison.run()
    cell = Cell(2, "a", 1)
    await bench.store.mark(comparison.id, cell, Mark(thumb=1, stars=4, note="short"))
    await bench.store.mark(comparison.id, Cell(1, "b", 1), Mark(thumb=-1))
    await bench.store.mark(comparison.id, Cell(1, "b", 1), Mark())
    assert await bench.store.marks(comparison.id) == {cell: Mark(thumb=1, stars=4, note="short")}
    export = await ComparisonExport.of(bench.store, comparison.id)
    assert (export.figures()[0].thumbs, export.figures()[0].stars) == (1, 4.0)
    written = {}
    for ending in ("csv", "jsonl", "md", "html"):
        assert export.write(tmp_path / f"out.{ending}") == 4
        written[ending] = (tmp_path / f"out.{ending}").read_text("utf-8")
    rows = list(csv.DictReader(written["csv"].splitlines()))
    assert [(row["row"], row["profile"], row["word"]) for row in rows[2:]] == [("2", "a", "'=two"), ("2", "b", "'=two")]
    assert (rows[2]["thumb"], rows[2]["stars"], rows[2]["note"]) == ("1", "4", "short")
    lines = [json.loads(line) for line in written["jsonl"].splitlines()]
    assert lines[2]["input"]["word"] == "=two"
    assert lines[2]["mark"] == {"thumb": 1, "stars": 4, "note": "short"}
    assert lines[0]["statistics"]["cost"] == 0.00006
    assert "👍 ★★★★ short" in written["md"]
    assert "<b>one" not in written["html"]
    assert "&lt;b&gt;one&lt;/b&gt;" in written["html"]
    assert "script" not in written["html"]


def test_the_command_line(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "home")
    dataset = tmp_path / "words.csv"
    dataset.write_text("word,expected\none,ONE\ntwo,TWO\n")
    runner = CliRunner()

    def call(*arguments: str) -> Any:
        return runner.invoke(app, ["--data-dir", str(folders.root), *arguments])

    def script(request: Received) -> Answer:
        return chat(prompt_of(request).upper() if request.json()["model"] == "model-a" else "pardon?")

    with FakeServer(script) as server:
        for name in ("a", "b"):
            write_profile(folders, name, server.url, modelName=f"model-{name}")
        prompt = ["compare", "--prompt", PROMPT, "--profiles", "a,b", "--dataset", str(dataset)]
        out = tmp_path / "out.csv"
        result = call(*prompt, "--expect", "expected", "--json", "--out", str(out))
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert [(one["name"], one["score"], one["errors"]) for one in document["profiles"]] == [
            ("a", 100, 0),
            ("b", 0, 0),
        ]
        assert [(cell["row"], cell["profile"], cell["repeat"]) for cell in document["cells"]] == [
            (1, "a", 1), (1, "b", 1), (2, "a", 1), (2, "b", 1),
        ]  # fmt: skip
        assert {"status", "content", "reasoning", "statistics"} <= document["cells"][0].keys()
        assert len(out.read_text().splitlines()) == 1 + 4
        asked = len(server.requests)
        result = call("compare", "--resume", document["comparison_id"], "--json")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["cells"] == document["cells"]
        assert len(server.requests) == asked
        assert "2 profiles" in call(*prompt).stderr
        wrong = call(*prompt, "--expect", "expectd")
        assert wrong.exit_code == 2
        assert 'found no column "expectd"' in wrong.stderr
        assert call("compare", "--profiles", "a,b").exit_code == 2
        listed = json.loads(call("compare", "--list", "--json").stdout)
        assert [(one["title"], one["status"], one["done"]) for one in listed] == [("Say {{word}}", "finished", 4)] * 2


async def test_nothing_is_written_that_holds_a_key(bench: Bench, tmp_path: Path) -> None:
    with FakeServer(lambda _request: chat("the key is correct-horse-battery")) as server:
        bench.profile("a", server)
        bench.profile("b", server)
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(bench.engine())
            comparison = await bench.begin(engine, "a", "b", words=["one"])
            await comparison.run()
    export = await ComparisonExport.of(bench.store, comparison.id, secrets=["correct-horse-battery"])
    with pytest.raises(Exception, match="holds a text that is a key"):
        export.write(tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()
