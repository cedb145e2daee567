"""The command line as scripts use it: exit statuses, one JSON document, events, quiet, and words about bad input."""

import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import pytest

from engine import cli
from engine.cli_run import progress_line
from engine.events import ChunkReceived, Retrying, RunFinished, RunStarted, read_event
from engine.folders import Folders
from tests.helpers.fake_server import Answer, FakeServer, chat, delta, failure
from tests.helpers.model_answers import announcement_answers, flow_file, prompt_of, stalled, write_profile

ROOT = Path(__file__).parents[2]
TRACE = "M, CodeSummarizer, ↴, M, FeatureIdentifier, →, ⇉ 1/4, M, FeatureAnalyzer, 4↣1, →, M, AnswerGenerator"


class Commands:
    """Runs commands in this process on a data folder whose category M is answered by a scripted server."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str | Path) -> int:
        """Run a command; `out` and `err` are what it printed."""
        self._capsys.readouterr()
        status = cli.main(["--data-dir", str(self.home), *map(str, arguments)])
        self.out, self.err = self._capsys.readouterr()
        return status

    def answered_by(self, server: FakeServer, **settings: str) -> None:
        """Let the category M be answered by a server."""
        write_profile(Folders(self.home), "fake", server.url, category="M", **settings)


@pytest.fixture
def workbench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(tmp_path / "home", capsys)


@pytest.fixture
def server(workbench: Commands) -> Iterator[FakeServer]:
    with FakeServer(announcement_answers) as server:
        workbench.answered_by(server)
        yield server


@pytest.fixture
def one_agent(tmp_path: Path) -> Path:
    inputs = [{"key": "topic", "type": "text", "default": "robots"}]
    return flow_file(tmp_path / "one.flow.json", {"name": "Writer", "template": "About {{topic}}."}, inputs=inputs)


def start(*arguments: str | Path, home: Path, stdout: int = subprocess.PIPE) -> "subprocess.Popen[str]":
    """Start the real command."""
    command = [sys.executable, "-W", "error", "-m", "workbench", "--data-dir", str(home), *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    return subprocess.Popen(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, encoding="utf-8", cwd=ROOT, env=environment
    )


# -- run --------------------------------------------------------------------------------------------------------------


def test_run_prints_the_outputs_and_tells_progress_on_stderr(workbench: Commands, server: FakeServer) -> None:
    assert workbench("run", "release-announcement") == 0
    assert "Meet KitchenRobot! It washes, cuts, bakes and cleans." in workbench.out
    assert "- bake the bread: This saves the time to bake the bread." in workbench.out
    assert f"trace       {TRACE}" in workbench.err
    assert "statistics  finished: 7 requests, 200 tokens in (+0 cached), 78 out (+0 reasoning)" in workbench.err
    assert "FeatureAnalyzer: 4 branches" in workbench.err
    assert "\x1b" not in workbench.out + workbench.err


def test_run_json_is_exactly_one_document(workbench: Commands, server: FakeServer) -> None:
    assert workbench("run", "release-announcement", "--json") == 0
    document = json.loads(workbench.out, parse_float=Decimal)
    assert list(document) == ["run_id", "status", "outputs", "results", "statistics", "agents", "warnings"]
    assert document["status"] == "finished"
    assert list(document["outputs"]) == ["announcement", "benefits"]
    assert [result["trace"] for result in document["results"]] == [TRACE]
    assert [result["error"] for result in document["results"]] == [None]
    figures = document["statistics"]
    assert (figures["requests"], figures["in_tokens"], figures["out_tokens"]) == (7, 200, 78)
    assert figures["cost"] == Decimal("0.001024")
    assert figures["cost_provenance"] == "measured"
    analyzer = next(agent for agent in document["agents"] if agent["name"] == "FeatureAnalyzer")
    assert (analyzer["requests"], analyzer["in_tokens"], analyzer["out_tokens"]) == (4, 80, 40)


def test_run_events_are_lines_the_engine_reads(workbench: Commands, server: FakeServer) -> None:
    assert workbench("run", "release-announcement", "--events") == 0
    events = [read_event(line.encode()) for line in workbench.out.splitlines()]
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert len({event.run_id for event in events}) == 1
    for line in workbench.out.splitlines():
        assert {"type", "time", "run_id"} <= json.loads(line).keys()
    words = "".join(event.content for event in events if isinstance(event, ChunkReceived) and event.step == 4)
    assert words == "Meet KitchenRobot! It washes, cuts, bakes and cleans."


def test_quiet_prints_nothing_on_stderr_wherever_it_stands(workbench: Commands, server: FakeServer) -> None:
    assert workbench("run", "--quiet", "release-announcement") == 0
    assert workbench.err == ""
    assert "Meet KitchenRobot!" in workbench.out
    assert workbench("run", "release-announcement", "--json", "--quiet") == 0
    assert (workbench.err, json.loads(workbench.out)["status"]) == ("", "finished")


def test_stream_prints_the_words_of_one_branch_after_the_other(workbench: Commands, server: FakeServer) -> None:
    assert workbench("run", "release-announcement", "--stream") == 0
    for number in range(1, 5):
        assert f"▸ FeatureAnalyzer {number}/4" in workbench.out
    assert workbench.out.count("This saves the time to") == 4


def test_inputs_come_from_options_and_files(workbench: Commands, one_agent: Path, tmp_path: Path) -> None:
    (tmp_path / "topic.txt").write_text("ships\nand = signs", "utf-8")
    (tmp_path / "inputs.json").write_text('{"topic": "trains"}', "utf-8")
    with FakeServer(chat("done")) as server:
        workbench.answered_by(server)
        assert workbench("run", one_agent) == 0
        assert workbench("run", one_agent, "-i", "topic=a=b") == 0
        assert workbench("run", one_agent, "-i", f"topic=@{tmp_path / 'topic.txt'}") == 0
        assert workbench("run", one_agent, "--inputs", tmp_path / "inputs.json") == 0
        assert workbench("run", one_agent, "--inputs", tmp_path / "inputs.json", "-i", "topic=planes") == 0
        asked = [prompt_of(request) for request in server.requests]
    assert asked == ["About robots.", "About a=b.", "About ships\nand = signs.", "About trains.", "About planes."]


def test_map_and_profile_choose_who_answers(workbench: Commands, one_agent: Path) -> None:
    with FakeServer(chat("one")) as first, FakeServer(chat("two")) as second:
        workbench.answered_by(first)
        write_profile(Folders(workbench.home), "other", second.url)
        assert workbench("run", one_agent, "--map", "M=other") == 0
        assert workbench("run", one_agent, "--profile", "other", "--no-cache") == 0
        assert (len(first.requests), len(second.requests)) == (0, 2)


def test_a_run_that_fails_has_status_1_and_tells_why(workbench: Commands, one_agent: Path) -> None:
    with FakeServer(failure(500, "out of memory")) as server:
        workbench.answered_by(server)
        assert workbench("run", one_agent) == 1
        assert "out of memory" in workbench.err
        assert workbench("run", one_agent, "--json") == 1
        (result,) = json.loads(workbench.out)["results"]
    assert result["error"]["type"] == "GENERAL"
    assert result["error"]["agent"] == "Writer"
    assert "out of memory" in result["error"]["message"]


def test_good_branches_are_printed_beside_a_failed_one(workbench: Commands) -> None:
    def answers(request: object) -> Answer:
        if "bake the bread" in prompt_of(request):  # type: ignore[arg-type]
            return failure(500, "the oven is cold")
        return announcement_answers(request)  # type: ignore[arg-type]

    with FakeServer(answers) as server:
        workbench.answered_by(server)
        assert workbench("run", "release-announcement") == 1
    assert "the oven is cold" in workbench.err
    assert "This saves the time to clean the floor." in workbench.out


def test_no_server_has_status_3(workbench: Commands, one_agent: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        write_profile(Folders(workbench.home), "fake", url, category="M")
        assert workbench("run", one_agent) == 3
    assert "No server answers at 127.0.0.1" in workbench.err


def test_a_retry_is_one_sentence() -> None:
    reason = "No server answers at localhost:5999."
    retry = Retrying(time=0, run_id="r", agent="Writer", attempt=2, attempts=4, delay=1.0, reason=reason)
    assert progress_line(retry) == "Writer: No server answers at localhost:5999; attempt 2 of 4 in 1.0 s"


def test_offline_refuses_other_machines(workbench: Commands, one_agent: Path) -> None:
    write_profile(Folders(workbench.home), "far", "http://models.example", category="M")
    assert workbench("run", one_agent, "--offline") == 3
    assert "offline" in workbench.err.lower()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT between processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_has_status_130_and_is_recorded_as_stopped(
    number: signal.Signals, workbench: Commands, one_agent: Path
) -> None:
    with FakeServer(stalled(delta("Half"))) as server:
        workbench.answered_by(server)
        process = start("run", one_agent, "--stream", home=workbench.home)
        assert process.stdout is not None
        seen = ""
        while not seen.endswith("Half") and (character := process.stdout.read(1)):
            seen += character
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert seen.endswith("Half"), err
        assert server.hung_up.wait(30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert workbench("runs", "list", "--json") == 0
    assert [row["status"] for row in json.loads(workbench.out)] == ["stopped"]


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "nonsense"),
        (["run"], "Missing argument"),
        (["run", "no-such-sample"], 'no flow file and no sample named "no-such-sample"'),
        (["run", "gone.flow.json"], "gone.flow.json"),
        (["run", "release-announcement", "--json", "--events"], "--json and --events exclude each other"),
        (["run", "release-announcement", "-i", "no sign"], 'found "no sign", expected KEY=VALUE'),
        (["run", "release-announcement", "-i", "code=@gone.txt"], "gone.txt"),
        (["run", "release-announcement", "-i", "cod=x"], "cod"),
        (["run", "release-announcement", "--inputs", "gone.json"], "gone.json"),
        (["run", "release-announcement", "--map", "M=gone"], "gone"),
        (["run", "release-announcement", "--profile", "gone"], "gone"),
        (["profiles", "show", "gone"], "gone"),
        (["profiles", "validate", "gone.properties"], "gone.properties"),
        (["tokens", "gone.txt"], "gone.txt"),
        (["tokens", "--encoding", "klingon", "-"], "klingon"),
        (["runs", "list", "--limit", "0"], "--limit"),
        (["screenshot", "--size", "big"], 'found "big", expected WIDTHxHEIGHT'),
        (["screenshot", "--theme", "pink"], 'found "pink", expected dark or light'),
        (["screenshot", "--zoom", "1000"], "--zoom"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_and_input_have_status_2_and_say_what(
    arguments: list[str], words: str, workbench: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    importlib.import_module("workbench.commands")  # adds `screenshot`
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("some text"))
    assert workbench(*arguments) == 2
    assert words in workbench.err + workbench.out
    assert "Traceback" not in workbench.err


def test_a_broken_flow_is_named_with_its_place(workbench: Commands, tmp_path: Path) -> None:
    path = tmp_path / "broken.flow.json"
    path.write_text('{"format": "workbench.flow", "version": 1, "name": "x", "start": "x", "agents": 7}', "utf-8")
    assert workbench("run", path) == 2
    assert f"{path}:1:81:$.agents: error: Found 7, expected a list." in workbench.err


# -- the other commands -----------------------------------------------------------------------------------------------


def test_validate_lists_every_problem(workbench: Commands, one_agent: Path, tmp_path: Path) -> None:
    assert workbench("validate", one_agent, "release-announcement") == 0
    bad = {"name": "Writer", "template": "x", "routes": [{"to": "Nobody"}]}
    path = flow_file(tmp_path / "bad.flow.json", bad, bad | {"model": {"profile": "gone"}})
    torn = tmp_path / "torn.flow.json"
    torn.write_text("{", "utf-8")
    assert workbench("validate", path, torn, "--json") == 2
    problems = json.loads(workbench.out)
    messages = " ".join(problem["message"] for problem in problems)
    for words in ("2 agents are named", "Nobody", 'the profile "gone"'):
        assert words in messages
    assert {problem["severity"] for problem in problems} <= {"error", "warning"}
    assert {Path(problem["file"]).name for problem in problems} == {"bad.flow.json", "torn.flow.json"}
    assert any(problem["path"].startswith("$.agents") for problem in problems)


def test_validate_goes_on_behind_a_faulty_shape_and_names_the_file_once(workbench: Commands, tmp_path: Path) -> None:
    agent = {"name": "Writer", "type": "CHAT", "template": "About {{x}}.", "routes": [{"to": "Nobody"}]}
    path = flow_file(tmp_path / "bad.flow.json", agent)
    torn = tmp_path / "torn.flow.json"
    torn.write_text('{"format": \n tru}', "utf-8")
    assert workbench("validate", path, tmp_path / "gone.flow.json", torn) == 2
    lines = workbench.out.splitlines()
    assert [line.count(".flow.json") for line in lines] == [1] * len(lines)
    assert lines[0].startswith(f'{path}:8:15:$.agents[0].type: error: Found "CHAT", expected one of COMPLETION, ')
    assert any(":$.agents[0].routes[0].to: error: " in line and "Nobody" in line for line in lines)
    assert any(":$.agents[0].template: " in line and '"x"' in line for line in lines)
    assert lines[-1] == f"{torn}:2:2: error: Expecting value, found 'tru}}'."
    assert workbench("run", path) == 2
    assert f'{path}:8:15:$.agents[0].type: error: Found "CHAT"' in workbench.err
    assert ":$.agents[0].routes[0].to: error: " in workbench.err


def test_the_version_is_printed(workbench: Commands) -> None:
    assert workbench("--version") == 0
    assert workbench.out == f"Flow Workbench {version('flow-workbench')}\n"


def test_profiles_are_listed_shown_and_checked_without_their_keys(workbench: Commands) -> None:
    canary = "sk-canary-0123456789abcdef"
    write_profile(Folders(workbench.home), "mine", "http://127.0.0.1:9", category="M", apiKey=canary)
    write_profile(Folders(workbench.home), "bad", "http://127.0.0.1:9", temperature="hot")
    assert workbench("profiles", "list", "--json") == 0
    listed = {entry["name"]: entry for entry in json.loads(workbench.out)}
    assert listed["mine"]["categories"] == ["M"]
    assert listed["mine"]["usable"]
    assert not listed["bad"]["usable"]
    shown = workbench.out
    assert workbench("profiles", "list") == 0
    shown += workbench.out
    assert workbench("profiles", "show", "mine") == 0
    shown += workbench.out + workbench.err
    assert "apiKey" in workbench.out
    assert workbench("profiles", "show", "mine", "--json") == 0
    shown += workbench.out
    assert canary not in shown
    assert workbench("profiles", "validate") == 2
    assert "bad.properties" in workbench.out
    assert "temperature" in workbench.out
    good = Folders(workbench.home).profiles / "mine.properties"
    assert workbench("profiles", "validate", good) == 0


def test_tokens_are_counted_and_said_to_be_exact_or_not(
    workbench: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("hello world", "utf-8")
    assert workbench("tokens", "--encoding", "o200k_base", text) == 0
    assert (workbench.out, workbench.err) == ("2\n", "exact\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello world"))
    assert workbench("tokens", "--encoding", "cl100k_base", "--json") == 0
    assert json.loads(workbench.out) == {"tokens": 2, "approximate": False}
    assert workbench("tokens", "--quiet", "--profile", "local-chatcompletion", text) == 0
    assert workbench.out.startswith("~")
    assert workbench.err == ""


def test_runs_are_listed_and_shown(workbench: Commands, server: FakeServer) -> None:
    assert workbench("runs", "list", "--json") == 0
    assert json.loads(workbench.out) == []
    workbench("run", "release-announcement")
    assert workbench("runs", "list", "--json") == 0
    (row,) = json.loads(workbench.out)
    assert (row["flow"], row["status"], row["in_tokens"], row["out_tokens"]) == (
        "Release announcement",
        "finished",
        200,
        78,
    )
    assert workbench("runs", "list") == 0
    assert row["id"] in workbench.out
    assert workbench("runs", "show", row["id"]) == 0
    assert TRACE in workbench.out
    assert "Meet KitchenRobot!" in workbench.out
    assert workbench("runs", "show", row["id"], "--json") == 0
    assert json.loads(workbench.out)["row"]["id"] == row["id"]
    assert workbench("runs", "show", "gone") == 2
    assert "There is no recorded run gone." in workbench.err


def test_models_are_listed(workbench: Commands) -> None:
    folder = workbench.home / "models"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(b"GGUF" + bytes(96))
    assert workbench("models", "list", "--json") == 0
    assert json.loads(workbench.out) == [{"name": "tiny", "file": str(folder / "tiny.gguf"), "bytes": 100}]


# -- the process ------------------------------------------------------------------------------------------------------


def test_commands_do_not_import_qt(workbench: Commands, one_agent: Path) -> None:
    code = """
import sys
sys.argv = ["workbench", *sys.argv[1:]]
from workbench.__main__ import main
status = main()
print([name for name in sys.modules if name.partition(".")[0] in ("PySide6", "qasync", "pyqtgraph")], status)
"""
    with FakeServer(chat("done")) as server:
        workbench.answered_by(server)
        for arguments in (
            ["run", str(one_agent)],
            ["validate", str(one_agent)],
            ["profiles", "list"],
            ["runs", "list"],
        ):
            command = [sys.executable, "-c", code, "--data-dir", str(workbench.home), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=True)
            assert done.stdout.splitlines()[-1] == "[] 0", arguments


def test_a_screenshot_is_drawn_without_a_display(workbench: Commands, server: FakeServer, tmp_path: Path) -> None:
    workbench("run", "release-announcement")
    picture = tmp_path / "shot.png"
    process = start(
        "screenshot", "--run", "last", "-o", picture, "--theme", "light", "--size", "1280x800", home=workbench.home
    )
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "", "")
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])) == (1280, 800)


def test_a_page_that_does_not_exist_is_named_with_those_that_do(workbench: Commands, tmp_path: Path) -> None:
    process = start("screenshot", "--page", "kitchen", "-o", tmp_path / "shot.png", home=workbench.home)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert '--page: found "kitchen", expected one of about, ' in err
    assert not (tmp_path / "shot.png").exists()


def test_without_a_display_the_window_says_what_works_instead(workbench: Commands) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    }
    command = [sys.executable, "-m", "workbench", "--data-dir", str(workbench.home)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60, check=False)
    if sys.platform == "linux":
        assert done.returncode == 2
        assert "workbench run release-announcement" in done.stderr


@pytest.mark.parametrize(
    "command", [("profiles", "list", "--json"), ("run", "no such flow", "--json"), ("runs", "list"), ("--help",)]
)
def test_a_reader_who_has_seen_enough_ends_a_command_quietly(command: tuple[str, ...], tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with start(*command, home=tmp_path, stdout=write) as process:
        os.close(write)
        _, err = process.communicate()
    assert process.returncode == 1
    assert "Traceback" not in err
    assert "Broken pipe" not in err


def test_a_category_is_mapped_to_a_profile(workbench: Commands) -> None:
    assert workbench("profiles", "map", "M") == 0
    assert workbench.out == "M=embedded-chat\n"
    assert workbench("profiles", "map", "M", "ollama") == 0
    assert workbench.out == "M=ollama\n"
    assert "profile.model.m=ollama" in (workbench.home / "profiles" / "categories.properties").read_text()
    assert workbench("profiles", "map", "reviewer", "openai", "--json") == 0
    assert json.loads(workbench.out) == {"category": "reviewer", "profile": "openai"}
    assert workbench("profiles", "map", "M", "--reset") == 0
    assert workbench.out == "M=embedded-chat\n"
    assert workbench("profiles", "map", "M", "olama") == 2
    assert "Did you mean ollama?" in workbench.err
    assert workbench("profiles", "map", "nobody") == 2
    assert "No profile answers for nobody." in workbench.err
