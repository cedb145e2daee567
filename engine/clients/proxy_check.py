"""Whether a proxy takes connections, before a request has to find out."""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from engine.clients.addresses import is_loopback
from engine.errors import ConnectFailed

SECONDS = 5.0
"""How long it may take to accept a connection."""


async def check_proxy(address: str, *, offline: bool) -> None:
    """Connect to a proxy, `http://host:port`, and hang up; raises ConnectFailed."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or 80
    if offline and not is_loopback(host):
        raise ConnectFailed(f"Offline mode is on, {host} is not asked.", hint="Switch offline mode off.")
    try:
        async with asyncio.timeout(SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        reason = f"it did not accept a connection within {SECONDS:.0f} s"
    except OSError as error:
        reason = error.strerror or str(error)
    else:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return
    raise ConnectFailed(f"No proxy answers at {host}:{port}: {reason}.", hint="Check that it runs, and its address.")
