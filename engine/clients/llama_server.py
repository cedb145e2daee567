"""Token ids from a llama.cpp server: `POST /tokenize` and `POST /detokenize` beside its OpenAI interface."""

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


async def _ask(transport: Transport, profile: ModelProfile, path: str, body: Mapping[str, object]) -> bytes:
    url = profile.url.rstrip("/").removesuffix("/v1") + path
    place = Place.of(profile, url)
    options = profile.options
    limits = Limits(connect=options.connect_timeout, progress=options.idle_timeout, idle=options.idle_timeout)
    opening = transport.send(
        "POST", url, headers=headers(profile), body=msgspec.json.encode(body), place=place, limits=limits
    )
    reply = None
    try:
        reply = await opening.reply()
        answer = await reply.body(MAX_ANSWER)
        if reply.status != 200:
            error: RequestError = status_error(reply.status, reply.headers, answer[:8192], place)
            error.hint = f"The server may lack {path}; set tokenizer=fallback in the profile {profile.name}."
            raise error
        return answer
    finally:
        if reply:
            reply.close()
        else:
            await opening.abandon()
