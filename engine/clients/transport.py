"""HTTP to model servers: the only module that knows an HTTP library, which it imports when the first request goes out.

One httpx transport on aiohttp per host, used without the client around it: that would add cookies, redirects and
variables of the environment (proxy, netrc, certificates), which all have to be off, and a quarter to the cost of a
request. All failures leave as typed errors.
"""

import asyncio
import ipaddress
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from engine.clients.failures import Place
from engine.clients.watchdog import Limits, Watch, Watchdog
from engine.errors import AnswerIncomplete, ConnectFailed, ProtocolError, RequestError, RequestTimeout

if TYPE_CHECKING:
    import aiohttp
    import httpx

USER_AGENT = "flow-workbench"
READ_BUFFER = 256 * 1024
"""Bytes read ahead of the consumer; then the server has to wait."""
DRAIN_SECONDS = 1.0
"""How long an answer that is complete may take to end, so that its connection can be used again."""

START_COMMANDS = {11434: "ollama serve", 1234: "lms server start", 8080: "llama-server -m MODEL.gguf"}
"""How to start the server that usually listens on a port."""


class Reply:
    """An answer whose head has arrived."""

    def __init__(self, response: "httpx.Response", watch: Watch, place: Place) -> None:
        self._raw: aiohttp.ClientResponse = response.extensions["raw"]
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = self._raw.headers
        """Names without regard to case."""
        self.watch = watch
        self.tap: Callable[[bytes], None] | None = None
        """Told of all bytes."""
        self._place = place
        watch.interrupt = self._raw.close

    async def read(self) -> bytes:
        """The bytes that have arrived, empty at the end; raises RequestTimeout, AnswerIncomplete or ProtocolError."""
        watch = self.watch
        watch.wait()
        try:
            data = await self._raw.content.readany()
        except Exception as error:
            if watch.expired:
                raise timeout(watch.expired, self._place) from None
            raise fault(error, self._place, answering=True) from error
        watch.waited()
        if self.tap is not None:
            self.tap(data)
        if not data and watch.expired:  # closing the socket may look like the end of the body
            raise timeout(watch.expired, self._place)
        return data

    async def body(self, limit: int) -> bytes:
        """The body as far as the limit, in bytes."""
        parts, size = [], 0
        while size < limit and (data := await self.read()):
            parts.append(data)
            size += len(data)
        return b"".join(parts)[:limit]

    @property
    def finished(self) -> bool:
        """Whether the body has been received whole, so that the connection is free again."""
        return self._raw.content.is_eof()

    def close(self) -> None:
        """Close the connection at once, unless it is free again."""
        self.watch.stop()
        self._raw.close()


class Opening:
    """A request under way, until the head of its answer is there."""

    def __init__(self, task: "asyncio.Task[Reply]", watch: Watch) -> None:
        self._task = task
        self._watch = watch
        task.add_done_callback(lambda _: watch.set_connected())

    async def connected(self) -> bool:
        """Wait until the connection stands; false when the request failed before."""
        await self._watch.connected.wait()
        return not self._task.done() or (not self._task.cancelled() and self._task.exception() is None)

    async def reply(self) -> Reply:
        """Wait for the head of the answer; raises the RequestError of a failure."""
        return await self._task

    async def abandon(self) -> None:
        """Give the request up: its socket is closed when this returns."""
        task = self._task
        task.cancel()
        self._watch.stop()
        await asyncio.wait((task,))
        if not task.cancelled() and task.exception() is None:
            task.result().close()


class Tape(Protocol):
    """Takes what answers bring (wire_tape.py)."""

    def begin(
        self, method: str, url: str, body: bytes, place: Place, status: int, headers: Mapping[str, str], sent: float
    ) -> Callable[[bytes], None]:
        """Note an answer; the function takes its bytes."""
        ...


class Transport:
    """Owns the connections of an engine; use it on one event loop and close it there."""

    def __init__(self, *, offline: bool = False) -> None:
        self.offline = offline
        """Refuse every host but this machine, before its name is looked up."""
        self.tape: Tape | None = None
        """Where all answers are recorded."""
        self._hosts: dict[tuple[str, str], httpx.AsyncBaseTransport] = {}
        self._addresses: dict[str, httpx.URL] = {}
        self._watchdog = Watchdog()
        self._draining: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Import the HTTP library, off this thread since that takes most of a second; requests do it when they must."""
        if "httpx_aiohttp" not in sys.modules:
            await asyncio.to_thread(_import)

    def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes = b"", place: Place, limits: Limits
    ) -> Opening:
        """Start a request; the limits run from now."""
        watch = self._watchdog.watch(limits)
        task = asyncio.get_running_loop().create_task(self._open(method, url, headers, body, place, watch))
        watch.interrupt = task.cancel
        return Opening(task, watch)

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], place: Place, limits: Limits, limit: int, body: bytes = b""
    ) -> tuple[int, bytes]:
        """Status and body of a small document, cut at the limit (bytes): a POST when there is a body to send."""
        method = "POST" if body else "GET"
        opening = self.send(method, url, headers=headers, body=body, place=place, limits=limits)
        reply = None
        try:
            reply = await opening.reply()
            return reply.status, await reply.body(limit)
        finally:
            if reply:
                reply.close()
            else:
                await opening.abandon()

    def finish(self, reply: Reply) -> None:
        """Let a complete answer end in the background, so that its connection can be used again."""
        if reply.finished:
            reply.close()
            return
        task = asyncio.get_running_loop().create_task(_drain(reply))
        self._draining.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._draining.discard(task)
            reply.close()  # here, since a task that is cancelled early never runs

        task.add_done_callback(ended)

    async def aclose(self) -> None:
        """Close all connections."""
        for task in list(self._draining):
            task.cancel()
        await asyncio.gather(*self._draining, return_exceptions=True)
        self._watchdog.close()
        hosts, self._hosts = self._hosts, {}
        for host in hosts.values():
            await host.aclose()

    async def _open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, place: Place, watch: Watch
    ) -> Reply:
        try:
            self._allowed(url, place)
            _check_headers(headers, place)
            await self.load()
            host = self._host(url)
            import httpx

            sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **headers}
            begun = time.monotonic()
            address = self._addresses.get(url) or self._addresses.setdefault(url, httpx.URL(url))
            request = httpx.Request(method, address, headers=sent, content=body or None, extensions={"watch": watch})
            response = await _sent(host, request, watch)
        except asyncio.CancelledError:
            if watch.expired:
                raise timeout(watch.expired, place) from None
            raise
        except RequestError:
            raise
        except Exception as error:
            raise fault(error, place, answering=False) from error
        reply = Reply(response, watch, place)
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            reply.close()
            encoded = ProtocolError(
                f"{place.host} sent an answer compressed with {encoding[:40]}, although it was asked for a plain one.",
                hint="Switch compression off in the server or the proxy before it.",
                facts=place.facts(expected="no content-encoding", found=encoding[:40]),
            )
            encoded.retryable = False
            raise encoded
        if self.tape is not None:
            reply.tap = self.tape.begin(method, url, body, place, reply.status, reply.headers, begun)
        return reply

    def _allowed(self, url: str, place: Place) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConnectFailed(
                f"{place.url or 'An empty text'} is no http or https address.",
                hint=f"Correct url in the profile {place.profile}.",
                facts=place.facts(),
            )
        if self.offline and not is_loopback(parts.hostname):
            error = ConnectFailed(
                f"Offline mode is on, and the profile {place.profile} wants {parts.hostname}.",
                hint="Switch offline mode off, or choose a profile of a model on this machine.",
                facts=place.facts(),
            )
            error.retryable = False
            raise error

    def _host(self, url: str) -> "httpx.AsyncBaseTransport":
        parts = urlsplit(url)
        host = (parts.scheme, parts.netloc)
        if host not in self._hosts:
            self._hosts[host] = _new_host(secure=parts.scheme == "https")
        return self._hosts[host]


def _import() -> None:
    import aiohttp  # noqa: F401
    import httpx  # noqa: F401
    import httpx_aiohttp  # noqa: F401


def _check_headers(headers: Mapping[str, str], place: Place) -> None:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            error = ConnectFailed(
                f"The header {name} cannot be sent: it holds a line break or a character outside ASCII.",
                hint=f"Correct apiKey or header.{name} in the profile {place.profile}.",
                facts=place.facts(),
            )
            error.retryable = False
            raise error


async def _sent(host: "httpx.AsyncBaseTransport", request: "httpx.Request", watch: Watch) -> "httpx.Response":
    """Send; idle connections that the server has given up meanwhile are no failed attempts."""
    import aiohttp

    while True:
        watch.reused = False
        try:
            return await host.handle_async_request(request)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not watch.reused:
                raise


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, without a name lookup."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def timeout(limit: str, place: Place) -> RequestTimeout:
    """The error for a limit that passed."""
    reasons = {
        "connect": ("did not accept a connection within connectTimeout", "Check that the server runs and is reachable"),
        "first_token": ("wrote no text for longer than firstTokenTimeout", "A slow model needs a higher limit"),
        "idle": ("sent nothing for longer than idleTimeout", "The server or the network hangs"),
        "total": ("did not finish within the total time limit", "Raise timeout or totalTimeout"),
    }
    what, hint = reasons[limit]
    return RequestTimeout(
        f"{place.host} {what}.", hint=f"{hint} (profile {place.profile}).", facts=place.facts(limit=limit)
    )


def fault(error: Exception, place: Place, *, answering: bool) -> RequestError:
    """The typed error for what the HTTP library raised, before the head of the answer or while its body arrives."""
    import aiohttp

    cause: BaseException = error
    while cause.__cause__ is not None and not isinstance(cause, aiohttp.ClientError | OSError):
        cause = cause.__cause__
    if isinstance(cause, ssl.SSLError | aiohttp.ClientSSLError):
        return _tls_fault(cause, place)
    if isinstance(cause, aiohttp.ClientConnectorError):
        return _no_connection(cause, place)
    details = place.facts(reason=str(error)[:300])
    if isinstance(cause, aiohttp.ClientPayloadError) or (
        answering and isinstance(cause, aiohttp.ClientConnectionError)
    ):
        return AnswerIncomplete(
            f"The connection to {place.host} broke off in the middle of the answer.",
            hint="The server or the network broke off; try again.",
            facts=details,
        )
    if isinstance(cause, aiohttp.ClientConnectionError | OSError):
        return ConnectFailed(
            f"{place.host} closed the connection without an answer.",
            hint="Try again; if it stays, the server's own log says why it hangs up.",
            facts=details,
        )
    return ProtocolError(
        f"What {place.host} sent is no valid HTTP answer.",
        hint=f"Check that the url of the profile {place.profile} is that of a model server.",
        facts=details | {"expected": "an HTTP/1.1 answer"},
    )


def _no_connection(error: "aiohttp.ClientConnectorError", place: Place) -> ConnectFailed:
    import aiohttp

    details = place.facts(reason=str(error)[:300])
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return ConnectFailed(
            f"The host {urlsplit(place.url).hostname} is unknown.",
            hint=f"Check url in the profile {place.profile} and the network connection.",
            facts=details,
        )
    command = START_COMMANDS.get(urlsplit(place.url).port or 0)
    if command and is_loopback(urlsplit(place.url).hostname or ""):
        hint = f"Start it, usually with `{command}`, or correct url in the profile {place.profile}."
    else:
        hint = f"Start the server, or correct url in the profile {place.profile}."
    return ConnectFailed(f"No server answers at {place.host}.", hint=hint, facts=details)


def _tls_fault(error: BaseException, place: Place) -> ConnectFailed:
    reason = str(error)
    if "WRONG_VERSION_NUMBER" in reason or "record layer failure" in reason:
        message, hint = (
            f"{place.host} does not speak https.",
            f"Write http:// in the url of the profile {place.profile}.",
        )
    else:
        message = f"The certificate of {place.host} cannot be trusted."
        hint = "Check the host name in the url; a certificate is never accepted unverified."
    failure = ConnectFailed(message, hint=hint, facts=place.facts(reason=reason[:300]))
    failure.retryable = False
    return failure


async def _drain(reply: Reply) -> None:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            await reply.body(READ_BUFFER)
    except (TimeoutError, RequestError):
        pass  # the answer was complete, only its connection is lost


def _new_host(*, secure: bool) -> "httpx.AsyncBaseTransport":
    """The connections to one host; its answers hold aiohttp's own response in `extensions["raw"]`."""
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
    session = aiohttp.ClientSession(
        connector=_connector(context),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # the watchdog keeps all limits
        read_bufsize=READ_BUFFER,
        auto_decompress=False,
        trust_env=False,
        trace_configs=[trace],
    )
    return WatchedTransport(verify=context, client=session, trust_env=False)


def _connector(context: ssl.SSLContext) -> "aiohttp.TCPConnector":
    import aiohttp
    from aiohttp.client_proto import ResponseHandler

    class Handler(ResponseHandler):
        """Resumes parser and socket only when they are paused: aiohttp 3.14 does after each HTTP chunk taken."""

        def resume_reading(self, resume_parser: bool = True) -> None:
            if self._reading_paused:
                super().resume_reading(resume_parser)

    connector = aiohttp.TCPConnector(limit=0, ssl=context)
    if hasattr(connector, "_factory"):  # not public; without it streams are only slower
        make: Callable[[], ResponseHandler] = partial(Handler, loop=asyncio.get_running_loop())
        connector._factory = make  # type: ignore[assignment]
    return connector
