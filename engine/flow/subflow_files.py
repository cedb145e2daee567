"""Finds and reads the files of sub-flows: beside their flow, or among the samples; reading runs nothing."""

from pathlib import Path

from engine import bundled
from engine.errors import FlowError, FlowFileError
from engine.flow.flow_file import LoadedFlow, load_flow, read_flow
from engine.flow.report import did_you_mean

SAMPLE = "sample:"
"""Begins the origin of a flow that comes with the program."""


def origin_path(origin: str) -> Path | None:
    """The file of an origin; None for a sample, and for a flow that was never saved."""
    return None if not origin or origin.startswith(SAMPLE) else Path(origin)


class FlowFiles:
    """The flows a flow runs as nodes, each read once.

    An origin is the path of a flow's file, `sample:NAME`, or empty for a flow that was never saved.
    """

    def __init__(self, origin: str = "", *, trusted: bool = False) -> None:
        """Begin with the flow around all others; a trusted one may name files outside of its folder."""
        self.origin = origin
        self._folder: Path | None = None
        if (path := origin_path(origin)) is not None:
            self._folder = path.absolute().parent.resolve()
            self.origin = str(self._folder / path.name)
        self._trusted = trusted
        self._read: dict[str, LoadedFlow] = {}

    def open(self, reference: str, beside: str) -> LoadedFlow:
        """The flow a node of the flow `beside` names; raises FlowError."""
        origin = self.resolved(reference, beside)
        if origin not in self._read:
            self._read[origin] = _sample(origin) if origin.startswith(SAMPLE) else load_flow(origin)
        return self._read[origin]

    def resolved(self, reference: str, beside: str) -> str:
        """The origin of the flow a node of the flow `beside` names, which is not read; raises FlowError."""
        if not (reference.endswith(".json") or "/" in reference or "\\" in reference):
            return _sample_origin(reference)
        if not beside:
            raise FlowError(
                "The flow has no file yet.", hint="Save it: the files of sub-flows are looked for beside it."
            )
        if beside.startswith(SAMPLE):
            raise FlowError(f'A sample runs samples only, found "{reference[:200]}".')
        try:
            path = (Path(beside).parent / reference).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise FlowFileError(f'"{reference[:200]}" is no path of a file: {error}.') from error
        if not self._trusted and self._folder is not None and not path.is_relative_to(self._folder):
            raise FlowFileError(
                f'"{reference[:200]}" lies outside of the folder of the flow.',
                hint="Put it beside the flow that runs it, or below.",
                facts={"file": str(path), "folder": str(self._folder)},
            )
        return str(path)


def _sample_origin(name: str) -> str:
    samples = bundled.names("resources", "flows", suffix=".flow.json")
    if name in samples:
        return f"{SAMPLE}{name}"
    guess = did_you_mean(name, samples) or "."
    hint = "A file is named with its ending: `chapter.flow.json`."
    raise FlowError(f'There is no sample "{name[:200]}"{guess}', hint=hint)


def _sample(origin: str) -> LoadedFlow:
    name = f"{origin.removeprefix(SAMPLE)}.flow.json"
    return read_flow(bundled.read_bytes("resources", "flows", name), name=name, origin=origin)
