"""Bad input: a flow with many faults lists each at its place; large values and fan-outs are no trouble."""

import tracemalloc
from pathlib import Path

import pytest

from engine.events import AnyEvent, RunFinished, SplitStarted
from engine.flow.agent import Agent, merge_contexts
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow import Flow
from engine.flow.flow_check import check_loaded
from engine.flow.flow_file import read_flow
from engine.flow.flow_spec import AgentType
from engine.profile_store import ProfileStore
from tests.helpers.scripted_completer import ScriptedCompleter

TWELVE = """{
  "format": "workbench.flow", "version": 1, "name": "Twelve",
  "inputs": [{"key": "topic"}, {"key": "unused"}, {"key": "size", "type": "number", "default": "big"}],
  "start": "A",
  "limits": {"max_steps": 0},
  "agents": [
    {"name": "A", "type": "COMPLETION", "template": "{{topic}} {{topik}}", "tempalte": "",
      "routes": [{"when": "topic ==", "to": "B"}, {"to": "Bee"}]},
    {"name": "B", "type": "COMPLETION", "template": "{{size}}", "model": {"profile": "gone"},
      "handler": {"type": "json", "schema": {"properties": {"topic": {"type": "string"}}}},
      "routes": [{"to": "C"}]},
    {"name": "C", "type": "CHAT", "template": "x", "routes": [{"to": "B"}]},
    {"name": "Lost", "type": "COMPLETION", "template": "x", "merge": {"type": "concat"},
      "model": {"overrides": {"url": "http://elsewhere"}, "category": "M"}}
  ]
}"""


def test_a_flow_with_many_faults_lists_each_at_its_place(tmp_path: Path) -> None:
    loaded = read_flow(TWELVE, name="twelve.flow.json", tolerant=True)
    found = check_loaded(loaded, profiles=ProfileStore(tmp_path), file="twelve.flow.json")
    lines = TWELVE.splitlines()
    at = {problem.path: lines[problem.line - 1][problem.column - 1 :] for problem in found}
    expected = {
        "$.agents[0].tempalte": '""',
        "$.agents[2].type": '"CHAT"',
        "$.inputs[2].default": '"big"',
        "$.limits.max_steps": "0",
        "$.agents[1].model.profile": '"gone"',
        "$.agents[3].merge.keys": '{"type": "concat"}',
        "$.agents[3].model.overrides.url": '"http://elsewhere"',
        "$.agents[0].routes[1].to": '"Bee"',
        "$.agents[3]": '{"name": "Lost"',
        "$.agents[1].routes": '[{"to": "C"}]',
        "$.agents[0].template": '"{{topic}} {{topik}}"',
        "$.agents[0].routes[0].when": '"topic =="',
        "$.agents[1].handler.schema": '{"properties"',
    }
    assert at.keys() == expected.keys()
    assert [path for path, text in expected.items() if not at[path].startswith(text)] == []
    warnings = {problem.path for problem in found if problem.severity == "warning"}
    assert warnings == {
        "$.agents[0].tempalte",
        "$.agents[3].model.overrides.url",
        "$.agents[3]",
        "$.agents[0].template",
        "$.agents[1].handler.schema",
    }
    assert all(problem.file == "twelve.flow.json" for problem in found)
    messages = " ".join(problem.message for problem in found)
    for words in ('did you mean "template"', '"Bee"', "Nothing leads out of the loop", '"topik"', "never runs"):
        assert words in messages


def test_an_unused_input_is_told() -> None:
    text = '{"format": "workbench.flow", "version": 1, "name": "U", "inputs": [{"key": "unused"}],\n "agents": %s}'
    loaded = read_flow(text % '[{"name": "A", "type": "COMPLETION", "template": "x"}]', tolerant=True)
    assert [(problem.path, problem.line, problem.column) for problem in check_loaded(loaded)] == [
        ("$.inputs[0]", 1, 68)
    ]


async def fan_out(count: int) -> None:
    """Split so many times; every branch is told and the memory stays within bounds."""
    agent = Agent(
        "Fan",
        AgentType.PROCESSING_ONLY,
        template="[[item]]",
        merge=lambda contexts: merge_contexts(["item"], contexts),
    )
    seen = 0
    last: AnyEvent | None = None

    def emit(event: AnyEvent) -> None:
        nonlocal seen, last
        seen += isinstance(event, SplitStarted)
        last = event

    flow = Flow(name="F", agents=(agent,), outputs=("item",))
    tracemalloc.start()
    walk = Walk(flow, Context({"item": list(range(count))}), ScriptedCompleter([]), run_id="r", emit=emit)
    contexts = await walk.run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seen == count
    assert contexts[0]["item"] == list(range(count))
    assert isinstance(last, RunFinished)
    # A waiting branch is its context: some hundred bytes of keys, trace and place, never a task or a text.
    assert peak < count * 1_500


async def test_a_wide_fan_out_works_in_bounded_memory() -> None:
    await fan_out(10_000)


@pytest.mark.soak
async def test_a_fan_out_of_a_hundred_thousand_works_in_bounded_memory() -> None:
    await fan_out(100_000)


async def test_values_of_fifty_megabytes_pass_through_without_copies() -> None:
    big = "x" * 50_000_000
    agents = (Agent("Keep", AgentType.PROCESSING_ONLY, template="[[n]]", merge=lambda contexts: contexts[:1]),)
    context = Context({"big": big, "n": list(range(50))})
    tracemalloc.start()
    walk = Walk(Flow(name="F", agents=agents), context, ScriptedCompleter([]), run_id="r", emit=lambda _: None)
    contexts = await walk.run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert contexts[0]["big"][0] is big
    assert peak < 10_000_000
