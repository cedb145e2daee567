"""Expressions of routes and operations, and prompts written in Jinja2; both run in the sandbox.

Names: a key is its single value when its list has one element, else the list; `all.KEY` is always the list. `passed`
(graders), `error`, `attempts`, `split.index` and `split.count` are provided and win over keys of the same name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.errors import TemplateError
from engine.flow.context import Context
from engine.flow.template import Parts

PROVIDED = frozenset(["all", "passed", "error", "attempts", "split"])
"""Names that are not keys."""


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
        return expression(_scope(context, passed))
    except Exception as error:
        raise _failed("expression", source, expression_names(source), context, error) from error


def holds(source: str, context: Context, *, passed: bool | None = None) -> bool:
    """Whether a condition holds; the text `false` does not, as answers of models are texts."""
    value = evaluate(source, context, passed=passed)
    return value.strip().lower() not in ("", "false") if isinstance(value, str) else bool(value)


def render(source: str, context: Context) -> Parts:
    """Expand a Jinja2 template, with slots where `[[key]]` is written in it; raises TemplateError."""
    from engine.flow import compiler

    template = compiler.compile_template(source)
    try:
        parts = template(_scope(context, None))
    except Exception as error:
        raise _failed("template", source, template_names(source), context, error) from error
    return tuple(part if isinstance(part, str) or part.key in context else part.source for part in parts)


def short(source: str) -> str:
    """An expression or template in one line of a message."""
    line = " ".join(source[:200].split())
    return f"`{line}`" if len(line) <= 80 else f"`{line[:77]}…`"


def _scope(context: Context, passed: bool | None) -> dict[str, object]:
    scope: dict[str, object] = {key: values[0] if len(values) == 1 else values for key, values in context.items()}
    scope["all"] = context.values_copy()
    scope["error"] = str(context.error.exception) if context.error else None
    scope["attempts"] = context.attempts
    scope["split"] = {"index": context.split_index, "count": context.split_count}
    if passed is not None:
        scope["passed"] = passed
    return scope


def _failed(kind: str, source: str, names: Names, context: Context, error: Exception) -> TemplateError:
    wanted = names.keys | names.optional
    values = {key: list(context[key]) for key in sorted(wanted) if key in context}
    facts = {kind: source[:2000], "value": _excerpt(values)}
    reason = str(error) or type(error).__name__
    hint = "A key may be missing: test it with `KEY is defined`." if "is undefined" in reason else ""
    return TemplateError(f"The {kind} {short(source)} failed: {reason.rstrip('.')}.", hint=hint, facts=facts)


def _excerpt(values: Mapping[str, Sequence[object]]) -> str:
    try:
        return json.dumps(values, ensure_ascii=False, default=str)[:2000]
    except (ValueError, RecursionError):
        return ", ".join(values)
