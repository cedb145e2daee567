"""Two recorded runs side by side: the same agent, pass and branch of each, and what differs."""

import difflib
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice

from engine.events import RunFinished
from engine.history_queries import RecordedRun
from engine.run_story import Branch, story

MOST_LINES = 2000
"""Lines of a text that are compared; more would take too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One branch of one pass of an agent, in both runs."""

    agent: str
    visit: int
    branch: str
    first: Branch | None
    """None: only the second run came there."""
    second: Branch | None
    prompt_changed: bool
    changed_keys: tuple[str, ...]
    """Keys whose values differ after it."""
    answer_difference: tuple[str, ...]
    """The lines of a unified difference; empty for equal answers."""

    @property
    def same(self) -> bool:
        """Whether nothing differs but time and cost."""
        both = self.first is not None and self.second is not None
        return both and not (self.prompt_changed or self.changed_keys or self.answer_difference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a branch or a run used."""

    requests: int = 0
    in_tokens: int = 0
    out_tokens: int = 0
    cost: Decimal = Decimal(0)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs."""

    first: RecordedRun
    second: RecordedRun
    pairs: tuple[Pair, ...]
    changed_inputs: tuple[str, ...]
    flow_changed: bool
    output_difference: dict[str, tuple[str, ...]]
    """Per output key that differs, the lines of a unified difference."""


def compare_runs(first: RecordedRun, second: RecordedRun) -> RunComparison:
    """Align two runs by agent, pass and branch; in the order of the first, then what only the second has."""
    left = {(one.agent, one.visit, one.branch): one for one in story(first.events)}
    right = {(one.agent, one.visit, one.branch): one for one in story(second.events)}
    keys = [*left, *(key for key in right if key not in left)]
    return RunComparison(
        first=first,
        second=second,
        pairs=tuple(_pair(key, left.get(key), right.get(key)) for key in keys),
        changed_inputs=_changed(first.inputs, second.inputs),
        flow_changed=first.flow_text != second.flow_text,
        output_difference=_outputs(first, second),
    )


def figures(branch: Branch | None) -> Figures:
    """What a branch used."""
    used = [attempt.statistics for attempt in branch.attempts if attempt.statistics] if branch is not None else []
    return Figures(
        requests=sum(one.requests for one in used),
        in_tokens=sum(one.in_tokens + one.cached_in_tokens for one in used),
        out_tokens=sum(one.out_tokens + one.reasoning_out_tokens for one in used),
        cost=sum((one.cost for one in used), Decimal(0)),
        seconds=sum(one.seconds for one in used),
    )


def difference(before: str, after: str) -> tuple[str, ...]:
    """The lines of a unified difference of two texts, without head; empty for equal ones."""
    if before == after:
        return ()
    lines = difflib.unified_diff(before.splitlines()[:MOST_LINES], after.splitlines()[:MOST_LINES], lineterm="", n=2)
    return tuple(islice(lines, 2, None)) or ("(differs after the lines that are compared, or in its line ends)",)


def _pair(key: tuple[str, int, str], first: Branch | None, second: Branch | None) -> Pair:
    agent, visit, branch = key
    both = first is not None and second is not None
    return Pair(
        agent=agent,
        visit=visit,
        branch=branch,
        first=first,
        second=second,
        prompt_changed=both and _asked(first) != _asked(second),
        changed_keys=_changed(first.values, second.values) if first is not None and second is not None else (),
        answer_difference=difference(first.answer, second.answer) if first is not None and second is not None else (),
    )


def _asked(branch: Branch | None) -> object:
    if branch is None or not branch.attempts:
        return None
    attempt = branch.attempts[0]
    return attempt.turns, attempt.parameters, attempt.profile


def _changed(first: dict[str, list[object]], second: dict[str, list[object]]) -> tuple[str, ...]:
    return tuple(key for key in {**first, **second} if first.get(key) != second.get(key))


def _outputs(first: RecordedRun, second: RecordedRun) -> dict[str, tuple[str, ...]]:
    left, right = _ended(first), _ended(second)
    found = {key: difference(_text(left.get(key)), _text(right.get(key))) for key in {**left, **right}}
    return {key: lines for key, lines in found.items() if lines}


def _ended(run: RecordedRun) -> dict[str, list[object]]:
    return next((event.outputs for event in reversed(run.events) if isinstance(event, RunFinished)), {})


def _text(values: list[object] | None) -> str:
    return "\n\n".join(map(str, values or ()))
