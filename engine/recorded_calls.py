"""The model requests of a run, one after the other: what each asked for, what went out, what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.events import AnyEvent, CompletionFinished, PromptReady, RequestFailed, RequestFormed
from engine.formed_request import FormedRequest
from engine.request_records import RequestRecord, RequestRecords


@dataclass(slots=True, kw_only=True)
class Call:
    """One request of a run."""

    number: int
    """Within the run, from 1, in the order in which they began."""
    prompt: PromptReady
    request: FormedRequest | None = None
    """What went out last; None: nothing did, or an earlier version recorded the run."""
    finished: CompletionFinished | RequestFailed | None = None
    """None: it is not over, or the program ended meanwhile."""
    record: RequestRecord | None = None
    """Its figures, once it is over."""

    @property
    def place(self) -> str:
        """Agent and branch."""
        return f"{self.prompt.agent} {self.prompt.branch}".rstrip()


def calls(events: Sequence[AnyEvent]) -> list[Call]:
    """The requests of a run, in order."""
    found: dict[tuple[int, str, int], Call] = {}
    records = RequestRecords()
    for event in events:
        record = records.add(event)
        if isinstance(event, PromptReady):
            key = event.step, event.branch, event.attempt
            found[key] = Call(number=len(found) + 1, prompt=event)
        elif isinstance(event, RequestFormed | CompletionFinished | RequestFailed):
            call = found.get((event.step, event.branch, event.attempt))
            if call is not None and isinstance(event, RequestFormed):
                call.request = event.request
            elif call is not None and not isinstance(event, RequestFormed):
                call.finished, call.record = event, record
    return list(found.values())
