"""The command line as a person or a script uses it: what it prints where, and how it ends."""

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from tests.helpers.fake_server import Answer, FakeServer, chat, delta, failure
from tests.helpers.tested_profile import write_tested

AGENT = {"name": "Greet", "type": "COMPLETION", "template": "Say hello to {{name}}.", "model": {"profile": "tested"}}
FLOW = {
    "format": "workbench.flow",
    "version": 1,
    "name": "Greeting",
    "inputs": [{"key": "name", "type": "text", "default": "Ada"}],
    "outputs": ["response"],
    "agents": [AGENT],
}
HELLO = chat("Hello, ", "Ada.")
NOWHERE = "http://127.0.0.1:9"


def flow_file(folder: Path, **changes: Any) -> str:
    path = folder / "greet.flow.json"
    path.write_text(json.dumps(FLOW | changes))
    return str(path)


def test_a_run_prints_its_outputs_and_tells_of_itself_on_stderr(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(HELLO) as server:
        write_tested(home, server.url)
        assert main(["run", flow_file(tmp_path), "-i", "name=Bob"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "Hello, Ada.\n"
    assert "trace       tested, Greet\n" in shown.err
    assert "1 request, 7 tokens in" in shown.err
    assert server.requests[0].json()["messages"] == [{"role": "user", "content": "Say hello to Bob."}]


@pytest.mark.parametrize("streamed", [True, False])
def test_words_are_shown_as_they_arrive_or_whole(
    streamed: bool, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(HELLO) as server:
        write_tested(home, server.url)
        assert main(["run", flow_file(tmp_path, agents=[AGENT | {"stream": streamed}]), "--stream", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("▸ Greet\nHello, Ada.\n")
    assert shown.err == ""


def test_the_json_document(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(HELLO) as server:
        write_tested(home, server.url)
        assert main(["run", flow_file(tmp_path, oops=1), "--json", "--quiet"]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert shown.err == ""
    assert document["status"] == "finished"
    assert document["outputs"] == {"response": ["Hello, Ada."]}
    assert document["results"] == [
        {"trace": "tested, Greet", "context": {"name": ["Ada"], "response": ["Hello, Ada."]}, "error": None}
    ]
    assert document["statistics"]["cost"] == 0.007
    assert document["statistics"]["cost_provenance"] == "measured"
    assert [agent["name"] for agent in document["agents"]] == ["Greet"]
    assert "oops" in document["warnings"][0]


def test_warnings_of_a_request_are_in_the_document(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = failure(400, "Unsupported parameter: stream_options", param="stream_options")
    with FakeServer(refusal, HELLO) as server:
        write_tested(home, server.url)
        assert main(["run", flow_file(tmp_path), "--json", "--quiet"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert "stream_options" in warning


def test_every_event_has_the_fields_a_reader_counts_on(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(HELLO) as server:
        write_tested(home, server.url)
        assert main(["run", flow_file(tmp_path), "--events"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(event)[:5] for event in events] == [["type", "time", "run_id", "agent", "branch"]] * len(events)
    assert [event["type"] for event in events][:2] == ["run_started", "agent_started"]
    assert (events[-1]["type"], events[-1]["agent"]) == ("run_finished", "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_nobody_to_ask_has_a_status_of_its_own(
    options: list[str], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tested(home, NOWHERE)
    assert main(["run", flow_file(tmp_path), *options]) == 3
    shown = capsys.readouterr()
    assert shown.err.count("No server answers at 127.0.0.1:9.") == 1
    if options:
        assert json.loads(shown.out)["results"][0]["error"] == {
            "type": "GENERAL",
            "agent": "Greet",
            "message": "No server answers at 127.0.0.1:9.",
        }


def test_a_server_that_refuses_is_a_failed_run(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(failure(401, "bad key")) as server:
        write_tested(home, server.url)
        assert main(["run", flow_file(tmp_path), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["status"] == "failed"
        assert main(["run", flow_file(tmp_path)]) == 1
    assert "refused the key (401): bad key. " in capsys.readouterr().err


def test_a_flow_that_cannot_run_is_refused_with_the_place_of_its_fault(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tested(home, NOWHERE)
    file = flow_file(tmp_path, agents=[AGENT | {"routes": [{"to": "Nobody"}]}])
    dataset = tmp_path / "names.csv"
    dataset.write_text("name\nAda\n")
    for command in (["run", file], ["batch", file, "--dataset", str(dataset)]):
        assert main(command) == 2
        shown = capsys.readouterr().err
        assert '"Greet" leads to "Nobody", which is not an agent.' in shown
        assert shown.startswith(f"{file}:1:")
        assert ":$.agents[0].routes[0].to: error:" in shown
        assert shown.count("Nobody") == 1, "a single fault is told once"


def test_every_fault_of_a_flow_is_listed_by_whatever_reads_it(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tested(home, NOWHERE)
    agents = [AGENT | {"routes": [{"to": "Nobody"}], "timeout": "soon"}]
    file = flow_file(tmp_path, agents=agents, outputs=7, limits={"max_steps": "many"})
    dataset = tmp_path / "names.csv"
    dataset.write_text("name\nAda\n")
    shape = ("$.outputs", "$.limits.max_steps", "$.agents[0].timeout")
    for command, more in (
        (["run", file], ("$.agents[0].routes[0].to",)),
        (["batch", file, "--dataset", str(dataset)], ("$.agents[0].routes[0].to",)),
        (["trust", file, "--show"], ()),
        (["export", file, "--to", "mermaid"], ()),
    ):
        assert main(command) == 2
        shown = capsys.readouterr().err
        assert [path for path in (*shape, *more) if f":{path}: error:" not in shown] == [], command
        assert shown.startswith(f"error: {len(shape) + len(more)} errors:\n"), command


def test_faults_are_listed_from_the_top_of_the_file_to_its_bottom(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tested(home, NOWHERE)
    path = tmp_path / "greet.flow.json"
    agents = [AGENT | {"routes": [{"to": "Nobody"}], "timeout": "soon"}]
    path.write_text(json.dumps(FLOW | {"limits": {"max_steps": "many"}, "start": "No", "agents": agents}, indent=1))
    assert main(["validate", str(path)]) == 2
    listed = capsys.readouterr().out.splitlines()
    places = [int(line.removeprefix(f"{path}:").partition(":")[0]) for line in listed]
    assert len(places) == 4
    assert places == sorted(places)
    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err.splitlines() == ["error: 4 errors:", *(f"  {line}" for line in listed)]


def test_a_fault_of_a_sample_names_the_sample(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tested(home, NOWHERE, maxTokens="none")
    assert main(["run", "thinking", "--profile", "tested"]) == 2
    assert capsys.readouterr().err.startswith("thinking:")


def test_a_branch_that_fails_inside_of_a_node_is_told_once(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow_file(tmp_path)
    node = {"name": "Node", "flow": "greet.flow.json", "with": {"name": "[[names]]"}}
    names = {"key": "names", "type": "list", "default": ["Ada", "Bob"]}
    outer = tmp_path / "outer.flow.json"
    outer.write_text(json.dumps(FLOW | {"inputs": [names], "agents": [node]}))
    with FakeServer(failure(401, "bad key")) as server:
        write_tested(home, server.url)
        assert main(["run", str(outer)]) == 1
        assert [line for line in capsys.readouterr().err.splitlines() if "bad key" in line and "Node 1" in line] == []
        assert main(["run", str(outer), "--json"]) == 1
        told = [line.partition(":")[0] for line in capsys.readouterr().err.splitlines() if "bad key" in line]
    assert sorted(told) == ["Node/Greet 1/2", "Node/Greet 2/2"]


def test_every_fault_of_a_profile_a_flow_needs_is_listed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tested(home, NOWHERE, maxTokens="many", temperature="9", topP="-1")
    assert main(["run", flow_file(tmp_path)]) == 2
    shown = capsys.readouterr().err
    assert ":$.agents[0].model: error: " in shown
    for key in ("maxTokens", "temperature", "topP"):
        assert [line for line in shown.splitlines() if "/tested.properties:" in line and f" error: {key}: " in line], (
            key
        )


def test_a_run_tells_what_is_odd_about_its_flow(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(HELLO) as server:
        write_tested(home, server.url)
        file = flow_file(tmp_path, agents=[AGENT | {"template": "Hello {{name}}{{nmae}}"}])
        assert main(["run", file, "--json"]) == 0
    shown = capsys.readouterr()
    (warning,) = json.loads(shown.out)["warnings"]
    assert warning.startswith(f"{file}:1:")
    assert '"nmae"' in warning
    assert warning in shown.err


def test_a_limit_ends_a_run_with_the_status_budget(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = AGENT | {"routes": [{"when": "name == 'nobody'", "to": None}, {"to": "Greet"}]}
    with FakeServer(HELLO) as server:
        write_tested(home, server.url)
        path = flow_file(tmp_path, agents=[again], limits={"max_cost": 0.01})
        assert main(["run", path, "--json", "--quiet", "--no-cache"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["status"], document["statistics"]["requests"]) == ("budget", 2)


@pytest.mark.parametrize(
    ("arguments", "name", "words"),
    [
        (["run", "nothing-of-this-name"], "FlowError", "no flow file and no sample"),
        (["run"], "WrongUsage", "flow"),
        (["run", "thinking", "-i", "nonsense=1"], "FlowInvalid", "not an input of the flow"),
        (["run", "thinking", "--profile", "embeded-chat"], "ProfileNotFound", "Did you mean embedded-chat?"),
        (["tokens", "--encoding", "o300k", __file__], "WrongUsage", "expected one of cl100k_base"),
    ],
)
def test_wrong_usage_is_one_document_too(
    arguments: list[str], name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--json"]) == 2
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert error["type"] == name
    assert words in error["message"]
    assert f"error: {error['message']}" in shown.err


def test_a_faulty_inputs_file_names_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "inputs.json"
    file.write_text('{"name": "Ada",\n "name": oops}')
    assert main(["run", "thinking", "--inputs", str(file)]) == 2
    assert f"{file}:2:" in capsys.readouterr().err


def test_an_input_that_is_no_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", flow_file(tmp_path), "-i", "name=\udcff"]) == 2
    assert "-i name" in capsys.readouterr().err


def test_a_folder_does_not_hide_the_sample_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thinking").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["validate", "thinking"]) == 0


def test_text_from_outside_does_not_act_on_the_terminal(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(chat("red \x1b[31m alert\x07"), failure(400, "\x1b]0;title\x07")) as server:
        write_tested(home, server.url)
        path = flow_file(tmp_path)
        main(["run", path, "--stream"])
        main(["run", path])
    shown = capsys.readouterr()
    assert "red ␛[31m alert␇" in shown.out
    assert "\x1b" not in shown.out + shown.err
    assert "\x07" not in shown.err


def test_tokens_of_a_vocabulary_need_no_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text"
    file.write_text("hello world")
    assert main(["tokens", "--encoding", "o200k_base", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"tokens": 2, "approximate": False}


def test_a_profile_tells_its_categories_and_never_its_key(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tested(home, NOWHERE, apiKey="very-secret")
    (home / "profiles" / "categories.properties").write_text("profile.model.l=tested\n")
    assert main(["profiles", "show", "tested", "--json"]) == 0
    assert main(["profiles", "list", "--json"]) == 0
    shown, _, listed = capsys.readouterr().out.partition("\n[")
    assert json.loads(shown)["categories"] == ["L"]
    assert "very-secret" not in shown + listed


def test_recorded_runs(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(HELLO) as server:
        write_tested(home, server.url)
        main(["run", flow_file(tmp_path), "--json"])
    run_id = json.loads(capsys.readouterr().out)["run_id"]
    assert main(["runs", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["id"], row["flow"], row["status"]) == (run_id, "Greeting", "finished")
    assert float(row["cost"]) == 0.007
    assert main(["runs", "show", run_id]) == 0
    assert "Hello, Ada." in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_prints_and_records_what_there_is(
    number: signal.Signals, home: Path, tmp_path: Path
) -> None:
    with FakeServer(Answer(pieces=[delta("Hel")], framing="chunked", end="stall")) as server:
        write_tested(home, server.url)
        command = [sys.executable, "-m", "engine", "run", flow_file(tmp_path), "--events"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            lines = []
            for line in process.stdout:
                lines.append(json.loads(line))
                if lines[-1]["type"] == "chunk_received":
                    process.send_signal(number)
            assert process.stderr.read() == ""
        assert server.hung_up.wait(10)
    assert process.returncode == 130
    assert [line["type"] for line in lines[-3:]] == ["completion_finished", "stop_proved", "run_finished"]
    assert lines[-3]["finish_reason"] == "STOPPED"
    assert lines[-2]["proof"] == "connection closed"
    assert lines[-1]["status"] == "stopped"
    with sqlite3.connect(home / "history.sqlite") as connection:
        used = "requests, in_tokens > 0, out_tokens, provenance"
        # The server had no time to report: what was sent and what came is estimated, for it was paid.
        assert connection.execute(f"SELECT status, {used} FROM runs").fetchall() == [("stopped", 1, 1, 1, "estimated")]
        assert connection.execute(f"SELECT {used} FROM requests").fetchall() == [(1, 1, 1, "estimated")]
    connection.close()
