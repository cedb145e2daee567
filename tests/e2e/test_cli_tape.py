"""Wire tapes on the command line: recorded, played without a socket, turned into a test that pytest runs."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine import cli
from engine.clients.tape_file import RecordedTape
from engine.folders import Folders
from engine.offline_test import write_offline_test
from tests.helpers.fake_server import FakeServer, chat, delta
from tests.helpers.model_answers import announcement_answers, flow_file, stalled, write_profile

ROOT = Path(__file__).parents[2]
KEY = "sk-very-secret-0123456789"


class Commands:
    """Runs commands in this process on one data folder."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str | Path) -> int:
        self._capsys.readouterr()
        status = cli.main(["--data-dir", str(self.home), *map(str, arguments)])
        self.out, self.err = self._capsys.readouterr()
        return status


@pytest.fixture
def workbench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(tmp_path / "home", capsys)


@pytest.fixture
def tape(workbench: Commands, tmp_path: Path) -> Path:
    """The tape of a sample run; its server is gone, and its profile too."""
    path = tmp_path / "announcement.tape.jsonl"
    with FakeServer(announcement_answers) as server:
        profile = write_profile(Folders(workbench.home), "fake", server.url, category="M", apiKey=KEY)
        assert workbench("run", "release-announcement", "--tape", path, "--json") == 0
    profile.unlink()
    (workbench.home / "profiles" / "categories.properties").unlink()
    return path


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every socket of the internet family that is made is noted, and refused."""
    made: list[int] = []
    make = socket.socket.__init__

    def noted(self: socket.socket, family: int = -1, *rest: object, **named: object) -> None:
        if family in (-1, socket.AF_INET, socket.AF_INET6):
            made.append(family)
            raise AssertionError("a socket was opened")
        make(self, family, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "__init__", noted)
    return made


def figures(document: dict[str, object]) -> dict[str, object]:
    """What a run came to, without its number and times."""
    statistics = document["statistics"]
    assert isinstance(statistics, dict)
    kept = {name: statistics[name] for name in ("requests", "in_tokens", "out_tokens", "cost", "cost_provenance")}
    return {"figures": kept} | {name: document[name] for name in ("status", "outputs", "results", "warnings")}


@pytest.mark.parametrize("speed", ["max", "20"])
def test_a_tape_comes_to_the_same_without_a_socket(
    workbench: Commands, tape: Path, no_sockets: list[int], speed: str
) -> None:
    recorded = json.loads(workbench.out)
    workbench("runs", "show", recorded["run_id"], "--json")
    assert workbench("run", "release-announcement", "--replay", tape, "--speed", speed, "--json") == 0
    again = json.loads(workbench.out)
    assert figures(again) == figures(recorded)
    assert again["run_id"] != recorded["run_id"]
    assert no_sockets == []
    assert "Replay of announcement.tape.jsonl: nothing is called." in workbench.err
    assert KEY not in tape.read_text()


def test_a_replay_is_marked_and_costs_nothing(workbench: Commands, tape: Path) -> None:
    (first,) = _rows(workbench)
    assert workbench("run", "release-announcement", "--replay", tape) == 0
    replayed, recorded = _rows(workbench)
    assert (replayed["origin"], replayed["parent"]) == ("replay", recorded["id"])
    assert (replayed["requests"], replayed["cost"], replayed["provenance"]) == (0, "0", "free")
    assert recorded == first
    assert workbench("runs", "list") == 0
    lines = workbench.out.splitlines()
    assert "finished (replay)" in lines[1]
    assert "(replay)" not in lines[2]


def _rows(workbench: Commands) -> list[dict[str, object]]:
    workbench("runs", "list", "--json")
    rows = json.loads(workbench.out)
    assert isinstance(rows, list)
    return rows


def test_a_changed_flow_is_told_with_the_place_that_differs(workbench: Commands, tmp_path: Path) -> None:
    tape = tmp_path / "one.tape.jsonl"
    path = flow_file(tmp_path / "one.flow.json", {"name": "Writer", "template": "About robots."})
    with FakeServer(announcement_answers) as server:
        write_profile(Folders(workbench.home), "fake", server.url, category="M")
        assert workbench("run", path, "--tape", tape) == 0
    path.write_text(path.read_text().replace("robots", "rockets"))
    assert workbench("run", path, "--replay", tape) == 1
    assert "at $.messages[0].content, character 9 it has" in workbench.err
    assert '"bots."' in workbench.err
    assert '"ckets."' in workbench.err


def test_wrong_options_and_damaged_tapes_have_status_2(workbench: Commands, tape: Path) -> None:
    lines = tape.read_text().splitlines(keepends=True)
    tape.with_name("damaged.jsonl").write_text("".join([*lines[:2], '{"type": "piece"}\n', *lines[2:]]))
    for arguments, words in (
        (("--replay", tape.with_name("damaged.jsonl")), "damaged.jsonl, line 3: this is no wire tape"),
        (("--replay", tape.with_name("missing.jsonl")), "Cannot read"),
        (("--speed", "2"), "--speed goes with --replay"),
        (("--replay", tape, "--speed", "0.5"), 'found "0.5", expected max or a number from 1'),
        (("--replay", tape, "-i", "a=b"), "--replay has inputs, profiles and cache on its tape"),
        (("--replay", tape, "--tape", tape), "--tape records a run from its beginning"),
    ):
        assert workbench("run", "release-announcement", *arguments) == 2, arguments
        assert words in " ".join(workbench.err.split())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_what_a_killed_process_had_recorded_is_played(workbench: Commands, tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    path = flow_file(
        tmp_path / "two.flow.json", {"name": "One", "template": "One."}, {"name": "Two", "template": "Two."}
    )
    with FakeServer(chat("First."), stalled(delta("Half of "), delta("xylophones"))) as server:
        write_profile(Folders(workbench.home), "fake", server.url, category="M")
        command = [sys.executable, "-m", "workbench", "--data-dir", str(workbench.home), "run", str(path)]
        with subprocess.Popen(
            [*command, "--tape", str(tape)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as run:
            while run.poll() is None and not (tape.exists() and "xylophones" in tape.read_text("utf-8")):
                time.sleep(0.05)
            run.kill()
    found = RecordedTape(tape)
    assert found.end is None
    assert len(found.calls) == 2
    assert workbench("run", path, "--replay", tape, "--stream") == 1
    assert "Half of xylophones" in workbench.out
    assert "The tape ends in the middle of this answer." in workbench.err


def test_a_tape_becomes_a_test_that_pytest_runs_offline(tape: Path, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    test = write_offline_test(RecordedTape(tape), folder, "announcement")
    assert sorted(path.name for path in folder.iterdir()) == [
        "announcement.flow.json",
        "announcement.tape.jsonl",
        "test_announcement.py",
    ]
    assert "Meet KitchenRobot!" in test.read_text(encoding="utf-8")
    assert _pytest(folder) == 0
    source = test.read_text(encoding="utf-8")
    test.write_text(source.replace("Meet KitchenRobot!", "Meet nobody!"), encoding="utf-8")
    assert _pytest(folder) == 1


def test_the_flows_inside_of_a_flow_come_along(workbench: Commands, tmp_path: Path) -> None:
    inputs = [{"key": "topic", "type": "text"}]
    inner = {"name": "Leaf", "template": "Say {{topic}}.", "handler": {"type": "text", "key": "said"}}
    flow_file(tmp_path / "own" / "deep" / "inner.flow.json", inner, inputs=inputs, outputs=["said"])
    node = {"name": "Node", "flow": "deep/inner.flow.json", "with": {"topic": "bread"}}
    outer = tmp_path / "own" / "outer.flow.json"
    document = {"format": "workbench.flow", "version": 1, "name": "Outer", "outputs": ["said"], "agents": [node]}
    outer.write_text(json.dumps(document))
    tape = tmp_path / "outer.tape.jsonl"
    with FakeServer(chat("Bread.")) as server:
        write_profile(Folders(workbench.home), "fake", server.url, category="M")
        assert workbench("run", outer, "--tape", tape) == 0, workbench.err
    folder = tmp_path / "made"
    write_offline_test(RecordedTape(tape), folder, "outer")
    assert (folder / "deep" / "inner.flow.json").is_file()
    shutil.rmtree(tmp_path / "own")
    assert _pytest(folder) == 0


def _pytest(folder: Path) -> int:
    """The exit status of pytest on a folder, in a process that could reach nobody."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WORKBENCH_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(folder)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode
