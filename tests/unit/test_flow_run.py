"""Flows from files, built and walked with scripted answers: what the file says is what happens."""

import json

import pytest

from engine import bundled
from engine.completion import Completer
from engine.errors import TemplateError
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow_build import build_flow
from engine.flow.flow_file import read_flow
from engine.flow.flow_inputs import inputs_context
from engine.flow.flow_spec import FlowSpec
from tests.helpers.scripted_completer import Answer, Request, ScriptedCompleter


def sample(name: str) -> FlowSpec:
    return read_flow(bundled.read_text("resources", "flows", f"{name}.flow.json"), name=name).spec


def flow(*agents: dict[str, object], inputs: dict[str, object]) -> FlowSpec:
    return read_flow(
        json.dumps(
            {
                "format": "workbench.flow",
                "version": 1,
                "name": "F",
                "inputs": [{"key": key, "type": "list", "default": value} for key, value in inputs.items()],
                "agents": [{"type": "COMPLETION", **agent} for agent in agents],
            }
        )
    ).spec


async def run(spec: FlowSpec, completer: Completer, **values: object) -> list[Context]:
    walk = Walk(build_flow(spec), inputs_context(spec, values), completer, run_id="run", emit=lambda _: None)
    return await walk.run()


async def test_the_release_announcement() -> None:
    def answer(request: Request) -> Answer:
        prompt = request.prompt
        if "Describe in one sentence" in prompt:
            return "It does the chores."
        if "Which four things" in prompt:
            return '{"feature": ["Wash dishes", "Bake bread", "Wash dishes", "Clean floors"]}'
        if prompt.startswith("A robot can "):
            return f"No need to {prompt.removeprefix('A robot can ').split('.')[0]}."
        assert prompt == "Name: Robbie\nIt can wash dishes, bake bread, and clean floors.\nWrite the announcement."
        return "Meet Robbie!"

    completer = ScriptedCompleter(answer)
    (result,) = await run(sample("release-announcement"), completer, product="Robbie")
    assert result.trace.text() == (
        "M, CodeSummarizer, ↴, M, FeatureIdentifier, →, ⇉ 1/3, M, FeatureAnalyzer, 3↣1, →, M, AnswerGenerator"
    )
    assert str(result["benefits"][0]).splitlines() == [
        "- wash dishes: No need to wash dishes.",
        "- bake bread: No need to bake bread.",
        "- clean floors: No need to clean floors.",
    ]
    assert result["announcement"] == ["Meet Robbie!"]


async def test_the_sorted_messages() -> None:
    topics = {
        "package": "delivery",
        "charged": "payment",
        "log in": "account",
        "courier": "delivery",
        "money": "payment",
    }

    def answer(request: Request) -> Answer:
        if request.prompt.startswith("Message: "):
            return json.dumps({"topic": next((t for word, t in topics.items() if word in request.prompt), "account")})
        return f"We are sorry about: {request.prompt}"

    (result,) = await run(sample("sort-messages"), ScriptedCompleter(answer))
    table = str(result["table"][0]).splitlines()
    assert table[:3] == [
        "| id | topic | message | reply |",
        "|---|---|---|---|",
        "| 1 | delivery | Where is my package? | We are sorry about: Where is my package? |",
    ]
    assert [line.split(" | ")[0] for line in table[2:]] == [f"| {number}" for number in range(1, 7)]
    assert "6↣1" in result.trace.text()


async def test_thinking() -> None:
    (result,) = await run(sample("thinking"), ScriptedCompleter(["Pack a hat."]), trip="a week at the sea")
    assert result["answer"] == ["Pack a hat."]


async def test_an_expression_that_raises_ends_its_branch_only() -> None:
    spec = flow(
        {"name": "A", "template": "[[n]]", "routes": [{"when": "n | int > 10 / (n | int)", "to": "B"}, {"to": "B"}]},
        {"name": "B", "template": "{{n}}"},
        inputs={"n": ["1", "0", "5"]},
    )
    good = [result for result in await run(spec, ScriptedCompleter(lambda _: "ok")) if result.error is None]
    assert [result["n"] for result in good] == [["1"], ["5"]]
    (failed,) = [result for result in await run(spec, ScriptedCompleter(lambda _: "ok")) if result.error is not None]
    assert failed.error is not None
    assert failed.error.kind == "GENERAL"
    assert isinstance(failed.error.exception, TemplateError)
    assert failed.error.exception.facts["value"] == '{"n": ["0"]}'


async def test_jinja_templates_split_by_what_is_written_not_by_values() -> None:
    spec = flow(
        {
            "name": "A",
            "syntax": "jinja",
            "template": "{% for x in all.n %}{{ x }}{% endfor %}: [[n]]",
            "handler": {"type": "text", "key": "k"},
        },
        inputs={"n": ["a", "[[n]]"]},
    )
    results = await run(spec, ScriptedCompleter(lambda request: request.prompt))
    assert [result["k"] for result in results] == [["a[[n]]: a"], ["a[[n]]: [[n]]"]]


@pytest.mark.parametrize(("state", "trace"), [("bypass", "M, A, ○, B, →, M, C"), ("mute", "M, A")])
async def test_bypass_and_mute(state: str, trace: str) -> None:
    spec = flow(
        {"name": "A", "template": "a{{n}}", "routes": [{"to": "B"}]},
        {"name": "B", "template": "b", "state": state, "routes": [{"to": "C"}]},
        {"name": "C", "template": "c"},
        inputs={"n": ["1"]},
    )
    (result,) = await run(spec, ScriptedCompleter(lambda _: "ok"))
    assert result.trace.text() == trace
