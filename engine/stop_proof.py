"""Whether servers stopped working on calls that were cut, where they can tell: those of llama.cpp list their slots."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from urllib.parse import urlsplit

from engine.clients.addresses import is_loopback
from engine.clients.llama_server import slots_at_work
from engine.clients.transport import Transport
from engine.cut_calls import CutCall
from engine.errors import ConnectFailed, RequestError, RequestTimeout
from engine.events import StopProof, StopProved
from engine.profile import Provider

FIRST, INTERVAL, MOST = 0.1, 0.2, 1.5
"""Seconds before the first question, between two of them, and until the last."""

DIALECTS = frozenset({Provider.OPENAI_CHAT, Provider.OPENAI_TEXT})
"""Those llama.cpp servers are asked in."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a server said of its work."""

    proof: StopProof
    busy: int = 0
    """Slots at work; they may be somebody else's."""
    slots: int = 0
    seconds: float = 0.0
    """From the first question to the answer that counts."""


Prove = Callable[[Sequence[CutCall]], Awaitable[Sequence[Proof]]]
"""Says of each call what its server does."""


def stop_text(event: StopProved) -> str:
    """What the server of a stopped call does, in words."""
    texts = {
        StopProof.STOPPED: "the server stopped",
        StopProof.WORKING: f"the server still works ({event.busy} of {event.slots} slots), perhaps for somebody else",
        StopProof.CLOSED: "connection closed; the server cannot tell whether it stopped",
        StopProof.SILENT: "connection closed; asked whether it stopped, the server did not answer",
    }
    return texts[event.proof]


async def prove_stopped(transport: Transport, calls: Sequence[CutCall]) -> list[Proof]:
    """What the server of each call says, in their order; each server is asked once, for at most `MOST` seconds."""
    servers = {_base(call): call for call in calls if _can_tell(call)}
    proofs = await asyncio.gather(*(_ask(transport, call, base) for base, call in servers.items()))
    known = dict(zip(servers, proofs, strict=True))
    return [known.get(_base(call), Proof(StopProof.CLOSED)) for call in calls]


def _can_tell(call: CutCall) -> bool:
    """Whether a server is likely to know slots: others are left alone."""
    profile = call.profile
    if profile.provider not in DIALECTS:
        return False
    return call.llama or profile.tokenizer == "llamaServer" or is_loopback(urlsplit(call.url).hostname or "")


def _base(call: CutCall) -> str:
    """The address the server's own pages stand under."""
    before, found, _ = call.url.partition("/v1/")
    parts = urlsplit(call.url)
    return before if found else f"{parts.scheme}://{parts.netloc}"


async def _ask(transport: Transport, call: CutCall, base: str) -> Proof:
    began, busy, slots = monotonic(), 0, 0
    await asyncio.sleep(FIRST)
    try:
        async with asyncio.timeout(MOST):
            while True:
                busy, slots = await slots_at_work(transport, call.profile, base)
                if not busy:
                    return Proof(StopProof.STOPPED, 0, slots, monotonic() - began)
                await asyncio.sleep(INTERVAL)
    except TimeoutError:
        # Without any answer in that time nothing is known; with one it still worked when it was asked last.
        proof = StopProof.WORKING if slots else StopProof.SILENT
        return Proof(proof, busy, slots, monotonic() - began)
    except (ConnectFailed, RequestTimeout):
        return Proof(StopProof.SILENT, seconds=monotonic() - began)
    except RequestError:
        return Proof(StopProof.CLOSED, seconds=monotonic() - began)
