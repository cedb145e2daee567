"""Flow files: `*.flow.json` to FlowSpec and back, in one canonical form (docs/flow-format.md).

Fields the format does not know are kept in `extra`, reported as warnings and written back. Loading runs nothing.
"""

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import inspect

from engine.atomic_file import read_limited, write_atomically
from engine.errors import FlowFileError, Problem, StorageError
from engine.flow.flow_spec import FORMAT, VERSION, FlowSpec, Spec
from engine.flow.json_places import member as _member
from engine.flow.json_places import placed
from engine.flow.report import did_you_mean
from engine.flow.strict_json import decode_text, parse_json

SIZE_LIMIT = 20_000_000
"""Bytes a flow file may have."""

_ALWAYS_WRITTEN = {("RouteSpec", "to"), ("HandlerSpec", "type"), ("InputSpec", "type"), ("FlowSpec", "start")}
"""Fields a reader looks for even when they have their default."""
_LAST = {"editor", "positions"}
"""Fields that come after the unknown ones, so that the places on the canvas end the file."""
_POSITIONS = "\0positions"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFlow:
    """A flow as it was read."""

    spec: FlowSpec
    problems: tuple[Problem, ...] = ()
    """Warnings about the file itself, unknown fields for instance; errors only after a tolerant reading."""
    read_only: bool = False
    """The file is of a newer version: saving it here would lose what only that version knows."""
    digest: str = ""
    """SHA-256 of the bytes read, to notice that the file was changed by someone else."""
    origin: str = field(default="", compare=False)
    """The path of the file, `sample:NAME`, or empty: where the files of sub-flows are looked for."""
    text: str = field(default="", compare=False, repr=False)
    """The text that was read, after a tolerant reading only."""


def load_flow(path: str | os.PathLike[str], *, tolerant: bool = False) -> LoadedFlow:
    """Read a flow file; raises FlowFileError that names file and line or JSON path, what was found and expected.

    `tolerant` is for checks only: values of a wrong shape are errors among the problems, and others stand in for them.
    """
    name = os.fspath(path)
    try:
        data = read_limited(name, SIZE_LIMIT)
    except StorageError as error:
        raise FlowFileError(error.message, hint=error.hint, facts=error.facts) from error
    return read_flow(data, name=name, tolerant=tolerant, origin=str(Path(name).absolute()))


def read_flow(text: str | bytes, *, name: str = "flow", tolerant: bool = False, origin: str = "") -> LoadedFlow:
    """Read a flow from its JSON text as `load_flow` does; `name` stands for the file in messages."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    source = decode_text(data, name)
    raw = parse_json(source, name)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        found = raw.get("format") if isinstance(raw, dict) else raw
        raise _fault(name, "$.format", found, f'"{FORMAT}", the mark of a flow file')
    version = raw.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _fault(name, "$.version", version, f"a version number, {VERSION} for instance")
    problems: list[Problem] = []
    if version > VERSION:
        problems.append(_newer(name, version))
    fields = {key: value for key, value in raw.items() if key not in ("format", "version")}
    spec = _Reader(name, problems).value(fields, _shape(), "$")
    assert isinstance(spec, FlowSpec)  # noqa: S101 - what _shape describes
    faults = [problem for problem in problems if problem.severity == "error"]
    if faults and not tolerant:
        raise _refusal(name, faults, source)
    digest = hashlib.sha256(data).hexdigest()
    return LoadedFlow(
        spec=spec,
        problems=tuple(problems),
        read_only=version > VERSION,
        digest=digest,
        origin=origin,
        text=source if tolerant else "",
    )


def flow_text(spec: FlowSpec) -> str:
    """The canonical text: fields in declared order, defaults left out, a line for each position, positions last.

    Half characters (lone surrogates) become U+FFFD. Raises FlowFileError for what JSON cannot hold otherwise.
    """
    plain = _plain_struct(spec, _shape())
    head = {key: plain[key] for key in ("$schema",) if key in plain}
    document = head | {"format": FORMAT, "version": VERSION} | plain
    positions = spec.editor.positions
    try:
        text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
        # The last one: nothing is written after the positions, so a text that looks like the mark is never meant.
        before, mark, after = text.rpartition(json.dumps(_POSITIONS))
        if mark and positions:
            text = before + _position_lines(positions) + after
    except (ValueError, TypeError, RecursionError) as error:
        message = f"The flow {spec.name!r} holds something a JSON file cannot: {error}."
        raise FlowFileError(message) from error
    return _whole_characters(text) + "\n"


def _whole_characters(text: str) -> str:
    """The text with half characters (lone surrogates), which UTF-8 cannot hold, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def save_flow(spec: FlowSpec, path: str | os.PathLike[str]) -> str:
    """Save atomically in canonical form and return the new digest; raises FlowFileError or StorageError."""
    data = flow_text(spec).encode("utf-8")
    write_atomically(Path(path), data)
    return hashlib.sha256(data).hexdigest()


MAX_PROBLEMS = 2000
"""Faults of the shape that are told; a file with more is refused at once. Unknown fields are told up to half of it."""


@functools.cache
def _shape() -> inspect.StructType:
    shape = inspect.type_info(FlowSpec)
    assert isinstance(shape, inspect.StructType)  # noqa: S101
    return shape


class _Reader:
    """Turns plain JSON values into the structs of flow_spec, by their declared types.

    A value of another type becomes an error among the problems; something of the declared type stands in for it.
    """

    def __init__(self, name: str, problems: list[Problem]) -> None:
        self.name = name
        self.problems = problems

    def value(self, value: object, kind: inspect.Type, path: str) -> object:
        match kind:
            case inspect.UnionType(types):
                return None if value is None else self.value(value, _not_none(types), path)
            case inspect.StructType() if isinstance(value, dict):
                return self.struct(value, kind, path)
            case inspect.DictType(_, item) if isinstance(value, dict):
                return {key: self.value(entry, item, _member(path, key)) for key, entry in value.items()}
            case inspect.VarTupleType(item) if isinstance(value, list):
                return tuple([self.value(entry, item, f"{path}[{i}]") for i, entry in enumerate(value)])
            case inspect.TupleType(items) if isinstance(value, list) and len(value) == len(items):
                return tuple([self.value(entry, items[i], f"{path}[{i}]") for i, entry in enumerate(value)])
        return self.scalar(value, kind, path)

    def scalar(self, value: object, kind: inspect.Type, path: str) -> object:
        match kind:
            case inspect.CustomType():  # `object`: any JSON value
                return value
            case inspect.EnumType(cls) if value in [member.value for member in cls]:
                return cls(value)
            case inspect.LiteralType(values) if isinstance(value, str) and value in values:
                return value
            case inspect.FloatType() if type(value) in (int, float):
                return self.number(value, kind, path)
            case inspect.StrType() | inspect.BoolType() | inspect.IntType() if type(value) is _SCALARS[type(kind)]:
                return value
        return self.fault(path, _shown(value), kind)

    def fault(self, path: str, found: str, kind: inspect.Type) -> object:
        if len(self.problems) >= MAX_PROBLEMS:
            raise _refusal(self.name, [problem for problem in self.problems if problem.severity == "error"])
        message = f"Found {found}, expected {_expected(kind)}."
        self.problems.append(Problem(severity="error", message=message, file=self.name, path=path))
        return _stand_in(kind)

    def struct(self, value: dict[str, object], kind: inspect.StructType, path: str) -> object:
        fields = _fields(kind)
        values: dict[str, object] = {}
        for key, known in fields.items():
            if key in value:
                values[known.name] = self.value(value[key], known.type, _member(path, key))
            elif known.required:
                values[known.name] = self.fault(_member(path, key), "nothing", known.type)
        unknown = {key: entry for key, entry in value.items() if key not in fields}
        if unknown:
            values["extra"] = unknown
            self.problems.extend(self.unknown(unknown, list(fields), path))
        return kind.cls(**values)

    def unknown(self, unknown: dict[str, object], known: list[str], path: str) -> Iterator[Problem]:
        for key in islice(unknown, max(0, MAX_PROBLEMS // 2 - len(self.problems))):
            message = (
                f'The field "{key[:80]}" is unknown, it is kept and has no effect{did_you_mean(key, known) or "."}'
            )
            yield Problem(severity="warning", message=message, file=self.name, path=_member(path, key))

    def number(self, value: object, kind: inspect.Type, path: str) -> object:
        try:
            return float(value)  # type: ignore[arg-type]
        except OverflowError:
            return self.fault(path, "a very large number", kind)


def _plain(value: object, kind: inspect.Type) -> object:
    match kind:
        case inspect.UnionType(types):
            return None if value is None else _plain(value, _not_none(types))
        case inspect.StructType() if isinstance(value, Spec):
            return _plain_struct(value, kind)
        case inspect.VarTupleType(item) if isinstance(value, tuple):
            return [_plain(entry, item) for entry in value]
        case inspect.FloatType() if isinstance(value, float):
            return _tidy(value)
    return value.value if isinstance(value, Enum) else value


def _plain_struct(value: Spec, kind: inspect.StructType) -> dict[str, object]:
    plain: dict[str, object] = {}
    last: dict[str, object] = {}
    for key, known in _fields(kind).items():
        entry = getattr(value, known.name)
        if known.required or (kind.cls.__name__, key) in _ALWAYS_WRITTEN or entry != _default(known):
            (last if key in _LAST else plain)[key] = _POSITIONS if key == "positions" else _plain(entry, known.type)
    plain.update({key: entry for key, entry in value.extra.items() if key not in plain})
    return plain | last


def _tidy(value: float) -> int | float:
    """The number as a person writes it: 120 instead of 120.0."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _position_lines(positions: dict[str, tuple[float, float]]) -> str:
    lines = [f"      {json.dumps(name, ensure_ascii=False)}: {_pair(*place)}" for name, place in positions.items()]
    return "{\n" + ",\n".join(lines) + "\n    }"


def _pair(x: float, y: float) -> str:
    return json.dumps([_tidy(float(x)), _tidy(float(y))], allow_nan=False)


@functools.cache
def _struct_fields(cls: type) -> dict[str, inspect.Field]:
    kind = inspect.type_info(cls)
    assert isinstance(kind, inspect.StructType)  # noqa: S101
    return {field.encode_name: field for field in kind.fields if field.name != "extra"}


def _fields(kind: inspect.StructType) -> dict[str, inspect.Field]:
    return _struct_fields(kind.cls)


def _default(field: inspect.Field) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        factory: object = field.default_factory
        return factory() if callable(factory) else None
    return field.default


def _not_none(types: tuple[inspect.Type, ...]) -> inspect.Type:
    """The one type of a field that may also be null."""
    return next(kind for kind in types if not isinstance(kind, inspect.NoneType))


def _stand_in(kind: inspect.Type) -> object:
    """A value of this type, so that the check can go on: as empty as can be."""
    match kind:
        case inspect.UnionType(types):
            # Not None, which would raise the question why nothing is there; but no choice is better than a wrong one.
            plain = _not_none(types)
            return None if isinstance(plain, inspect.LiteralType | inspect.StructType) else _stand_in(plain)
        case inspect.StructType(cls):
            required = [field for field in _fields(kind).values() if field.required]
            return cls(**{field.name: _stand_in(field.type) for field in required})
        case inspect.TupleType(items):
            return tuple([_stand_in(item) for item in items])
        case inspect.EnumType(cls):
            return next(iter(cls))
        case inspect.LiteralType(values):
            return values[0]
    return _EMPTY[type(kind)]()


def _expected(kind: inspect.Type) -> str:
    match kind:
        case inspect.EnumType(cls):
            return "one of " + ", ".join(str(member.value) for member in cls)
        case inspect.LiteralType(values):
            return ("one of " if len(values) > 1 else "") + ", ".join(str(value) for value in values)
        case inspect.TupleType(items):
            return f"a list of {len(items)} numbers"
    return _EXPECTED.get(type(kind), "another value")


_SCALARS: dict[type, type] = {inspect.StrType: str, inspect.BoolType: bool, inspect.IntType: int}
_EXPECTED: dict[type, str] = {
    inspect.StructType: "an object",
    inspect.DictType: "an object",
    inspect.VarTupleType: "a list",
    inspect.StrType: "a text",
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
}


_EMPTY: dict[type, Callable[[], object]] = {
    inspect.DictType: dict,
    inspect.VarTupleType: tuple,
    inspect.StrType: str,
    inspect.BoolType: bool,
    inspect.IntType: int,
    inspect.FloatType: float,
}


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def _fault(name: str, path: str, found: object, expected: str) -> FlowFileError:
    shown = "nothing" if found is None and path in ("$.format", "$.version") else _shown(found)
    message = f"{name}, {path}: found {shown}, expected {expected}."
    return FlowFileError(message, facts={"file": name, "path": path})


def _refusal(name: str, faults: Sequence[Problem], text: str = "") -> FlowFileError:
    first, more = faults[0], len(faults) - 1
    message = f"{name}, {first.path}: {first.message[0].lower()}{first.message[1:]}"
    if more:
        message += f" (and {more} more)"
    problems = placed(faults, text)
    return FlowFileError(message, facts={"file": name, "path": first.path}, problems=problems)


def _newer(name: str, version: int) -> Problem:
    message = f"The file has version {version}, this program knows version {VERSION}: it is opened read-only."
    return Problem(severity="warning", message=message, file=name, path="$.version")
