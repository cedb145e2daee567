"""Recorded runs on the command line: resumed, begun in the middle, repeated, compared, exported, killed."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from tests.helpers.fake_server import Answer, FakeServer, Received, chat, failure
from tests.helpers.tested_profile import write_tested

ROOT = Path(__file__).parents[2]


def agent(name: str, template: str, to: str | None, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "COMPLETION",
        "model": {"profile": "tested"},
        "template": template,
        "handler": {"type": "text", "key": name.lower()},
        "routes": [{"to": to}],
    } | more


def flow_file(folder: Path, agents: list[dict[str, Any]]) -> str:
    path = folder / "chain.flow.json"
    document = {"format": "workbench.flow", "version": 1, "name": "Chain", "outputs": ["last"], "agents": agents}
    document["inputs"] = [{"key": "items", "type": "list", "default": ["a", "b", "c"]}]
    path.write_text(json.dumps(document))
    return str(path)


def chain(folder: Path) -> str:
    return flow_file(
        folder,
        [agent("First", "first of {{items}}", "Middle"), agent("Middle", "{{first}} then", "Last"),
         agent("Last", "{{middle}} end", None)],
    )  # fmt: skip


def asked(server: FakeServer) -> list[str]:
    return [request.json()["messages"][-1]["content"] for request in server.requests]


def echo(request: Received) -> Answer:
    return chat(f"<{request.json()['messages'][-1]['content']}>")


def run_id_of(shown: str) -> str:
    return str(json.loads(shown)["run_id"])


def test_a_failed_run_is_resumed_and_pays_only_for_the_rest(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(request: Received) -> Answer:
        return failure(400, "no") if "then" in request.json()["messages"][-1]["content"] else echo(request)

    with FakeServer(breaks) as server:
        write_tested(home, server.url)
        assert main(["run", chain(tmp_path), "--json", "--quiet", "--no-cache"]) == 1
    first = run_id_of(capsys.readouterr().out)
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        assert main(["runs", "resume", first, "--json", "--quiet"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert len(asked(server)) == 2
    assert document["statistics"]["requests"] == 2
    assert document["outputs"] == {"last": ["<<<first of a\n\nb\n\nc> then> end>"]}
    assert main(["runs", "list", "--json"]) == 0
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows[document["run_id"]]["origin"], rows[document["run_id"]]["parent"]) == ("resume", first)
    assert main(["runs", "resume", document["run_id"]]) == 2
    assert "nothing is left to do" in capsys.readouterr().err


def test_a_run_with_a_flow_inside_goes_on_from_anywhere(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(request: Received) -> Answer:
        return failure(400, "no") if "end" in request.json()["messages"][-1]["content"] else echo(request)

    inner = [agent("Inside", "inside {{first}}", None)]
    document = {"format": "workbench.flow", "version": 1, "name": "Part", "outputs": ["inside"], "agents": inner}
    document["inputs"] = [{"key": "first", "required": True}]
    (tmp_path / "part.flow.json").write_text(json.dumps(document))
    node = {"name": "Node", "flow": "part.flow.json", "with": {"first": "{{first}}"}, "routes": [{"to": "Last"}]}
    flow_file(
        tmp_path,
        [agent("First", "first", "Node"), node, agent("Last", "{{inside}} end", None)],
    )
    monkeypatch.chdir(tmp_path)
    with FakeServer(breaks) as server:
        write_tested(home, server.url)
        assert main(["run", "chain.flow.json", "--json", "--quiet"]) == 1
    first = run_id_of(capsys.readouterr().out)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        assert main(["runs", "resume", first, "--json", "--quiet"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["outputs"] == {"last": ["<<inside <first>> end>"]}
        assert asked(server) == ["<inside <first>> end"]
        assert main(["runs", "repeat", first, "--json", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out)["outputs"] == document["outputs"]
    (tmp_path / "part.flow.json").unlink()
    assert main(["runs", "repeat", first]) == 2
    assert f"{tmp_path / 'part.flow.json'}" in capsys.readouterr().err


def test_a_run_of_a_foreign_flow_is_trusted_again(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(request: Received) -> Answer:
        return failure(400, "no")

    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "shout.py").write_text(
        "def shout(values):\n    return {'items': [value.upper() for value in values['items']]}\n\n\n"
        "PLUGINS = {'functions': {'shout': shout}}\n"
    )
    before = [{"call": "shout"}]
    path = flow_file(tmp_path, [agent("First", "first of {{items}}", None, before=before)])
    with FakeServer(breaks) as server:
        write_tested(home, server.url)
        assert main(["run", path, "--json", "--quiet", "--trust"]) == 1
    first = run_id_of(capsys.readouterr().out)
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        for command in ("resume", "repeat"):
            assert main(["runs", command, first, "--quiet"]) == 2
            assert "needs your trust" in capsys.readouterr().err
        assert not server.requests
        assert main(["runs", "resume", first, "--json", "--quiet", "--trust"]) == 0
        assert asked(server) == ["first of A\n\nB\n\nC"]


def test_a_run_begins_at_an_agent_of_another_one(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = chain(tmp_path)
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        assert main(["run", path, "--json", "--quiet"]) == 0
        first = run_id_of(capsys.readouterr().out)
        arguments = ["run", path, "--from", "Last", "--run", first, "--json", "--quiet", "--no-cache"]
        assert main(arguments) == 0
        assert len(server.requests) == 4
        assert main([*arguments, "-i", "middle=mine"]) == 0
        edited = json.loads(capsys.readouterr().out.split("\n}\n")[1] + "\n}")
        assert edited["outputs"] == {"last": ["<mine end>"]}
    assert main(["runs", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["origin"], row["edited"]) for row in rows] == [("from", True), ("from", False), ("", False)]
    assert main(["run", path, "--from", "Last"]) == 2
    assert main(["run", path, "--from", "Nowhere", "--run", first]) == 2


def test_runs_are_repeated_compared_exported_and_deleted(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = chain(tmp_path)
    with FakeServer(echo) as server:
        write_tested(home, server.url)
        assert main(["run", path, "--json", "--quiet"]) == 0
        first = run_id_of(capsys.readouterr().out)
        assert main(["runs", "repeat", first, "--json", "--quiet"]) == 0
        repeated = json.loads(capsys.readouterr().out)
        assert len(server.requests) == 3  # all from the cache
        assert repeated["statistics"]["cached_prompts"] == 3
        assert main(["runs", "repeat", first, "--fresh", "--json", "--quiet"]) == 0
        capsys.readouterr()
        assert len(server.requests) == 6
        assert main(["run", path, "-i", 'items=["x"]', "--json", "--quiet"]) == 0
        other = run_id_of(capsys.readouterr().out)
    assert main(["runs", "compare", first, other, "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["changed_inputs"] == ["items"]
    assert [pair["prompt_changed"] for pair in compared["pairs"]] == [True, True, True]
    assert main(["runs", "compare", first, repeated["run_id"]]) == 0
    assert "First: same" in capsys.readouterr().out
    page = tmp_path / "run.html"
    assert main(["runs", "export", first, "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main(["runs", "export", first, "--to", "pdf"]) == 2
    capsys.readouterr()
    assert main(["runs", "delete", first]) == 0
    assert main(["runs", "show", first]) == 2
    assert main(["runs", "prune", "--older-than", "0"]) == 0
    assert "3 deleted" in capsys.readouterr().out


def test_neither_a_run_nor_a_flow_with_a_key_in_it_is_exported(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "canary-of-a-profile-0123"
    with FakeServer(chat(f"it is {secret}")) as server:
        write_tested(home, server.url, apiKey=secret)
        assert main(["run", chain(tmp_path), "--json", "--quiet"]) == 0
    run = run_id_of(capsys.readouterr().out)
    places = {
        "name": {"name": f"A {secret}"},
        "template": {"template": f"use {secret}"},
        "shape": {"template": "use sk-abcdefghijklmnopqrstuvwxyz123456"},
        "system": {"system": secret},
        "handler": {"handler": {"type": "text", "key": secret}},
        "address": {"template": f"https://x.example/?key={secret}"},
    }
    commands = [["runs", "export", run, "--to", form] for form in ("json", "md", "html")]
    for place, more in places.items():
        (folder := tmp_path / place).mkdir()
        path = flow_file(folder, [agent("First", "first", None) | more])
        commands += [["export", path, "--to", form, "-o", str(folder / "out")] for form in ("python", "mermaid", "svg")]
    for command in commands:
        assert main(command) != 0
        told = capsys.readouterr()
        assert "was not exported" in told.err
        assert "a key" in told.err
        assert secret not in told.out + told.err
    assert list(tmp_path.rglob("out")) == []


def looping(folder: Path) -> str:
    """Twenty calls: a split of three that is merged, a loop of eight, and a chain."""
    agents = [
        agent("Split", "look at [[items]]", "Loop", merge={"type": "concat", "keys": ["split"]}),
        agent("Loop", "{{n}} {{loop}} again", None, after=[{"set": "loop", "to": "loop | truncate(40)"}],
              before=[{"set": "n", "to": "(n | default(0)) + 1"}],
              routes=[{"when": "n < 8", "to": "Loop"}, {"to": "N0"}]),
        *(agent(f"N{number}", f"step {number}", f"N{number + 1}") for number in range(8)),
        agent("N8", "step 8", None),
    ]  # fmt: skip
    return flow_file(folder, agents)


def kill_and_resume(folder: Path, chance: random.Random) -> None:
    """Kill a run at a random moment; what was answered is recorded with its cost, and the rest is done once."""
    home = folder / "home"
    with FakeServer(lambda request: chat("an ", "answer")) as server:
        write_tested(home, server.url)
        command = [sys.executable, "-m", "engine", "--data-dir", str(home), "run", looping(folder), "--events"]
        with subprocess.Popen(
            [*command, "--no-cache", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True
        ) as process:
            assert process.stdout is not None
            wanted = chance.randrange(1, 180)
            told = []
            for line in process.stdout:
                told.append(json.loads(line))
                if len(told) >= wanted:
                    break
            time.sleep(chance.random() * 0.02)
            process.send_signal(signal.SIGKILL)
        sent = len(server.requests)
        run_id = told[0]["run_id"]
        shown = subprocess.run(
            [sys.executable, "-m", "engine", "--data-dir", str(home), "runs", "resume", run_id, "--json", "--quiet"],
            capture_output=True, cwd=ROOT, text=True, check=False,
        )  # fmt: skip
        if "nothing is left" in shown.stderr or "runs list" in shown.stderr:
            return
        assert shown.returncode == 0, shown.stderr
        document = json.loads(shown.stdout)
        assert document["status"] == "finished"
        new = len(server.requests) - sent
        assert document["statistics"]["requests"] == new
    import asyncio

    from engine.run_history import RunHistory

    async def recorded() -> tuple[int, int]:
        history = RunHistory(home / "history.sqlite")
        rows = {row.id: row for row in await history.runs()}
        assert rows[run_id].status == "crashed"
        return rows[run_id].requests, rows[document["run_id"]].requests

    before, after = asyncio.run(recorded())
    acknowledged = sum(event["type"] == "completion_finished" for event in told)
    assert acknowledged <= before <= sent  # what was told is saved
    assert before + after == 20
    # Sent twice were at most the three under way, and what had been answered a moment ago, whose record was on its way.
    assert sent + new <= 20 + 8


@pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")
def test_killed_runs_are_resumed(tmp_path: Path) -> None:
    chance = random.Random(28)
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        kill_and_resume(folder, chance)


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_two_hundred_killed_runs_are_resumed(tmp_path: Path) -> None:
    chance = random.Random(2028)
    for number in range(200):
        folder = tmp_path / str(number)
        folder.mkdir()
        kill_and_resume(folder, chance)
