"""What a card says about its agent."""

import pytest
from msgspec.structs import replace

from engine.flow.flow_spec import (
    AgentSpec,
    AgentType,
    EditorSpec,
    FlowSpec,
    HandlerSpec,
    MergeSpec,
    ModelSpec,
    OperationSpec,
    RouteSpec,
)
from tests.helpers.sample_flows import agent, sample
from workbench.designer.card_content import CardContent, Chip, Verdict, card_content, icon_name, split_keys


def content(one: AgentSpec, **editor: object) -> CardContent:
    return card_content(FlowSpec(name="x", start=one.name, agents=(one,), editor=EditorSpec(**editor)), one)  # type: ignore[arg-type]


def test_a_plain_route_has_no_row() -> None:
    card = content(agent("A", "B"))
    assert [(port.target, port.label) for port in card.ports] == [("B", "")]
    assert not card.has_rows
    assert card.port_y(0) == 17.0
    assert card.body_height == 100.0


@pytest.mark.parametrize("routes", [(), (None,)])
def test_an_agent_without_a_way_out_says_that_it_ends_the_flow(routes: tuple[None, ...]) -> None:
    card = content(agent("A", *routes))
    assert [(port.target, port.label) for port in card.ports] == [(None, "ends the flow")]
    assert card.has_rows


def test_conditions_stand_in_rows_of_22() -> None:
    card = card_content(sample("sort-messages"), sample("sort-messages").agents[0])
    assert [port.label for port in card.ports] == ["topic == 'delivery'", "topic == 'payment'", "otherwise"]
    assert [port.is_expression for port in card.ports] == [True, True, False]
    assert card.port_y(1) - card.port_y(0) == 22.0


def test_a_grader_has_its_two_ways_with_glyphs() -> None:
    spec = sample("draft-grade-improve")
    card = card_content(spec, spec.agents[1])
    assert [(port.label, port.verdict, port.target) for port in card.ports] == [
        ("passed, ends the flow", Verdict.PASSED, None),
        ("feedback", Verdict.FAILED, "Writer"),
    ]
    assert card.icon == "grader"
    assert card.chips == ()
    assert card.preview == "Find in the text when the event starts."


def test_graded_routes_without_condition_are_named_by_their_verdict() -> None:
    one = replace(
        agent("A"), routes=(RouteSpec(when="not passed", to="B", graded=False), RouteSpec(to="C", graded=True))
    )
    assert [(port.label, port.verdict) for port in content(one).ports] == [
        ("not passed", Verdict.FAILED),
        ("passed", Verdict.PASSED),
    ]


def test_chips_tell_what_is_special() -> None:
    one = agent(
        "A",
        "B",
        template="Rate [[feature]] and [[id|hidden]].",
        merge=MergeSpec(type="concat"),
        handler=HandlerSpec(type="json", prefix="rating_"),
        tools=("calculator", "search"),
        gather=True,
    )
    assert content(one).chips == (
        Chip(text="feature", icon="split"),
        Chip(text="id", icon="split"),
        Chip(text="gather", icon="merge"),
        Chip(text="concat", icon="merge"),
        Chip(text="rating_", icon="json"),
        Chip(text="2", icon="tool"),
    )
    assert content(one).fans_out


def test_split_keys_are_found_once_each() -> None:
    assert split_keys("[[a]] [[b|hidden]] [[a]] {{c}} [d] [[]]") == ("a", "b")
    assert split_keys("no brackets") == ()


def test_the_badge_is_category_profile_or_nothing() -> None:
    assert content(agent("A")).badge == "M"
    assert content(agent("A", model=ModelSpec(category="XL"))).badge == "XL"
    assert content(agent("A", model=ModelSpec(profile="embedded-chat"))).badge == "embedded-chat"
    assert content(replace(agent("A"), type=AgentType.PROCESSING_ONLY)).badge == ""


def test_the_preview_is_one_line_of_system_prompt_and_template() -> None:
    assert (
        content(agent("A", system_prompt="Be\n brief.", template="Say\n\n{{it}}.")).preview == "Be brief. Say {{it}}."
    )
    assert content(agent("A", template="")).preview == "No prompt"
    sets = agent("A", template="", before=(OperationSpec(set="a", to="1"), OperationSpec(set="b", to="2")))
    assert content(sets).preview == "Sets a, b"
    assert len(content(agent("A", template="word " * 10_000)).preview) <= 200


def test_marks_of_the_editor_and_of_the_file() -> None:
    one = agent("A", "B", state="bypass")
    assert content(one).bypassed
    assert content(agent("A", state="mute")).muted
    assert content(agent("A"), breakpoints=("A",)).breakpoint


def test_every_kind_has_an_icon() -> None:
    assert {icon_name(replace(agent("A"), type=kind)) for kind in AgentType} == {
        "agent-completion",
        "agent-start",
        "agent-start-system",
        "agent-conversation",
        "agent-conversation-system",
        "agent-processing",
    }
    assert icon_name(replace(agent("A"), type=None, flow="x.flow.json")) == "subflow"
