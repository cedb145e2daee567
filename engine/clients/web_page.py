"""Gets a page for a tool, by the one transport: offline mode holds, redirects are not followed."""

from engine.clients.addresses import AddressRule
from engine.clients.failures import Place
from engine.clients.transport import Transport
from engine.clients.watchdog import Limits

LIMITS = Limits(connect=10.0, progress=30.0, idle=30.0)


async def get_page(transport: Transport, url: str, limit: int, private: frozenset[str]) -> tuple[int, bytes, str]:
    """Status, at most so many bytes, and where a redirect leads; raises RequestError.

    The addresses of `private` are asked although they are in a private network.
    """
    page = await transport.fetch(
        url,
        headers={"Accept": "text/*, application/json"},
        place=Place("", url),
        limits=LIMITS,
        limit=limit,
        rule=AddressRule(public_only=True, granted=private),
    )
    return page.status, page.body, page.headers.get("Location", "")
