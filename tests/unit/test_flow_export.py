"""Exports: the script runs as the flow does, the diagram holds any name."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import bundled
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.export_mermaid import mermaid_text
from engine.flow.export_python import python_text
from engine.flow.flow import Flow
from engine.flow.flow_build import build_flow
from engine.flow.flow_check import check_flow
from engine.flow.flow_file import read_flow
from engine.flow.flow_inputs import inputs_context
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, RouteSpec
from tests.helpers.scripted_completer import Request, ScriptedCompleter

EVERYTHING: dict[str, Any] = {
    "format": "workbench.flow",
    "version": 1,
    "name": 'Every "thing"\n\\',
    "inputs": [
        {"key": "topic", "type": "list", "default": ["a", "b", "c"]},
        {"key": "zero", "type": "number", "default": 0},
        {"key": "text", "help": 'It\'s "quoted"', "default": "line\nline"},
    ],
    "outputs": ["table"],
    "limits": {"max_steps": 50, "max_cost": 0.5},
    "start": "Rate",
    "agents": [
        {
            "name": "Rate",
            "type": "START_CONVERSATION_WITH_SYSTEM_PROMPT",
            "model": {"category": "S", "overrides": {"temperature": 0.2, "url": "http://x"}},
            "system_prompt": "Be\nshort.",
            "few_shot": [
                {"user": "u", "assistant": "a", "reasoning": "r"},
                {
                    "user": "u2",
                    "assistant": "a2",
                    "tool_calls": [{"name": "t", "arguments": {"x": "\n"}}],
                    "tool_results": ["1"],
                },
            ],
            "before": [
                {"set": "topic", "to": "all.topic | reverse | list"},
                {"set": "n", "to": "zero + 1", "when": "zero == 0"},
                {"set": "gone", "to": "none"},
                {"delete": "text"},
            ],
            "template": "Rate [[topic]]\n{{n}} {{text}}'\"\\",
            "stop": ["\n"],
            "response_format": "json_schema",
            "handler": {"type": "json", "prefix": "p_", "schema": {"type": "object"}},
            "after": [{"set": "seen", "to": "attempts"}],
            "merge": {"type": "best", "by": "p_score | int"},
            "retry_on_parsing_error": 1,
            "routes": [
                {"when": "p_score == 'never'", "to": None, "graded": False},
                {"when": "p_score | int > 0", "to": "Fan", "graded": True},
            ],
        },
        {"name": "Passed", "type": "COMPLETION", "state": "bypass", "template": "x", "routes": [{"to": "Fan"}]},
        {"name": "Muted", "type": "COMPLETION", "state": "mute", "template": "x"},
        {
            "name": "Fan",
            "type": "CONVERSATION",
            "model": {"profile": "other"},
            "syntax": "jinja",
            "before": [
                {"set": "topic", "to": "['x', 'y']"},
                {"set": "gone", "to": "1"},
                {"skip": "SKIP", "when": "false"},
            ],
            "template": "[[topic]] {% if gone %}is{% endif %}",
            "handler": {"type": "accumulate", "key": "notes"},
            "routes": [{"when": "split.index == 2", "to": "Gather"}, {"to": "Muted"}],
        },
        {
            "name": "Gather",
            "type": "PROCESSING_ONLY",
            "gather": True,
            "merge": {
                "type": "join",
                "key": "table",
                "template": "{{topic}}: {{notes}}",
                "header": "H\n",
                "sort_by": "topic",
            },
        },
    ],
}


def exported(spec: FlowSpec) -> Flow:
    """The flow of the script."""
    text = python_text(spec)
    scope: dict[str, object] = {"__name__": "script"}
    exec(compile(text, "script.py", "exec"), scope)
    flow = scope["flow"]
    assert isinstance(flow, Flow)
    return flow


def answer(request: Request) -> str:
    return json.dumps({"score": str(len(request.prompt)), "text": request.prompt[:5], "features": ["a", "b"]})


async def outcome(flow: Flow, context: Context) -> tuple[object, ...]:
    completer = ScriptedCompleter(answer)
    contexts = await Walk(flow, context, completer, run_id="r", emit=lambda _: None).run()
    asked = [(r.profile.name, r.conversation, r.overrides, r.skip_cache) for r in completer.requests]
    found = [(c.trace.text(), c.values_copy(), c.error and str(c.error.exception)) for c in contexts]
    return asked, found


def values_for(spec: FlowSpec) -> dict[str, object]:
    return {item.key: "3" for item in spec.inputs if item.default is None and item.required}


@pytest.mark.parametrize("name", bundled.names("resources", "flows", suffix=".flow.json"))
async def test_the_script_of_a_sample_runs_as_the_sample(name: str) -> None:
    spec = read_flow(bundled.read_text("resources", "flows", f"{name}.flow.json")).spec
    if any(problem.severity == "error" for problem in check_flow(spec)):
        pytest.skip("the sample needs what is to come")
    flow, built = exported(spec), build_flow(spec)
    assert (flow.name, flow.inputs, flow.outputs, flow.limits, flow.first) == (
        built.name,
        built.inputs,
        built.outputs,
        built.limits,
        built.first,
    )
    values = values_for(spec)
    assert await outcome(flow, inputs_context(flow, values)) == await outcome(built, inputs_context(spec, values))


async def test_a_flow_with_everything_runs_alike() -> None:
    spec = read_flow(json.dumps(EVERYTHING)).spec
    flow, built = exported(spec), build_flow(spec)
    asked, found = await outcome(flow, inputs_context(flow, {}))
    assert (asked, found) == await outcome(built, inputs_context(spec, {}))
    assert len(asked) == 5  # type: ignore[arg-type]
    assert "2↣1" not in str(found)
    assert "H\\ny: " in str(found)


async def test_what_has_no_class_of_its_own_is_taken_from_the_flow() -> None:
    nested = {
        "format": "workbench.flow",
        "version": 1,
        "name": "Outer",
        "agents": [
            {"name": "N", "flow": "thinking", "with": {"trip": "x"}, "routes": [{"to": "End"}]},
            {"name": "End", "type": "COMPLETION", "template": "{{answer}}"},
        ],
    }
    spec = read_flow(json.dumps(nested)).spec
    assert await outcome(exported(spec), Context()) == await outcome(build_flow(spec), Context())


def test_a_script_is_written_for_readers() -> None:
    text = python_text(read_flow(bundled.read_text("resources", "flows", "release-announcement.flow.json")).spec)
    assert "FLOW =" not in text
    assert "handler=lambda context: TextHandler('summary')" in text
    assert 'if __name__ == "__main__":\n    asyncio.run(main())\n' in text


hostile = st.text(max_size=20) | st.sampled_from(
    ['"]; click a0 "x', "end", "a\nb", "```", "%%{init}%%", "<b>&amp;", "#34;"]
)


@given(st.lists(hostile, min_size=1, max_size=4, unique=True), hostile)
def test_no_name_breaks_a_diagram(names: list[str], when: str) -> None:
    routes = (RouteSpec(when=when, to=names[-1]), RouteSpec())
    agents = tuple(AgentSpec(name=name, type=AgentType.COMPLETION, routes=routes) for name in names)
    lines = mermaid_text(FlowSpec(name=names[0], agents=agents)).splitlines()
    assert lines[0] == "---"
    assert re.fullmatch(r'title: "[^"]*"', lines[1])
    assert lines[2:6] == ["---", "flowchart LR", "  start((start))", "  done((end))"]
    node = re.compile(r'  a\d+\["[^"\[\]{}|<>`\\]*(<br>[^"\[\]{}|<>`\\]*)*"\]')
    link = re.compile(r'  (start|a\d+) --(>|>\|"[^"\[\]{}|<>`\\]*"\|) (a\d+|done)')
    for line in lines[6:]:
        assert node.fullmatch(line) or link.fullmatch(line), line
    assert len(lines) == 6 + len(names) + 1 + 2 * len(names)


def test_the_diagram_of_a_sample() -> None:
    spec = read_flow(bundled.read_text("resources", "flows", "sort-messages.flow.json")).spec
    lines = mermaid_text(spec).splitlines()
    assert lines[6].startswith('  a0["')
    assert "<br>M<br>⇉ id, message" in lines[6]
    assert "  start --> a0" in lines
    assert """  a0 -->|"topic == 'payment'"| a2""" in lines
    assert lines[-1] == "  a4 --> done"
