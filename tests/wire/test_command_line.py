"""The command line as a person or a script uses it: what it prints where, and how it ends."""

import json
import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from tests.helpers.fake_server import Answer, FakeServer, chat, delta, failure

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


@pytest.fixture(autouse=True)
def quiet_engine() -> Iterator[None]:
    yield
    logging.getLogger("engine").handlers = []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def profile(home: Path, url: str, **more: str) -> None:
    keys = {
        "modelProvider": "OAI_CHAT_COMPLETION",
        "modelName": "m",
        "url": url,
        "maxTokens": "50",
        "temperature": "0",
        "topP": "1",
        "maxRetries": "0",
        "cost1MInTokens": "1000",
        "cost1MOutTokens": "0",
    } | more
    (home / "profiles").mkdir(parents=True, exist_ok=True)
    text = "".join(f"{key}={value}\n" for key, value in keys.items())
    (home / "profiles" / "tested.properties").write_text(text)


def flow_file(folder: Path, **changes: Any) -> str:
    path = folder / "greet.flow.json"
    path.write_text(json.dumps(FLOW | changes))
    return str(path)


def test_a_run_prints_its_outputs_and_tells_of_itself_on_stderr(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(HELLO) as server:
        profile(home, server.url)
        assert main(["run", flow_file(tmp_path), "-i", "name=Bob"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "Hello, Ada.\n"
    assert "trace       tested, Greet\n" in shown.err
    assert "1 requests, 7 tokens in" in shown.err
    assert server.requests[0].json()["messages"] == [{"role": "user", "content": "Say hello to Bob."}]


@pytest.mark.parametrize("streamed", [True, False])
def test_words_are_shown_as_they_arrive_or_whole(
    streamed: bool, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(HELLO) as server:
        profile(home, server.url)
        assert main(["run", flow_file(tmp_path, agents=[AGENT | {"stream": streamed}]), "--stream", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("▸ Greet\nHello, Ada.\n")
    assert shown.err == ""


def test_the_json_document(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(HELLO) as server:
        profile(home, server.url)
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
        profile(home, server.url)
        assert main(["run", flow_file(tmp_path), "--json", "--quiet"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert "stream_options" in warning


def test_every_event_has_the_fields_a_reader_counts_on(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(HELLO) as server:
        profile(home, server.url)
        assert main(["run", flow_file(tmp_path), "--events"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(event)[:5] for event in events] == [["type", "time", "run_id", "agent", "branch"]] * len(events)
    assert [event["type"] for event in events][:2] == ["run_started", "agent_started"]
    assert (events[-1]["type"], events[-1]["agent"]) == ("run_finished", "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_nobody_to_ask_has_a_status_of_its_own(
    options: list[str], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile(home, NOWHERE)
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
        profile(home, server.url)
        assert main(["run", flow_file(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["status"] == "failed"


def test_a_limit_ends_a_run_with_the_status_budget(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = AGENT | {"routes": [{"when": "name == 'nobody'", "to": None}, {"to": "Greet"}]}
    with FakeServer(HELLO) as server:
        profile(home, server.url)
        path = flow_file(tmp_path, agents=[again], limits={"max_cost": 0.01})
        assert main(["run", path, "--json", "--quiet"]) == 1
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
        profile(home, server.url)
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
    profile(home, NOWHERE, apiKey="very-secret")
    (home / "profiles" / "categories.properties").write_text("profile.model.l=tested\n")
    assert main(["profiles", "show", "tested", "--json"]) == 0
    assert main(["profiles", "list", "--json"]) == 0
    shown, _, listed = capsys.readouterr().out.partition("\n[")
    assert json.loads(shown)["categories"] == ["L"]
    assert "very-secret" not in shown + listed


def test_recorded_runs(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(HELLO) as server:
        profile(home, server.url)
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
        profile(home, server.url)
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
    assert [line["type"] for line in lines[-2:]] == ["completion_finished", "run_finished"]
    assert lines[-2]["finish_reason"] == "STOPPED"
    assert lines[-1]["status"] == "stopped"
    with sqlite3.connect(home / "history.sqlite") as connection:
        used = "requests, in_tokens > 0, out_tokens, provenance"
        # The server had no time to report: what was sent and what came is estimated, for it was paid.
        assert connection.execute(f"SELECT status, {used} FROM runs").fetchall() == [("stopped", 1, 1, 1, "estimated")]
        assert connection.execute(f"SELECT {used} FROM requests").fetchall() == [(1, 1, 1, "estimated")]
    connection.close()
