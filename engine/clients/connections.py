"""How connections to a host are made: verified, without cookies or redirects, deaf to the environment."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol

from engine.clients.addresses import AddressRule
from engine.clients.watchdog import Watch

if TYPE_CHECKING:
    import aiohttp

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


class Host(Protocol):
    """The connections to one host."""

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, watch: Watch
    ) -> "aiohttp.ClientResponse":
        """Send a request; raises what aiohttp raises."""
        ...

    async def aclose(self) -> None:
        """Close all of them."""
        ...


def new_host(way: Way, *, secure: bool) -> Host:
    """The connections to one host; raises OSError for a file of certificates that cannot be used."""
    import aiohttp
    import httpx
    from httpx_aiohttp import AiohttpTransport

    class WatchedTransport(AiohttpTransport):
        """Lets aiohttp's own errors and answers through, which say more, and hands the watch to the trace below."""

        async def send(
            self, method: str, url: str, headers: Mapping[str, str], body: bytes, watch: Watch
        ) -> aiohttp.ClientResponse:
            session = self.get_client()
            return await session.request(
                method,
                url,
                headers=headers,
                data=body or None,
                allow_redirects=False,
                proxy=way.proxy or None,
                trace_request_ctx=watch,
            )

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
