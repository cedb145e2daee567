"""The events of a made-up run, to be recorded."""

from collections.abc import Iterator
from decimal import Decimal

from engine.completion import FinishReason, Phase
from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    ChunkReceived,
    CompletionFinished,
    PhaseChanged,
    RunFinished,
    RunStarted,
    Statistics,
)
from engine.statistics import CostProvenance

CALL_COST = Decimal("0.0000000001234567890123456789")
"""More digits than a float holds."""


def call_statistics() -> Statistics:
    return Statistics(
        requests=1,
        in_tokens=10,
        cached_in_tokens=2,
        out_tokens=5,
        reasoning_out_tokens=3,
        cost=CALL_COST,
        provenance=CostProvenance.MEASURED,
        seconds=0.5,
        first_token=0.125,
    )


def step_events(run_id: str, step: int, time: float, words: int = 3) -> Iterator[AnyEvent]:
    """One agent: thinks, answers in `words` chunks, finishes."""
    agent = f"agent {step}"
    place = {"run_id": run_id, "agent": agent, "step": step}
    yield AgentStarted(time=time, category="M", **place)
    yield PhaseChanged(time=time, phase=Phase.THINKING, **place)
    yield ChunkReceived(time=time + 0.1, reasoning="hm ", **place)
    yield ChunkReceived(time=time + 0.2, reasoning="well", **place)
    yield PhaseChanged(time=time + 0.2, phase=Phase.ANSWERING, **place)
    for number in range(words):
        yield ChunkReceived(time=time + 0.3, content=f"word{number} ", **place)
    content = "".join(f"word{number} " for number in range(words))
    yield CompletionFinished(
        time=time + 0.5,
        attempt=1,
        profile="embedded-chat",
        model="smollm2-135m-instruct",
        content=content,
        reasoning="hm well",
        finish_reason=FinishReason.DONE,
        statistics=call_statistics(),
        **place,
    )
    yield AgentFinished(time=time + 0.5, values={"response": [content]}, **place)


def run_events(run_id: str, steps: int = 2, time: float = 1_800_000_000.0) -> Iterator[AnyEvent]:
    """A whole run whose steps take a second each."""
    yield RunStarted(time=time, run_id=run_id, flow="Sample")
    for step in range(1, steps + 1):
        yield from step_events(run_id, step, time + step - 1)
    total = Statistics(
        requests=steps,
        in_tokens=10 * steps,
        cached_in_tokens=2 * steps,
        out_tokens=5 * steps,
        reasoning_out_tokens=3 * steps,
        cost=CALL_COST * steps,
        provenance=CostProvenance.MEASURED,
        seconds=0.5 * steps,
        effective_seconds=float(steps),
    )
    yield RunFinished(
        time=time + steps, run_id=run_id, status="finished", statistics=total, outputs={"response": ["x"]}
    )
