"""`workbench export`: a flow as a script, as a diagram, or, where a window can be drawn, as a picture."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from engine.atomic_file import write_atomically
from engine.cli_input import open_flow, usage
from engine.cli_options import Options
from engine.cli_text import DONE
from engine.flow.flow_file import LoadedFlow
from engine.flow_export import TEXTS, export_text, refuse_keys_in
from engine.profile_store import ProfileStore

Draw = Callable[[LoadedFlow, str, Path, str], int]
"""Draws a flow in a format into a file, in a theme; the exit status."""

PICTURES = ("svg", "png")

drawing: list[Draw] = []
"""Who draws pictures; empty without the window's part of the program."""


def export(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(help="A flow file, or the name of a sample.")],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="python, mermaid, svg or png.")],
    output: Annotated[
        Path | None, typer.Option("-o", help="The file to write; none: stdout, or FLOW.svg and FLOW.png.")
    ] = None,
    theme: Annotated[str, typer.Option(help="Of a picture: dark or light.")] = "light",
) -> None:
    """Write a flow as a Python script, a Mermaid diagram, or a picture of its canvas."""
    options: Options = context.obj
    if to not in TEXTS + PICTURES:
        usage(f'--to: found "{to}", expected one of {", ".join(TEXTS + PICTURES)}.')
    if theme not in ("dark", "light"):
        usage(f'--theme: found "{theme}", expected dark or light.')
    loaded = open_flow(flow)
    refuse_keys_in(loaded, ProfileStore(options.folders.profiles).secrets())
    if to in PICTURES:
        if not drawing:
            usage("Pictures are drawn by the command workbench, not by the engine alone.")
        path = output or Path(f"{Path(flow).name.removesuffix('.flow.json')}.{to}")
        raise typer.Exit(drawing[0](loaded, to, path, theme))
    text = export_text(loaded, to)
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text.encode("utf-8"))
        options.terminal.note(f"{output} is written.")
    raise typer.Exit(DONE)
