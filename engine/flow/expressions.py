"""Expressions of routes and operations, and prompts written in Jinja2; both run in the sandbox.

Names: a key is its single value when its list has one element, else the list; `all.KEY` is always the list. `passed`
(graders), `error`, `attempts`, `split.index` and `split.count` are provided and win over keys of the same name.
"""

import functools
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Template, TemplateSyntaxError, meta, nodes
from jinja2.environment import TemplateExpression
from jinja2.parser import Parser

from engine.errors import TemplateError
from engine.flow.context import Context
from engine.flow.sandbox import OverLimit, Sandbox, bounded_concat, plain, start_clock
from engine.flow.template import Parts, Slot

PROVIDED = frozenset(["all", "passed", "error", "attempts", "split"])
"""Names that are not keys."""
MAX_EXPRESSION = 10_000
"""Characters of an expression."""
MAX_TEMPLATE = 1_000_000
"""Characters of a Jinja2 template."""


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
    return _expression(source)[1]


def template_names(source: str) -> Names:
    """The names in a Jinja2 template; raises TemplateError when it does not compile."""
    return _template(source)[1]


def evaluate(source: str, context: Context, *, passed: bool | None = None) -> object:
    """The value of an expression as plain data; raises TemplateError with expression and values."""
    expression, names = _expression(source)
    try:
        start_clock()
        return plain(expression(_scope(context, passed)))
    except Exception as error:
        raise _failed("expression", source, names, context, error) from error


def holds(source: str, context: Context, *, passed: bool | None = None) -> bool:
    """Whether a condition holds; the text `false` does not, as answers of models are texts."""
    value = evaluate(source, context, passed=passed)
    return value.strip().lower() not in ("", "false") if isinstance(value, str) else bool(value)


def render(source: str, context: Context) -> Parts:
    """Expand a Jinja2 template, with slots where `[[key]]` is written in it; raises TemplateError."""
    template, names = _template(source)
    try:
        start_clock()
        text = bounded_concat(template.root_render_func(template.new_context(_scope(context, None))))
    except Exception as error:
        raise _failed("template", source, names, context, error) from error
    pieces = _SLOT_MARK.split(text)  # text, mark, text, mark, ..., text
    parts = [_slot(piece, context) if index % 2 else piece for index, piece in enumerate(pieces)]
    return tuple(part for part in parts if part)


def _scope(context: Context, passed: bool | None) -> dict[str, object]:
    scope: dict[str, object] = {key: values[0] if len(values) == 1 else values for key, values in context.items()}
    scope["all"] = context.values_copy()
    scope["error"] = str(context.error.exception) if context.error else None
    scope["attempts"] = context.attempts
    scope["split"] = {"index": context.split_index, "count": context.split_count}
    if passed is not None:
        scope["passed"] = passed
    return scope


# `[[key]]` in the text of a template becomes a mark no value can contain, as nobody knows its number. It is made of
# digits only, so that `{% filter upper %}` around it does no harm.
_NUMBER = str(secrets.randbits(64))
_SLOT = re.compile(r"\[\[([^\[\]|]{1,200})(?:\|(hidden))?\]\]")
_SLOT_MARK = re.compile(rf"\ue000{_NUMBER}:(\d+)\ue001")


def _mark(match: re.Match[str]) -> str:
    slot = (b"\2" if match[2] else b"\1") + match[1].encode("utf-8", "surrogatepass")
    return f"\ue000{_NUMBER}:{int.from_bytes(slot)}\ue001"


def _slot(digits: str, context: Context) -> str | Slot:
    number = int(digits)
    data = number.to_bytes((number.bit_length() + 7) // 8)
    slot = Slot(data[1:].decode("utf-8", "surrogatepass"), data[:1] == b"\2")
    return slot if slot.key in context else slot.source


class _TemplateSandbox(Sandbox):
    """Marks the slots while it parses."""

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        for data in template.find_all(nodes.TemplateData):
            data.data = _SLOT.sub(_mark, data.data)
        return template


@functools.cache
def _sandbox() -> Sandbox:
    return Sandbox()


@functools.cache
def _template_sandbox() -> Sandbox:
    return _TemplateSandbox()


@functools.lru_cache(maxsize=1024)
def _expression(source: str) -> tuple[TemplateExpression, Names]:
    try:
        if len(source) > MAX_EXPRESSION:
            raise OverLimit(f"it is longer than {MAX_EXPRESSION:,} characters")
        start_clock()
        compiled = _sandbox().compile_expression(source, undefined_to_none=False)
        assert isinstance(compiled, TemplateExpression)  # noqa: S101
        tree = Parser(_sandbox(), source, state="variable").parse_expression()
        whole = nodes.Template([nodes.Output([tree], lineno=1)], lineno=1)
        whole.set_environment(_sandbox())
        return compiled, _names(whole)
    except Exception as error:
        raise _wrong("expression", source, error) from error


@functools.lru_cache(maxsize=256)
def _template(source: str) -> tuple[Template, Names]:
    try:
        if len(source) > MAX_TEMPLATE:
            raise OverLimit(f"it is longer than {MAX_TEMPLATE:,} characters")
        start_clock()
        tree = _sandbox().parse(source)
        slots = {match[1] for data in tree.find_all(nodes.TemplateData) for match in _SLOT.finditer(data.data)}
        return _template_sandbox().from_string(source), _names(tree, frozenset(slots))
    except Exception as error:
        raise _wrong("template", source, error) from error


def _names(tree: nodes.Template, slots: frozenset[str] = frozenset()) -> Names:
    used = meta.find_undeclared_variables(tree) - {"range", "dict"}
    optional = {_key(node.node) for node in tree.find_all(nodes.Test) if node.name in ("defined", "undefined")}
    optional |= {_key(node.node) for node in tree.find_all(nodes.Filter) if node.name in ("default", "d")}
    from_all = {_key(node) for node in tree.find_all((nodes.Getattr, nodes.Getitem)) if _is_all(node)}
    keys = {name for name in used - PROVIDED | from_all if name}
    asked = frozenset(name for name in optional if name)
    return Names(frozenset(keys) - asked, asked, slots, frozenset(used) & PROVIDED)


def _key(node: nodes.Node | None) -> str:
    """The key a node stands for: `KEY`, `all.KEY`, `all["KEY"]`; else nothing."""
    if isinstance(node, nodes.Name):
        return str(node.name)
    if isinstance(node, nodes.Getattr) and _is_all(node):
        return str(node.attr)
    if isinstance(node, nodes.Getitem) and _is_all(node) and isinstance(node.arg, nodes.Const):
        return str(node.arg.value)
    return ""


def _is_all(node: nodes.Node) -> bool:
    inner = getattr(node, "node", None)
    return isinstance(inner, nodes.Name) and inner.name == "all"


def _wrong(kind: str, source: str, error: Exception) -> TemplateError:
    reason = error.message or "" if isinstance(error, TemplateSyntaxError) else str(error) or type(error).__name__
    message = f"The {kind} {_short(source)} is not valid: {reason.rstrip('.')}."
    return TemplateError(message, facts={kind: source[:2000]})


def _failed(kind: str, source: str, names: Names, context: Context, error: Exception) -> TemplateError:
    wanted = names.keys | names.optional
    values = {key: list(context[key]) for key in sorted(wanted) if key in context}
    facts = {kind: source[:2000], "value": _excerpt(values)}
    reason = str(error) or type(error).__name__
    hint = "A key may be missing: test it with `KEY is defined`." if "is undefined" in reason else ""
    return TemplateError(f"The {kind} {_short(source)} failed: {reason.rstrip('.')}.", hint=hint, facts=facts)


def _excerpt(values: Mapping[str, Sequence[object]]) -> str:
    try:
        return json.dumps(values, ensure_ascii=False, default=str)[:2000]
    except (ValueError, RecursionError):
        return ", ".join(values)


def _short(source: str) -> str:
    line = " ".join(source[:200].split())
    return f"`{line}`" if len(line) <= 80 else f"`{line[:77]}…`"
