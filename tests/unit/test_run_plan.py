"""What a run is going to ask, told before it asks."""

from decimal import Decimal
from functools import partial

from msgspec.structs import replace

from engine.events import Statistics
from engine.flow.flow_build import asked_profile
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, InputSpec, MergeSpec, ModelSpec, RouteSpec
from engine.flow.run_plan import PlannedAgent, RunPlan, plan_run
from engine.profile import ModelProfile
from engine.profile_store import ProfileStore
from engine.statistics import Prices
from tests.helpers.sample_flows import agent, sample

PAID = Prices(input=Decimal("0.000002"), output=Decimal("0.000008"))


def priced(prices: Prices = PAID, max_tokens: int = 100) -> ModelProfile:
    return ModelProfile(name="m", category="M", provider="x", prices=prices, max_tokens=max_tokens)


def plan(spec: FlowSpec, *, model: ModelProfile | None = None, **more: object) -> RunPlan:
    found = priced() if model is None else model
    return plan_run(spec, more.pop("values", {}), lambda _agent: found, **more)  # type: ignore[arg-type]


def split_flow(*agents: AgentSpec, things: int = 3) -> FlowSpec:
    """A flow with a list of so many things as its input."""
    return FlowSpec(
        name="Split",
        inputs=(InputSpec(key="thing", type="list", default=[f"thing {number}" for number in range(things)]),),
        start=agents[0].name,
        agents=agents,
    )


def test_a_split_by_an_input_asks_once_for_each_value_and_a_merge_ends_it() -> None:
    each = replace(
        agent("Each", "Sum", template="About [[thing]]."), merge=MergeSpec(type="concat", keys=("response",))
    )
    spec = split_flow(each, agent("Sum", None, template="x" * 40))
    found = plan(spec)
    assert found.agents["Each"].calls == 3
    # "About [[thing]]." are 16 characters, 4 tokens; the answer has at most 100.
    assert found.agents["Each"].cost == 3 * (4 * PAID.input + 100 * PAID.output)
    assert found.agents["Sum"] == PlannedAgent(calls=1, cost=10 * PAID.input + 100 * PAID.output, at_most=True)
    assert found.total.calls == 4
    assert not found.total.more
    assert plan(spec, values={"thing": "one\ntwo"}).agents["Each"].calls == 2


def test_without_a_merge_each_branch_goes_on_and_a_gathering_agent_runs_once() -> None:
    spec = split_flow(
        agent("Each", "Next", template="About [[thing]]."),
        agent("Next", "All"),
        replace(agent("All", None), gather=True, merge=MergeSpec(type="concat", keys=("response",))),
    )
    assert {name: one.calls for name, one in plan(spec).agents.items()} == {"Each": 3, "Next": 3, "All": 1}


def test_what_the_last_run_used_is_what_the_next_one_may_use() -> None:
    spec = split_flow(agent("Each", None, template="About [[thing]]."), things=4)
    last = {"Each": Statistics(requests=2, in_tokens=20, cached_in_tokens=10, out_tokens=30, reasoning_out_tokens=10)}
    found = plan(spec, last=last).agents["Each"]
    assert found == PlannedAgent(calls=4, cost=60 * PAID.input + 80 * PAID.output, at_most=False)


def test_what_only_the_run_will_know_is_a_lower_bound_unless_it_ran_before() -> None:
    spec = sample("release-announcement")
    found = plan(spec)
    assert found.agents["FeatureAnalyzer"].calls == 1
    assert found.agents["FeatureAnalyzer"].more
    assert found.total.more
    used = Statistics(requests=4, in_tokens=400, out_tokens=200)
    again = plan(spec, last=dict.fromkeys(found.agents, used)).agents["FeatureAnalyzer"]
    assert (again.calls, again.more) == (4, False)


def test_loops_tools_and_graders_may_ask_more() -> None:
    spec = FlowSpec(name="Loop", start="A", agents=(agent("A", "B"), agent("B", "A", None), agent("C", None)))
    found = plan(spec)
    assert [(name, one.more) for name, one in found.agents.items()] == [("A", True), ("B", True)]
    tools = FlowSpec(name="Tools", agents=(replace(agent("A", None), tools=("clock",)),))
    assert plan(tools).agents["A"].more
    assert plan(sample("draft-grade-improve")).total.more


def test_frozen_bypassed_and_processing_agents_and_flows_inside_ask_nothing_that_is_known() -> None:
    agents = (
        agent("Kept", "Past"),
        replace(agent("Past", "Work"), state="bypass"),
        replace(agent("Work", "Inner"), type=AgentType.PROCESSING_ONLY),
        AgentSpec(name="Inner", flow="other.flow.json", routes=(RouteSpec(to=None),)),
    )
    found = plan(FlowSpec(name="Quiet", agents=agents), kept={"Kept"})
    assert [one.calls for one in found.agents.values()] == [0, 0, 0, 0]
    assert [one.more for one in found.agents.values()] == [False, False, False, True]


def test_an_unknown_price_is_no_zero_and_a_free_model_is_free() -> None:
    spec = FlowSpec(name="Two", agents=(agent("A", "B"), agent("B", None)))
    unknown = plan(spec, model=priced(Prices()))
    assert unknown.total == PlannedAgent(calls=2, more=True, cost=None, at_most=True)
    free = plan(spec, model=priced(Prices(input=Decimal(0), output=Decimal(0))))
    assert free.total.cost == 0


def test_an_agent_nobody_answers_for_has_no_price() -> None:
    spec = FlowSpec(name="One", agents=(replace(agent("A", None), model=ModelSpec(profile="nobody")),))
    found = plan_run(spec, {}, partial(asked_profile, resolve=ProfileStore().resolve)).agents["A"]
    assert (found.calls, found.cost) == (1, None)


def test_an_override_of_the_longest_answer_counts() -> None:
    model = ModelSpec(category="M", overrides={"maxTokens": 10})
    spec = FlowSpec(name="One", agents=(replace(agent("A", None, template="abcd"), model=model),))
    assert plan(spec).agents["A"].cost == PAID.input + 10 * PAID.output


def test_a_flow_without_agents_asks_nothing() -> None:
    assert plan(FlowSpec(name="Empty")).total == PlannedAgent(calls=0)
