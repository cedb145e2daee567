"""HTTP to model servers; the libraries for it are imported when the first request goes out.

One httpx transport on aiohttp per host, used without the client around it: that would add cookies, redirects and
variables of the environment (proxy, netrc, certificates), which all have to be off, and a quarter to the cost of a
request. All failures leave as typed errors.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from engine.clients.addresses import AddressRule, target_of
from engine.clients.connections import READ_BUFFER, Host, Way, new_host
from engine.clients.failures import Place
from engine.clients.transport_faults import fault, final, no_address, refused, timeout, unusable_certificates
from engine.clients.watchdog import Limits, Watch, Watchdog
from engine.clients.wire_tape import KEPT_HEADERS, CallTape, KnownAnswer, KnownAnswers, WireTape, current_tape
from engine.errors import ConnectFailed, ProtocolError, RequestError

if TYPE_CHECKING:
    import aiohttp

ALWAYS_SENT = {"User-Agent": "flow-workbench", "Accept-Encoding": "identity"}
"""Headers of every request."""
KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "proxy-authorization", "cookie"})
"""Headers that hold a key, in lower case."""
MODEL_SERVERS = AddressRule()
"""They may be in a private network."""
DRAIN_SECONDS = 1.0
"""How long an answer that is complete may take to end, so that its connection can be used again."""


class Reply:
    """An answer whose head has arrived."""

    def __init__(self, raw: "aiohttp.ClientResponse", watch: Watch, place: Place) -> None:
        self._raw = raw
        self.status = raw.status
        self.headers: Mapping[str, str] = self._raw.headers
        """Names without regard to case."""
        self.watch = watch
        self.tape: CallTape | None = None
        """Told of all bytes."""
        self.received = 0
        """Bytes so far."""
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
                raise self._failed(timeout(watch.expired, self._place)) from None
            raise self._failed(fault(error, self._place, answering=True)) from error
        watch.waited()
        self.received += len(data)
        if not data and watch.expired:  # closing the socket may look like the end of the body
            raise self._failed(timeout(watch.expired, self._place))
        if self.tape is not None:
            self.tape.arrived(data)
        return data

    def _failed(self, error: RequestError) -> RequestError:
        if self.tape is not None:
            self.tape.failed(error)
        return error

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


class Document(NamedTuple):
    """A small answer, read whole."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Transport:
    """Owns the connections of an engine; use it on one event loop and close it there."""

    def __init__(self, *, offline: bool = False) -> None:
        self.offline = offline
        """Refuse every host but this machine, before its name is looked up."""
        self.proxy = ""
        """The address of a proxy for all hosts but this machine; empty = none."""
        self.ca_file = ""
        """Whose certificates are trusted besides the usual ones and those of a profile; empty = none."""
        self.tape: WireTape | None = None
        """Where the calls outside of runs that have a tape of their own are recorded."""
        self._known = KnownAnswers()
        self._hosts: dict[tuple[str, str, Way], Host] = {}
        self._addresses: dict[str, str] = {}
        self._watchdog = Watchdog()
        self._draining: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Import the HTTP library, off this thread since that takes most of a second; requests do it when they must."""
        if "httpx_aiohttp" not in sys.modules:
            await asyncio.to_thread(_import)

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        place: Place,
        limits: Limits,
        rule: AddressRule = MODEL_SERVERS,
    ) -> Opening:
        """Start a request; the limits run from now."""
        watch = self._watchdog.watch(limits)
        tape = current_tape.get() or self.tape
        if tape is None:
            opening = self._open(method, url, headers, body, place, watch, rule)
        else:
            tape.remember(url, self._known.of(url), place)
            call = tape.call(method, url, body, place)
            opening = self._recorded(call, method, url, headers, body, place, watch, rule)
        task = asyncio.get_running_loop().create_task(opening)
        watch.interrupt = task.cancel
        return Opening(task, watch)

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        place: Place,
        limits: Limits,
        limit: int,
        body: bytes = b"",
        rule: AddressRule = MODEL_SERVERS,
        outlives: bool = False,
    ) -> Document:
        """A small document, cut at the limit (bytes): a POST when there is a body to send.

        One that `outlives` its run is remembered by who asks: it goes on the tapes of later runs, too.
        """
        method = "POST" if body else "GET"
        opening = self.send(method, url, headers=headers, body=body, place=place, limits=limits, rule=rule)
        reply = None
        try:
            reply = await opening.reply()
            answer = await reply.body(limit)
            if outlives:
                kept = {name: reply.headers[name] for name in KEPT_HEADERS if name in reply.headers}
                self._known.keep(url, KnownAnswer(method, urlsplit(url).path, body, reply.status, kept, answer))
            return Document(reply.status, answer, reply.headers)
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

    async def _recorded(
        self,
        call: CallTape,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        place: Place,
        watch: Watch,
        rule: AddressRule,
    ) -> Reply:
        """Send, and note on the tape what comes of it."""
        try:
            reply = await self._open(method, url, headers, body, place, watch, rule)
        except RequestError as error:
            call.failed(error)
            raise
        call.answered(reply.status, reply.headers)
        reply.tape = call
        return reply

    async def _open(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        place: Place,
        watch: Watch,
        rule: AddressRule,
    ) -> Reply:
        try:
            self._check(url, headers, place, rule)
            await self.load()
            host = self._host(url, rule, place)
            raw = await _sent(host, method, self._address(url), ALWAYS_SENT | dict(headers), body, watch)
        except asyncio.CancelledError:
            if watch.expired:
                raise timeout(watch.expired, place) from None
            raise
        except RequestError:
            raise
        except Exception as error:
            raise fault(error, place, answering=False) from error
        reply = Reply(raw, watch, place)
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            reply.close()
            encoding = place.clean(encoding)
            raise final(
                ProtocolError(
                    f"{place.host} sent an answer compressed with {encoding[:40]}, but was asked for a plain one.",
                    hint="Switch compression off in the server or the proxy before it.",
                    facts=place.facts(expected="no content-encoding", found=encoding[:40]),
                )
            )
        return reply

    def _check(self, url: str, headers: Mapping[str, str], place: Place, rule: AddressRule) -> None:
        """Raise ConnectFailed for a request that must not be sent."""
        target = target_of(url)
        if not target.host:
            raise no_address(place)
        if self.offline and not target.local:
            raise final(
                ConnectFailed(
                    f"Offline mode is on, and the profile {place.profile} wants {target.host}.",
                    hint="Switch offline mode off, or choose a profile of a model on this machine.",
                    facts=place.facts(),
                )
            )
        if reason := rule.refusal(target.host):
            raise refused(place, reason)
        _check_headers(headers, place)
        plain = target.scheme == "http" and not target.local and not place.key_over_http
        if plain and any(name.lower() in KEY_HEADERS for name in headers):
            raise final(
                ConnectFailed(
                    f"The profile {place.profile} would send its key to {place.host} unencrypted.",
                    hint="Write https:// in its url, or confirm it with keyOverHttp=true in this profile.",
                    facts=place.facts(),
                )
            )

    def _address(self, url: str) -> str:
        """The URL as it is sent: what may not stand in one is escaped."""
        if url not in self._addresses:
            import httpx

            self._addresses[url] = str(httpx.URL(url))
        return self._addresses[url]

    def _host(self, url: str, rule: AddressRule, place: Place) -> Host:
        target = target_of(url)
        ca_files = tuple(dict.fromkeys(filter(None, (self.ca_file, place.ca_file))))
        way = Way(rule=rule, ca_files=ca_files, proxy="" if target.local else self.proxy)
        host = (target.scheme, target.netloc, way)
        if host not in self._hosts:
            try:
                self._hosts[host] = new_host(way, secure=target.scheme == "https")
            except OSError as error:
                raise unusable_certificates(error, place) from None
        return self._hosts[host]


def _import() -> None:
    import aiohttp  # noqa: F401
    import httpx  # noqa: F401
    import httpx_aiohttp  # noqa: F401


def _check_headers(headers: Mapping[str, str], place: Place) -> None:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise final(
                ConnectFailed(
                    f"The header {name} cannot be sent: it holds a line break or a character outside ASCII.",
                    hint=f"Correct apiKey or header.{name} in the profile {place.profile}.",
                    facts=place.facts(),
                )
            )


async def _sent(
    host: Host, method: str, url: str, headers: Mapping[str, str], body: bytes, watch: Watch
) -> "aiohttp.ClientResponse":
    """Send; idle connections that the server has given up meanwhile are no failed attempts."""
    import aiohttp

    while True:
        watch.reused = False
        try:
            return await host.send(method, url, headers, body, watch)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not watch.reused:
                raise


async def _drain(reply: Reply) -> None:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            await reply.body(READ_BUFFER)
    except (TimeoutError, RequestError):
        pass  # the answer was complete, only its connection is lost
