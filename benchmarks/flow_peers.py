"""What the flow benchmarks share: our walk as a run does it, a floor of plain tasks, and LangGraph if it is there."""

import asyncio
import importlib.util
import operator
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Annotated, Any, TypedDict

from engine.completion import Chunk, Completion
from engine.conversation import Conversation
from engine.flow.agent import Agent, AgentType, Next, merge_contexts
from engine.flow.context import Context
from engine.flow.event_buffer import EventBuffer
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.profile import ModelProfile, ProfileOptions, ProfileRef
from engine.statistics import CompletionStatistics, CostProvenance

Leaf = Callable[[], Awaitable[None]]
"""What one node does."""
Go = Callable[[], Awaitable[None]]
"""One whole run."""

ANSWER = Completion(
    content="an answer",
    statistics=CompletionStatistics(
        in_tokens=10, out_tokens=5, cost=Decimal("0.0001"), provenance=CostProvenance.MEASURED
    ),
)


async def nothing() -> None:
    """A node that does nothing."""


CHUNK = Chunk(content="an answer")


class Answering:
    """A model that answers once its leaf is done."""

    def __init__(self, leaf: Leaf, at_once: int) -> None:
        self.leaf = leaf
        self.profile = ModelProfile(
            name="bench", category="M", provider="SCRIPTED", options=ProfileOptions(max_concurrent=at_once)
        )

    def resolve(self, profile: ProfileRef) -> ModelProfile:
        return self.profile

    def stream(
        self,
        profile: ProfileRef,
        conversation: Conversation,
        *,
        overrides: object = None,
        tools: object = None,
        skip_cache: bool = False,
    ) -> "Answer":
        return Answer(self.leaf)


class Answer:
    """One streamed answer of one chunk; plain classes, so that it is the executor that is measured."""

    completion = so_far = ANSWER
    warnings = ()

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._left = 1

    async def __aenter__(self) -> "Answer":
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> Chunk:
        if not self._left:
            raise StopAsyncIteration
        self._left = 0
        await self._leaf()
        return CHUNK


def our_chain(kind: AgentType, size: int) -> Go:
    """A chain of agents, each of which leads to the next."""

    def agent(number: int) -> Agent:
        target = f"n{number + 1}"
        route = (lambda context: Next(target)) if number + 1 < size else None
        return Agent(f"n{number}", kind, template="go", choose_next=route)

    flow = Flow(name="chain", agents=tuple(agent(number) for number in range(size)), limits=Limits(max_steps=size))
    return _followed(flow, Context, Answering(nothing, 4), results=1)


def our_fan(kind: AgentType, size: int, leaf: Leaf = nothing, at_once: int = 4) -> Go:
    """One agent split over a list, merged, and a last agent."""
    fan = Agent(
        "fan",
        kind,
        template="[[item]]",
        merge=lambda contexts: merge_contexts(["item"], contexts),
        choose_next=lambda context: Next("end"),
    )
    flow = Flow(name="fan", agents=(fan, Agent("end", AgentType.PROCESSING_ONLY)))
    items = [str(number) for number in range(size)]
    return _followed(flow, lambda: Context({"item": items}), Answering(leaf, at_once), results=1)


def _followed(flow: Flow, context: Callable[[], Context], completer: Answering, results: int) -> Go:
    """A run whose events are all read, as the window reads them."""

    async def go() -> None:
        buffer = EventBuffer()
        walk = Walk(flow, context(), completer, run_id="bench", emit=buffer.put)

        async def produce() -> list[Context]:
            try:
                return await walk.run()
            finally:
                buffer.close()

        task = asyncio.create_task(produce())
        events = [event async for event in buffer if event.step == 0]
        found = await task
        if len(found) != results or any(item.error for item in found) or len(events) != 2:
            raise RuntimeError("the run did not do its work")

    return go


def floor_chain(size: int) -> Go:
    """A task per node, one after the other."""

    async def go() -> None:
        for _ in range(size):
            await asyncio.create_task(_coroutine(nothing))

    return go


def floor_fan(size: int) -> Go:
    """A task per node, all at once."""

    async def go() -> None:
        await asyncio.gather(*(_coroutine(nothing) for _ in range(size)))

    return go


async def _coroutine(leaf: Leaf) -> None:
    await leaf()


def has_langgraph() -> bool:
    """Whether the peer is here (extra `bench`)."""
    return importlib.util.find_spec("langgraph") is not None


class _ChainState(TypedDict):
    value: int


class _FanState(TypedDict):
    size: int
    done: Annotated[list[int], operator.add]


def langgraph_chain(size: int) -> Go:
    """The same chain in LangGraph."""
    from langgraph.graph import END, START, StateGraph

    async def node(state: _ChainState) -> dict[str, int]:
        await nothing()
        return {"value": 1}

    graph: Any = StateGraph(_ChainState)
    names = [f"n{number}" for number in range(size)]
    for name in names:
        graph.add_node(name, node)
    for first, second in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(first, second)
    app = graph.compile()

    async def go() -> None:
        await app.ainvoke({"value": 0}, {"recursion_limit": size + 10})

    return go


def langgraph_fan(size: int, leaf: Leaf = nothing, at_once: int | None = None) -> Go:
    """The same fan-out in LangGraph, by `Send`; its own option limits how many run at once."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Send

    async def node(state: _FanState) -> dict[str, list[int]]:
        await leaf()
        return {"done": [state["size"]]}

    async def merge(state: _FanState) -> dict[str, int]:
        if len(state["done"]) != size:
            raise RuntimeError("the run did not do its work")
        return {"size": 0}

    graph: Any = StateGraph(_FanState)
    graph.add_node("fan", node)
    graph.add_node("merge", merge)
    graph.add_conditional_edges(
        START, lambda state: [Send("fan", {"size": number, "done": []}) for number in range(state["size"])], ["fan"]
    )
    graph.add_edge("fan", "merge")
    graph.add_edge("merge", END)
    app = graph.compile()
    config: dict[str, int] = {"recursion_limit": 100}
    if at_once is not None:
        config["max_concurrency"] = at_once

    async def go() -> None:
        await app.ainvoke({"size": size, "done": []}, config)

    return go
