"""Makes the result of a cell of what the events of its run tell."""

import hashlib

import msgspec

from engine.comparison_values import CONTENT_KEPT, Cell, CellResult, CellStatus
from engine.completion import FinishReason
from engine.events import AnyEvent, CompletionFinished, ErrorInfo, PromptReady, RunFinished
from engine.flow.context import text_of
from engine.flow.flow import Flow


class CellWatch:
    """What the events of a cell's run told."""

    def __init__(self) -> None:
        self._prompt = ""
        self._last: CompletionFinished | None = None

    def take(self, event: AnyEvent) -> None:
        """Keep what the result will need."""
        if isinstance(event, PromptReady) and not self._prompt:
            told = msgspec.json.encode(event.turns)  # in which form a provider gets them is its own affair
            self._prompt = hashlib.blake2b(told, digest_size=8).hexdigest()
        elif isinstance(event, CompletionFinished):
            self._last = event

    def result(self, cell: Cell, run_id: str, finished: RunFinished, flow: Flow) -> CellResult:
        """The result of the cell."""
        last = self._last
        error = next((result.error for result in finished.results if result.error is not None), None)
        if error is None and finished.status not in ("finished", "budget"):
            error = ErrorInfo(type="GENERAL", name="", message=finished.reason)
        return CellResult(
            row=cell.row,
            profile=cell.profile,
            repeat=cell.repeat,
            status=self._status(finished),
            run_id=run_id,
            content=self._content(finished, flow)[:CONTENT_KEPT],
            reasoning=last.reasoning[:CONTENT_KEPT] if last else "",
            model=last.model if last else "",
            finish=last.finish_reason.value if last else "",
            prompt=self._prompt,
            statistics=msgspec.structs.replace(
                finished.statistics, first_token=last.statistics.first_token if last else None
            ),
            error=error,
        )

    def _status(self, finished: RunFinished) -> CellStatus:
        if finished.status == "budget":
            return CellStatus.BUDGET
        if finished.status != "finished":
            return CellStatus.FAILED
        last = self._last
        if last is not None and last.no_answer:
            return CellStatus.NO_ANSWER
        if last is not None and last.finish_reason in (FinishReason.TOKEN_LIMIT_REACHED, FinishReason.ERROR):
            return CellStatus.CUT_OFF
        return CellStatus.ANSWERED

    def _content(self, finished: RunFinished, flow: Flow) -> str:
        """The outputs that a flow declares, else what its last agent said."""
        if not flow.outputs:
            return self._last.content if self._last else ""
        made = {key: [text_of(value) for value in values] for key, values in finished.outputs.items()}
        if len(made) == 1:
            return "\n".join(next(iter(made.values())))
        return "\n\n".join(f"{key}:\n" + "\n".join(values) for key, values in made.items())
