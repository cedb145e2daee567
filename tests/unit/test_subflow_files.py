"""Files of sub-flows: found beside their flow, checked before a run, never outside of its folder."""

import json
import os
from pathlib import Path

import pytest

from engine.errors import FlowInvalid, Problem
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow_build import build_flow
from engine.flow.flow_check import check_flow, check_loaded
from engine.flow.flow_file import load_flow, read_flow
from engine.flow.flow_inputs import inputs_context
from engine.flow.subflow_files import FlowFiles
from tests.helpers.scripted_completer import ScriptedCompleter

ASK = {"type": "COMPLETION", "template": "Say {{topic}}."}


def write(path: Path, *agents: dict[str, object], **fields: object) -> Path:
    """Save a flow with these agents."""
    whole: dict[str, object] = {"format": "workbench.flow", "version": 1, "name": path.stem}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole | fields | {"agents": agents}), encoding="utf-8")
    return path


def node(flow: str, name: str = "Node", **fields: object) -> dict[str, object]:
    return {"name": name, "flow": flow, "with": {"topic": "{{subject}}"}, **fields}


def outer(folder: Path, *agents: dict[str, object]) -> Path:
    return write(folder / "outer.flow.json", *agents, inputs=[{"key": "subject"}], outputs=["response"])


def inner(path: Path, **fields: object) -> Path:
    more = {"inputs": [{"key": "topic", "required": True}], "outputs": ["response"]} | fields
    return write(path, {"name": "Ask", **ASK}, **more)


def errors(path: Path, *, trusted: bool = False) -> list[tuple[str, str]]:
    """Place and message of each error."""
    loaded = load_flow(path)
    found = check_flow(loaded.spec, files=FlowFiles(loaded.origin, trusted=trusted))
    return [(problem.path, problem.message) for problem in found if problem.severity == "error"]


async def run(path: Path, values: dict[str, object]) -> tuple[list[Context], ScriptedCompleter]:
    loaded = load_flow(path)
    completer = ScriptedCompleter(lambda request: request.prompt.upper())
    flow = build_flow(loaded.spec, origin=loaded.origin)
    going = Walk(flow, inputs_context(loaded.spec, values), completer, run_id="r", emit=lambda _: None)
    return await going.run(), completer


async def test_a_file_beside_the_flow_runs_as_a_node(tmp_path: Path) -> None:
    inner(tmp_path / "parts" / "part.flow.json")
    path = outer(tmp_path, node("parts/part.flow.json", outputs={"said": "response"}))
    assert errors(path) == []
    contexts, completer = await run(path, {"subject": "cats"})
    assert [request.prompt for request in completer.requests] == ["Say cats."]
    assert contexts[0].values_copy() == {"subject": ["cats"], "said": ["SAY CATS."]}
    assert contexts[0].trace.unfolded() == "Node {M, Ask}"


async def test_nodes_split_and_nest_and_read_each_file_once(tmp_path: Path) -> None:
    inner(tmp_path / "deep" / "leaf.flow.json")
    write(
        tmp_path / "deep" / "mid.flow.json",
        {"name": "Leaf", "flow": "leaf.flow.json", "with": {"topic": "{{topic}}"}},
        inputs=[{"key": "topic"}],
        outputs=["response"],
    )
    split = {
        "name": "All",
        "flow": "deep/mid.flow.json",
        "with": {"topic": "[[subject]]"},
        "outputs": {"said": "response"},
        "merge": {"type": "concat", "keys": ["said"]},
    }
    path = write(tmp_path / "outer.flow.json", split, inputs=[{"key": "subject", "type": "list"}])
    contexts, _ = await run(path, {"subject": ["a", "b"]})
    assert contexts[0]["said"] == ["SAY A.", "SAY B."]
    assert contexts[0].trace.text() == "⇉ 1/2, All, 2↣1"
    flow = build_flow(load_flow(path).spec, origin=str(path))
    assert flow.agents[0].subflow is not None


async def test_a_sample_may_be_a_node(tmp_path: Path) -> None:
    path = outer(tmp_path, {"name": "N", "flow": "thinking", "with": {"trip": "{{subject}}"}})
    assert errors(path) == []
    path = outer(tmp_path, {"name": "N", "flow": "thinkin", "with": {"trip": "{{subject}}"}})
    (place, message), *_ = errors(path)
    assert place == "$.agents[0].flow"
    assert message.startswith('"N" cannot run "thinkin". There is no sample "thinkin"; did you mean "thinking"?')


def test_missing_and_broken_files_are_problems_of_the_node(tmp_path: Path) -> None:
    (tmp_path / "broken.flow.json").write_text('{"format": "workbench.flow"', encoding="utf-8")
    write(tmp_path / "faulty.flow.json", {"name": "A", "type": "COMPLETION", "routes": [{"to": "B"}]})
    path = outer(tmp_path, node("none.flow.json", "A"), node("broken.flow.json", "B"), node("faulty.flow.json", "C"))
    found = errors(path)
    assert [place for place, _ in found] == [
        "$.agents[0].flow",
        "$.agents[1].flow",
        "$.agents[2].flow",
        "$.agents[2].with.topic",
    ]
    assert "none.flow.json" in found[0][1]
    assert "broken.flow.json:1:28" in found[1][1]
    assert found[2][1] == (
        '"C" runs "faulty.flow.json", which has an error: $.agents[0].routes[0].to: '
        '"A" leads to "B", which is not an agent.'
    )
    with pytest.raises(FlowInvalid):
        build_flow(load_flow(path).spec, origin=str(path))


def test_a_flow_that_runs_itself_is_refused(tmp_path: Path) -> None:
    direct = write(tmp_path / "a.flow.json", {"name": "N", "flow": "a.flow.json"})
    assert errors(direct) == [
        ("$.agents[0].flow", '"N" makes the flow run itself: "a.flow.json" → "a.flow.json".'),
    ]
    write(tmp_path / "c.flow.json", {"name": "Back", "flow": "./b.flow.json"})
    indirect = write(tmp_path / "b.flow.json", {"name": "There", "flow": "c.flow.json"})
    around = '"Back" makes the flow run itself: "b.flow.json" → "c.flow.json" → "b.flow.json".'
    message = f'"There" runs "c.flow.json", which has an error: $.agents[0].flow: {around}'
    assert errors(indirect) == [("$.agents[0].flow", message)]


def test_many_flows_inside_of_each_other_are_refused_not_followed(tmp_path: Path) -> None:
    for number in range(30):
        nodes = [{"name": name, "flow": f"f{number + 1}.flow.json"} for name in "AB"]
        write(tmp_path / f"f{number}.flow.json", *nodes)
    inner(tmp_path / "f30.flow.json", inputs=[])
    assert "20 flows deep" in errors(tmp_path / "f0.flow.json")[0][1]


@pytest.mark.parametrize("way", ["../secret/x.flow.json", "link.flow.json", "linked/x.flow.json", "absolute"])
def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, way: str) -> None:
    secret = inner(tmp_path / "secret" / "x.flow.json")
    folder = tmp_path / "flows"
    folder.mkdir()
    os.symlink(secret, folder / "link.flow.json")
    os.symlink(secret.parent, folder / "linked")
    path = outer(folder, node(str(secret) if way == "absolute" else way))
    assert len(errors(path)) == 1
    assert "lies outside of the folder of the flow" in errors(path)[0][1]
    assert errors(path, trusted=True) == []


def test_an_unsaved_flow_has_nothing_beside_it() -> None:
    text = json.dumps({"format": "workbench.flow", "version": 1, "name": "F", "agents": [node("x.flow.json")]})
    spec = read_flow(text).spec
    message = '"Node" cannot run "x.flow.json". The flow has no file yet. Save it: '
    found = [problem.message for problem in check_flow(spec, files=FlowFiles()) if problem.severity == "error"]
    assert [text.startswith(message) for text in found] == [True]


def test_checking_without_files_touches_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = outer(tmp_path, node("none.flow.json"))
    spec = load_flow(path).spec

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was touched")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("os.open", refuse)
    assert [problem for problem in check_flow(spec) if problem.severity == "error"] == []


def test_the_mapping_is_checked(tmp_path: Path) -> None:
    inputs = [{"key": "topic", "required": True}, {"key": "count", "type": "number", "default": 1}]
    inner(tmp_path / "part.flow.json", inputs=inputs)
    given = {"topik": "x", "count": "many"}
    path = outer(tmp_path, {"name": "N", "flow": "part.flow.json", "with": given, "outputs": {"a": "respons"}})
    assert errors(path) == [
        (
            "$.agents[0].with.topik",
            '"N" gives "topik", which is not an input of "part.flow.json"; did you mean "topic"?',
        ),
        (
            "$.agents[0].with.count",
            '"N" cannot give the input "count": found "many", expected a number with a decimal point.',
        ),
        ("$.agents[0].with", '"N" does not give the input "topic", which "part.flow.json" needs.'),
        ("$.agents[0].outputs.a", 'Nothing in "part.flow.json" provides "respons"; did you mean "response"?'),
    ]


def test_fields_without_effect_and_names_of_inner_agents_are_told(tmp_path: Path) -> None:
    inner(tmp_path / "part.flow.json")
    path = outer(tmp_path, node("part.flow.json", template="x"), {"name": "Node/Ask", **ASK})
    loaded = load_flow(path, tolerant=True)
    found: list[Problem] = check_loaded(loaded)
    messages = [problem.message for problem in found]
    assert '"Node" runs a flow and asks no model itself: template has no effect.' in messages
    assert '"Node/Ask" is called like an agent inside of "Node".' in messages
