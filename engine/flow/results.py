"""The contexts a walk ended with."""

from collections.abc import Iterable

from engine.checkpoints import Position
from engine.errors import BudgetExceeded
from engine.events import RunFinished, RunResult
from engine.flow.context import Context
from engine.flow.flow import Flow


class Results:
    """Contexts that ended, those of branches that failed apart."""

    def __init__(self) -> None:
        self.ended: list[tuple[Position, Context]] = []
        self.failed: list[tuple[Position, Context]] = []

    @property
    def contexts(self) -> list[Context]:
        """All so far: depth-first in branch order, then those with an error in the same order."""
        ordered = [sorted(found, key=lambda item: item[0]) for found in (self.ended, self.failed)]
        return [context for found in ordered for _, context in found]

    @property
    def status(self) -> tuple[str, str]:
        """What the errors of the branches make of the run, and why."""
        errors = [context.error for _, context in self.failed if context.error]
        limits = [error.exception for error in errors if isinstance(error.exception, BudgetExceeded)]
        return "budget" if limits else "failed" if errors else "finished", str(limits[0]) if limits else ""

    def outputs(self, keys: Iterable[str]) -> dict[str, list[object]]:
        """The values of keys in all contexts without an error; keys that none has are left out."""
        good = [context for context in self.contexts if context.error is None]
        return {
            key: [value for context in good for value in context.get(key, ())]
            for key in keys
            if any(key in context for context in good)
        }

    def plain(self) -> tuple[RunResult, ...]:
        """All contexts as the last event tells them."""
        return tuple([_plain(context) for context in self.contexts])


def _plain(context: Context) -> RunResult:
    return RunResult(
        trace=context.trace.text(),
        trace_timed=context.trace.text(timed=True),
        trace_unfolded=context.trace.unfolded() if context.trace.has_folds else "",
        context=context.values_copy(),
        error=context.error.info if context.error else None,
        error_agent=context.error.agent if context.error else "",
    )


def outputs_of(event: RunFinished, flow: Flow) -> dict[str, list[object]]:
    """What a run has made: the outputs its flow declares, else all keys but its inputs."""
    if flow.outputs:
        return event.outputs
    inputs = {item.key for item in flow.inputs}
    outputs: dict[str, list[object]] = {}
    for result in event.results:
        if result.error is None:
            for key, values in result.context.items():
                if key not in inputs and not key.startswith("_"):
                    outputs.setdefault(key, []).extend(values)
    return outputs
