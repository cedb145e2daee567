"""What a llama.cpp server tells beside its OpenAI interface: token ids of texts, and which of its slots work."""

from collections.abc import Mapping, Sequence

import msgspec

from engine.clients.failures import Place, status_error, unexpected_type
from engine.clients.openai_chat import headers
from engine.clients.transport import Transport
from engine.clients.watchdog import Limits
from engine.errors import RequestError
from engine.profile import ModelProfile

MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of a list of token ids."""


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Slot(msgspec.Struct):
    is_processing: bool


class _Content(msgspec.Struct):
    content: str


async def tokenize(transport: Transport, profile: ModelProfile, text: str) -> list[int]:
    """The server's token ids of a text; raises RequestError, also when the server has no such endpoint."""
    answer = await _ask(transport, profile, "/tokenize", {"content": text})
    try:
        return msgspec.json.decode(answer, type=_Tokens).tokens
    except msgspec.MsgspecError as error:
        raise unexpected_type("no list of tokens", answer, Place.of(profile, profile.url)) from error


async def detokenize(transport: Transport, profile: ModelProfile, tokens: Sequence[int]) -> str:
    """The text of token ids; raises RequestError, also when the server has no such endpoint."""
    answer = await _ask(transport, profile, "/detokenize", {"tokens": list(tokens)})
    try:
        return msgspec.json.decode(answer, type=_Content).content
    except msgspec.MsgspecError as error:
        raise unexpected_type("no text", answer, Place.of(profile, profile.url)) from error


async def slots_at_work(transport: Transport, profile: ModelProfile, base: str) -> tuple[int, int]:
    """How many slots of the server at this address work, and how many it has; raises RequestError when it cannot tell.

    Nothing of the answer but `is_processing` is read: slots also have prompts, which may be somebody else's.
    """
    url = f"{base}/slots"
    answer = await _sent(transport, "GET", profile, url, b"", "The server does not list its slots.")
    try:
        slots = msgspec.json.decode(answer, type=list[_Slot])
    except msgspec.MsgspecError as error:
        raise unexpected_type("no list of slots", answer, Place.of(profile, url)) from error
    if not slots:
        raise unexpected_type("no slots", answer, Place.of(profile, url))
    return sum(slot.is_processing for slot in slots), len(slots)


async def _ask(transport: Transport, profile: ModelProfile, path: str, body: Mapping[str, object]) -> bytes:
    url = profile.url.rstrip("/").removesuffix("/v1") + path
    hint = f"The server may lack {path}; set tokenizer=fallback in the profile {profile.name}."
    return await _sent(transport, "POST", profile, url, msgspec.json.encode(body), hint)


async def _sent(transport: Transport, method: str, profile: ModelProfile, url: str, body: bytes, hint: str) -> bytes:
    place = Place.of(profile, url)
    options = profile.options
    limits = Limits(connect=options.connect_timeout, progress=options.idle_timeout, idle=options.idle_timeout)
    opening = transport.send(method, url, headers=headers(profile), body=body, place=place, limits=limits)
    reply = None
    try:
        reply = await opening.reply()
        answer = await reply.body(MAX_ANSWER)
        if reply.status != 200:
            error: RequestError = status_error(reply.status, reply.headers, answer[:8192], place)
            error.hint = hint
            raise error
        return answer
    finally:
        if reply:
            reply.close()
        else:
            await opening.abandon()
