"""Expressions of routes and operations, and prompts written in Jinja2; both run in the sandbox.

Names: a key is its single value when its list has one element, else the list; `all.KEY` is always the list. `passed`
(graders), `error`, `attempts`, `split.index` and `split.count` are provided and win over keys of the same name.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.errors import TemplateError
from engine.flow.context import Context
from engine.flow.evaluation_faults import reason_of
from engine.flow.template import Parts, Slot

MAX_SECONDS = 2.0
"""Computing time of one evaluation."""
PROVIDED = frozenset(["all", "passed", "error", "attempts", "split"])
"""Names that are not keys."""
_SHOWN_VALUES, _SHOWN_CHARACTERS = 3, 40
"""How much of the values a message shows; the facts have more."""


@dataclass(frozen=True, slots=True)
class Names:
    """What an expression or template refers to."""

    keys: frozenset[str]
    """Context keys it needs."""
    optional: frozenset[str] = frozenset()
    """Keys it asks about (`is defined`, `default`), which may be missing."""
    slots: frozenset[str] = frozenset()
    """Keys that split it."""
    provided: frozenset[str] = frozenset()
    """Which of PROVIDED it uses."""


def expression_names(source: str) -> Names:
    """The names in an expression; raises TemplateError when it does not compile."""
    from engine.flow import compiler  # Jinja2 takes longer to import than the rest of the engine

    return compiler.expression_names(source)


def template_names(source: str) -> Names:
    """The names in a Jinja2 template; raises TemplateError when it does not compile."""
    from engine.flow import compiler

    return compiler.template_names(source)


def evaluate(source: str, context: Context, *, passed: bool | None = None) -> object:
    """The value of an expression as plain data; raises TemplateError with expression and values."""
    from engine.flow import compiler

    expression = compiler.compile_expression(source)
    try:
        return expression(scope(context, passed))
    except Exception as error:
        raise failed("expression", source, expression_names(source), context, reason_of(error)) from error


def holds(source: str, context: Context, *, passed: bool | None = None) -> bool:
    """Whether a condition holds; the text `false` does not, as answers of models are texts."""
    return is_true(evaluate(source, context, passed=passed))


def is_true(value: object) -> bool:
    """Whether a value counts as a condition that holds."""
    return value.strip().lower() not in ("", "false") if isinstance(value, str) else bool(value)


def render(source: str, context: Context) -> Parts:
    """Expand a Jinja2 template, with slots where `[[key]]` is written in it; raises TemplateError."""
    from engine.flow import compiler

    template = compiler.compile_template(source)
    try:
        parts = template(scope(context, None))
    except Exception as error:
        raise failed("template", source, template_names(source), context, reason_of(error)) from error
    return with_known_slots(parts, context)


def with_known_slots(parts: Iterable[str | Slot], context: Context) -> Parts:
    """The parts of a template; a slot of a key the context does not have stays as written."""
    return tuple(part if isinstance(part, str) or part.key in context else part.source for part in parts)


def short(source: str) -> str:
    """An expression or template in one line of a message."""
    line = " ".join(source[:200].split())
    return f"`{line}`" if len(line) <= 80 else f"`{line[:77]}…`"


def scope(context: Context, passed: bool | None) -> dict[str, object]:
    """What an expression sees."""
    names: dict[str, object] = {key: values[0] if len(values) == 1 else values for key, values in context.items()}
    names["all"] = context.values_copy()
    names["error"] = str(context.error.exception) if context.error else None
    names["attempts"] = context.attempts
    names["split"] = {"index": context.split_index, "count": context.split_count}
    if passed is not None:
        names["passed"] = passed
    return names


def failed(kind: str, source: str, names: Names, context: Context, reason: str) -> TemplateError:
    """What to raise when an evaluation failed for this reason."""
    wanted = names.keys | names.optional
    values = {key: list(context[key]) for key in sorted(wanted) if key in context}
    facts = {kind: source[:2000], "value": _excerpt(values)}
    hint = "A key may be missing: test it with `KEY is defined`." if reason.startswith("there is no key ") else ""
    given = f" with {_shown(values)}" if values and kind == "expression" else ""
    return TemplateError(f"The {kind} {short(source)} failed{given}: {reason.rstrip('.')}.", hint=hint, facts=facts)


def _shown(values: Mapping[str, Sequence[object]]) -> str:
    """The values an expression was given, in a few words."""
    first = list(itertools.islice(values.items(), _SHOWN_VALUES))
    more = f" and {len(values) - len(first)} more" if len(values) > len(first) else ""
    return ", ".join(f"{key} = {_shown_value(found)}" for key, found in first) + more


def _shown_value(values: Sequence[object]) -> str:
    if len(values) != 1:
        return f"{len(values):,} values" if values else "no value"
    value = values[0]
    whole = value if isinstance(value, str) else _excerpt(value)
    text = whole if len(whole) <= _SHOWN_CHARACTERS else f"{whole[: _SHOWN_CHARACTERS - 1]}…"
    return json.dumps(text, ensure_ascii=False) if isinstance(value, str) else text


def _excerpt(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)[:2000]
    except (ValueError, RecursionError):
        return "…"
