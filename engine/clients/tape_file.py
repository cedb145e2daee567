"""Reads wire tapes of any size: once through for what is where, then each answer from the disk when it is played."""

from array import array
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from engine.atomic_file import open_regular
from engine.clients.tape_lines import (
    VERSION,
    CallAnswered,
    CallEnded,
    CallFailed,
    CallPiece,
    CallSent,
    TapedHit,
    TapedModel,
    TapedProfile,
    TapedTool,
    TapeEnd,
    TapeLine,
    TapeStart,
    request_digest,
)
from engine.errors import StorageError

_DECODER: msgspec.json.Decoder[TapeLine] = msgspec.json.Decoder(TapeLine)

Answering = CallAnswered | CallPiece | CallEnded | CallFailed


@dataclass(slots=True, kw_only=True)
class TapedCall:
    """One call; its bytes stay in the file."""

    number: int
    method: str
    path: str
    digest: bytes
    """That of `request_digest`."""
    known: bool
    """Asked before the tape began."""
    sent_at: int
    """Place of its first line in the file."""
    lines: "array[int]" = field(default_factory=lambda: array("Q"))
    """Places of what came of it."""


class RecordedTape:
    """A tape to be played. Reading it raises StorageError that names the line; an end that is cut off is left out."""

    def __init__(self, path: Path) -> None:
        """Read through the file; may take a second per 100 MB: not on the loop."""
        self.path = path
        self.calls: list[TapedCall] = []
        self.profiles: list[TapedProfile] = []
        self.models: list[TapedModel] = []
        self.hits: list[TapedHit] = []
        self.tools: list[TapedTool] = []
        self.end: TapeEnd | None = None
        """None: it breaks off."""
        self._by_number: dict[int, TapedCall] = {}
        try:
            with open_regular(path) as file:
                self.start = self._read(file)
        except OSError as error:
            raise StorageError(f"Cannot read {path}: {error.strerror or error}.", facts={"path": str(path)}) from error

    def body(self, call: TapedCall) -> bytes:
        """The body that was sent."""
        for line in self._lines([call.sent_at]):
            if isinstance(line, CallSent):
                return line.body.encode() or line.data
        return b""

    def answer(self, call: TapedCall) -> Generator[Answering, None, None]:
        """What came of a call, read from the file while it is iterated."""
        for line in self._lines(call.lines):
            if isinstance(line, Answering):
                yield line

    def _lines(self, places: "array[int] | list[int]") -> Generator[TapeLine, None, None]:
        with open_regular(self.path) as file:
            for place in places:
                file.seek(place)
                try:
                    yield _DECODER.decode(file.readline())
                except (msgspec.MsgspecError, ValueError) as error:
                    raise self._fault(0, "the file has changed while it was played") from error

    def _read(self, file: BinaryIO) -> TapeStart:
        start: TapeStart | None = None
        place = number = 0
        while data := file.readline():
            number += 1
            try:
                line = _DECODER.decode(data)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                if number > 1 and not data.endswith(b"\n"):
                    break  # whoever wrote it died here
                raise self._fault(number, str(error)) from error
            if start is None:
                start = self._begun(line)
            else:
                self._take(line, place, number)
            place += len(data)
        if start is None:
            raise self._fault(1, "the file is empty")
        return start

    def _begun(self, line: TapeLine) -> TapeStart:
        if not isinstance(line, TapeStart):
            raise self._fault(1, f'found "{line.__struct_config__.tag}", expected "tape"')
        if line.version != VERSION:
            raise self._fault(1, f"found version {line.version}, expected {VERSION}")
        return line

    def _take(self, line: TapeLine, place: int, number: int) -> None:
        match line:
            case CallSent():
                digest = request_digest(line.body.encode() or line.data)
                call = TapedCall(
                    number=line.call,
                    method=line.method,
                    path=line.path,
                    digest=digest,
                    known=line.known,
                    sent_at=place,
                )
                self.calls.append(call)
                self._by_number[line.call] = call
            case CallAnswered() | CallPiece() | CallEnded() | CallFailed():
                found = self._by_number.get(line.call)
                if found is None:
                    raise self._fault(number, f"found call {line.call}, of which there is no request")
                found.lines.append(place)
            case TapedProfile():
                self.profiles.append(line)
            case TapedModel():
                self.models.append(line)
            case TapedHit():
                self.hits.append(line)
            case TapedTool():
                self.tools.append(line)
            case TapeEnd():
                self.end = line
            case TapeStart():
                raise self._fault(number, "found a second beginning")

    def _fault(self, number: int, reason: str) -> StorageError:
        where = f", line {number}" if number else ""
        return StorageError(
            f"{self.path.name}{where}: this is no wire tape: {reason}.",
            hint="Record it again.",
            facts={"path": str(self.path), "line": str(number)},
        )
