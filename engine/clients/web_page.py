"""Gets a page for a tool, by the one transport: offline mode holds, redirects are not followed."""

from engine.clients.failures import Place
from engine.clients.transport import Transport
from engine.clients.watchdog import Limits

LIMITS = Limits(connect=10.0, progress=30.0, idle=30.0)


async def get_page(transport: Transport, url: str, limit: int) -> tuple[int, bytes]:
    """Status and at most so many bytes; raises RequestError."""
    return await transport.fetch(
        url, headers={"Accept": "text/*, application/json"}, place=Place("", url), limits=LIMITS, limit=limit
    )
