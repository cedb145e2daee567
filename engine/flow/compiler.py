"""Compiles expressions and Jinja2 templates, and finds the names in them; imported when the first one is met."""

import contextlib
import functools
import re
import secrets
from collections.abc import Callable, Iterator, Mapping

from jinja2 import Template, TemplateSyntaxError, meta, nodes
from jinja2.environment import TemplateExpression
from jinja2.parser import Parser

from engine.errors import TemplateError
from engine.flow.evaluation_faults import reason_of
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


@functools.lru_cache(maxsize=8192)
def expression_names(source: str) -> Names:
    """The names in an expression; raises TemplateError when it is not one."""
    with _reported("expression", source, MAX_EXPRESSION):
        tree = Parser(_sandbox(), source, state="variable")
        expression = tree.parse_expression()
        if not tree.stream.eos:
            raise TemplateSyntaxError(f"unexpected {tree.stream.current.value!r} after the expression", 1)
        whole = nodes.Template([nodes.Output([expression], lineno=1)], lineno=1)
        _check_functions(whole)
    return _names(whole, {str(name.name) for name in whole.find_all(nodes.Name)})


def fault_place(source: str) -> tuple[int, int]:
    """Where an expression that does not compile has its fault, as positions; its end if it is unfinished."""
    sandbox = _sandbox()
    places = _token_places(source)
    tree = Parser(sandbox, "", state="variable")
    try:
        tree = Parser(sandbox, source, state="variable")
        tree.parse_expression()
    except TemplateSyntaxError:
        pass  # it stopped at the token that does not fit
    except RecursionError:
        return 0, len(source)
    left = 0
    with contextlib.suppress(TemplateSyntaxError):  # what follows may not even be made of words and signs
        left = sum(1 for _ in tree.stream)
    index = len(places) - left
    if left and 0 <= index < len(places):
        return places[index][0], min(places[index][1], len(source))
    for name in re.findall(r"(?:\||\bis(?:\s+not)?)\s*(\w+)", source):
        if name not in sandbox.filters and name not in sandbox.tests:
            start = source.rindex(name)
            return start, start + len(name)
    return len(source), len(source)


def _token_places(source: str) -> list[tuple[int, int]]:
    """Start and end of each token, as far as there are any."""
    places, at = [], -2
    with contextlib.suppress(TemplateSyntaxError):
        for _, kind, text in _sandbox().lexer.tokeniter("{{" + source + "}}", None):
            if kind not in ("whitespace", "variable_begin", "variable_end"):
                places.append((at, at + len(text)))
            at += len(text)
    return places


@functools.lru_cache(maxsize=1024)
def template_names(source: str) -> Names:
    """The names in a Jinja2 template; raises TemplateError when it is not one."""
    with _reported("template", source, MAX_TEMPLATE):
        tree = _sandbox()._parse(source, None, None)  # `parse` would execute code to tidy the traceback of a fault
        _check_functions(tree)
        used = meta.find_undeclared_variables(tree)
    slots = {match[1] for data in tree.find_all(nodes.TemplateData) for match in _SLOT.finditer(data.data)}
    return _names(tree, used, frozenset(slots))


@functools.lru_cache(maxsize=1024)
def compile_expression(source: str) -> Callable[[Scope], object]:
    """A function from names to the value as plain data; raises TemplateError."""
    expression_names(source)
    with _reported("expression", source, MAX_EXPRESSION):
        compiled = _sandbox().compile_expression(source, undefined_to_none=False)
        assert isinstance(compiled, TemplateExpression)  # noqa: S101
    return functools.partial(_evaluate, compiled)


@functools.lru_cache(maxsize=256)
def compile_template(source: str) -> Callable[[Scope], list[str | Slot]]:
    """A function from names to the parts of the text; raises TemplateError."""
    template_names(source)
    with _reported("template", source, MAX_TEMPLATE):
        compiled = _template_sandbox().from_string(source)
    return functools.partial(_render, compiled)


@contextlib.contextmanager
def _reported(kind: str, source: str, limit: int) -> Iterator[None]:
    """Turn whatever goes wrong with a text into a TemplateError."""
    try:
        if len(source) > limit:
            raise OverLimit(f"it is longer than {limit:,} characters")
        start_clock()
        yield
    except Exception as error:
        message = f"The {kind} {short(source)} is not valid: {reason_of(error)}."
        raise TemplateError(message, facts={kind: source[:2000]}) from error


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


def _check_functions(tree: nodes.Template) -> None:
    for node in tree.find_all((nodes.Filter, nodes.Test)):
        known = _sandbox().filters if isinstance(node, nodes.Filter) else _sandbox().tests
        if node.name not in known:
            raise TemplateSyntaxError(f"there is no {type(node).__name__.lower()} {node.name!r}", node.lineno)


def _names(tree: nodes.Template, used: set[str], slots: frozenset[str] = frozenset()) -> Names:
    optional = {_key(node.node) for node in tree.find_all(nodes.Test) if node.name in ("defined", "undefined")}
    optional |= {_key(node.node) for node in tree.find_all(nodes.Filter) if node.name in ("default", "d")}
    from_all = {_key(node) for node in tree.find_all((nodes.Getattr, nodes.Getitem)) if _is_all(node)}
    keys = {name for name in used - PROVIDED - {"range", "dict"} | from_all if name}
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
