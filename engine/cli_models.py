"""`workbench models`: the embedded model server."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from engine.cli_options import Json, Options, finish, print_json
from engine.cli_text import DONE
from engine.embedded_server import MODEL_HINT, EmbeddedServer, ServerState, ServerStatus
from engine.errors import LocalModelError

models_app = typer.Typer(help="The embedded model server.", no_args_is_help=True)


@models_app.command("list")
def models_list(context: typer.Context, as_json: Json = False) -> None:
    """List the model the embedded server would serve."""
    options: Options = context.obj
    file = EmbeddedServer(data_dir=options.folders.root).find_model()
    if file is None:
        raise LocalModelError("No model file is installed.", hint=MODEL_HINT)
    size = file.stat().st_size
    if as_json:
        print_json([{"name": file.stem, "file": str(file), "bytes": size}])
    else:
        options.terminal.table([("MODEL", "SIZE", "FILE"), (file.stem, f"{size / 1e6:.0f} MB", str(file))])


@models_app.command("found")
def models_found(context: typer.Context, as_json: Json = False) -> None:
    """Look for model servers on the usual ports of this machine, and list their models."""
    finish(_found(context.obj, as_json=as_json))


async def _found(options: Options, *, as_json: bool) -> int:
    from engine.server_finder import USUAL_PORTS, find_servers

    async with options.engine() as engine:
        found = await find_servers(engine)
    if as_json:
        print_json([asdict(server) for server in found])
        return DONE
    if not found:
        ports = ", ".join(f"{usual.kind} {usual.port}" for usual in USUAL_PORTS)
        options.terminal.note(f"No server answers on the usual ports of this machine: {ports}.")
        return DONE
    rows = [("SERVER", "URL", "PROFILE", "MODELS")]
    for server in found:
        models = "needs a key" if server.needs_key else ", ".join(server.models) or "none"
        rows.append((server.kind, server.url, server.template, models))
    options.terminal.table(rows)
    return DONE


@models_app.command("serve")
def models_serve(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="A .gguf file; none: the model that is installed.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 0,
) -> None:
    """Serve a model on this machine until interrupted; prints address, key and model name."""
    options: Options = context.obj

    async def serve() -> int:
        ended = asyncio.Event()
        server = EmbeddedServer(data_dir=options.folders.root, model_file=file, port=port)

        def tell(status: ServerStatus) -> None:
            # Again after a restart: the key is a new one each time, the port may be.
            if status.state is ServerState.READY and (endpoint := server.endpoint):
                for name, value in (("url", endpoint.url), ("apiKey", endpoint.api_key), ("modelName", endpoint.model)):
                    options.terminal.result(f"{name}={value}")
                options.terminal.note("Serving. Ctrl+C ends it.")
            elif status.state is ServerState.FAILED:
                ended.set()

        server.on_state(tell)
        try:
            await server.ensure()
            await ended.wait()
            raise server.status.error or LocalModelError("The model server ended.")
        finally:
            await server.stop()

    finish(serve())
