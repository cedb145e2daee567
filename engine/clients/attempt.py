"""One request and the reading of its answer, without repeats."""

import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from engine.clients.base import Answer, ChatRequest, Client, Reader, WireRequest
from engine.clients.failures import Place, retry_after, status_error, unexpected_type
from engine.clients.transport import Reply, Transport
from engine.clients.watchdog import Limits
from engine.completion import Chunk
from engine.cut_calls import CutCall, current_cuts
from engine.errors import ProtocolError, RequestError

MAX_BODY = 64 * 1024 * 1024
"""Bytes of an answer that is one JSON document."""
MAX_ERROR_BODY = 64 * 1024
"""Bytes read of an answer with an error status."""
MAX_EXCERPT = 8 * 1024
"""Bytes read of an answer that is something else, to show its beginning."""
BLANKS = b"\xef\xbb\xbf \t\r\n"
"""What may come before the first character that tells HTML from events."""


class Attempt:
    """Sends the request when made; then call `connected`, `opened`, and `read` until it gives None; `close` always."""

    def __init__(
        self,
        transport: Transport,
        client: Client,
        request: ChatRequest,
        wire: WireRequest,
        place: Place,
        limits: Limits,
    ) -> None:
        self.asked_wait: float | None = None
        """Seconds the server wants to be left alone."""
        self.first_token: float | None = None
        """When the first content, reasoning or call came; monotonic seconds."""
        self.sent = time.monotonic()
        self._transport = transport
        self._client = client
        self._request = request
        self._place = place
        self._reply: Reply | None = None
        self._reader: Reader | None = None
        self._start = b""
        self._whole = False
        self._done = self._failed = False
        self._url = wire.url
        self._progress = 0
        body = msgspec.json.encode(wire.body)
        self.size = len(body)
        """Bytes of the request's body."""
        self._opening = transport.send("POST", wire.url, headers=wire.headers, body=body, place=place, limits=limits)

    @property
    def received(self) -> int:
        """Bytes of the answer's body so far."""
        return self._reply.received if self._reply else 0

    @property
    def answer(self) -> Answer:
        """What has been read so far."""
        return self._reader.answer if self._reader else Answer()

    async def connected(self) -> bool:
        """Wait for the connection; false when there is none."""
        return await self._opening.connected()

    async def opened(self) -> None:
        """Wait until the answer begins; raises RequestError when it is none that can be read."""
        try:
            await self._open()
        except RequestError:
            self._failed = True
            raise

    async def _open(self) -> None:
        self._reply = reply = await self._opening.reply()
        if not 200 <= reply.status < 300:
            self.asked_wait = retry_after(reply.headers)
            raise status_error(reply.status, reply.headers, await reply.body(MAX_ERROR_BODY), self._place)
        kind = reply.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind not in ("text/event-stream", "application/json", "", *getattr(self._client, "content_types", ())):
            raise unexpected_type(kind, await reply.body(MAX_EXCERPT), self._place)
        await self._begin(reply, kind)
        self._reader = self._client.reader(self._request, self._place, reply.headers)

    async def _begin(self, reply: Reply, kind: str) -> None:
        """Read as far as the first character that is not blank: HTML likes to call itself anything."""
        start, first = b"", b""
        while not first and len(start) < MAX_ERROR_BODY and (data := await reply.read()):
            start += data
            first = start.lstrip(BLANKS)[:1]
        if first == b"<":
            with suppress(RequestError):
                start += await reply.body(MAX_EXCERPT)
            raise unexpected_type(f"HTML (called {kind or 'nothing'})", start, self._place)
        self._start = start
        self._whole = kind == "application/json" or (not kind and first == b"{")

    async def read(self) -> Sequence[Chunk] | None:
        """The chunks of the next piece of the answer, None behind the last; raises RequestError."""
        reader, reply = self._reader, self._reply
        assert reader is not None  # noqa: S101 - the order of calls
        assert reply is not None  # noqa: S101
        if self._done:
            if reader.error:
                raise reader.error
            return None
        if self._whole:
            return await self._document(reader, reply)
        try:
            data, self._start = self._start or await reply.read(), b""
        except RequestError as error:
            chunks = self._end(reader)
            if reader.error:
                reader.error = error
            return chunks
        if not data:
            return self._end(reader)
        chunks = reader.feed(data)
        if reader.answer.progress != self._progress:
            self._progress = reader.answer.progress
            reply.watch.progress()
            if self.first_token is None:
                self.first_token = time.monotonic()
        if reader.ended or reader.error:
            return [*chunks, *self._end(reader)]
        return chunks

    def _end(self, reader: Reader) -> list[Chunk]:
        self._done = True
        return reader.close()

    async def _document(self, reader: Reader, reply: Reply) -> Sequence[Chunk]:
        body = self._start + await reply.body(MAX_BODY + 1 - len(self._start))
        self._start = b""
        if len(body) > MAX_BODY:
            raise ProtocolError(
                f"The answer is longer than {MAX_BODY // 2**20} MiB.",
                hint="Lower maxTokens in the profile.",
                facts=self._place.facts(),
            )
        self._done = True
        self.first_token = time.monotonic()
        return reader.whole(body)

    async def close(self) -> None:
        """Free the connection: at once when the answer is not complete."""
        if not (self._done or self._failed) and (cuts := current_cuts.get()) is not None:
            server = self._reply.headers.get("server", "") if self._reply else ""
            cuts.append(CutCall(self._request.profile, self._url, "llama.cpp" in server.lower()))
        if self._reply is None:
            await self._opening.abandon()
        elif self._done and self._reader is not None and self._reader.error is None:
            self._transport.finish(self._reply)
        else:
            self._reply.close()
