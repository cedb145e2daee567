"""A model that only thinks: told as it happens, and gone on with the thinking as the answer."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.cli import main
from engine.completion import ReasoningAudit
from engine.errors import FlowError
from engine.events import AnyEvent, CompletionFinished, RunStarted, Warned
from engine.flow.context import Context
from engine.folders import Folders
from engine.recorded_runs import recorded_flow
from engine.thinking_answer import audited, pass_of_step, thinking_point
from tests.helpers.fake_server import Answer, FakeServer, Received, chat, delta
from tests.helpers.tested_profile import write_tested
from tests.wire.test_recorded_runs import agent, asked, flow_file, run_id_of


def thinks(text: str, content: str = "", finish: str = "stop") -> Answer:
    """An answer with thinking."""
    pieces = [delta(reasoning_content=text), delta(content), delta(finish=finish)]
    return Answer(pieces=[*pieces, b"data: [DONE]\n\n"], framing="chunked")


def answers(**by_word: Answer) -> Any:
    def script(request: Received) -> Answer:
        prompt = str(request.json()["messages"][-1]["content"])
        return by_word.get(prompt.split()[0], chat(f"<{prompt}>"))

    return script


def chain(folder: Path, **middle: Any) -> str:
    return flow_file(
        folder,
        [agent("First", "first", "Middle"), agent("Middle", "think of {{first}}", "Last", **middle),
         agent("Last", "last {{middle}}", None)],
    )  # fmt: skip


def events_of(home: Path, run_id: str, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    capsys.readouterr()
    assert main(["runs", "show", run_id, "--json"]) == 0
    return list(json.loads(capsys.readouterr().out)["events"])


@pytest.mark.parametrize(
    ("answer", "found", "says"),
    [
        (thinks("I wonder"), "answer empty", "the answer is empty, there is only thinking"),
        (thinks("I wonder", finish="length"), "limit spent on thinking", "raise maxTokens"),
        (thinks("I wonder\nFinal answer: 42"), "answer inside thinking", "a part of the thinking says it is one"),
    ],
)
def test_the_command_line_warns_and_takes_the_thinking(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: Answer, found: str, says: str
) -> None:
    flow = chain(tmp_path)
    with FakeServer(answers(think=answer)) as server:
        write_tested(home, server.url)
        assert main(["run", flow, "--json", "--no-cache"]) == 0
        shown = capsys.readouterr()
        run_id = run_id_of(shown.out)
        hint = f"`--from Middle --run {run_id} --use-thinking` takes the thinking as the answer."
        assert shown.err.count(says) == 1
        assert hint in shown.err
        assert [hint in one for one in json.loads(shown.out)["warnings"]].count(True) == 1
        before = len(server.requests)
        assert main(["run", flow, "--json", "--no-cache", "--from", "Middle", "--run", run_id, "--use-thinking"]) == 0
        shown = capsys.readouterr()
        thought = "42" if "Final" in found or "inside" in found else "I wonder"
        assert asked(server)[before:] == [f"last {thought}"]
    document = json.loads(shown.out)
    assert document["outputs"] == {"last": [f"<last {thought}>"]}
    assert 'The thinking of "Middle" is taken as its answer.' in document["warnings"]
    told = [one for one in events_of(home, document["run_id"], capsys) if one["type"] == "completion_finished"]
    assert (told[0]["content"], told[0]["from_thinking"], told[0].get("audit")) == (thought, True, None)
    assert main(["runs", "list", "--json"]) == 0
    row = next(one for one in json.loads(capsys.readouterr().out) if one["id"] == document["run_id"])
    assert (row["origin"], row["parent"], row["edited"]) == ("from", run_id, True)


def test_words_on_a_terminal_are_followed_by_the_warning(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(answers(think=thinks("I wonder"))) as server:
        write_tested(home, server.url)
        assert main(["run", chain(tmp_path), "--stream", "--no-cache"]) == 0
    assert "warning: Middle: the answer is empty, there is only thinking" in capsys.readouterr().err


def test_a_refused_answer_is_replaced_at_once_and_the_rest_of_the_pass_is_not_asked_again(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three branches; the second one thinks only, so that its handler finds no JSON, twice."""
    handler = {"type": "json", "key": "middle", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    agents = [
        agent("Split", "split [[items]]", "Middle", handler={"type": "text", "key": "part"}),
        agent("Middle", "think {{items}}", None, handler=handler),
    ]
    flow = flow_file(tmp_path, agents)
    thinking = 'I make it\n```json\n{"n": 7}\n```'

    def script(request: Received) -> Answer:
        prompts = [str(turn["content"]) for turn in request.json()["messages"] if turn["role"] == "user"]
        if prompts[0] == "think b":
            return thinks(thinking)
        return chat('{"n": 1}' if prompts[0].startswith("think") else "part")

    with FakeServer(script) as server:
        write_tested(home, server.url)
        assert main(["run", flow, "--json", "--no-cache"]) == 1
        run_id = run_id_of(capsys.readouterr().out)
        before = len(server.requests)
        options = ["--from", "Middle", "--run", run_id, "--use-thinking"]
        assert main(["run", flow, "--json", "--no-cache", *options]) == 0
        assert len(server.requests) == before
    document = json.loads(capsys.readouterr().out)
    assert [one["context"]["n"] for one in document["results"]] == [["1"], ["7"], ["1"]]
    assert document["statistics"]["cached_prompts"] == 3


def test_each_pass_of_a_loop_is_told_apart_and_what_has_no_thinking_is_refused(home: Path, tmp_path: Path) -> None:
    agents = [
        agent("Write", "write", "Judge"),
        agent("Judge", "judge {{write}}", None, routes=[{"when": "n > 1", "to": None}, {"to": "Write"}]),
    ]
    agents[0]["before"] = [{"set": "n", "to": "(n | default(0)) + 1"}]
    path = flow_file(tmp_path, agents)
    asked_for: list[str] = []

    def script(request: Received) -> Answer:
        asked_for.append(str(request.json()["messages"][-1]["content"]))
        return thinks(f"thought {len(asked_for)}") if asked_for[-1] == "write" else chat("fine")

    with FakeServer(script) as server:
        write_tested(home, server.url)
        assert main(["run", path, "--json", "--quiet", "--no-cache"]) == 0

        async def again() -> list[AnyEvent]:
            async with Engine.on_folders(Folders(home)) as engine:
                assert engine.history is not None
                run_id = (await engine.history.runs(1))[0].id
                reached = await engine.recorded.reached(run_id)
                done = [event for event in reached.run.events if isinstance(event, CompletionFinished)]
                assert [event.audit for event in done] == [ReasoningAudit.ANSWER_EMPTY, None] * 2
                assert [pass_of_step(reached, event.step).visit for event in done] == [1, 1, 2, 2]
                assert audited(reached.run.events, "Write").step == done[2].step
                flow = engine.access.build(recorded_flow(reached.run).spec, made_here=True)
                with pytest.raises(FlowError, match="no thinking that could be the answer"):
                    thinking_point(reached, flow, done[1].step, "", 1)
                with pytest.raises(FlowError, match='wrong with the thinking of "Judge"'):
                    audited(reached.run.events, "Judge")
                restart = thinking_point(reached, flow, done[0].step, "", 1)
                async with engine.run(flow, Context(reached.run.inputs), restart=restart, use_cache=False) as run:
                    return [event async for event in run]

        events = asyncio.run(again())
    assert isinstance(events[0], RunStarted)
    assert (events[0].origin, events[0].edited) == ("from", True)
    taken = [event.content for event in events if isinstance(event, CompletionFinished) and event.from_thinking]
    assert taken == ["thought 1"]
    assert [event.message for event in events if isinstance(event, Warned)] == [
        'The thinking of "Write" is taken as its answer.'
    ]
    assert asked_for[4:] == ["judge thought 1", "write", "judge "]


def test_the_option_needs_a_recorded_run(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", chain(tmp_path), "--use-thinking"]) == 2
    assert "--use-thinking goes with --from AGENT, --run ID and --branch only" in capsys.readouterr().err
