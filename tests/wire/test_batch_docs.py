"""The examples of docs/batch.md do what the page says."""

import json
import re
import shlex
from pathlib import Path

import pytest

from engine import bundled
from engine.batch_output import TAIL
from engine.cli import main
from engine.dataset import Dataset, check_dataset
from engine.flow.flow_file import read_flow
from tests.helpers.fake_server import Answer, FakeServer, Received, chat

PAGE = (Path(__file__).parents[2] / "docs" / "batch.md").read_text("utf-8")
HEADER, REPLY = re.findall(r"```csv\n(.*?)```", PAGE, re.DOTALL)[::-1]


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def answer(request: Received) -> Answer:
    return chat(f"You wrote: {request.json()['messages'][-1]['content'].partition(': ')[2]}")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reply.flow.json").write_text(block("json"))
    (tmp_path / "messages.csv").write_text(REPLY)
    return tmp_path


def use(server: FakeServer, place: Path) -> None:
    folder = place / "home" / "profiles"
    folder.mkdir(parents=True)
    lines = [
        "modelProvider=OAI_CHAT_COMPLETION",
        "modelName=m",
        f"url={server.url}",
        "maxTokens=50",
        "temperature=0",
        "topP=1",
    ]
    (folder / "served.properties").write_text("\n".join(lines))
    assert main(["profiles", "map", "M", "served"]) == 0


def test_the_commands(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(answer) as server:
        use(server, place)
        first, listing, last = [shlex.split(line)[1:] for line in block("sh").splitlines()]
        assert main(first) == 1
        assert "about 1 request" in capsys.readouterr().err
        assert main(listing) == 0
        batch_id = capsys.readouterr().out.splitlines()[1].split()[0]
        assert main([batch_id if word == "3f2a91c4" else word for word in last]) == 0
        prompts = [request.json()["messages"][-1]["content"] for request in server.requests]
    assert [prompt.split(":")[0] for prompt in sorted(prompts)] == [f"Reply in {words} words" for words in (10, 20, 30)]
    header, *rows = (place / "replies.csv").read_text().splitlines()
    assert header == HEADER.strip()
    assert len(rows) == 3
    assert header.replace('"', "").split(",")[-len(TAIL) :] == list(TAIL)
    assert rows[1].startswith(
        '2,"finished","","2","I was charged twice, for one order.","30","You wrote: I was charged'
    )


def test_the_script(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(answer) as server:
        use(server, place)
        exec(compile(block("python"), "script", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines[-4:-1]) == ["finished"] * 3
    assert lines[-1] == "finished 3 of 3"
    results = [json.loads(line) for line in (place / "replies.jsonl").read_text().splitlines()]
    assert [result["outputs"]["reply"] for result in results] == [
        [f"You wrote: {result['input']['message']}"] for result in results
    ]


def test_the_sample_dataset_fits_its_flow(place: Path) -> None:
    spec = read_flow(bundled.read_bytes("resources", "flows", "thinking.flow.json")).spec
    (place / "trips.csv").write_bytes(bundled.read_bytes("resources", "datasets", "trips.csv"))
    check = check_dataset(Dataset(place / "trips.csv"), spec, {})
    assert (check.rows, check.faulty, check.columns) == (3, 0, ("traveller", "trip"))
    assert "workbench batch thinking --dataset trips" in PAGE


def test_a_sample_becomes_a_file_of_the_user(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(answer) as server:
        use(server, place)
        assert main(["batch", "thinking", "--dataset", "trips", "--profile", "served", "--out", "trips.jsonl"]) == 0
        assert len(server.requests) == 3
    assert (place / "home" / "datasets" / "trips.csv").is_file()
