"""The model requests of a run, one after the other: what each asked for, what went out, what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.events import AnyEvent, CompletionFinished, PromptReady, RequestFormed
from engine.formed_request import FormedRequest


@dataclass(slots=True, kw_only=True)
class Call:
    """One request of a run."""

    number: int
    """Within the run, from 1, in the order in which they began."""
    prompt: PromptReady
    request: FormedRequest | None = None
    """What went out last; None: nothing did, or an earlier version recorded the run."""
    finished: CompletionFinished | None = None
    """None: no answer came."""

    @property
    def place(self) -> str:
        """Agent and branch."""
        return f"{self.prompt.agent} {self.prompt.branch}".rstrip()


def calls(events: Sequence[AnyEvent]) -> list[Call]:
    """The requests of a run, in order."""
    found: dict[tuple[int, str, int], Call] = {}
    for event in events:
        if isinstance(event, PromptReady):
            key = event.step, event.branch, event.attempt
            found[key] = Call(number=len(found) + 1, prompt=event)
        elif isinstance(event, RequestFormed | CompletionFinished):
            call = found.get((event.step, event.branch, event.attempt))
            if call is not None and isinstance(event, RequestFormed):
                call.request = event.request
            elif call is not None and isinstance(event, CompletionFinished):
                call.finished = event
    return list(found.values())
