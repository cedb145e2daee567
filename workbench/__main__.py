"""`workbench`: without a command the window, else the command line. Each is loaded only when it is wanted."""

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.cli_arguments import hoist, value_of

COMMANDS = {
    "run",
    "batch",
    "compare",
    "validate",
    "export",
    "trust",
    "profiles",
    "models",
    "runs",
    "stats",
    "tokens",
    "cache",
    "screenshot",
}
NO_DISPLAY = """There is no display (neither DISPLAY nor WAYLAND_DISPLAY is set), so the window cannot open.
Without a window:  workbench run release-announcement
A picture of it:   workbench screenshot -o window.png
"""


WRONG = 2
"""Exit status of what was asked for wrongly, that of the command line."""


def main() -> int:
    """Decide between window and command line; the exit status."""
    options, rest = hoist(sys.argv[1:])
    if not rest or (rest[0] not in COMMANDS and not rest[0].startswith("-")):
        return _window(options, rest)
    from engine import cli
    from workbench import commands  # noqa: F401 - they join those of the engine

    return cli.main(sys.argv[1:])


def _window(options: Sequence[str], documents: list[str]) -> int:
    found = [_source(name) for name in documents]
    missing = [name for name, source in zip(documents, found, strict=True) if source is None]
    if missing:
        print(f"error: There is no command, no file and no sample named {missing[0]}.", file=sys.stderr)  # noqa: T201
        print(f"  Commands: {', '.join(sorted(COMMANDS))}.", file=sys.stderr)  # noqa: T201
        return WRONG
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("QT_QPA_PLATFORM")
    ):
        print(NO_DISPLAY, file=sys.stderr, end="")  # noqa: T201
        return WRONG
    # Nothing of what is loaded now will ever be garbage: collecting it would only keep the window waiting.
    gc.disable()
    from workbench.qt_ready import has_qt

    if not has_qt():
        return 1
    from engine.folders import data_folders
    from workbench.app import run_window

    folders = data_folders(value_of(options, "--data-dir"))
    return run_window([source for source in found if source], folders, offline="--offline" in options)


def _source(name: str) -> str | None:
    """The file or the sample of this name."""
    if Path(name).exists():
        return name
    from engine.cli_input import sample_named

    return sample_named(name)


if __name__ == "__main__":
    sys.exit(main())
