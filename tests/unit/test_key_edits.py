"""Renaming a key: whatever names it follows, and nothing else changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.flow.flow_file import flow_text
from engine.flow.flow_keys import known_keys, uses
from engine.flow.flow_spec import (
    AgentSpec,
    AgentType,
    FlowSpec,
    HandlerSpec,
    InputSpec,
    MergeSpec,
    OperationSpec,
    RouteSpec,
)
from engine.flow.key_renaming import CannotRename, rename_in_expression, rename_in_template
from tests.helpers.sample_flows import agent, chain, sample
from workbench.designer.edits import change_agent, change_flow, rename_agent
from workbench.designer.key_edits import rename_key


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("all.score | map('int') | max < 50", "all.points | map('int') | max < 50"),
        ("score is defined and not (score | int > 3)", "points is defined and not (points | int > 3)"),
        ("all['score'] | length", "all['points'] | length"),
        ('"score" in text', '"score" in text'),
        ("other.score", "other.score"),
        ("scores", "scores"),
        ("score ==", "score =="),
    ],
)
def test_expressions(before: str, after: str) -> None:
    assert rename_in_expression(before, "score", "points") == after


@pytest.mark.parametrize(
    ("before", "after", "jinja"),
    [
        ("{{score}}, {{{score}}}: [[score]]", "{{points}}, {{{points}}}: [[points]]", 0),
        ("[[score|hidden]]", "[[points|hidden]]", 0),
        ("score {{scores}} {{ score }}", "score {{scores}} {{ score }}", 0),
        ("score {{ score }} [[score]]\n", "score {{ points }} [[points]]\n", 1),
        ("{% if score %}{{ x.score }}{% endif %}{# score #}", "{% if points %}{{ x.score }}{% endif %}{# score #}", 1),
        ("{{ score", "{{ score", 1),
        ("{{ a|join('score') }}{{ score }}", "{{ a|join('score') }}{{ points }}", 1),
    ],
)
def test_templates(before: str, after: str, jinja: int) -> None:
    assert rename_in_template(before, "score", "points", jinja=bool(jinja)) == after


@pytest.mark.parametrize("name", ["two words", "passed", "1st"])
def test_a_name_that_an_expression_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(CannotRename, match="expression"):
        rename_in_expression("score > 3", "score", name)
    assert rename_in_template("{{score}}", "score", name) == "{{" + name + "}}"


def rich() -> FlowSpec:
    """A flow that names the key `note` everywhere it can be named."""
    schema = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
    return FlowSpec(
        name="Rich",
        inputs=(InputSpec(key="topic"),),
        outputs=("note", "topic"),
        start="Make",
        agents=(
            AgentSpec(
                name="Make",
                type=AgentType.COMPLETION,
                template="{{topic}}",
                handler=HandlerSpec(type="json", schema=schema),
                after=(OperationSpec(set="extra", to="note | upper"),),
                routes=(RouteSpec(when="note == 'x'", to="Use"), RouteSpec(to="Use")),
            ),
            AgentSpec(
                name="Use",
                type=AgentType.COMPLETION,
                system_prompt="Think of {{note}}.",
                template="[[note]]",
                before=(OperationSpec(delete="note", when="all.note | length > 3"),),
                merge=MergeSpec(type="join", key="line", template="{{note}}", sort_by="note", keys=("note",)),
            ),
            AgentSpec(
                name="Grade",
                grader="AnswerGraderBinary",
                with_={"question": "{{topic}}", "answer": "{{note}}", "feedback_to": "note"},
            ),
            AgentSpec(name="Sub", flow="other", with_={"text": "{{note}}"}, outputs={"line": "note"}),
        ),
    )


def test_everything_follows_a_renamed_key() -> None:
    renamed = rename_key(rich(), "note", "remark")
    text = flow_text(renamed)
    # The name of an agent and of a key inside another flow are other things of the same name.
    assert [line.strip() for line in text.splitlines() if "note" in line] == ['"feedback_to": "note"', '"line": "note"']
    assert flow_text(rename_key(renamed, "remark", "note")) == flow_text(rich())


def test_a_text_key_takes_its_thoughts_along() -> None:
    spec = change_agent(chain("A", "B"), "B", template="{{response}} because {{response_reasoning}}")
    spec = change_agent(spec, "B", handler=HandlerSpec(key="verdict"), template="{{response}} {{response_reasoning}}")
    renamed = rename_key(spec, "response", "draft")
    assert renamed.agents[0].handler == HandlerSpec(key="draft")
    assert renamed.agents[1].template == "{{draft}} {{draft_reasoning}}"


def test_a_key_that_others_make_too_keeps_its_users() -> None:
    spec = change_agent(chain("A", "B", "C"), "C", template="{{response}}")
    renamed = rename_key(spec, "response", "draft", agent="A")
    assert renamed.agents[0].handler == HandlerSpec(key="draft")
    assert renamed.agents[1:] == spec.agents[1:]
    alone = change_agent(spec, "B", handler=HandlerSpec(key="other"))
    alone = change_agent(alone, "C", handler=HandlerSpec(key="last"))
    assert rename_key(alone, "response", "draft", agent="A").agents[2].template == "{{draft}}"


def test_a_prefix_has_to_stay() -> None:
    handler = HandlerSpec(type="csv", prefix="p_", headings=("name", "age"))
    spec = change_agent(chain("A", "B"), "A", handler=handler)
    renamed = rename_key(spec, "p_age", "p_years")
    assert renamed.agents[0].handler == HandlerSpec(type="csv", prefix="p_", headings=("name", "years"))
    with pytest.raises(CannotRename, match="prefix"):
        rename_key(spec, "p_age", "years")


def test_a_key_needs_a_name_and_the_same_name_changes_nothing() -> None:
    spec = chain("A", "B")
    assert rename_key(spec, "it", "it") is spec
    with pytest.raises(ValueError, match="needs a name"):
        rename_key(spec, "it", " ")


@pytest.mark.parametrize("name", ["release-announcement", "draft-grade-improve", "sort-messages", "tools", "thinking"])
def test_samples_are_the_same_after_each_key_was_renamed_and_back(name: str) -> None:
    spec = sample(name)
    for key in known_keys(spec).names:
        if key.startswith("qa") or key.endswith("_reasoning"):
            continue
        renamed = rename_key(spec, key, "fresh_name")
        for one in renamed.agents:
            for use in uses(one, "$"):
                assert key not in use.names.keys | use.names.slots | use.names.optional
        assert rename_key(renamed, "fresh_name", key) == spec or key == "response"


def test_the_agent_a_grader_gives_feedback_to_is_followed_in_operations() -> None:
    spec = change_agent(chain("A", "B"), "B", before=(OperationSpec(set="qaFeedbackLoopDestination", to="'A'"),))
    assert rename_agent(spec, "A", "Author").agents[1].before[0].to == "'Author'"


@given(st.text("ab{}[]|. \n", max_size=30))
def test_a_text_without_the_key_stays_as_it_is(text: str) -> None:
    for jinja in (False, True):
        assert rename_in_template(text, "key", "other", jinja=jinja) == text
    assert rename_key(change_flow(chain("A"), agents=(agent("A", None, template=text),)), "key", "x").agents[
        0
    ].template == text  # fmt: skip
