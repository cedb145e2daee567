"""What one step did to its context: every key after it, beside what it was before. Qt-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from engine.events import REPLAY
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import Step

Values = Mapping[str, Sequence[object]]


class Change(StrEnum):
    """What became of a key."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """One key and its values."""

    key: str
    change: Change
    before: Sequence[object] | None = None
    after: Sequence[object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """The context of one branch of a step."""

    branch: str
    before: Values | None
    """None when it is not known: inside of a node, and where an older version recorded the run."""
    after: Values | None
    """None before the context left the step."""


def step_contexts(model: RunModel, step: Step) -> list[StepContext]:
    """The contexts that left a step, in order; before one did, the one that came in."""
    before = _came_in(model, step)
    if not step.left:
        return [StepContext(branch=step.path, before=before, after=None)]
    return [StepContext(branch=branch, before=before, after=values) for branch, values in step.left]


def _came_in(model: RunModel, step: Step) -> Values | None:
    source = model.steps.get(step.from_step)
    if source is None:
        first = step.from_step == 0 and not step.within and model.origin in ("", REPLAY)
        return model.inputs if first else None
    for branch, values in source.left:
        if branch == step.path:
            return values
    # It was merged on its way: what all that came in have alike is what it had before.
    return None if not source.left else _alike([values for _, values in source.left])


def _alike(contexts: Sequence[Values]) -> Values:
    first, *others = contexts
    return {key: values for key, values in first.items() if all(other.get(key) == values for other in others)}


def changes(context: StepContext) -> list[KeyChange]:
    """Every key, what changed first; without a before or an after nothing counts as changed."""
    before, after = context.before, context.after
    if before is None or after is None:
        known = before if after is None else after
        return [
            KeyChange(key=key, change=Change.SAME, before=None if before is None else values,
                      after=None if after is None else values)
            for key, values in (known or {}).items()
        ]  # fmt: skip
    rows = []
    for key in [*after, *(key for key in before if key not in after)]:
        old, new = before.get(key), after.get(key)
        if old is None:
            change = Change.ADDED
        elif new is None:
            change = Change.REMOVED
        else:
            change = Change.SAME if old is new or old == new else Change.CHANGED
        rows.append(KeyChange(key=key, change=change, before=old, after=new))
    order = list(Change)
    return sorted(rows, key=lambda row: order.index(row.change))


def values_text(values: Sequence[object] | None) -> str:
    """A single text as it is, anything else as JSON; several values as a list."""
    if not values:
        return ""
    if len(values) == 1:
        value = values[0]
        return value if isinstance(value, str) else _json(value)
    return _json(list(values))


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()


def short_text(values: Sequence[object] | None) -> str:
    """One line for a table."""
    if values is None:
        return ""
    if len(values) == 1:
        value = values[0]
        return " ".join((value[:300] if isinstance(value, str) else _json(value)[:300]).split())
    return f"[{len(values)}]  " + ", ".join(" ".join(str(value)[:60].split()) for value in values[:5])
