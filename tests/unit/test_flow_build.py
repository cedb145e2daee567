"""What is built from a flow file does what the format says."""

import json
from decimal import Decimal

import pytest

from engine import bundled
from engine.conversation import Role
from engine.errors import FlowInvalid, TemplateError
from engine.flow.agent import Agent, AgentType, Next
from engine.flow.context import Context, Skip
from engine.flow.flow import Flow, Limits
from engine.flow.flow_build import build_flow
from engine.flow.flow_file import read_flow
from engine.flow.handlers import AccumulateHandler, JsonHandler, TextHandler
from engine.flow.template import Slot
from engine.profile import Category, ModelProfile


def build(*agents: dict[str, object], **fields: object) -> Flow:
    whole: dict[str, object] = {
        "format": "workbench.flow",
        "version": 1,
        "name": "F",
        "inputs": [{"key": key} for key in ("a", "b", "n")],
        "agents": [{"type": "COMPLETION", **agent} for agent in agents],
    }
    return build_flow(read_flow(json.dumps(whole | fields)).spec)


def one(**fields: object) -> Agent:
    return build({"name": "A", **fields}).agents[0]


def hook(agent: Agent, context: Context) -> Context:
    assert agent.before(context) is None
    return context


def merged(agent: Agent, *contexts: dict[str, object]) -> dict[str, list[object]]:
    result = agent.merge([Context(values) for values in contexts])
    assert isinstance(result, list)
    assert len(result) == 1
    return result[0].values_copy()


def test_the_sample_is_built() -> None:
    flow = build_flow(read_flow(bundled.read_text("resources", "flows", "release-announcement.flow.json")).spec)
    assert flow.problems() == ()
    assert flow.limits == Limits(max_steps=50, max_seconds=120, max_cost=Decimal("0.5"))
    assert flow.outputs == ("announcement", "benefits")
    first, identifier, analyzer, _ = flow.agents
    assert first.type is AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT
    assert first.choose_next(Context()) == Next("FeatureIdentifier")
    assert isinstance(identifier.handler(Context()), JsonHandler)
    schema = identifier.overrides["responseFormat"]
    assert isinstance(schema, dict)
    assert schema["required"] == ["feature"]
    assert identifier.overrides["maxTokens"] == 120
    assert analyzer.overrides["stop"] == ["\n"]
    assert [turn.role for turn in analyzer.few_shot[:2]] == [Role.USER, Role.ASSISTANT]
    context = Context({"feature": ["Wash dishes", "Bake bread", "wash dishes"]})
    assert hook(analyzer, context)["feature"] == ["wash dishes", "bake bread"]
    assert analyzer.prompt(context)[1] == ("A robot can ", Slot("feature"), ". What does this save the owner?")
    lines = merged(analyzer, {"feature": "f1", "analysis": "a1"}, {"feature": "f2", "analysis": "a2"})
    assert lines == {"feature": ["f1", "f2"], "analysis": ["a1", "a2"], "benefits": ["- f1: a1\n- f2: a2"]}


def test_the_table_of_the_other_sample() -> None:
    flow = build_flow(read_flow(bundled.read_text("resources", "flows", "sort-messages.flow.json")).spec)
    sort, *_, table = flow.agents
    assert sort.choose_next(Context({"topic": "payment"})) == Next("PaymentReply")
    assert sort.choose_next(Context({"topic": "other"})) == Next("AccountReply")
    assert sort.targets == ("DeliveryReply", "PaymentReply", "AccountReply")
    assert table.gather
    assert hook(table, Context()).skip_next is Skip.SKIP
    rows = [{"id": str(number), "topic": "t", "message": "m", "reply": "r"} for number in (10, 9, 1)]
    assert merged(table, *rows)["table"] == [
        "| id | topic | message | reply |\n|---|---|---|---|\n| 1 | t | m | r |\n| 9 | t | m | r |\n| 10 | t | m | r |"
    ]


def test_an_invalid_flow_is_not_built() -> None:
    with pytest.raises(FlowInvalid) as caught:
        build({"name": "A", "routes": [{"to": "B"}], "tools": ["x"]})
    assert len([problem for problem in caught.value.problems if problem.severity == "error"]) == 2
    assert "and 1 more" in str(caught.value)


def test_models() -> None:
    assert one().model(Context()) == Category.MEDIUM
    assert one(model={"category": "XL"}).model(Context()) == Category.XLARGE
    assert one(model={"profile": "mine"}).model(Context()) == "mine"
    inline = {
        "modelProvider": "OAI_CHAT_COMPLETION",
        "url": "http://localhost:5001",
        "maxTokens": 5,
        "temperature": 0.5,
        "topP": 1,
        "apiKey": "secret",
    }
    profile = one(model={"inline": inline}).model(Context())
    assert isinstance(profile, ModelProfile)
    assert (profile.url, profile.max_tokens, profile.temperature) == ("http://localhost:5001", 5, 0.5)
    assert profile.api_key == ""


def test_what_a_flow_must_not_override_is_left_out() -> None:
    overrides = {"temperature": 0.1, "url": "http://evil", "apiKey": "k", "header.X": "y", "urls": "http://evil"}
    assert one(model={"category": "M", "overrides": overrides}, timeout=3).overrides == {
        "temperature": 0.1,
        "timeout": 3,
    }


def test_handlers() -> None:
    text = one().handler(Context())
    assert isinstance(text, TextHandler)
    assert text.key == "response"
    agent = one(handler={"type": "accumulate", "key": "k"})
    accumulate = agent.handler(Context())
    assert isinstance(accumulate, AccumulateHandler)
    assert accumulate.key == "k"
    assert agent.handler(Context()) is not accumulate
    assert isinstance(one(handler={"type": "json", "prefix": "p_"}).handler(Context()), JsonHandler)


def test_operations_in_order() -> None:
    agent = one(
        before=[
            {"set": "x", "to": "a ~ '!'"},
            {"set": "y", "to": "all.b | list"},
            {"delete": "b"},
            {"set": "z", "to": "b is defined"},
            {"set": "n", "to": "none"},
            {"set": "never", "to": "1", "when": "z"},
            {"skip": "SETUP_CONVERSATION_ONLY", "when": "x == 'v!'"},
        ]
    )
    context = hook(agent, Context({"a": "v", "b": ["1", "2"], "n": "gone"}))
    assert context.values_copy() == {"a": ["v"], "x": ["v!"], "y": ["1", "2"], "z": [False]}
    assert context.skip_next is Skip.SETUP_CONVERSATION_ONLY


def test_an_operation_that_fails_names_the_expression() -> None:
    agent = one(after=[{"set": "x", "to": "a | first | int + b"}])
    with pytest.raises(TemplateError, match=r"`a \| first \| int \+ b` failed"):
        agent.after(Context({"a": "1", "b": "text"}))


def test_routes() -> None:
    routes = [{"when": "n | int > 5", "to": "A", "graded": False}, {"when": "n == '5'", "to": None, "graded": True}]
    agent = one(routes=routes)
    assert agent.choose_next(Context({"n": "6"})) == Next("A", False)
    assert agent.choose_next(Context({"n": "5"})) == Next(None, True)
    assert agent.choose_next(Context({"n": "1"})) == Next()
    with pytest.raises(TemplateError, match='there is no key "n"'):
        agent.choose_next(Context())


def test_mute_and_bypass() -> None:
    flow = build(
        {"name": "A", "routes": [{"when": "n == '1'", "to": "Off"}, {"to": "Through"}]},
        {"name": "Off", "state": "mute"},
        {
            "name": "Through",
            "state": "bypass",
            "before": [{"set": "x", "to": "1"}],
            "template": "[[a]]",
            "routes": [{"to": "Z"}],
        },
        {"name": "Z"},
    )
    first, through, _ = flow.agents
    assert first.choose_next(Context({"n": "1"})) == Next()
    assert first.targets == ("Through",)
    assert through.type is AgentType.PROCESSING_ONLY
    assert through.prompt(Context({"a": ["1", "2"]})) == ((), ())
    assert not through.has_before
    assert through.choose_next(Context()) == Next("Z")
    assert flow.problems() == ()


def test_merges() -> None:
    contexts: list[dict[str, object]] = [{"a": "1", "b": "x"}, {"a": "10", "b": "y"}, {"a": "1", "b": "z"}, {"b": "w"}]
    assert merged(one(merge={"type": "concat", "keys": ["a", "b"]}), *contexts) == {
        "a": ["1", "10", "1"],
        "b": ["x", "y", "z", "w"],
    }
    assert merged(one(merge={"type": "first"}), *contexts) == {"a": ["1"], "b": ["x"]}
    assert merged(one(merge={"type": "vote", "key": "a"}), *contexts[1:]) == {"a": ["10"], "b": ["y"]}
    assert merged(one(merge={"type": "vote", "key": "a"}), *contexts) == {"a": ["1"], "b": ["x"]}
    assert merged(one(merge={"type": "vote", "key": "a"}), {"b": "w"}) == {"b": ["w"]}
    assert merged(one(merge={"type": "best", "by": "a | int"}), *contexts[:3]) == {"a": ["10"], "b": ["y"]}
    join = {
        "type": "join",
        "key": "k",
        "template": "{{a}}={{b}}",
        "keys": ["b"],
        "sort_by": "a | int",
        "separator": ";",
    }
    assert merged(one(merge=join), contexts[1], contexts[0], contexts[2]) == {
        "a": ["10"],
        "b": ["x", "z", "y"],
        "k": ["1=x;1=z;10=y"],
    }
    jinja = {"type": "join", "key": "k", "template": "{{ a | int + 1 }}"}
    assert merged(one(syntax="jinja", merge=jinja), *contexts[:2])["k"] == ["2\n11"]


def test_the_best_needs_numbers() -> None:
    agent = one(merge={"type": "best", "by": "a"})
    with pytest.raises(TemplateError, match="gave '10', expected a number") as caught:
        agent.merge([Context({"a": "10"}), Context({"a": "9"})])
    assert "| int" in caught.value.hint


def test_jinja_prompts() -> None:
    agent = one(syntax="jinja", system_prompt="You {{ b }}.", template="{% for x in all.a %}{{ x }},{% endfor %}[[a]]")
    system, text = agent.prompt(Context({"a": ["1", "2"], "b": "[[a]]"}))
    assert "".join(map(str, system)) == "You [[a]]."
    assert text == ("1,2,", Slot("a"))


def test_few_shots_with_tools() -> None:
    shot = {
        "user": "u",
        "assistant": "done",
        "reasoning": "hm",
        "tool_calls": [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": "{}"}],
        "tool_results": ["1", "2"],
    }
    turns = one(few_shot=[shot]).few_shot
    assert [turn.role for turn in turns] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT]
    assert [(call.id, call.name, call.arguments) for call in turns[1].tool_calls] == [
        ("shot_1_1", "f", '{"x": 1}'),
        ("shot_1_2", "g", "{}"),
    ]
    assert [turn.tool_call_id for turn in turns[2:4]] == ["shot_1_1", "shot_1_2"]
    assert (turns[4].text, turns[4].reasoning) == ("done", "hm")


def test_the_other_fields() -> None:
    agent = one(stream=False, skip_cache=True, retry_on_parsing_error=2, gather=True, merge={"type": "first"})
    assert (agent.stream, agent.skip_cache, agent.retry_on_parsing_error, agent.gather) == (False, True, 2, True)
    assert build({"name": "A"}).limits == Limits()
