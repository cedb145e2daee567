"""Finds what is wrong with an expression, and where in it; for fields that check while it is typed."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from engine.errors import TemplateError
from engine.flow.expressions import expression_names
from engine.flow.report import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionFault:
    """A fault with its place, as positions in the text."""

    message: str
    start: int
    end: int
    """Behind the last character; equal to `start` when something is missing there."""


def expression_fault(
    source: str, known: Collection[str] | None = None, *, passed: bool = True
) -> ExpressionFault | None:
    """The first thing that is wrong, or None.

    `known` are the keys there are, None = any may be. `passed`: whether the verdict of a grader is at hand.
    """
    try:
        names = expression_names(source)
    except TemplateError as error:
        from engine.flow import compiler  # Jinja2 takes longer to import than the rest of the engine

        start, end = compiler.fault_place(source)
        return ExpressionFault(message=error.message, start=start, end=end)
    if known is None:
        return None
    if "passed" in names.provided and not passed and "passed" not in known:
        return _named("passed", source, "Only the routes of a grader have passed.")
    for key in sorted(names.keys - set(known)):
        return _named(key, source, f'Nothing provides the key "{key}"{did_you_mean(key, known) or "."}')
    return None


def _named(key: str, source: str, message: str) -> ExpressionFault:
    found = re.search(rf"(?<!\w){re.escape(key)}(?!\w)", source)
    start, end = found.span() if found else (0, len(source))
    return ExpressionFault(message=message, start=start, end=end)
