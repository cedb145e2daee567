"""Compiles expressions and Jinja2 templates, and finds the names in them; imported when the first one is met."""

import functools
import re
import secrets
from collections.abc import Callable, Mapping

from jinja2 import Template, TemplateSyntaxError, meta, nodes
from jinja2.environment import TemplateExpression
from jinja2.parser import Parser

from engine.errors import TemplateError
from engine.flow.expressions import PROVIDED, Names, short
from engine.flow.sandbox import OverLimit, Sandbox, bounded_concat, plain, start_clock
from engine.flow.template import Slot

MAX_EXPRESSION = 10_000
"""Characters of an expression."""
MAX_TEMPLATE = 1_000_000
"""Characters of a Jinja2 template."""

# `[[key]]` in the text of a template becomes a mark no value can contain, as nobody knows its number. It is made of
# digits only, so that `{% filter upper %}` around it does no harm.
_NUMBER = str(secrets.randbits(64))
_SLOT = re.compile(r"\[\[([^\[\]|]{1,200})(?:\|(hidden))?\]\]")
_SLOT_MARK = re.compile(rf"\ue000{_NUMBER}:(\d+)\ue001")

Scope = Mapping[str, object]


@functools.lru_cache(maxsize=1024)
def compile_expression(source: str) -> tuple[Callable[[Scope], object], Names]:
    """A function from names to the value as plain data, and the names used; raises TemplateError."""
    try:
        if len(source) > MAX_EXPRESSION:
            raise OverLimit(f"it is longer than {MAX_EXPRESSION:,} characters")
        start_clock()
        compiled = _sandbox().compile_expression(source, undefined_to_none=False)
        assert isinstance(compiled, TemplateExpression)  # noqa: S101
        tree = Parser(_sandbox(), source, state="variable").parse_expression()
        whole = nodes.Template([nodes.Output([tree], lineno=1)], lineno=1)
        whole.set_environment(_sandbox())
        return functools.partial(_evaluate, compiled), _names(whole)
    except Exception as error:
        raise _wrong("expression", source, error) from error


@functools.lru_cache(maxsize=256)
def compile_template(source: str) -> tuple[Callable[[Scope], list[str | Slot]], Names]:
    """A function from names to the parts of the text, and the names used; raises TemplateError."""
    try:
        if len(source) > MAX_TEMPLATE:
            raise OverLimit(f"it is longer than {MAX_TEMPLATE:,} characters")
        start_clock()
        tree = _sandbox().parse(source)
        slots = {match[1] for data in tree.find_all(nodes.TemplateData) for match in _SLOT.finditer(data.data)}
        template = _template_sandbox().from_string(source)
        return functools.partial(_render, template), _names(tree, frozenset(slots))
    except Exception as error:
        raise _wrong("template", source, error) from error


def _evaluate(expression: TemplateExpression, scope: Scope) -> object:
    start_clock()
    return plain(expression(scope))


def _render(template: Template, scope: Scope) -> list[str | Slot]:
    start_clock()
    text = bounded_concat(template.root_render_func(template.new_context(dict(scope))))
    pieces = _SLOT_MARK.split(text)  # text, mark, text, mark, ..., text
    return [_slot(piece) if index % 2 else piece for index, piece in enumerate(pieces) if piece]


def _mark(match: re.Match[str]) -> str:
    slot = (b"\2" if match[2] else b"\1") + match[1].encode("utf-8", "surrogatepass")
    return f"\ue000{_NUMBER}:{int.from_bytes(slot)}\ue001"


def _slot(digits: str) -> Slot:
    number = int(digits)
    data = number.to_bytes((number.bit_length() + 7) // 8)
    return Slot(data[1:].decode("utf-8", "surrogatepass"), data[:1] == b"\2")


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
    message = f"The {kind} {short(source)} is not valid: {reason.rstrip('.')}."
    return TemplateError(message, facts={kind: source[:2000]})
