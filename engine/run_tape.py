"""The wire tape of one run: its calls, and all else a replay needs to come to the same without asking anybody."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from engine.clients.tape_lines import VERSION, TapedProfile, TapedResult, TapedTool, TapeEnd, TapeStart
from engine.clients.wire_tape import WireTape, now_text
from engine.errors import StorageError
from engine.events import AnyEvent, RunFinished, RunResult, ToolCalled
from engine.flow.flow import Flow
from engine.flow.frozen import Frozen
from engine.profile import Category, ModelProfile, ProfileRef
from engine.prompt_library import Prompt
from engine.redaction import HIDDEN, SECRETS, redact
from engine.run_prompts import RunPrompts

SUFFIX = ".tape.jsonl"


def tape_file(folder: Path, run_id: str) -> Path:
    """The tape of a run in a folder of tapes."""
    return folder / f"{run_id}{SUFFIX}"


def prune_tapes(folder: Path, *, most: int, most_bytes: int) -> None:
    """Delete the oldest tapes of a folder until so many, with so many bytes, are left."""
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            kept = path.stat()
        except OSError:
            continue
        found.append((kept.st_mtime_ns, kept.st_size, path))
    total = 0
    for number, (_, size, path) in enumerate(sorted(found, reverse=True), start=1):
        total += size
        if number > most or total > most_bytes:
            path.unlink(missing_ok=True)


class RunTape:
    """Writes the tape of one run."""

    def __init__(
        self,
        path: Path,
        *,
        run_id: str,
        flow: Flow,
        flow_text: str,
        inputs: Mapping[str, Sequence[object]],
        cache: str,
        patterns: Mapping[str, str],
        frozen: Sequence[Frozen],
        prompts: RunPrompts,
    ) -> None:
        """Begin the file; raises StorageError."""
        texts = {key: one for key, one in prompts.found.items() if isinstance(one, Prompt)}
        start = TapeStart(
            version=VERSION,
            recorded=now_text(),
            run_id=run_id,
            flow=flow.name,
            flow_text=_clean(flow_text),
            flow_origin=flow.origin,
            inputs={key: [_plain(value) for value in values] for key, values in inputs.items()},
            cache=cache,
            patterns=dict(patterns),
            frozen=_raw(frozen),
            prompts=_raw(texts),
        )
        self.wire = WireTape(path, start)
        self._profiles: set[str] = set()

    @property
    def error(self) -> StorageError | None:
        """Why the tape ends early; None when it does not."""
        return self.wire.error

    def resolved(self, ref: ProfileRef, profile: ModelProfile) -> None:
        """Note which profile was found for a reference, once."""
        name = ref_name(ref)
        if name and name not in self._profiles:
            self._profiles.add(name)
            headers = dict.fromkeys(profile.options.headers, HIDDEN)
            bare = replace(profile, api_key="", options=replace(profile.options, headers=headers))
            data = msgspec.json.encode(bare, enc_hook=str)
            self.wire.write(TapedProfile(ref=name, profile=msgspec.Raw(redact(data.decode(), SECRETS.values).encode())))

    def note(self, event: AnyEvent) -> None:
        """Take in what tools gave, and the end."""
        if isinstance(event, ToolCalled):
            self.wire.write(
                TapedTool(
                    id=event.call_id,
                    name=event.name,
                    arguments=event.arguments,
                    output=_clean(event.output),
                    failed=event.failed,
                )
            )
        elif isinstance(event, RunFinished):
            results = [
                TapedResult(trace=one.trace, error=_clean(one.error.message) if one.error else "")
                for one in event.results
            ]
            outputs = {key: [_plain(value) for value in values] for key, values in event.outputs.items()}
            self.wire.write(TapeEnd(status=event.status, outputs=outputs, results=tuple(results)))
            self.wire.close()


def ref_name(ref: ProfileRef) -> str:
    """How a tape names what a profile was asked for by; empty for a profile itself."""
    if isinstance(ref, ModelProfile):
        return ""
    return f"category:{ref.label}" if isinstance(ref, Category) else f"name:{ref}"


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(_clean(msgspec.json.encode(value, enc_hook=str).decode()).encode())


def _error(result: RunResult) -> str:
    return _clean(result.error.message) if result.error is not None else ""


def _clean(text: str) -> str:
    """The text without the keys of all profiles; it is what a person wrote otherwise."""
    for secret in sorted(SECRETS.values, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _plain(value: object) -> object:
    """A value as JSON has it, without keys."""
    try:
        return msgspec.json.decode(_clean(msgspec.json.encode(value, enc_hook=str).decode()))
    except (TypeError, ValueError, RecursionError):
        return _clean(str(value))
