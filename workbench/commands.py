"""The commands that draw, beside those of the engine; Qt is imported when something is drawn."""

import os
from pathlib import Path
from typing import Annotated

import typer

from engine import cli, cli_export
from engine.cli_input import open_flow
from engine.cli_options import Options
from engine.cli_text import FAILED
from engine.flow.flow_file import LoadedFlow
from workbench.qt_ready import has_qt


@cli.app.command()
def screenshot(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(help="A flow file, or the name of a sample.")] = "release-announcement",
    output: Annotated[Path, typer.Option("-o", help="The PNG to write.")] = Path("workbench.png"),
    theme: Annotated[str, typer.Option(help="dark or light.")] = "dark",
    size: Annotated[str, typer.Option(metavar="WxH", help="Pixels.")] = "1600x1000",
    run: Annotated[str, typer.Option(help="Show this recorded run; `last` is the newest.")] = "",
    page: Annotated[str, typer.Option(help="The view in front: a tab of the run, a dock, a dialog.")] = "flow",
    zoom: Annotated[int, typer.Option(min=75, max=200, help="Size of all text, in percent.")] = 100,
) -> None:
    """Draw the window into a PNG, without a display."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    if not has_qt():
        raise typer.Exit(FAILED)
    from workbench.screenshot import Shot, take

    width, _, height = size.lower().partition("x")
    if theme not in ("dark", "light"):
        raise typer.BadParameter(f'--theme: found "{theme}", expected dark or light.')
    if not (width.isdecimal() and height.isdecimal() and 640 <= int(width) <= 8000 and 480 <= int(height) <= 8000):
        raise typer.BadParameter(f'--size: found "{size}", expected WIDTHxHEIGHT from 640x480 to 8000x8000.')
    options: Options = context.obj
    pixels = (int(width), int(height))
    shot = Shot(output=output, scheme=theme, size=pixels, zoom=zoom / 100, run=run, page=page)
    raise typer.Exit(take(open_flow(flow), shot, options.folders))


def draw(loaded: LoadedFlow, form: str, output: Path, theme: str) -> int:
    """Draw the canvas of a flow, without a display."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    if not has_qt():
        return FAILED
    from workbench.export_picture import export_picture

    return export_picture(loaded, form, output, theme)


cli_export.drawing[:] = [draw]
