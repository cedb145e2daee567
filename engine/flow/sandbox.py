"""The Jinja2 environment of expressions and templates: data in, data out, nothing else.

There is no loader, nothing can be changed, only whitelisted filters and methods exist, an undefined name is an error
unless it is asked about (`KEY is defined`), and whatever could grow or run without end is bounded: 2 seconds, 4 MiB.
"""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from jinja2 import StrictUndefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.lexer import Token, TokenStream
from jinja2.runtime import Context as JinjaContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.flow.context import text_of
from engine.flow.expressions import MAX_SECONDS

MAX_SIZE = 4 * 1024 * 1024
"""Characters of a text, or values in a list, that any step may make."""
MAX_TOKENS = 10_000
"""Words and signs of one expression or template; plain text between them is one."""
_MAX_BITS = 10_000

_Words = tuple[str, ...]
_FILTERS: _Words = ("abs", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last", "length")
_FILTERS += ("list", "map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort", "unique")
_TEXT_FILTERS: _Words = ("capitalize", "lower", "title", "trim", "upper", "wordcount")
_TEXT_METHODS: _Words = ("capitalize", "count", "endswith", "find", "isalpha", "isdigit", "isnumeric", "lower")
_TEXT_METHODS += ("lstrip", "removeprefix", "removesuffix", "rstrip", "split", "splitlines", "startswith", "strip")
_TEXT_METHODS += ("title", "upper")
_METHODS: dict[type, _Words] = {
    str: _TEXT_METHODS,
    list: ("count", "index"),
    tuple: ("count", "index"),
    dict: ("get", "items", "keys", "values"),
}
_LOOP: _Words = ("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0", "previtem")
_LOOP += ("nextitem", "cycle", "changed")
_FORMAT = re.compile(r"%(?:\((\w+)\))?[-+ #0]*(\d*)(?:\.(\d*))?[diouxXeEfFgGcrs%]")
_FORMAT_WIDTH = 1000
_MAX_DIGITS = 15

_clock = threading.local()


class OverLimit(Exception):
    """A bound of the sandbox was passed."""


def start_clock() -> None:
    """Begin the time an evaluation may take: of this thread, so that a busy machine does not count."""
    _clock.deadline = time.thread_time() + MAX_SECONDS


def check_clock() -> None:
    """Raise OverLimit when the time is over."""
    if time.thread_time() > getattr(_clock, "deadline", math.inf):
        raise OverLimit(f"it takes longer than {MAX_SECONDS:g} seconds")


def counted(values: Iterable[object]) -> Iterator[object]:
    """The values, as long as there is time."""
    for value in values:
        check_clock()
        yield value


def plain(value: object) -> object:
    """The value as plain data of bounded size; raises for anything that is not data."""
    return _plain(value, [MAX_SIZE], 0)


def _plain(value: object, rest: list[int], depth: int) -> object:
    if rest[0] % 64 == 0:
        check_clock()
    rest[0] -= len(value) if isinstance(value, str) else 1
    if rest[0] < 0 or depth > 100:
        _too_large()
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {text_of(key): _plain(entry, rest, depth + 1) for key, entry in value.items()}
    if isinstance(value, StrictUndefined):
        str(value)  # raises what is missing
    if isinstance(value, Iterable):
        return [_plain(entry, rest, depth + 1) for entry in value]
    raise SecurityError(f"a {type(value).__name__} is not data")


def bounded_text(value: object) -> str:
    """The text form of a value, as in prompts."""
    return value if isinstance(value, str) else text_of(plain(value))


def bounded_concat(parts: Iterable[str]) -> str:
    """The texts in one."""
    kept: list[str] = []
    size = 0
    for part in parts:
        check_clock()
        size += len(part)
        if size > MAX_SIZE:
            _too_large()
        kept.append(part)
    return "".join(kept)


def printed(value: object) -> str:
    """What `{{ value }}` prints: the values of a list are joined by a blank line, as in other templates."""
    if isinstance(value, str):
        return value
    data = plain(value)
    return bounded_concat(_with_separators(map(text_of, data), "\n\n")) if isinstance(data, list) else text_of(data)


class _Generator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - jinja's name
        self.write("environment.join_texts((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class Sandbox(ImmutableSandboxedEnvironment):
    """See the module."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(["**", "*", "+", "%"])
    concat = staticmethod(bounded_concat)

    def __init__(self) -> None:
        super().__init__(
            undefined=StrictUndefined, finalize=printed, keep_trailing_newline=True, autoescape=False, cache_size=0
        )
        self.globals = {"range": self.globals["range"], "dict": dict}
        known = self.filters
        self.filters = {name: known[name] for name in _FILTERS}
        self.filters.update({name: _on_text(known[name]) for name in _TEXT_FILTERS})
        self.filters.update(
            string=bounded_text,
            join=_join,
            replace=_replace,
            format=_format,
            tojson=_to_json,
            split=_split,
            sum=_sum,
            round=_round,
            truncate=_truncate,
            _counted=counted,
        )

    @staticmethod
    def join_texts(parts: tuple[object, ...]) -> str:
        """The operator `~`."""
        return bounded_concat(map(bounded_text, parts))

    def getattr(self, obj: object, attribute: str) -> object:
        """`data.name`: of a mapping the entry, else one of the allowed methods."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def getitem(self, obj: object, argument: object) -> object:
        """`data[name]`; a name that is no entry is never an attribute."""
        if isinstance(obj, Mapping | Sequence) and not (isinstance(obj, str) and isinstance(argument, str)):
            try:
                return obj[argument]  # type: ignore[call-overload]
            except (TypeError, LookupError):
                return self.undefined(obj=obj, name=str(argument)[:80])
        return super().getitem(obj, argument)

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Only the methods of data that read."""
        if type(obj).__module__ == "jinja2.runtime":
            return attr in _LOOP
        return any(isinstance(obj, kind) and attr in methods for kind, methods in _METHODS.items())

    def wrap_str_format(self, value: object) -> None:
        """No `str.format`; the filter `format` is there."""
        return

    def call(__self, __context: JinjaContext, __obj: object, *args: object, **kwargs: object) -> object:  # noqa: N805
        """Call a method, macro or `range`, as long as there is time."""
        check_clock()
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: JinjaContext, operator: str, left: object, right: object) -> object:
        """The operators whose result can be much larger than their operands."""
        check_clock()
        if operator == "%" and isinstance(left, str):
            return _format(left, *(right if isinstance(right, tuple) else (right,)))
        if operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            _check_size(len(left) + len(right))
        if operator == "*":
            _check_product(left, right)
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() * abs(right))
        return super().call_binop(context, operator, left, right)

    def _filter_test_common(self, *args: object, **kwargs: object) -> object:
        check_clock()  # between the items of map, select and reject
        return super()._filter_test_common(*args, **kwargs)  # type: ignore[arg-type]

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        stream = super()._tokenize(source, name, filename, state)
        return TokenStream(_limited(stream), name, filename)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        for loop in template.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
        return template


def _limited(tokens: Iterable[Token]) -> Iterator[Token]:
    # Compiling takes a time that goes with the tokens, whatever the length of the text.
    for count, token in enumerate(tokens):
        if count > MAX_TOKENS:
            raise OverLimit(f"it has more than {MAX_TOKENS:,} parts")
        yield token


def _join(values: Iterable[object], separator: str = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        values = [value[attribute] for value in values]  # type: ignore[index]
    return bounded_concat(_with_separators(map(bounded_text, values), bounded_text(separator)))


def _with_separators(parts: Iterable[str], separator: str) -> Iterator[str]:
    for index, part in enumerate(parts):
        if index and separator:
            yield separator
        yield part


def _replace(value: object, old: str, new: str, count: int = -1) -> str:
    text = bounded_text(value)
    found = text.count(old) if count < 0 else min(count, text.count(old))
    _check_size(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, count)


def _format(template: str, *args: object, **kwargs: object) -> str:
    places = _FORMAT.findall(template)
    if "%" in _FORMAT.sub("", template):
        raise ValueError(f"the format {template[:40]!r} is not understood")
    widths = [int(number[:9] or 0) for _, width, precision in places for number in (width, precision)]
    if max(widths, default=0) > _FORMAT_WIDTH:
        raise OverLimit(f"a format is wider than {_FORMAT_WIDTH} characters")
    given = plain(kwargs or (args[0] if len(args) == 1 and isinstance(args[0], Mapping) else args))
    texts = [bounded_text(value) for value in (given.values() if isinstance(given, dict) else _values(given))]
    longest = max(map(len, texts), default=0)
    # A name may be used at many places, a value without name at one.
    _check_size(
        len(template) + sum(widths) + (len(places) * longest if isinstance(given, dict) else sum(map(len, texts)))
    )
    return template % (given if isinstance(given, dict) else tuple(_values(given)))


def _values(data: object) -> list[object]:
    return data if isinstance(data, list) else [data]


def _on_text(function: Callable[..., object]) -> Callable[..., object]:
    # Their own str() would walk a nested list without bounds.
    return lambda value, *args, **kwargs: function(bounded_text(value), *args, **kwargs)


def _sum(values: Iterable[float], attribute: str | int | None = None, start: float = 0) -> float:
    total = _number(start)
    for value in values:
        total += _number(value if attribute is None else value[attribute])  # type: ignore[index]
    return total


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    if abs(precision) > _MAX_DIGITS or method not in ("common", "ceil", "floor"):
        raise ValueError(f"round takes at most {_MAX_DIGITS} digits and one of common, ceil, floor")
    if method == "common":
        return round(_number(value), precision)
    factor = 10.0**precision
    return (math.ceil if method == "ceil" else math.floor)(_number(value) * factor) / factor


def _number(value: object) -> float:
    if isinstance(value, int | float):
        return value
    raise TypeError(f"expected a number, found {bounded_text(value)[:40]!r}; use the filter int or float")


def _truncate(value: object, length: int = 255, end: str = "…") -> str:
    text = bounded_text(value)
    return text if len(text) <= length else text[: max(length - len(end), 0)] + end


def _to_json(value: object) -> str:
    return json.dumps(plain(value), ensure_ascii=False)


def _split(value: object, separator: str | None = None, maximum: int = -1) -> list[str]:
    return bounded_text(value).split(separator, maximum)


def _check_product(left: object, right: object) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    for many, times in ((left, right), (right, left)):
        if isinstance(many, str | list | tuple) and isinstance(times, int):
            _check_size(len(many) * times)


def _check_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise OverLimit("a number becomes too large")


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        _too_large()


def _too_large() -> NoReturn:
    raise OverLimit(f"the result is larger than {MAX_SIZE:,} characters or values")
