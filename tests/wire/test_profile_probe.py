"""Testing a profile: what is found at servers that answer, refuse, lack something, or are not there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine import Engine, ProfileStore
from engine.cli import app, main
from engine.folders import Folders
from engine.profile_probe import Outcome, Probe, Step, probe
from tests.helpers.fake_server import Answer, FakeServer, Received, chat, delta, event, failure
from tests.helpers.model_answers import write_profile

JSON = {"content-type": "application/json"}


def models(*names: str) -> Answer:
    return Answer(headers=JSON, pieces=[json.dumps({"data": [{"id": name} for name in names]}).encode()])


def call() -> Answer:
    function = {"name": "temperature", "arguments": '{"town": "Oslo"}'}
    piece = {"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}}
    return Answer(pieces=[event({"choices": [piece]}), delta(finish="tool_calls"), b"data: [DONE]\n\n"])


def capable(request: Received) -> Answer:
    return call() if "tools" in request.json() else chat("one ", "two ", "three", usage=(12, 3))


async def probed(
    home: Path, script: Answer | Callable[[Received], Answer], get: Answer | None = None, **settings: str
) -> Probe:
    folders = Folders(home)
    with FakeServer(script, get=get) as server:
        write_profile(folders, "tested", server.url, **settings)
        async with Engine(profiles=ProfileStore(folders.profiles)) as engine:
            return await probe(engine, "tested")


def outcomes(result: Probe) -> dict[Step, Outcome]:
    return {check.step: check.outcome for check in result.checks}


def texts(result: Probe) -> dict[Step, str]:
    return {check.step: check.text for check in result.checks}


async def test_a_server_that_can_all(tmp_path: Path) -> None:
    result = await probed(tmp_path, capable, models("other", "test-model"), tokenizer="", tokenEncoding="cl100k_base")
    assert list(outcomes(result)) == list(Step)
    assert outcomes(result) == dict.fromkeys(Step, Outcome.PASSED) | {Step.REASONING: Outcome.SKIPPED}
    said = texts(result)
    assert said[Step.MODELS] == "2 models, this one is among them."
    assert said[Step.ANSWER] == "“one two three”"
    assert said[Step.STREAMING].startswith("3 pieces")
    assert said[Step.USAGE] == "The server counts: 12 in, 3 out."
    assert said[Step.TOOLS] == 'It called temperature({"town": "Oslo"}).'
    assert said[Step.AUTHENTICATE] == "No key is needed."
    assert result.models == ("other", "test-model")
    assert result.passed
    assert result.first_token is not None


async def test_what_is_missing_is_a_warning_with_a_hint(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return failure(400, "no tools here") if "tools" in request.json() else chat("<b>all</b>", usage=None)

    result = await probed(tmp_path, script, models("llama"))
    found = outcomes(result)
    for step in (Step.MODELS, Step.STREAMING, Step.USAGE, Step.TOOLS, Step.TOKENIZER):
        assert found[step] is Outcome.WARNING
    hints = {check.step: check.hint for check in result.checks}
    assert hints[Step.MODELS] == "The server lists llama."
    assert "struct_parse" in hints[Step.TOOLS]
    assert result.passed


async def test_a_key_that_is_refused(tmp_path: Path) -> None:
    result = await probed(tmp_path, failure(401, "bad key"), failure(401, "bad key"), apiKey="sk-not-this-one-at-all")
    assert outcomes(result)[Step.REACH] is Outcome.PASSED
    assert outcomes(result)[Step.AUTHENTICATE] is Outcome.FAILED
    assert outcomes(result)[Step.ANSWER] is Outcome.SKIPPED
    assert not result.passed
    assert "sk-not-this" not in str(result)


async def test_thinking_is_told_apart(tmp_path: Path) -> None:
    pieces = [
        event({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}),
        delta("one"),
        delta(" two", finish="stop"),
        b"data: [DONE]\n\n",
    ]
    result = await probed(tmp_path, Answer(pieces=pieces), models("test-model"))
    assert texts(result)[Step.REASONING] == "Thinking comes apart from the answer."


async def test_a_server_without_a_list_of_models(tmp_path: Path) -> None:
    result = await probed(tmp_path, capable, failure(404, "nothing here"))
    assert outcomes(result)[Step.MODELS] is Outcome.WARNING
    assert outcomes(result)[Step.ANSWER] is Outcome.PASSED
    nameless = await probed(tmp_path / "nameless", capable, failure(404, "nothing here"), modelName="")
    assert outcomes(nameless)[Step.MODELS] is Outcome.FAILED
    assert outcomes(nameless)[Step.ANSWER] is Outcome.SKIPPED


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command(tmp_path: Path, as_json: bool) -> None:
    folders = Folders(tmp_path)

    def run(name: str) -> Any:
        arguments = ["--data-dir", str(tmp_path), "profiles", "test", name, *(["--json"] if as_json else [])]
        return CliRunner().invoke(app, arguments)

    with FakeServer(capable, get=models("test-model")) as server:
        write_profile(folders, "good", server.url)
        write_profile(folders, "dead", "http://127.0.0.1:9")
        good, dead = run("good"), run("dead")
    assert (good.exit_code, dead.exit_code) == (0, 3)
    assert main(["--data-dir", str(tmp_path), "profiles", "test", "nobody"]) == 2
    if as_json:
        document = json.loads(good.stdout)
        assert document["passed"] is True
        assert [check["step"] for check in document["checks"]] == [step.value for step in Step]
        assert json.loads(dead.stdout)["checks"][0]["outcome"] == "failed"
    else:
        assert "✓ models: 1 model, this one is among them." in good.stdout
        assert "✗ reach" in dead.stdout
