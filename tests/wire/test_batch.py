"""Batches on the command line: killed at any moment, interrupted, without a server, within limits."""

import asyncio
import csv
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.batch_store import BatchStore
from engine.cli import main
from tests.helpers.fake_server import Answer, FakeServer, Received, chat
from tests.helpers.tested_profile import write_tested

ROOT = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:9"


def flow(folder: Path, **changes: Any) -> str:
    agent = {"name": "Echo", "type": "COMPLETION", "template": "{{text}}", "model": {"profile": "tested"}}
    document = {
        "format": "workbench.flow",
        "version": 1,
        "name": "Echo",
        "inputs": [{"key": "text", "type": "text", "required": True}],
        "outputs": ["response"],
        "agents": [agent],
    }
    path = folder / "echo.flow.json"
    path.write_text(json.dumps(document | changes))
    return str(path)


def dataset(folder: Path, rows: int) -> str:
    path = folder / "data.csv"
    path.write_text("text\n" + "".join(f"row {number}\n" for number in range(1, rows + 1)))
    return str(path)


def prompt(request: Received) -> str:
    return str(request.json()["messages"][-1]["content"])


def echo(request: Received) -> Answer:
    return chat(f"so: {prompt(request)}")


def start(*arguments: str, home: Path) -> "subprocess.Popen[str]":
    environment = os.environ | {"WORKBENCH_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "engine", "batch", *arguments]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def committed(home: Path) -> tuple[str, dict[int, str]]:
    """Id of the newest batch and the status of its rows."""

    async def read() -> tuple[str, dict[int, str]]:
        store = BatchStore(home / "batches.sqlite")
        batch_id = (await store.batches(1))[0].id
        statuses = await store.statuses(batch_id)
        await store.close()
        return batch_id, statuses

    return asyncio.run(read())


def kill_and_resume(home: Path, tmp_path: Path, rows: int, kills: int, concurrency: int, seed: int) -> None:
    """Kill a batch at random moments; nothing is lost, nothing comes twice, little is asked twice."""
    dice = random.Random(seed)
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        options = ["--concurrency", str(concurrency), "--no-cache", "--quiet", "--json"]
        first = [flow(tmp_path), "--dataset", dataset(tmp_path, rows)]
        batch_id = ""
        for kill in range(kills):
            target = len(server.requests) + dice.randint(1, max(1, rows // (kills + 1)))
            child = start(*(["--resume", batch_id] if batch_id else first), *options, home=home)
            while len(server.requests) < target and child.poll() is None:
                time.sleep(0.002)
            time.sleep(dice.random() * 0.02)
            assert child.poll() is None, child.communicate()
            child.kill()
            child.communicate()
            batch_id, done = committed(home)
            before = {f"row {number}" for number in done}
            asked_before = len(server.requests)
            out = tmp_path / "out.csv"
            if kill == kills - 1:
                child = start("--resume", batch_id, "--out", str(out), *options, home=home)
                shown, told = child.communicate(timeout=600)
                assert child.returncode == 0, (shown, told)
                # What was committed is never asked again.
                assert not before.intersection(prompt(request) for request in server.requests[asked_before:])
        asked = Counter(prompt(request) for request in server.requests)
    names = [f"row {number}" for number in range(1, rows + 1)]
    assert set(asked) == set(names)
    assert sum(asked.values()) - rows <= kills * concurrency
    _, done = committed(home)
    assert done == dict.fromkeys(range(1, rows + 1), "finished")
    with out.open(newline="") as file:
        results = list(csv.DictReader(file))
    assert {(row["cost"], row["cost_provenance"]) for row in results} == {("0.007", "measured")}
    assert [(row["row"], row["text"], row["response"]) for row in results] == [
        (str(number), name, f"so: {name}") for number, name in enumerate(names, 1)
    ]
    with sqlite3.connect(home / "batches.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_batch_that_is_killed_goes_on(home: Path, tmp_path: Path) -> None:
    kill_and_resume(home, tmp_path, rows=120, kills=2, concurrency=4, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_long_batch_that_is_killed_often_goes_on(home: Path, tmp_path: Path) -> None:
    kill_and_resume(home, tmp_path, rows=10_000, kills=20, concurrency=8, seed=2)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="reads memory from /proc")
def test_memory_does_not_grow_with_the_rows(home: Path, tmp_path: Path) -> None:
    def resident(child: "subprocess.Popen[str]") -> int:
        status = Path(f"/proc/{child.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) * 1024

    with FakeServer(echo) as server:
        write_tested(home, server.url)
        child = start(
            flow(tmp_path), "--dataset", dataset(tmp_path, 10_000), "--no-cache", "--quiet", "--json", home=home
        )
        sizes = []
        for target in (1000, 9900):
            while len(server.requests) < target:
                assert child.poll() is None
                time.sleep(0.01)
            sizes.append(resident(child))
        shown, _ = child.communicate(timeout=600)
    assert json.loads(shown)["rows"]["finished"] == 10_000
    assert sizes[1] - sizes[0] < 8_900 * 1000 + 5_000_000  # 1 kB a run (reliability of long sessions), and what varies


def test_an_interruption_keeps_what_is_done_and_writes_it(home: Path, tmp_path: Path) -> None:
    held = threading.Event()

    def answer(request: Received) -> Answer:
        if prompt(request) in ("row 1", "row 2"):
            return echo(request)
        held.set()
        return Answer(pieces=[60.0])

    out = tmp_path / "out.jsonl"
    with FakeServer(answer) as server:
        write_tested(home, server.url)
        child = start(
            flow(tmp_path), "--dataset", dataset(tmp_path, 5), "--out", str(out), "--concurrency", "1", home=home
        )
        assert held.wait(60)
        child.send_signal(signal.SIGINT)
        shown, told = child.communicate(timeout=60)
    assert child.returncode == 130, told
    assert shown == ""
    assert "Traceback" not in told
    batch_id, done = committed(home)
    assert done == {1: "finished", 2: "finished"}
    assert f"go on with: workbench batch --resume {batch_id}" in told
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["row"], line["outputs"]["response"]) for line in lines] == [(1, ["so: row 1"]), (2, ["so: row 2"])]


def test_limits_are_told_before_the_first_request(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home).mkdir()
    budget = {"day_budget": {"cost": "5", "tokens": 1_000_000, "requests": 300}}
    (home / "engine.json").write_text(json.dumps(budget))
    limits = {"max_steps": 20, "max_seconds": 90, "max_cost": 0.5}
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        arguments = ["batch", flow(tmp_path, limits=limits), "--dataset", dataset(tmp_path, 3), "--max-cost", "0.25"]
        assert main([*arguments, "--json"]) == 0
    shown = capsys.readouterr()
    assert "about 3 requests: 3 runs of 1 agent that asks a model" in shown.err
    assert "limits of a run: 20 steps, 100 tool calls, 90 s, $0.50, any tokens, any requests\n" in shown.err
    assert "limits of a day: $5.00, 1,000,000 tokens, 300 requests\n" in shown.err
    assert "limits of the batch: $0.25, 4 rows at a time\n" in shown.err
    assert shown.err.index("limits of a day") < shown.err.index("finished: 3 finished")


def test_the_document(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "a"}\n{"text": ""}\n{"text": "c", "more": 1}\n')
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        assert main(["batch", flow(tmp_path), "--dataset", str(path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == {"total": 3, "finished": 2, "failed": 0, "invalid": 1, "left": 0}
    assert (document["status"], document["out"], document["statistics"]["requests"]) == ("failed", None, 2)
    assert document["statistics"]["cost"] == pytest.approx(0.014)
    fault = 'The input "text": found nothing, expected a text'
    assert document["failures"] == [{"row": 2, "line": 2, "status": "invalid", "error": fault}]
    assert document["warnings"] == [
        'warning: The column "more" is no input of the flow and not used.',
        f"{path}:2: {fault}",
    ]


def test_results_go_to_stdout_without_a_file(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        assert main(["batch", flow(tmp_path), "--dataset", dataset(tmp_path, 3), "--quiet"]) == 0
    shown = capsys.readouterr()
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert {line["input"]["text"]: line["outputs"]["response"] for line in lines} == {
        f"row {number}": [f"so: row {number}"] for number in (1, 2, 3)
    }
    assert shown.err == ""


def test_the_limit_of_the_profile_holds_for_all_rows_together(home: Path, tmp_path: Path) -> None:
    at_once: list[int] = []
    running: set[int] = set()

    class Pieces(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            *rest, end = chat("x").pieces
            running.add(id(self))
            at_once.append(len(running))
            yield 0.02
            yield from rest
            running.discard(id(self))  # before the client can know that it is done
            yield end

    with FakeServer(lambda _: Answer(pieces=Pieces(), framing="chunked")) as server:
        write_tested(home, server.url, maxConcurrent="2")
        arguments = ["--dataset", dataset(tmp_path, 12), "--concurrency", "8", "--quiet", "--json"]
        assert main(["batch", flow(tmp_path), *arguments]) == 0
        assert len(server.requests) == 12
    assert max(at_once) == 2


def test_a_resumed_batch_needs_nothing_but_its_id(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        name = flow(tmp_path)
        assert main(["batch", name, "--dataset", dataset(tmp_path, 4), "--max-rows", "1", "--quiet"]) == 1
        batch_id, _ = committed(home)
        capsys.readouterr()
        assert main(["batch", "--list", "--json"]) == 0
        (listed,) = json.loads(capsys.readouterr().out)
        assert (listed["batch_id"], listed["status"]) == (batch_id, "budget")
        assert listed["rows"] == {"total": 4, "finished": 1, "failed": 0, "invalid": 0, "left": 3}
        assert main(["batch", "--list"]) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["BATCH", batch_id]
        assert main(["batch", "--resume", batch_id, "--out", str(tmp_path / "o.csv"), "--quiet"]) == 0
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["FLOW"], "A new batch needs FLOW and --dataset FILE"),
        (["FLOW", "--dataset", "DATA", "--out", "x.xlsx"], 'ends with ".xlsx", expected .csv or .jsonl'),
        (["FLOW", "--dataset", "gone.csv"], "Cannot read gone.csv: No such file or directory"),
        (["FLOW", "--dataset", "DATA", "-i", "text=x"], "is given for all rows and is a column, too"),
        (["FLOW", "--dataset", "DATA", "--max-cost", "much"], '--max-cost: found "much", expected an amount'),
        (["FLOW", "--dataset", "DATA", "--delimiter", "pipe"], '--delimiter: found "pipe", expected one of comma'),
        (["--resume", "0000"], "There is no batch 0000."),
    ],
)
def test_wrong_usage_asks_nobody(
    arguments: list[str], message: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tested(home, NOWHERE)
    names = {"FLOW": flow(tmp_path), "DATA": dataset(tmp_path, 2)}
    assert main(["batch", *[names.get(argument, argument) for argument in arguments]]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


def test_no_server_is_a_status_of_its_own(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tested(home, NOWHERE)
    assert main(["batch", flow(tmp_path), "--dataset", dataset(tmp_path, 50), "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["rows"]["left"] == 50
    assert "found no model server" in document["reason"]


def test_a_file_that_cannot_be_written_loses_nothing(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out.csv").mkdir()
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        arguments = ["--dataset", dataset(tmp_path, 3), "--out", str(tmp_path / "out.csv"), "--quiet"]
        assert main(["batch", flow(tmp_path), *arguments]) == 1
        assert "Cannot save" in capsys.readouterr().err
        batch_id, done = committed(home)
        assert len(done) == 3
        assert main(["batch", "--resume", batch_id, "--out", str(tmp_path / "good.csv"), "--quiet"]) == 0
        assert len(server.requests) == 3
    assert len((tmp_path / "good.csv").read_text().splitlines()) == 4
