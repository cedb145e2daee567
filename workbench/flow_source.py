"""What flows go by in the window: the name of a sample, a path, or a mark of its own while it is new."""

from pathlib import Path

from engine import LoadedFlow, bundled, load_flow, read_flow
from engine.flow.subflow_files import SAMPLE

NEW = "new "
"""What the source of a flow that was never saved begins with."""


def is_sample(source: str) -> bool:
    """Whether it is the name of a sample."""
    return source in bundled.names("resources", "flows", suffix=".flow.json")


def source_name(source: str | Path) -> str:
    """What a flow goes by: a path is whole."""
    return str(source) if is_sample(str(source)) or str(source).startswith(NEW) else str(Path(source).absolute())


def read_source(name: str) -> LoadedFlow:
    """A sample or a file, as it is saved; raises EngineError."""
    if is_sample(name):
        data = bundled.read_bytes("resources", "flows", f"{name}.flow.json")
        return read_flow(data, name=f"{name}.flow.json", origin=f"{SAMPLE}{name}")
    return load_flow(name)
