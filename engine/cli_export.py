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
from engine.errors import FlowInvalid
from engine.export_page import refuse_keys
from engine.flow.export_mermaid import mermaid_text
from engine.flow.export_python import python_text
from engine.flow.flow_check import check_flow
from engine.flow.flow_file import LoadedFlow, flow_text
from engine.flow.subflow_files import FlowFiles
from engine.profile_store import ProfileStore

Draw = Callable[[LoadedFlow, str, Path, str], int]
"""Draws a flow in a format into a file, in a theme; the exit status."""

TEXTS = ("python", "mermaid")
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
    secrets = ProfileStore(options.folders.profiles).secrets()
    refuse_keys(flow_text(loaded.spec), secrets, "The flow was not exported", hint="Take it out of the flow.")
    if to in PICTURES:
        if not drawing:
            usage("Pictures are drawn by the command workbench, not by the engine alone.")
        path = output or Path(f"{Path(flow).name.removesuffix('.flow.json')}.{to}")
        raise typer.Exit(drawing[0](loaded, to, path, theme))
    if to == "python":
        problems = check_flow(loaded.spec, files=FlowFiles(loaded.origin))
        if any(problem.severity == "error" for problem in problems):
            raise FlowInvalid.of(problems)
        text = python_text(loaded.spec, origin=loaded.origin)
    else:
        text = mermaid_text(loaded.spec)
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text.encode("utf-8"))
        options.terminal.note(f"{output} is written.")
    raise typer.Exit(DONE)
