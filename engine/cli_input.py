"""What commands are given: flows by file or name, inputs as options and files."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NoReturn

import typer

from engine import bundled
from engine.atomic_file import read_limited
from engine.errors import EngineError, FlowError, FlowFileError, Problem, StorageError
from engine.flow.flow_file import SIZE_LIMIT, LoadedFlow, load_flow, read_flow
from engine.flow.strict_json import decode_text, parse_json


def open_flow(name: str, *, tolerant: bool = False) -> LoadedFlow:
    """A flow by path or by the name of a sample; raises FlowFileError, or FlowError when there is neither."""
    if Path(name).is_file() or "/" in name or name.endswith(".json"):
        return load_flow(name, tolerant=tolerant)
    samples = bundled.names("resources", "flows", suffix=".flow.json")
    if name in samples:
        return read_flow(bundled.read_bytes("resources", "flows", f"{name}.flow.json"), name=f"{name}.flow.json")
    raise FlowError(f'There is no flow file and no sample named "{name}".', hint=f"Samples: {', '.join(samples)}.")


def as_problem(error: EngineError, file: str) -> Problem:
    """An error about a file as one of its problems, without the place its message begins with."""
    line, column, path = (error.facts.get(key, "") for key in ("line", "column", "path"))
    message = error.message
    for place in (f"{file}:{line}:{column}: ", f"{file}, {path}: ", f"{file}: ", f"Cannot read {file}: "):
        if message.startswith(place):
            message = message.removeprefix(place)
            message = f"{message[:1].upper()}{message[1:]}"
            break
    if column:
        message = f"{message.removesuffix('.')} (column {column})."
    return Problem(
        severity="error",
        message=f"{message} {error.hint}".strip(),
        file=file,
        line=int(line or 0),
        path=path if path.startswith("$") else "",
    )


def read_inputs(pairs: Sequence[str], file: Path | None, paths: Collection[str]) -> dict[str, object]:
    """Inputs from the options; those in `paths` are read by the flow itself, so `@FILE` gives their path."""
    values: dict[str, object] = {}
    if file is not None:
        try:
            document = parse_json(decode_text(read_limited(file, SIZE_LIMIT), str(file)), str(file))
        except (FlowFileError, StorageError) as error:
            usage(str(error))
        if not isinstance(document, dict):
            usage(f"{file}: found {type(document).__name__}, expected a JSON object with an entry per input.")
        values |= document
    for text in pairs:
        key, value = pair(text, "-i", "KEY=VALUE")
        if any("\ud800" <= character <= "\udfff" for character in text):
            usage(f"-i {key}: found bytes that are no text in this terminal's encoding.")
        if value.startswith("@") and key in paths:
            value = value[1:]
        elif value.startswith("@"):
            try:
                value = Path(value[1:]).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                usage(f"-i {key}: {error}")
        values[key] = value
    return values


def pair(text: str, option: str, form: str) -> tuple[str, str]:
    """The two sides of `KEY=VALUE`; refuses anything else."""
    key, sign, value = text.partition("=")
    if not sign or not key:
        usage(f'{option}: found "{text}", expected {form}.')
    return key, value


def usage(message: str) -> NoReturn:
    """Refuse a command: it was used wrongly."""
    raise typer.BadParameter(message)
