"""How connections to a host are made: verified, without cookies or redirects, deaf to the environment."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from engine.clients.addresses import AddressRule
from engine.clients.watchdog import Watch

if TYPE_CHECKING:
    import aiohttp

current_watch: ContextVar[Watch] = ContextVar("current_watch")
"""Of the request that is being sent."""
READ_BUFFER = 256 * 1024
"""Bytes read ahead of the consumer; then the server has to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a host is reached."""

    rule: AddressRule
    ca_files: tuple[str, ...] = ()
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
    """The connections to one host; raises OSError with its `filename` for certificates that cannot be used."""
    import aiohttp
    import httpx
    from httpx_aiohttp import AiohttpTransport

    class WatchedTransport(AiohttpTransport):
        """Lets aiohttp's own errors and answers through, which say more."""

        async def send(
            self, method: str, url: str, headers: Mapping[str, str], body: bytes, watch: Watch
        ) -> aiohttp.ClientResponse:
            session = self.get_client()
            current_watch.set(watch)
            return await session.request(
                method, url, headers=headers, data=body or None, allow_redirects=False, proxy=way.proxy or None
            )

    context = httpx.create_ssl_context(trust_env=False) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for ca_file in way.ca_files if secure else ():
        trust(context, ca_file)
    session = aiohttp.ClientSession(
        connector=_connector(context, AddressRule() if way.proxy else way.rule),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # the watchdog keeps all limits
        read_bufsize=READ_BUFFER,
        auto_decompress=False,
        trust_env=False,
    )
    return WatchedTransport(verify=context, client=session, trust_env=False)


def trust(context: ssl.SSLContext, ca_file: str) -> None:
    """Trust the certificates of a PEM file, too; raises OSError with its `filename`."""
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:
        error.filename = ca_file
        raise


def _connector(context: ssl.SSLContext, rule: AddressRule) -> "aiohttp.TCPConnector":
    import aiohttp
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    class Handler(ResponseHandler):
        """Resumes parser and socket only when they are paused: aiohttp 3.14 does after each HTTP chunk taken."""

        def resume_reading(self, resume_parser: bool = True) -> None:
            if self._reading_paused:
                super().resume_reading(resume_parser)

    served: WeakSet[object] = WeakSet()

    class Connector(aiohttp.TCPConnector):
        """Tells the watch of a request when its connection stands; the traces of aiohttp cost a tenth of a request."""

        async def connect(
            self,
            req: aiohttp.ClientRequest,
            traces: list[Trace],
            timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - its name there
        ) -> Connection:
            connection = await super().connect(req, traces, timeout)
            watch = current_watch.get()
            watch.reused = connection.protocol in served
            served.add(connection.protocol)
            watch.set_connected()
            return connection

    def judged(info: "aiohttp.AddrInfoType") -> socket.socket:
        family, kind, protocol, _, address = info
        rule.check(str(address[0]))
        return socket.socket(family, kind, protocol)

    connector = Connector(limit=0, ssl=context, socket_factory=judged)
    if hasattr(connector, "_factory"):  # not public; without it streams are only slower
        make: Callable[[], ResponseHandler] = partial(Handler, loop=asyncio.get_running_loop())
        connector._factory = make  # type: ignore[assignment]
    return connector
