from decimal import Decimal

import pytest

from engine.conversation import Conversation, Role, Turn
from engine.errors import FlowError, FlowInvalid
from engine.flow.agent import Agent, AgentType, Next, merge_contexts
from engine.flow.context import Context
from engine.flow.conversation_setup import set_up
from engine.flow.flow import Flow, Limits
from engine.profile import Category


def agent(name: str, **fields: object) -> Agent:
    return Agent(name, AgentType.COMPLETION, **fields)  # type: ignore[arg-type]


def test_what_a_request_changes_is_collected_once() -> None:
    asking = agent(
        "A", overrides={"temperature": 0}, stop=["\n"], response_schema={"type": "object"}, timeout=5.0, category="HOT"
    )
    assert asking.overrides == {
        "temperature": 0,
        "stop": ["\n"],
        "responseFormat": {"type": "object"},
        "timeout": 5.0,
    }
    assert asking.model(Context()) is Category.HOT
    assert agent("B", profile="local").model(Context()) == "local"


def test_targets_are_known_when_the_flow_ends_here() -> None:
    class Router(Agent):
        def choose_next(self, context: Context) -> Next:
            return Next.to("B")

    assert agent("A").targets == ()
    assert agent("A", choose_next=Next.end).targets is None
    assert agent("A", choose_next=Next.end, targets=["B"]).targets == ("B",)
    assert Router("A", AgentType.COMPLETION).targets is None


def test_merging_keeps_the_first_and_joins_the_named_lists() -> None:
    first, second, third = Context({"a": ["1"], "x": ["first"]}), Context({"a": ["2", "3"], "x": ["2nd"]}), Context()
    assert merge_contexts(["a", "missing"], [first, second, third]) == [first]
    assert dict(first) == {"a": ["1", "2", "3"], "x": ["first"], "missing": []}


def test_few_shot_turns_come_right_before_the_user_turn() -> None:
    shots = (Turn(role=Role.USER, text="2+2"), Turn(role=Role.ASSISTANT, text="4", reasoning="add them"))
    for kind in AgentType:
        assert set_up(None, kind, "S", "3+3", shots).turns == (
            Turn(role=Role.SYSTEM, text="S"),
            *shots,
            Turn(role=Role.USER, text="3+3"),
        )
    old = Conversation.create("S", "hello")
    joined = set_up(old, AgentType.CONVERSATION_WITH_SYSTEM_PROMPT, "", "3+3", shots)
    assert [turn.text for turn in joined.turns] == ["S", "2+2", "4", "hello\n3+3"]
    again = set_up(old, AgentType.START_CONVERSATION, "Add.", "3+3", shots)
    assert [turn.text for turn in again.turns] == ["2+2", "4", "Add.\n3+3"]
    assert set_up(old, AgentType.START_CONVERSATION, "", "", shots) == Conversation()


def test_faults_of_a_flow_are_listed_together() -> None:
    flow = Flow(
        name="f",
        start="Nowhere",
        agents=(
            agent("A", targets=["Gone"], choose_next=Next.end),
            agent("A"),
            agent(""),
            agent("G", gather=True),
        ),
        limits=Limits(max_steps=0),
    )
    found = {(problem.severity, problem.agent, problem.message) for problem in flow.problems()}
    assert found == {
        ("error", "", 'The flow starts with "Nowhere", but has no agent of that name.'),
        ("error", "A", '2 agents are named "A".'),
        ("error", "", "An agent has no name."),
        ("error", "G", '"G" gathers branches but has no merge that makes one of them.'),
        ("warning", "A", '"A" leads to "Gone", which is not an agent.'),
        ("error", "", "The limit of steps is 0, expected at least 1."),
    }
    with pytest.raises(FlowInvalid, match=r"The flow starts with .* \(and 4 more\)") as raised:
        flow.check()
    assert len(raised.value.problems) == 6


def test_an_empty_flow_cannot_run() -> None:
    with pytest.raises(FlowInvalid, match="The flow has no agents"):
        Flow(name="f", agents=()).check()


def test_the_first_agent_starts() -> None:
    flow = Flow(name="f", agents=[agent("A"), agent("B")])  # type: ignore[arg-type]
    flow.check()
    assert flow.first == "A"
    assert flow.agent("B").name == "B"
    with pytest.raises(FlowError, match='no agent "C"'):
        flow.agent("C")


def test_the_smaller_limit_holds() -> None:
    mine = Limits(max_steps=50, max_seconds=10, max_cost=None)
    theirs = Limits(max_steps=200, max_seconds=60, max_cost=Decimal(1), max_tool_calls=5)
    assert mine.smaller(theirs) == Limits(max_steps=50, max_seconds=10, max_cost=Decimal(1), max_tool_calls=5)
