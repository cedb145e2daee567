"""Goes on from a recorded run with the thinking of a model as its answer, or asks again what was answered so."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.checkpoints import Checkpoint, Reached
from engine.completion import FinishReason, ReasoningAudit
from engine.errors import FlowError
from engine.events import AgentStarted, AnyEvent, BranchFailed, CompletionFinished, HandlerFailed, PromptReady
from engine.flow.flow import Flow
from engine.flow.recorded_answers import RecordedAnswer
from engine.flow.restart import Restart
from engine.flow.restoring import arrivals, pass_of
from engine.history_queries import ReachedRun
from engine.reasoning_audit import thinking_as_answer
from engine.recorded_runs import UNFINISHED, completion_of, start_point


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPass:
    """Where a step stands in its run."""

    agent: str
    """The agent of the flow itself; a step inside of a node belongs to that of the node."""
    visit: int
    """The pass of the run through that agent, from 1."""
    steps: frozenset[int]
    """All steps of the flow itself in that pass."""


def pass_of_step(reached: ReachedRun, step: int) -> StepPass:
    """The pass a step belongs to; raises FlowError when it is not recorded how it began."""
    started = {event.step: event for event in reached.run.events if isinstance(event, AgentStarted)}
    outer = step
    while outer in started and started[outer].within:
        outer = started[outer].within
    agent = started[outer].agent if outer in started else ""
    begins = _begins(reached.checkpoints, agent)
    visit = next((number for number, steps in begins.items() if outer in steps), None)
    if visit is None:
        raise FlowError(
            f"How step {step} of run {reached.run.row.id} began is not recorded.", hint="Run the flow again."
        )
    return StepPass(agent=agent, visit=visit, steps=frozenset(begins[visit]))


def _begins(checkpoints: Sequence[Checkpoint], agent: str) -> dict[int, set[int]]:
    """The steps of an agent by the pass in which their contexts came to it."""
    found: dict[int, set[int]] = {}
    left: dict[tuple[int, int], int] = {}
    for arrival in arrivals(checkpoints, agent):
        visit = pass_of(arrival)
        number = arrival.step if arrival.reached is Reached.ARRIVED else arrival.to_step
        found.setdefault(visit, set()).add(number)
        source = 0 if arrival.reached is Reached.ARRIVED else arrival.step
        left[source, arrival.index] = visit
    for gathered in checkpoints:
        if gathered.reached is Reached.GATHERED and gathered.agent == agent:
            visits = [left[taken] for taken in gathered.takes if taken in left]
            numbers = range(gathered.step, gathered.step + len(gathered.contexts))
            found.setdefault(max(visits, default=1), set()).update(numbers)
    return found


def audit_warning(event: AnyEvent) -> str:
    """What its thinking did to an answer, and what helps on the command line; empty when nothing is wrong."""
    if not isinstance(event, CompletionFinished) or event.audit is None:
        return ""
    again = f"--from {shlex.quote(event.agent)} --run {event.run_id} --use-thinking"
    texts = {
        ReasoningAudit.ANSWER_EMPTY: "the answer is empty, there is only thinking",
        ReasoningAudit.ANSWER_INSIDE: "the answer is empty, but a part of the thinking says it is one",
        ReasoningAudit.LIMIT_SPENT: "the limit of tokens was spent on thinking: raise maxTokens",
    }
    place = f"{event.agent} {event.branch}".rstrip()
    return f"{place}: {texts[event.audit]}; `{again}` takes the thinking as the answer."


def audited(events: Sequence[AnyEvent], agent: str, branch: str | None = None) -> CompletionFinished:
    """The last answer of an agent with something wrong about its thinking; raises FlowError when there is none."""
    answers = (event for event in reversed(events) if isinstance(event, CompletionFinished) and event.audit is not None)
    for answer in answers:
        if answer.agent == agent and branch in (None, answer.branch):
            return answer
    raise FlowError(
        f'Nothing is wrong with the thinking of "{agent}" in the recorded run: its answers stand beside it.',
        hint="`workbench runs show` has the answers.",
    )


def thinking_point(reached: ReachedRun, flow: Flow, step: int, branch: str, attempt: int) -> Restart:
    """Where a run begins that takes the thinking of one attempt as its answer and goes on from there.

    The pass of its agent begins again; what was answered in it is not asked again, unless it was of no use. The run is
    marked as edited. Raises FlowError when that attempt has no thinking or it is not recorded how its step began.
    """
    where = pass_of_step(reached, step)
    restart = start_point(reached, flow, where.agent, visit=where.visit)
    inside = {one.step: one.within for one in reached.run.events if isinstance(one, AgentStarted) and one.within}
    answers = _Answers(inside, where.steps, (step, branch), attempt)
    for event in reached.run.events:
        answers.add(event)
    restart.answers = answers.given()
    restart.edited = True
    return restart


class _Answers:
    """The recorded answers of one pass, with the thinking of one attempt in the place of its answer."""

    def __init__(self, inside: dict[int, int], steps: frozenset[int], wanted: tuple[int, str], attempt: int) -> None:
        self._inside = inside
        self._steps = steps
        self._wanted = wanted
        self._attempt = attempt
        self._prompts: dict[tuple[int, str, int], PromptReady] = {}
        self._done: dict[tuple[int, str, int], CompletionFinished] = {}
        self._refused: set[tuple[int, str, int]] = set()
        self._failed: set[tuple[int, str]] = set()

    def add(self, event: AnyEvent) -> None:
        """Take in what belongs to the pass."""
        if self._outer(event.step) not in self._steps:
            return
        match event:
            case PromptReady():
                self._prompts[event.step, event.branch, event.attempt] = event
            case CompletionFinished():
                self._done[event.step, event.branch, event.attempt] = event
            case HandlerFailed():
                self._refused.add((event.step, event.branch, event.attempt))
            case BranchFailed():
                self._failed.add((event.step, event.branch))
            case _:
                pass

    def given(self) -> list[RecordedAnswer]:
        """What is not asked again; raises FlowError when the attempt has no thinking."""
        chosen = self._done.get((*self._wanted, self._attempt))
        thinking = "" if chosen is None else thinking_as_answer(chosen.reasoning)
        if chosen is None or not thinking:
            raise FlowError("There is no thinking that could be the answer.", hint="Ask again, with a higher limit.")
        answers = []
        for key, event in self._done.items():
            if event is chosen:
                taken = replace(
                    completion_of(chosen),
                    content=thinking,
                    finish_reason=FinishReason.DONE,
                    no_answer=False,
                    from_thinking=True,
                )
                answers.append(RecordedAnswer.of(self._first_prompt(), taken))
            elif key in self._prompts and self._is_kept(key, event):
                answers.append(RecordedAnswer.of(self._prompts[key], completion_of(event)))
        return answers

    def _is_kept(self, key: tuple[int, str, int], event: CompletionFinished) -> bool:
        if key[:2] == self._wanted:
            return key[2] < self._attempt and key not in self._refused
        return key[:2] not in self._failed and event.finish_reason not in UNFINISHED

    def _first_prompt(self) -> PromptReady:
        """What was asked before the handler refused an answer: the answer that is taken is the first one."""
        mine = sorted(key for key in self._prompts if key[:2] == self._wanted and key[2] <= self._attempt)
        refused = (key for key in mine if key in self._refused)
        return self._prompts[next(refused, mine[-1])]

    def _outer(self, step: int) -> int:
        while step in self._inside:
            step = self._inside[step]
        return step
