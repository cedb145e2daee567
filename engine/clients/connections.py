"""How connections to a host are made: verified, without cookies or redirects, deaf to the environment."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

from engine.clients.addresses import AddressRule

if TYPE_CHECKING:
    import aiohttp
    import httpx

READ_BUFFER = 256 * 1024
"""Bytes read ahead of the consumer; then the server has to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a host is reached."""

    rule: AddressRule
    ca_file: str = ""
    """Whose certificates are trusted besides the usual ones."""
    proxy: str = ""
    """The address of one that passes requests on; it is judged by the rule then, not the host behind it."""


def new_host(way: Way, *, secure: bool) -> "httpx.AsyncBaseTransport":
    """The connections to one host; its answers hold aiohttp's own response in `extensions["raw"]`.

    Raises OSError for a file of certificates that cannot be used.
    """
    import aiohttp
    import httpx
    from httpx_aiohttp import AiohttpTransport

    class WatchedTransport(AiohttpTransport):
        """Lets aiohttp's own errors through, which say more, and hands the watch to the trace below."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            session = self.get_client()
            raw = await session.request(
                request.method,
                str(request.url),
                headers=request.headers,
                data=request.content or None,
                allow_redirects=False,
                proxy=way.proxy or None,
                trace_request_ctx=request.extensions["watch"],
            )
            return httpx.Response(raw.status, stream=httpx.ByteStream(b""), request=request, extensions={"raw": raw})

    async def created(_session: aiohttp.ClientSession, context: SimpleNamespace, _details: object) -> None:
        context.trace_request_ctx.set_connected()

    async def reused(_session: aiohttp.ClientSession, context: SimpleNamespace, _details: object) -> None:
        context.trace_request_ctx.reused = True
        context.trace_request_ctx.set_connected()

    trace: aiohttp.TraceConfig = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(created)
    trace.on_connection_reuseconn.append(reused)
    context = httpx.create_ssl_context(trust_env=False) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if secure and way.ca_file:
        context.load_verify_locations(way.ca_file)
    session = aiohttp.ClientSession(
        connector=_connector(context, AddressRule() if way.proxy else way.rule),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # the watchdog keeps all limits
        read_bufsize=READ_BUFFER,
        auto_decompress=False,
        trust_env=False,
        trace_configs=[trace],
    )
    return WatchedTransport(verify=context, client=session, trust_env=False)


def _connector(context: ssl.SSLContext, rule: AddressRule) -> "aiohttp.TCPConnector":
    import aiohttp
    from aiohttp.client_proto import ResponseHandler

    class Handler(ResponseHandler):
        """Resumes parser and socket only when they are paused: aiohttp 3.14 does after each HTTP chunk taken."""

        def resume_reading(self, resume_parser: bool = True) -> None:
            if self._reading_paused:
                super().resume_reading(resume_parser)

    def judged(info: "aiohttp.AddrInfoType") -> socket.socket:
        family, kind, protocol, _, address = info
        rule.check(str(address[0]))
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(limit=0, ssl=context, socket_factory=judged)
    if hasattr(connector, "_factory"):  # not public; without it streams are only slower
        make: Callable[[], ResponseHandler] = partial(Handler, loop=asyncio.get_running_loop())
        connector._factory = make  # type: ignore[assignment]
    return connector
