"""A proxy on 127.0.0.1 that tunnels every host it is asked for to one server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class ConnectProxy:
    """Where it listens, and the first line of each request it got."""

    url: str = ""
    asked: list[str] = field(default_factory=list)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def connect_proxy(port: int) -> AsyncIterator[ConnectProxy]:
    """A proxy that leads to this port of 127.0.0.1, whatever host is wanted."""
    proxy = ConnectProxy()
    tunnels: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        proxy.asked.append(head.decode("latin-1").splitlines()[0])
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for way in ((reader, outer), (inner, writer)):
            tunnels.add(asyncio.create_task(_pass_on(*way)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for task in tunnels:
            task.cancel()
        await asyncio.gather(*tunnels, return_exceptions=True)
