"""Rows of CSV and JSONL files, one after the other: files of any size, rows within a limit (docs/batch.md)."""

import asyncio
import contextlib
import csv
import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from engine.atomic_file import open_regular
from engine.csv_text import DELIMITERS, delimiter_of
from engine.errors import DatasetInvalid, FlowFileError, FlowInvalid, Problem, StorageError
from engine.flow.context import Context
from engine.flow.flow_inputs import input_values, inputs_context
from engine.flow.flow_spec import FlowSpec
from engine.flow.report import did_you_mean
from engine.flow.strict_json import parse_json

ROW_LIMIT = 20_000_000
"""Bytes of one row."""
COLUMN_LIMIT = 1_000
ROWS_AHEAD, CHARACTERS_AHEAD = 32, 1_000_000
"""What is read from the file at once."""
FAULTS_KEPT = 100
"""Faulty rows of a check that are told one by one; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a dataset."""

    index: int
    """From 1, faulty rows included."""
    line: int
    """Where it begins in the file, from 1."""
    values: Mapping[str, object] = field(default_factory=dict)
    """By column: texts from CSV, any JSON value from JSONL."""
    fault: str = ""
    """Why the row cannot be read; empty for a good one."""

    @property
    def digest(self) -> str:
        """A hash of the values: with the index it is the identity of the row."""
        content = json.dumps([self.fault, self.values], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetCheck:
    """What reading a dataset once has shown."""

    rows: int
    """With the faulty ones."""
    faulty: int
    faults: tuple[Problem, ...]
    """The first FAULTS_KEPT faulty rows, each with its line."""
    warnings: tuple[str, ...]
    columns: tuple[str, ...]
    """In the order they first appear."""
    digest: str
    """A hash of the whole file."""


class Dataset:
    """A CSV or JSONL file. Making one reads nothing; `rows` opens the file, each time anew."""

    def __init__(self, path: Path, *, delimiter: str = "") -> None:
        """Take a file by its name's end; raises DatasetInvalid for any but `.csv`, `.jsonl` and `.ndjson`.

        Args:
            path: the file.
            delimiter: between the cells of a CSV file; missing = the comma, semicolon or tab its first line has most.
        """
        self.path = path
        self.is_csv = path.suffix.lower() == ".csv"
        if not self.is_csv and path.suffix.lower() not in (".jsonl", ".ndjson"):
            raise DatasetInvalid(f'{path}: found a file that ends with "{path.suffix}", expected .csv or .jsonl.')
        if delimiter and delimiter not in DELIMITERS:
            raise DatasetInvalid(
                f'Found the delimiter "{delimiter}", expected one of {", ".join(DELIMITERS.values())}.'
            )
        self.delimiter = delimiter
        """Of a CSV file; empty until it is known."""
        self.columns: tuple[str, ...] = ()
        """Of a CSV file, once its header was read."""

    @contextlib.contextmanager
    def rows(self, seen: Callable[[bytes], object] | None = None) -> Iterator[Iterator[Row]]:
        """Open the file and give its rows; `seen` gets every byte that was read.

        Raises DatasetInvalid, here or from the rows, for a file that cannot be opened, is no UTF-8 text, has no usable
        header, or a row over ROW_LIMIT.
        """
        with self._open() as file:
            lines = _Lines(file, str(self.path), seen)
            yield self._csv(lines) if self.is_csv else _jsonl(lines)

    def _open(self) -> BinaryIO:
        try:
            return open_regular(self.path)
        except StorageError as error:
            raise DatasetInvalid(error.message, hint=error.hint, facts=error.facts) from error

    def _csv(self, lines: "_Lines") -> Iterator[Row]:
        first = next(lines, "")
        self.delimiter = self.delimiter or delimiter_of(first)
        csv.field_size_limit(max(csv.field_size_limit(), ROW_LIMIT))
        cells = csv.reader(chain([first] if first else [], lines), delimiter=self.delimiter, strict=True)
        header = _header(cells, lines)
        self.columns = tuple(header)
        index = 0
        while True:
            line = lines.number + 1
            lines.size = 0
            try:
                found = next(cells)
            except StopIteration:
                return
            except csv.Error as error:
                index += 1
                yield Row(index=index, line=line, fault=_csv_fault(error))
                continue
            if not found:  # an empty line
                continue
            index += 1
            if len(found) != len(header):
                yield Row(index=index, line=line, fault=f"found {len(found)} cells, expected {len(header)}")
            else:
                yield Row(index=index, line=line, values=_named(header, found))


async def look_through(dataset: Dataset, spec: FlowSpec, given: Mapping[str, object]) -> DatasetCheck:
    """As `check_dataset`, in a thread, which ends when this is cancelled."""
    wanted = True
    try:
        return await asyncio.to_thread(check_dataset, dataset, spec, given, wanted=lambda: wanted)
    finally:
        wanted = False


def check_dataset(
    dataset: Dataset, spec: FlowSpec, given: Mapping[str, object], *, wanted: Callable[[], bool] = lambda: True
) -> DatasetCheck:
    """Read a dataset to its end: what it holds, which rows are faulty, and whether its columns fit a flow's inputs.

    `given` are the inputs that are the same for all rows. Raises as `Dataset.rows`, and DatasetInvalid with all
    problems when columns do not fit, or when it is not `wanted` any more.
    """
    digest = hashlib.sha256()
    columns: dict[str, None] = {}
    faults: list[Problem] = []
    rows = faulty = 0
    inputs = RowInputs(dataset, spec, given)
    with dataset.rows(digest.update) as found:
        for row in found:
            if not wanted():
                raise DatasetInvalid(f"{dataset.path}: reading was stopped.")
            rows += 1
            if len(columns) <= COLUMN_LIMIT:
                columns.update(dict.fromkeys(row.values))
            fault = inputs.fault(row)
            if fault:
                faulty += 1
                if len(faults) < FAULTS_KEPT:
                    faults.append(Problem(severity="error", message=fault, file=str(dataset.path), line=row.line))
    names = dataset.columns or tuple(columns)
    warnings = _check_columns([name for name in names if name], spec, given, str(dataset.path))
    if not rows:
        raise DatasetInvalid(f"{dataset.path}: found no rows.")
    return DatasetCheck(
        rows=rows,
        faulty=faulty,
        faults=tuple(faults),
        warnings=warnings,
        columns=names,
        digest=digest.hexdigest(),
    )


class RowInputs:
    """Turns rows into what a flow starts with."""

    def __init__(self, dataset: Dataset, spec: FlowSpec, given: Mapping[str, object]) -> None:
        """Take the dataset, whose folder holds the files it names, the flow, and the inputs of all rows."""
        self._folder = dataset.path.absolute().parent
        self._spec = spec
        self._given = given
        self._keys = {item.key for item in spec.inputs}
        self._files = {item.key for item in spec.inputs if item.type in ("file", "image")}

    def context(self, row: Row) -> Context:
        """The context of a row; raises ValueError that says what is wrong with the row."""
        if row.fault:
            raise ValueError(row.fault)
        columns = {key: value for key, value in self.placed(row).items() if key in self._keys}
        values = {**self._given, **columns}
        try:
            return inputs_context(self._spec, values)
        except FlowInvalid as error:
            raise ValueError("; ".join(problem.message.rstrip(".") for problem in error.problems)) from error

    def placed(self, row: Row) -> dict[str, object]:
        """All columns of a row, files among them by their whole paths; raises ValueError for files elsewhere."""
        files = {key: self._file(key, row.values[key]) for key in self._files.intersection(row.values)}
        return {**row.values, **files}

    def fault(self, row: Row) -> str:
        """What is wrong with a row; empty when nothing is."""
        try:
            self.context(row)
        except ValueError as error:
            return str(error)
        return ""

    def _file(self, key: str, value: object) -> object:
        """The path of a file, which must be in the dataset's folder: a dataset does not choose what else is read."""
        if not isinstance(value, str) or not value.strip():
            return value
        try:
            path = (self._folder / value).resolve()
        except (OSError, ValueError) as error:
            raise ValueError(f'The input "{key}": found {value!r}: {error}') from error
        if not path.is_relative_to(self._folder.resolve()):
            raise ValueError(f'The input "{key}": found "{value}", expected a file in the folder of the dataset')
        return str(path)


class RowReader:
    """Gives rows to workers, a few at a time, read in a thread."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self.ahead: deque[Row] = deque()
        """Read, but not taken yet."""
        self._turn = asyncio.Lock()
        self._stack = contextlib.ExitStack()
        self._rows: Iterator[Row] = iter(())

    def __enter__(self) -> "RowReader":
        self._rows = self._stack.enter_context(self._dataset.rows())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    async def take(self) -> Row | None:
        """The next row; None at the end."""
        async with self._turn:
            if not self.ahead:
                self.ahead.extend(await asyncio.to_thread(self._read))
            return self.ahead.popleft() if self.ahead else None

    def _read(self) -> list[Row]:
        found: list[Row] = []
        characters = 0
        for row in self._rows:
            found.append(row)
            characters += sum(len(value) for value in row.values.values() if isinstance(value, str))
            if len(found) >= ROWS_AHEAD or characters >= CHARACTERS_AHEAD:
                break
        return found


class _Lines:
    """The lines of a UTF-8 file as texts."""

    def __init__(self, file: BinaryIO, name: str, seen: Callable[[bytes], object] | None) -> None:
        self.name = name
        self.number = 0
        """Of the last line."""
        self.size = 0
        """Bytes since the row began; whoever takes a row sets it to 0."""
        self._file = file
        self._seen = seen
        self._offset = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        data = self._file.readline(ROW_LIMIT + 1 - self.size)
        if not data:
            raise StopIteration
        self.number += 1
        self.size += len(data)
        if self._seen is not None:
            self._seen(data)
        if self.number == 1:
            if data.startswith((b"\xff\xfe", b"\xfe\xff")) or data[:4].count(0) >= 2:
                raise DatasetInvalid(
                    f"{self.name}: found UTF-16 or binary data, expected UTF-8 text.", hint="Save the file as UTF-8."
                )
            data = data.removeprefix(b"\xef\xbb\xbf")
        if self.size > ROW_LIMIT:
            raise DatasetInvalid(
                f"{self.name}:{self.number}: found a row of more than {ROW_LIMIT:,} bytes.",
                hint="Look for a line without an end, or a quote that is not closed.",
                facts={"path": self.name, "line": str(self.number)},
            )
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DatasetInvalid(
                f"{self.name}:{self.number}: found the byte 0x{data[error.start]:02x} at byte {error.start + 1} of the"
                " line, expected UTF-8 text.",
                hint="Save the file as UTF-8.",
                facts={"path": self.name, "line": str(self.number)},
            ) from error
        return text


def _jsonl(lines: _Lines) -> Iterator[Row]:
    index = 0
    for text in lines:
        lines.size = 0
        if not text.strip():
            continue
        index += 1
        try:
            value = parse_json(text.rstrip("\r\n"), "row")
        except FlowFileError as error:
            place = f"column {error.facts['column']}: " if "column" in error.facts else ""
            reason = error.message.partition(": ")[2].replace("the end of the file", "the end of the line")
            yield Row(index=index, line=lines.number, fault=f"{place}{reason}".rstrip("."))
            continue
        if isinstance(value, dict):
            yield Row(index=index, line=lines.number, values=value)
        else:
            yield Row(index=index, line=lines.number, fault="found a JSON value that is no object")


def _header(cells: Iterator[list[str]], lines: _Lines) -> list[str]:
    try:
        header = next(cells, [])
    except csv.Error as error:
        raise DatasetInvalid(f"{lines.name}:1: {_csv_fault(error)}.") from error
    if not any(name.strip() for name in header):
        raise DatasetInvalid(f"{lines.name}:1: found no names of columns, expected them in the first line.")
    if len(header) > COLUMN_LIMIT:
        raise DatasetInvalid(f"{lines.name}:1: found {len(header)} columns, expected at most {COLUMN_LIMIT}.")
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise DatasetInvalid(f'{lines.name}:1: found the column "{twice[0]}" more than once.')
    return header


def _named(header: Sequence[str], cells: Sequence[str]) -> dict[str, object]:
    return {name: cell for name, cell in zip(header, cells, strict=True) if name}


def _csv_fault(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end of data" in text:
        return "found a quote that is not closed"
    if "new-line character" in text:
        return "found a carriage return without a line feed, expected lines that end with a line feed"
    return text


def _check_columns(columns: Sequence[str], spec: FlowSpec, given: Mapping[str, object], file: str) -> tuple[str, ...]:
    """Warnings about columns; raises DatasetInvalid with all that keeps a batch from beginning."""
    keys = [item.key for item in spec.inputs]
    problems = _check_given(spec, given)
    problems += [
        f'The input "{key}" is given for all rows and is a column, too; expected one of both.'
        for key in keys
        if key in given and key in columns
    ]
    for item in spec.inputs:
        if item.required and item.default is None and item.key not in columns and item.key not in given:
            near = did_you_mean(item.key, [name for name in columns if name not in keys])
            problems.append(f'There is no column for the input "{item.key}", which is required{near or "."}')
    if keys and not problems and not any(key in columns for key in keys):
        problems.append(f"None of the columns ({', '.join(columns[:10])}) is an input; inputs are {', '.join(keys)}.")
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise DatasetInvalid(
            f"{file}: {problems[0]}{more}",
            problems=[Problem(severity="error", message=text, file=file, line=1) for text in problems],
        )
    unknown = [name for name in columns if name not in keys]
    return tuple(
        f'The column "{name}" is no input of the flow and not used{did_you_mean(name, keys) or "."}'
        for name in unknown[:20]
    )


def _check_given(spec: FlowSpec, given: Mapping[str, object]) -> list[str]:
    """What is wrong with the inputs of all rows."""
    items = {item.key: item for item in spec.inputs}
    problems = []
    for key, value in given.items():
        if key not in items:
            problems.append(f'"{key}" is not an input of the flow{did_you_mean(key, items) or "."}')
            continue
        try:
            input_values(items[key], value)
        except ValueError as error:
            problems.append(f'The input "{key}": {error}.')
    return problems
