"""Event sequences of made-up runs, for what folds or shows them."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from engine.completion import FinishReason, Phase
from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    ChunkReceived,
    CompletionFinished,
    Graded,
    GradeOutcome,
    PhaseChanged,
    PromptReady,
    RunStarted,
    SplitStarted,
    Statistics,
)
from engine.statistics import CostProvenance

START = 1_700_000_000.0
RUN = "run-1"


def statistics(
    in_tokens: int = 100,
    out_tokens: int = 20,
    reasoning: int = 0,
    cost: str = "0.0004",
    provenance: CostProvenance = CostProvenance.MEASURED,
    seconds: float = 2.0,
    **more: Any,
) -> Statistics:
    """Figures of one request."""
    return Statistics(
        requests=1,
        in_tokens=in_tokens,
        out_tokens=out_tokens,
        reasoning_out_tokens=reasoning,
        cost=Decimal(cost),
        provenance=provenance,
        seconds=seconds,
        **more,
    )


class Script:
    """Makes events of one agent execution after the other; times are seconds after `START`."""

    def __init__(self) -> None:
        self.agent = ""
        self.step = 0

    def place(self, at: float, branch: str = "") -> dict[str, Any]:
        """Fields every event has."""
        return {"time": START + at, "run_id": RUN, "agent": self.agent, "step": self.step, "branch": branch}

    def run(self, **profiles: str) -> RunStarted:
        """The run begins."""
        return RunStarted(time=START, run_id=RUN, flow="Release announcement", profiles=profiles)

    def begin(self, agent: str, at: float, *, splits: int = 1, category: str = "M") -> AgentStarted:
        """The next agent begins."""
        before, self.step, self.agent = self.step, self.step + 1, agent
        return AgentStarted(**self.place(at), category=category, splits=splits, from_step=before)

    def split(self, number: int, count: int, label: str, at: float) -> SplitStarted:
        """One branch begins."""
        return SplitStarted(**self.place(at, f"{number}/{count}"), index=number, count=count, label=label)

    def ask(self, at: float, branch: str = "", attempt: int = 1, profile: str = "small") -> list[AnyEvent]:
        """The prompt is ready and the call on its way."""
        place = self.place(at, branch)
        turns = (("system", "You write."), ("user", "Describe it."))
        return [
            PromptReady(**place, attempt=attempt, profile=profile, turns=turns, parameters={"temperature": 0.2}),
            PhaseChanged(**place, phase=Phase.CONNECTING, attempt=attempt),
        ]

    def phase(self, phase: Phase, at: float, branch: str = "", attempt: int = 1) -> PhaseChanged:
        """The call enters a phase."""
        return PhaseChanged(**self.place(at, branch), phase=phase, attempt=attempt)

    def text(
        self, at: float, content: str = "", branch: str = "", *, reasoning: str = "", attempt: int = 1
    ) -> ChunkReceived:
        """Text arrives."""
        return ChunkReceived(**self.place(at, branch), content=content, reasoning=reasoning, attempt=attempt)

    def answer(self, at: float, content: str, branch: str = "", **more: Any) -> CompletionFinished:
        """The attempt is answered."""
        fields: dict[str, Any] = {
            "attempt": 1,
            "profile": "small",
            "model": "tiny-1",
            "reasoning": "",
            "finish_reason": FinishReason.DONE,
            "statistics": statistics(),
        }
        return CompletionFinished(**self.place(at, branch), content=content, **(fields | more))

    def leave(self, at: float, to: str | None, branch: str = "") -> AgentFinished:
        """A context leaves the agent."""
        return AgentFinished(**self.place(at, branch), to=to)


def simple_run(script: Script, text: str = "Hello world") -> Iterator[AnyEvent]:
    """One agent that answers, without the end of the run."""
    yield script.run(Writer="small")
    yield script.begin("Writer", 0.0)
    yield from script.ask(0.1)
    yield script.phase(Phase.ANSWERING, 0.5)
    for number in range(0, len(text), 4):
        yield script.text(0.5 + number / 100, text[number : number + 4])
    yield script.answer(2.1, text)
    yield script.leave(2.2, None)


def fan_out(script: Script, labels: list[str]) -> Iterator[AnyEvent]:
    """An agent that splits; every branch streams a little and stays open."""
    yield script.run(Splitter="small")
    yield script.begin("Splitter", 0.0, splits=len(labels))
    for number, label in enumerate(labels, 1):
        yield script.split(number, len(labels), label, 0.1)
        yield from script.ask(0.2, f"{number}/{len(labels)}")
        yield script.text(0.3, f"text of {label}", f"{number}/{len(labels)}")


def loop_run(script: Script) -> list[AnyEvent]:
    """A writer whose text a grader sends back twice."""
    events: list[AnyEvent] = [
        script.run(),
        script.begin("Plan", 0),
        script.answer(0.1, "p"),
        script.leave(0.2, "Writer"),
    ]
    rounds = (
        ("A short note", 41.0, GradeOutcome.FAILED, "Too short"),
        ("A longer note", None, GradeOutcome.UNPARSABLE, ""),
        ("A longer better note", 88.0, GradeOutcome.PASSED, "Good"),
    )
    for number, (text, rating, outcome, said) in enumerate(rounds, 1):
        at = float(number)
        passed = outcome is GradeOutcome.PASSED
        events += [script.begin("Writer", at), *script.ask(at), script.answer(at + 0.2, text)]
        events += [script.leave(at + 0.3, "Check"), script.begin("Check", at + 0.4), *script.ask(at + 0.4)]
        grade = {"outcome": outcome, "rating": rating, "explanation": said, "iteration": number}
        events += [script.answer(at + 0.5, "{}"), Graded(**script.place(at + 0.6), passed=passed, **grade)]
        events += [script.leave(at + 0.7, None if passed else "Writer")]
    return events
