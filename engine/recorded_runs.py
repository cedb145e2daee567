"""Goes on from recorded runs: resume what broke off, start from an agent with the contexts it had, repeat the whole."""

from collections.abc import Mapping, Sequence

from engine.checkpoints import Checkpoint
from engine.completion import Completion, FinishReason
from engine.errors import FlowError
from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    BranchFailed,
    CompletionFinished,
    Graded,
    Merged,
    PromptReady,
    RunFinished,
    RunStarted,
    Statistics,
    ToolCalled,
)
from engine.flow.flow import Flow
from engine.flow.flow_file import LoadedFlow, read_flow
from engine.flow.recorded_answers import RecordedAnswer
from engine.flow.restart import Restart
from engine.flow.restoring import arrivals, begins_at, context_of, pass_of, restored, started_from
from engine.history_queries import ReachedRun, RecordedRun, RunRow
from engine.statistics import RequestStatistic

UNFINISHED = frozenset({FinishReason.ERROR, FinishReason.STOPPED})
"""Ends of answers that are asked for again."""


def recorded_flow(run: RecordedRun) -> LoadedFlow:
    """The flow as it was run; the flows inside of it are read as they are now.

    Raises FlowError when only its name is recorded, as for flows made in Python.
    """
    if not run.flow_text:
        raise FlowError(
            f"The flow of run {run.row.id} is not recorded.",
            hint="It was made in Python: go on with the same flow there, by `Engine.run(flow, restart=...)`.",
        )
    return read_flow(run.flow_text, name=f"run {run.row.id}", origin=run.flow_origin)


def resume_point(reached: ReachedRun, flow: Flow) -> Restart:
    """Where a failed, stopped or crashed run goes on: failed branches again, what was under way again, no more.

    A request that was answered is not sent again, unless its answer was of no use. Raises FlowError when there is
    nothing left to do, nothing is recorded to go on from, or the flow lacks an agent the run has been at.
    """
    row = reached.run.row
    if row.status == "running":
        raise FlowError(f"The run {row.id} is still running.", hint="Stop it first.")
    if not reached.checkpoints:
        raise _not_recorded(row.id)
    restart = restored(flow, reached.checkpoints, row.id)
    if restart.is_done:
        raise FlowError(
            f"The run {row.id} is complete: nothing is left to do.", hint="Repeat it, or run from an agent."
        )
    again = _Again(restart, reached.run.events)
    restart.events = [event for event in reached.run.events if again.keeps(event)]
    restart.answers = again.answers(reached.run.events)
    restart.results = again.results(reached.run.events)
    restart.next_number = max(restart.next_number, max((event.step for event in reached.run.events), default=0) + 1)
    restart.before = used_before(reached.run)
    _finish(restart, reached)
    return restart


def start_point(
    reached: ReachedRun,
    flow: Flow,
    agent: str,
    *,
    visit: int | None = None,
    branch: str | None = None,
    edits: Mapping[str, Sequence[object]] | None = None,
) -> Restart:
    """Where a run begins that starts at an agent with the contexts recorded before it.

    Args:
        visit: which pass, from 1 (`visits` lists them); missing = the last.
        branch: only the context of this branch (`2/5`); missing = all of the pass.
        edits: keys with the values they get instead; a run whose context was edited says so.

    Raises FlowError when the run never came there.
    """
    if not reached.checkpoints:
        raise _not_recorded(reached.run.row.id)
    chosen = begins_at(flow, reached.checkpoints, agent, visit)
    if branch is not None:
        found = [arrival for arrival in chosen if arrival.contexts[0].branch == branch]
        if not found:
            known = ", ".join(arrival.contexts[0].branch or "(none)" for arrival in chosen)
            raise FlowError(f'No context of the branch "{branch}" came to "{agent}".', hint=f"Branches: {known}.")
        chosen = found
    statistic = RequestStatistic()
    contexts = [context_of(flow, arrival.contexts[0], statistic) for arrival in chosen]
    edited = False
    for context in contexts:
        for key, values in (edits or {}).items():
            edited = edited or list(values) != context.get(key)
            context[key] = list(values)
    restart = started_from(flow, chosen, contexts, reached.run.row.id, edited=edited)
    _finish(restart, reached)
    return restart


def visits(reached: ReachedRun, agent: str) -> dict[int, list[Checkpoint]]:
    """The passes of a run through an agent, from 1, each with the contexts it began with."""
    found: dict[int, list[Checkpoint]] = {}
    for arrival in arrivals(reached.checkpoints, agent):
        found.setdefault(pass_of(arrival), []).append(arrival)
    return dict(sorted(found.items()))


def used_before(run: RecordedRun) -> Statistics:
    """What a run and those it goes on from have used."""
    total = _total(run.row, run.row.seconds or 0.0)
    if run.earlier is not None:
        total.join(_total(run.earlier, run.earlier.effective_seconds))
    return Statistics.of_run(total)


def _total(used: RunRow | Statistics, seconds: float) -> RequestStatistic:
    return RequestStatistic(
        requests=used.requests,
        in_tokens=used.in_tokens,
        cached_in_tokens=used.cached_in_tokens,
        out_tokens=used.out_tokens,
        reasoning_out_tokens=used.reasoning_out_tokens,
        cost=used.cost,
        effective_seconds=seconds,
        provenances={used.provenance} if used.requests else set(),
    )


class _Again:
    """Tells what of a run's events belongs to what is done again."""

    def __init__(self, restart: Restart, events: Sequence[AnyEvent]) -> None:
        self._alive = restart.alive
        self._redone = restart.redone
        self._merging = {step.step for step in restart.steps if step.agent.merges}
        self._choosing = {(chosen.step, chosen.context.branch) for chosen in restart.chooses}
        self._inside = {
            event.step: event.within for event in events if isinstance(event, AgentStarted) and event.within
        }
        self._unusable = {
            (event.step, event.branch)
            for event in events
            if isinstance(event, BranchFailed) and event.error.type == "PARSING"
        }

    def keeps(self, event: AnyEvent) -> bool:
        """Whether an event stays true."""
        if isinstance(event, RunStarted | RunFinished | BranchFailed):
            return False
        if not event.step:
            return True
        if self._outer(event.step) not in self._alive or self._is_redone(event):
            return False
        if event.step in self._merging and isinstance(event, Merged | Graded | AgentFinished):
            return False
        return not (isinstance(event, Graded) and (event.step, event.branch) in self._choosing)

    def answers(self, events: Sequence[AnyEvent]) -> list[RecordedAnswer]:
        """What requests of steps that were not finished were answered, in order."""
        asked: dict[tuple[int, str, int], PromptReady] = {}
        found: list[RecordedAnswer] = []
        for event in events:
            if isinstance(event, PromptReady):
                asked[event.step, event.branch, event.attempt] = event
            elif isinstance(event, CompletionFinished) and self._is_usable(event):
                prompt = asked.get((event.step, event.branch, event.attempt))
                if prompt is not None:
                    found.append(RecordedAnswer.of(prompt, completion_of(event)))
        return found

    def results(self, events: Sequence[AnyEvent]) -> dict[tuple[str, str, str], tuple[str, bool]]:
        """What tools gave whose calls are made again: id, name, arguments → output, whether it failed."""
        return {
            (event.call_id, event.name, event.arguments): (event.output, event.failed)
            for event in events
            if isinstance(event, ToolCalled) and event.call_id and self._is_again(event)
        }

    def _is_usable(self, event: CompletionFinished) -> bool:
        if event.finish_reason in UNFINISHED or (event.step, event.branch) in self._unusable:
            return False
        return self._is_again(event)

    def _is_again(self, event: AnyEvent) -> bool:
        return self._outer(event.step) in self._alive and self._is_redone(event)

    def _is_redone(self, event: AnyEvent) -> bool:
        outer = self._outer(event.step)
        if (outer, None) in self._redone:
            return True
        return any(
            step == outer and branch is not None and (event.branch == branch or event.branch.startswith(f"{branch}."))
            for step, branch in self._redone
        )

    def _outer(self, step: int) -> int:
        """The step of the flow itself that a step inside of a node belongs to."""
        while step in self._inside:
            step = self._inside[step]
        return step


def completion_of(event: CompletionFinished) -> Completion:
    """The answer as it was recorded, without what it cost."""
    return Completion(
        content=event.content,
        reasoning=event.reasoning,
        tool_calls=event.tool_calls,
        kept=event.kept,
        origin=event.origin,
        finish_reason=event.finish_reason,
        finish_raw=event.finish_raw,
        no_answer=event.no_answer,
        model=event.model,
        profile=event.profile,
        from_thinking=event.from_thinking,
    )


def _finish(restart: Restart, reached: ReachedRun) -> None:
    if reached.as_text:
        keys = ", ".join(sorted(reached.as_text))
        restart.warnings.append(f"Only the text of these values is recorded: {keys}.")


def _not_recorded(run_id: str) -> FlowError:
    return FlowError(
        f"How far run {run_id} came is not recorded: an earlier version of the program recorded it.",
        hint="Run the flow again; `workbench runs show` has its answers.",
    )
