"""What commands are given: flows by file or name, inputs as options and files."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import typer

from engine import bundled
from engine.atomic_file import read_limited
from engine.cli_text import with_hint
from engine.clients.tape_file import RecordedTape
from engine.errors import EngineError, FlowError, FlowFileError, FlowInvalid, Problem, StorageError
from engine.flow.flow_check import check_loaded
from engine.flow.flow_file import SIZE_LIMIT, LoadedFlow, load_flow, read_flow
from engine.flow.strict_json import decode_text, parse_json
from engine.flow.subflow_files import SAMPLE
from engine.flow_access import known_plugins
from engine.profile_store import ProfileStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedTape:
    """A wire tape that answers instead of servers."""

    tape: RecordedTape
    speed: float
    """As for `Engine.replaying`."""


def played_tape(file: Path | None, speed: str | None) -> PlayedTape | None:
    """The tape of `--replay` at the speed of `--speed`, at once unless told otherwise; wrong ones end the command."""
    if file is None:
        if speed is not None:
            usage("--speed goes with --replay.")
        return None
    factor = 0.0
    if speed is not None and speed != "max":
        try:
            factor = float(speed)
        except ValueError:
            factor = -1.0
        if not 1 <= factor < float("inf"):
            usage(f'--speed: found "{speed}", expected max or a number from 1 (as it was) on.')
    try:
        return PlayedTape(tape=RecordedTape(file), speed=factor)
    except StorageError as error:
        usage(f"--replay: {error}")


def open_flow(name: str, *, tolerant: bool = False) -> LoadedFlow:
    """A flow by path, or a sample by its name or title; raises FlowFileError, or FlowError when there is neither."""
    if flow_file(name) is not None:
        return load_flow(name, tolerant=tolerant)
    sample = sample_named(name)
    if sample is not None:
        return _read_sample(sample, tolerant=tolerant)
    known = ", ".join(_samples())
    raise FlowError(f'There is no flow file and no sample named "{name}".', hint=f"Samples: {known}.")


def flow_file(name: str) -> Path | None:
    """The file `open_flow` reads; None for a sample."""
    return Path(name) if Path(name).is_file() or "/" in name or name.endswith(".json") else None


def sample_named(name: str) -> str | None:
    """The sample of this name, or of this title however it is capitalised: `Release announcement`."""
    samples = _samples()
    if name in samples:
        return name
    wanted = name.strip().casefold()
    return next((sample for sample in samples if _read_sample(sample).spec.name.casefold() == wanted), None)


def _samples() -> list[str]:
    return bundled.names("resources", "flows", suffix=".flow.json")


def _read_sample(name: str, *, tolerant: bool = False) -> LoadedFlow:
    data = bundled.read_bytes("resources", "flows", f"{name}.flow.json")
    return read_flow(data, name=f"{name}.flow.json", origin=f"{SAMPLE}{name}", tolerant=tolerant)


def runnable(loaded: LoadedFlow, profiles: ProfileStore, file: Path | None) -> list[Problem]:
    """The warnings about a flow that was read tolerantly; raises FlowInvalid with all problems when one is an error.

    They stand in the order of the file.

    `file` is the flow's; None for a sample.
    """
    plugins = known_plugins(loaded.spec, file)
    name = loaded.origin.removeprefix(SAMPLE) if file is None else str(file)
    problems = by_place(check_loaded(loaded, profiles=profiles, plugins=plugins, file=name))
    if any(problem.severity == "error" for problem in problems):
        raise FlowInvalid.of(problems)
    return problems


def by_place(problems: Iterable[Problem]) -> list[Problem]:
    """The problems from the top of their file to its bottom; those without a place, and of other files, behind."""
    found = list(problems)
    files = list(dict.fromkeys(problem.file for problem in found))
    return sorted(
        found, key=lambda problem: (files.index(problem.file), not problem.line, problem.line, problem.column)
    )


def as_problem(error: EngineError, file: str) -> Problem:
    """An error about a file as one of its problems, without the place its message begins with."""
    line, column, path = (error.facts.get(key, "") for key in ("line", "column", "path"))
    message = error.message
    for place in (f"{file}:{line}:{column}: ", f"{file}, {path}: ", f"{file}: ", f"Cannot read {file}: "):
        if message.startswith(place):
            message = message.removeprefix(place)
            message = f"{message[:1].upper()}{message[1:]}"
            break
    return Problem(
        severity="error",
        message=with_hint(message, error.hint),
        file=file,
        line=int(line or 0),
        column=int(column or 0),
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
