"""Every problem of a flow is found before a run, each with its place and agent."""

import json
import time

import pytest

from engine import bundled
from engine.errors import Problem
from engine.flow.flow_check import check_flow
from engine.flow.flow_file import read_flow
from engine.flow.flow_keys import known_keys, schema_names
from engine.flow.flow_spec import FlowSpec

SAMPLES = bundled.names("resources", "flows", suffix=".flow.json")
INSTALLED = {"profiles": ["embedded-chat", "embedded-thinking"], "categories": ["S", "M", "L"]}


def flow(*agents: dict[str, object], **fields: object) -> FlowSpec:
    """A flow of agents; type, input and start are there unless given."""
    whole: dict[str, object] = {
        "format": "workbench.flow",
        "version": 1,
        "name": "F",
        "inputs": [{"key": "topic"}],
        "start": agents[0]["name"] if agents else "",
        "agents": [({} if "grader" in agent else {"type": "COMPLETION"}) | agent for agent in agents],
    }
    return read_flow(json.dumps(whole | fields)).spec


def agent(name: str = "A", **fields: object) -> dict[str, object]:
    return {"name": name, "template": "{{topic}}", **fields}


def problems(spec: FlowSpec) -> list[Problem]:
    return check_flow(spec, profiles=INSTALLED["profiles"], categories=INSTALLED["categories"], file="x.flow.json")


def only(spec: FlowSpec) -> Problem:
    found = problems(spec)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_have_no_problem(name: str) -> None:
    spec = read_flow(bundled.read_text("resources", "flows", f"{name}.flow.json")).spec
    assert problems(spec) == []


def test_a_good_flow_has_no_problem() -> None:
    assert problems(flow(agent())) == []
    assert problems(flow(agent(), start="")) == []


ERRORS: list[tuple[FlowSpec, str, str]] = [
    (flow(inputs=[]), "$.agents", "The flow has no agents."),
    (flow(agent(), start="B"), "$.start", 'The flow starts with "B", which is not an agent.'),
    (flow(agent("Writer"), start="Writter"), "$.start", 'did you mean "Writer"?'),
    (flow(agent(state="mute")), "$.start", "muted"),
    (flow(agent(" ")), "$.agents[0].name", "An agent has no name."),
    (flow(agent(), agent()), "$.agents[0].name", '2 agents are named "A".'),
    (flow(agent(routes=[{"to": "AA"}])), "$.agents[0].routes[0].to", '"A" leads to "AA", which is not an agent'),
    (flow(agent(type=None)), "$.agents[0]", "exactly one of type, grader, pattern, flow, found none."),
    (flow(agent(model={})), "$.agents[0].model", "exactly one of category, profile, inline, found none."),
    (
        flow(agent(model={"category": "M", "profile": "embedded-chat"})),
        "$.agents[0].model",
        "found category and profile.",
    ),
    (
        flow(agent(model={"profile": "embedded-chad"})),
        "$.agents[0].model.profile",
        'uses the profile "embedded-chad", which does not exist; did you mean "embedded-chat"?',
    ),
    (flow(agent(model={"category": "Z"})), "$.agents[0].model.category", 'the category "Z", which has no profile'),
    (
        flow(agent(model={"category": "M", "overrides": {"temprature": 1}})),
        "$.agents[0].model.overrides.temprature",
        "temperature",
    ),
    (
        flow(agent(model={"category": "M", "overrides": {"temperature": 9}})),
        "$.agents[0].model.overrides.temperature",
        'found "9", expected a number from 0 to 2',
    ),
    (
        flow(agent(model={"inline": {"maxTokens": 5, "temperature": 0, "topP": 1, "url": "http://x"}})),
        "$.agents[0].model.inline.modelProvider",
        'The profile in "A": The required key modelProvider is missing.',
    ),
    (flow(agent(handler={"type": "jsn"})), "$.agents[0].handler.type", 'did you mean "json"?'),
    (flow(agent(handler={"type": "text", "key": ""})), "$.agents[0].handler.key", "empty key"),
    (flow(agent(response_format="json_schema")), "$.agents[0].response_format", "not json with a schema"),
    (flow(agent(before=[{"set": "a"}])), "$.agents[0].before[0]", "only one of set and to"),
    (flow(agent(before=[{"delete": "a", "skip": "SKIP"}])), "$.agents[0].before[0]", "found delete and skip."),
    (flow(agent(after=[{}])), "$.agents[0].after[0]", "exactly one of set, delete, skip, call, found none."),
    (flow(agent(after=[{"call": "f"}])), "$.agents[0].after[0].call", 'needs the plug-in function "f"'),
    (flow(agent(merge={"type": "concat"})), "$.agents[0].merge.keys", "The merge concat of"),
    (flow(agent(merge={"type": "join", "key": "k"})), "$.agents[0].merge.template", "needs template."),
    (flow(agent(merge={"type": "best"})), "$.agents[0].merge.by", "needs by."),
    (flow(agent(merge={"type": "most"})), "$.agents[0].merge.type", 'the merge "most"'),
    (flow(agent(gather=True)), "$.agents[0].gather", "has no merge"),
    (flow(agent(routes=[{"when": "a +", "to": None}])), "$.agents[0].routes[0].when", "`a +` is not valid"),
    (flow(agent(routes=[{"when": "topik == 1", "to": None}])), "$.agents[0].routes[0].when", 'did you mean "topic"?'),
    (flow(agent(routes=[{"when": "passed", "to": None}])), "$.agents[0].routes[0].when", "the routes of a grader"),
    (flow(agent(before=[{"set": "x", "to": "all.topics"}])), "$.agents[0].before[0].to", 'did you mean "topic"?'),
    (flow(agent(syntax="jinja", template="{{ topc }}{{ topic }}")), "$.agents[0].template", 'the key "topc"'),
    (flow(agent(syntax="jinja", template="{{ topic }}{% if %}")), "$.agents[0].template", "is not valid"),
    (flow(agent(stop=[""])), "$.agents[0].stop", "is empty"),
    (flow(agent(timeout=0)), "$.agents[0].timeout", "expected seconds above 0"),
    (flow(agent(retry_on_parsing_error=-1)), "$.agents[0].retry_on_parsing_error", "expected at least 0"),
    (
        flow(agent(few_shot=[{"user": "u", "assistant": "a", "tool_calls": [{"name": "f"}]}])),
        "$.agents[0].few_shot[0].tool_results",
        "1 calls and 0 results",
    ),
    (flow(agent(), limits={"max_steps": 0}), "$.limits.max_steps", "expected at least 1"),
    (flow(agent(), limits={"max_seconds": -1}), "$.limits.max_seconds", "expected seconds above 0"),
    (flow(agent(), inputs=[{"key": "topic"}, {"key": "topic"}]), "$.inputs[0].key", '2 inputs have the key "topic".'),
    (flow(agent(), inputs=[{"key": "topic", "type": "choice"}]), "$.inputs[0].choices", "a choice without choices"),
    (
        flow(agent(), inputs=[{"key": "topic", "type": "number", "default": "x"}]),
        "$.inputs[0].default",
        'The default of the input "topic": found "x", expected a number',
    ),
    (
        flow(agent(), inputs=[{"key": "topic", "type": "image", "default": "a.png"}]),
        "$.inputs[0].default",
        "expected a picture",
    ),
    (
        flow(agent(tools=["calculater"], handler={"type": "tools"})),
        "$.agents[0].tools[0]",
        'needs the tool "calculater", which neither this version nor a plug-in has; did you mean "calculator"?',
    ),
    (flow(agent(handler={"type": "csv"})), "$.agents[0].handler.headings", "needs headings"),
    (flow(agent(handler={"type": "tools", "then": {"type": "csv"}})), "$.agents[0].handler.then.headings", "headings"),
    (
        flow(agent(grader="AnswerGraderBinari")),
        "$.agents[0].grader",
        'the grader "AnswerGraderBinari", which this version does not have; did you mean "AnswerGraderBinary"?',
    ),
    (
        flow(agent(grader="AnswerGrader2", **{"with": {"descriptions": "no"}})),
        "$.agents[0].with.descriptions",
        "descriptions is 'no', expected true or false.",
    ),
    (
        flow(agent(grader="AnswerGrader2", **{"with": {"question": 3}})),
        "$.agents[0].with.question",
        "question is 3, expected a template.",
    ),
    (
        flow(agent(routes=[{"to": "B"}]), agent("B", routes=[{"to": "A"}])),
        "$.agents[0].routes",
        'Nothing leads out of the loop of "A", "B"',
    ),
    (flow(agent(routes=[{"to": "A"}])), "$.agents[0].routes", 'Nothing leads out of the loop of "A"'),
]

WARNINGS: list[tuple[FlowSpec, str, str]] = [
    (flow(agent(), agent("B")), "$.agents[1]", 'No route leads to "B", it never runs.'),
    (
        flow(agent(routes=[{"to": None}, {"when": "topic", "to": None}])),
        "$.agents[0].routes[1]",
        "never tried: route 1 has no condition.",
    ),
    (flow(agent(template="{{topic}} {{topik}}")), "$.agents[0].template", 'the key "topik"; did you mean "topic"?'),
    (flow(agent(template="{{topic}} [[item]]")), "$.agents[0].template", 'Nothing provides the key "item".'),
    (flow(agent(template="{{{topic}}} {{ topic }}")), "$.agents[0].template", 'did you mean "topic"?'),
    (flow(agent(), outputs=["respons"]), "$.outputs[0]", 'did you mean "response"?'),
    (flow(agent(), inputs=[{"key": "topic"}, {"key": "b"}]), "$.inputs[1]", 'Nothing uses the input "b".'),
    (
        flow(agent(), inputs=[{"key": "topic", "choices": ["a"]}]),
        "$.inputs[0].choices",
        'The input "topic" is no choice',
    ),
    (
        flow(agent(tools=["calculator"])),
        "$.agents[0].tools",
        '"A" has tools, but calls none: its handler is not "tools".',
    ),
    (
        flow(agent(tools=["calculator", "calculator"], handler={"type": "tools"})),
        "$.agents[0].tools[1]",
        '"A" has the tool "calculator" twice.',
    ),
    (
        flow(agent(grader="AnswerGrader2", **{"with": {"questions": "q"}})),
        "$.agents[0].with.questions",
        'The grader "A" has no "questions": it has no effect; did you mean "question"?',
    ),
    (flow(agent(grader="AnswerGrader2", tools=["calculator"])), "$.agents[0].tools", "calls no tools"),
    (
        flow(
            agent(routes=[{"to": "B"}]),
            agent("B", grader="AnswerGrader2", **{"with": {"feedback_to": "C"}}),
            agent("C"),
        ),
        "$.agents[1].with.feedback_to",
        '"B" sends feedback to "C", from where no route leads back to it.',
    ),
    (
        flow(agent(handler={"type": "text", "schema": {}})),
        "$.agents[0].handler.schema",
        "A handler text has no schema: it has no effect.",
    ),
    (
        flow(agent(merge={"type": "first", "keys": ["topic"]})),
        "$.agents[0].merge.keys",
        "A merge first has no keys: it has no effect.",
    ),
    (
        flow(agent(model={"category": "M", "overrides": {"url": "http://x"}})),
        "$.agents[0].model.overrides.url",
        "url is ignored",
    ),
    (flow(agent(before=[{"set": "error", "to": "1"}])), "$.agents[0]", "there, write all.error."),
    (
        flow(
            agent(
                handler={
                    "type": "json",
                    "schema": {
                        "type": "object",
                        "properties": {
                            "a": {"type": "object", "properties": {"id": {"type": "string"}}},
                            "b": {"type": "array", "items": {"type": "object", "properties": {"id": {}}}},
                        },
                    },
                }
            )
        ),
        "$.agents[0].handler.schema",
        'The JSON of "A" has "id" 2 times',
    ),
    (
        flow(agent(handler={"type": "json", "schema": {"properties": {"topic": {"type": "string"}}}})),
        "$.agents[0].handler.schema",
        'replaces the input "topic"',
    ),
]


@pytest.mark.parametrize(("spec", "path", "message"), ERRORS)
def test_errors(spec: FlowSpec, path: str, message: str) -> None:
    problem = only(spec)
    assert (problem.severity, problem.path) == ("error", path)
    assert message in problem.message
    assert problem.file == "x.flow.json"
    if path.startswith("$.agents["):
        assert problem.agent == spec.agents[0].name.strip()


@pytest.mark.parametrize(("spec", "path", "message"), WARNINGS)
def test_warnings(spec: FlowSpec, path: str, message: str) -> None:
    problem = only(spec)
    assert (problem.severity, problem.path) == ("warning", path)
    assert message in problem.message


@pytest.mark.parametrize(
    "spec",
    [
        # What is not known is not reported: an answer without schema may hold any key.
        flow(agent(template="{{topic}} {{x}}", handler={"type": "json"}, routes=[{"when": "y", "to": None}])),
        flow(agent(template='{{topic}} Answer like [[1, 2], [3]] or {"a": {"b": 1}}')),
        flow(agent(before=[{"set": "x", "to": "1", "when": "y is not defined"}], routes=[{"when": "x", "to": None}])),
        flow(agent(handler={"type": "text", "key": "k"}, routes=[{"when": "k_reasoning | default('')", "to": None}])),
        flow(agent(routes=[{"when": "topic", "to": "A"}])),
        flow(agent(routes=[{"when": "topic", "to": "A"}, {"to": None}])),
        flow(agent(routes=[{"to": "B"}]), agent("B", routes=[{"when": "topic", "to": "A"}, {"to": "A"}], state="mute")),
        flow(agent(type="PROCESSING_ONLY", model={"category": "Z"})),
        flow(agent(grader="AnswerGraderBinary", type=None, state="bypass", routes=[{"when": "passed", "to": None}])),
        flow(
            agent(
                handler={
                    "type": "json",
                    "prefix": "p_",
                    "schema": {"properties": {"a": {"items": {"type": "string"}}}},
                },
                merge={"type": "join", "key": "all_a", "template": "{{p_a}}", "sort_by": "p_a | int"},
                routes=[{"when": "all_a and p_a and p__reasoning is defined", "to": None}],
            )
        ),
    ],
)
def test_no_false_alarm(spec: FlowSpec) -> None:
    assert problems(spec) == []


def test_without_an_installation_profiles_are_not_checked() -> None:
    assert check_flow(flow(agent(model={"profile": "mine"}))) == []


def test_thousands_of_faulty_agents_are_checked_quickly() -> None:
    agents = [agent(f"Agent {index}", routes=[{"to": f"Agnt {index}"}], template="{{topik}}") for index in range(1_500)]
    found = problems(flow(*agents))
    assert len(found) > 4_000


def test_a_flow_of_endless_expressions_is_checked_in_bounded_time() -> None:
    agents = [
        agent(f"A{index}", routes=[{"when": f"{index}" + "+topic" * 1_600, "to": None}] * 20) for index in range(30)
    ]
    before = time.thread_time()
    found = problems(flow(*agents))
    assert time.thread_time() - before < 20
    assert any("were not checked" in problem.message for problem in found)


def test_names_of_a_schema() -> None:
    nested = {"properties": {"a": {"type": "array", "items": {"items": {"type": "number"}}}, "b": {"type": "object"}}}
    assert schema_names(nested) == (["a"], True)
    assert schema_names({"properties": {"x": {"anyOf": [{}]}}}) == ([], True)
    assert schema_names(None) == ([], True)
    closed = {"properties": {"x": {"enum": ["a"]}, "y": {}}, "additionalProperties": False}
    assert schema_names(closed) == (["x", "y"], False)


def test_known_keys() -> None:
    spec = read_flow(bundled.read_text("resources", "flows", "release-announcement.flow.json")).spec
    known = known_keys(spec)
    assert not known.open
    assert known.names >= {
        "code",
        "product",
        "summary",
        "feature",
        "analysis",
        "benefits",
        "feature_line",
        "announcement",
    }
