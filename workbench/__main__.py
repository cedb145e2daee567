"""`workbench`: without a command the window, else the command line; Qt is imported only where something is drawn."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from engine import cli
from engine.cli_input import open_flow
from engine.cli_text import FAILED, INVALID
from engine.folders import data_folders

COMMANDS = {"run", "validate", "profiles", "models", "runs", "tokens", "screenshot"}
NO_DISPLAY = """There is no display (neither DISPLAY nor WAYLAND_DISPLAY is set), so the window cannot open.
Without a window:  workbench run release-announcement
A picture of it:   workbench screenshot -o window.png
"""


@cli.app.command()
def screenshot(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(help="A flow file, or the name of a sample.")] = "release-announcement",
    output: Annotated[Path, typer.Option("-o", help="The PNG to write.")] = Path("workbench.png"),
    theme: Annotated[str, typer.Option(help="dark or light.")] = "dark",
    size: Annotated[str, typer.Option(metavar="WxH", help="Pixels.")] = "1600x1000",
    run: Annotated[str, typer.Option(help="Show this recorded run; `last` is the newest.")] = "",
) -> None:
    """Draw the window into a PNG, without a display."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    if not _has_qt():
        raise typer.Exit(FAILED)
    from workbench.screenshot import take

    width, _, height = size.lower().partition("x")
    if theme not in ("dark", "light"):
        raise typer.BadParameter(f'--theme: found "{theme}", expected dark or light.')
    if not (width.isdecimal() and height.isdecimal() and 640 <= int(width) <= 8000 and 480 <= int(height) <= 8000):
        raise typer.BadParameter(f'--size: found "{size}", expected WIDTHxHEIGHT from 640x480 to 8000x8000.')
    options: cli.Options = context.obj
    raise typer.Exit(take(open_flow(flow), output, theme, (int(width), int(height)), run, options.folders))


def main() -> int:
    """Decide between window and command line; the exit status."""
    arguments = cli.hoist(sys.argv[1:])
    rest = _without_options(arguments)
    if not rest or (rest[0] not in COMMANDS and not rest[0].startswith("-")):
        return _window(arguments, rest)
    return cli.main(arguments)


def _without_options(arguments: Sequence[str]) -> list[str]:
    """What is left behind the options of every command."""
    rest = list(arguments)
    while rest and (takes := cli.HOISTED.get(rest[0].partition("=")[0])) is not None:
        del rest[: 1 + (takes if "=" not in rest[0] else 0)]
    return rest


def _window(arguments: Sequence[str], documents: list[str]) -> int:
    missing = [name for name in documents if not Path(name).exists()]
    if missing:
        print(f"error: There is no command and no file named {missing[0]}.", file=sys.stderr)  # noqa: T201
        print(f"  Commands: {', '.join(sorted(COMMANDS))}.", file=sys.stderr)  # noqa: T201
        return INVALID
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("QT_QPA_PLATFORM")
    ):
        print(NO_DISPLAY, file=sys.stderr, end="")  # noqa: T201
        return INVALID
    if not _has_qt():
        return FAILED
    from workbench.app import run_window

    options = list(arguments[: len(arguments) - len(documents)])
    folder = _value(options, "--data-dir")
    return run_window(documents, data_folders(folder), offline="--offline" in options)


def _value(options: Sequence[str], name: str) -> str | None:
    for index, option in enumerate(options):
        if option == name and index + 1 < len(options):
            return options[index + 1]
        if option.startswith(f"{name}="):
            return option.partition("=")[2]
    return None


def _has_qt() -> bool:
    """Whether Qt can be loaded; if not, say what is missing and the command that brings it."""
    try:
        import PySide6.QtWidgets  # noqa: F401
    except ImportError as error:
        from workbench.system_libraries import explanation

        print(explanation() or f"error: Qt cannot be loaded: {error}", file=sys.stderr)  # noqa: T201
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
