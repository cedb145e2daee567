"""What a run is going to ask and may cost, before it asks anything. An estimate: nothing is sent, no template runs."""

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from decimal import Decimal

from engine.events import Statistics
from engine.flow.context import Context
from engine.flow.flow_inputs import input_values
from engine.flow.flow_links import in_loops, links_of, reachable_agents, start_of
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec
from engine.flow.template import expand, literal, split_count, split_keys
from engine.profile import ModelProfile
from engine.statistics import Prices

CHARACTERS_PER_TOKEN = 4
_SPLIT = re.compile(r"\[\[[^\[\]{}]+\]\]")
_READ_FROM_DISK = ("file", "image")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAgent:
    """What one agent is going to ask."""

    calls: int
    """Of models; 0: it asks none, or its answers are kept."""
    more: bool = False
    """There may be more: it is in a loop, calls tools, runs a flow, or splits by what the run itself brings."""
    cost: Decimal | None = Decimal(0)
    """None: a price is not known."""
    at_most: bool = False
    """`cost` takes answers for as long as they may get; otherwise for as long as they were in the last run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What all agents that a run may reach are going to ask."""

    agents: Mapping[str, PlannedAgent]

    @property
    def total(self) -> PlannedAgent:
        """All of them together; `cost` sums up what is known of it, None when nothing is."""
        asking = [agent for agent in self.agents.values() if agent.calls or agent.more]
        costs = [agent.cost for agent in asking if agent.cost is not None]
        return PlannedAgent(
            calls=sum(agent.calls for agent in asking),
            more=any(agent.more or agent.cost is None for agent in asking),
            cost=sum(costs, Decimal(0)) if costs or not asking else None,
            at_most=any(agent.at_most for agent in asking),
        )


def plan_run(
    spec: FlowSpec,
    values: Mapping[str, object],
    profile_of: Callable[[AgentSpec], ModelProfile | None],
    *,
    kept: Container[str] = (),
    last: Mapping[str, Statistics] | None = None,
) -> RunPlan:
    """Plan a run.

    Args:
        spec: the flow.
        values: its inputs, as typed; files are not read.
        profile_of: who answers for an agent, None when nobody does.
        kept: the agents that are frozen.
        last: what the agents used in the last run of this flow, if there was one.
    """
    known = _known(spec, values)
    reached, loops, links = reachable_agents(spec), in_loops(spec), links_of(spec)
    agents = {agent.name: agent for agent in reversed(spec.agents)}
    planned: dict[str, PlannedAgent] = {}
    waiting = [(start_of(spec), 1, False)]
    while waiting:
        name, width, more = waiting.pop(0)
        if name in planned or name not in reached:
            continue
        agent = agents[name]
        if agent.gather:
            width = 1
        split, unsure = _split(agent, known)
        count, more = width * split, more or unsure or name in loops
        used = (last or {}).get(name)
        if unsure and used is not None and used.requests + used.cached_prompts:
            count, more = used.requests + used.cached_prompts, name in loops
        planned[name] = _planned(agent, count, more, known, profile_of, used, name in kept)
        onward = width if agent.merge is not None else count
        waiting += [(target, onward, more) for target in links.get(name, ())]
    return RunPlan(agents=planned)


def _planned(
    agent: AgentSpec,
    count: int,
    more: bool,
    known: Context,
    profile_of: Callable[[AgentSpec], ModelProfile | None],
    used: Statistics | None,
    kept: bool,
) -> PlannedAgent:
    if agent.flow is not None:
        return PlannedAgent(calls=0, more=True, cost=None)
    if kept or agent.state is not None or agent.type is AgentType.PROCESSING_ONLY:
        return PlannedAgent(calls=0)
    profile = profile_of(agent)
    more = more or bool(agent.tools) or agent.grader is not None
    if profile is None:
        return PlannedAgent(calls=count, more=more, cost=None)
    asked = used.requests if used is not None else 0
    if used is not None and asked:
        tokens = (
            (used.in_tokens + used.cached_in_tokens) * count // asked,
            (used.out_tokens + used.reasoning_out_tokens) * count // asked,
        )
    else:
        text = "".join(literal(expand(part, known)) for part in (agent.system_prompt, agent.template))
        overrides = agent.model.overrides if agent.model is not None else {}
        limit = overrides.get("maxTokens", profile.max_tokens)
        longest = limit if isinstance(limit, int) else profile.max_tokens
        tokens = count * -(-len(text) // CHARACTERS_PER_TOKEN), count * longest
    return PlannedAgent(calls=count, more=more, cost=_price(profile.prices, *tokens), at_most=not asked)


def _price(prices: Prices, in_tokens: int, out_tokens: int) -> Decimal | None:
    if prices.input is None or prices.output is None:
        return None
    return prices.input * in_tokens + prices.output * out_tokens


def _known(spec: FlowSpec, values: Mapping[str, object]) -> Context:
    """The inputs as far as they are known without reading a file."""
    context = Context()
    for item in spec.inputs:
        if item.type in _READ_FROM_DISK:
            continue
        try:
            context[item.key] = input_values(item, values.get(item.key))
        except ValueError:
            continue  # the run will tell
    return context


def _split(agent: AgentSpec, known: Context) -> tuple[int, bool]:
    """Into how many branches an agent splits one, and whether that depends on what the run brings."""
    if agent.syntax is not None:
        return 1, False
    parts = [expand(text, known) for text in (agent.system_prompt, agent.template)]
    keys = split_keys(*parts)
    unsure = any(_SPLIT.search(part) for one in parts for part in one if isinstance(part, str))
    return max(1, split_count(keys, known)), unsure
